// SPDX-License-Identifier: MIT
// Which of two tables for the same device comes first, and why the rows of the other are not used.
#pragma once

#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

/// Whether a table comes before another one wherever they lie: it names more of the device or, where both
/// name as much, was measured later. One without a date comes after those with one.
[[nodiscard]] bool comes_before(const table& one, const table& other) noexcept;

/// When a table was measured: "measured 2026-11-22", or "undated".
[[nodiscard]] std::string format_date(const table& of);

/// Why the rows of a table give way to those of another, which comes first: "measured 2026-11-20, older".
[[nodiscard]] std::string why_lost(const table& lost, const table& used);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/table_order_impl.hpp>
#endif
