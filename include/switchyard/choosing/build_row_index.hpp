// SPDX-License-Identifier: MIT
// Builds the k-d tree of a row_index.
#pragma once

#include <cstddef>
#include <span>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/row_index.hpp>

namespace switchyard {
inline namespace v0 {

/// Splits at the median of the widest axis, down to leaves of a few dozen rows.
class row_index_builder {
 public:
  /// Indexes `points`, row after row, of `dimensions` finite coordinates each.
  [[nodiscard]] static row_index build(std::span<const float> points, std::size_t dimensions);

 private:
  static void split(row_index& out, std::span<const float> points, std::size_t index, std::size_t position,
                    unsigned level);
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/build_row_index_impl.hpp>
#endif
