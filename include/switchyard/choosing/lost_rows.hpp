// SPDX-License-Identifier: MIT
// Rows that are not used because another row of the same type and sizes comes before them, and why it does.
//
// Needs no device. Allocates text; for messages and tools, not for the launch path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/indexed_group.hpp>
#include <switchyard/choosing/select.hpp>
#include <switchyard/files/table.hpp>

namespace switchyard {
inline namespace v0 {

/// A row of the sizes of one that is used.
struct lost_row {
  std::string table;  ///< path
  std::uint32_t group = 0;
  std::uint32_t row = 0;
  std::string why;  ///< "measured 2026-11-20, older"
};

/// The rows that a row of a group takes the place of, in the order of their tables.
[[nodiscard]] std::vector<lost_row> find_lost_rows(const selector& from, const indexed_group& group,
                                                   std::uint32_t row);

/// "; also in b.json (measured 2026-11-20, older) and 2 more": the first of them, and how many there are.
[[nodiscard]] std::string format_lost(const std::vector<lost_row>& lost);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/lost_rows_impl.hpp>
#endif
