// SPDX-License-Identifier: MIT
// Reads when a tuning table was measured, as far as choosing depends on it: of two tables with a row of the
// same sizes, the newer one's row is used.
//
// Rows have no dates of their own: the date of all of them is that of the file's newest run. A table that was
// measured again in part is therefore newer than the table it was made from, even for rows it only copied.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/json.hpp>

namespace switchyard {
inline namespace v0 {

/// Whether a text is a day of the calendar as in "2026-11-22". Such texts sort by time.
[[nodiscard]] bool is_date(std::string_view text) noexcept;

/// The day of a time, in UTC, as in "2026-11-22".
[[nodiscard]] std::string day_of(std::time_t time);

/// The newest date that a table's `measured` states for its runs; empty: none. A date that is none becomes a
/// warning.
[[nodiscard]] std::string read_measured_date(const json_place& table, warnings& warned);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/files/read_measured_date_impl.hpp>
#endif
