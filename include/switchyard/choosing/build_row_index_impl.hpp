// SPDX-License-Identifier: MIT
// The bodies of build_row_index.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/build_row_index.hpp>
#include <switchyard/choosing/row_index.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION row_index row_index_builder::build(std::span<const float> points,
                                                       std::size_t dimensions) {
  row_index out;
  const std::size_t count = dimensions == 0 ? 0 : points.size() / dimensions;
  out.dimensions_ = dimensions;
  out.rows_.resize(count);
  for (std::size_t i = 0; i < count; ++i) out.rows_[i] = static_cast<std::uint32_t>(i);
  while ((count >> out.depth_) > row_index::leaf_rows) ++out.depth_;
  out.nodes_.resize((std::size_t{1} << out.depth_) - 1);
  split(out, points, 0, 0, 0);
  const std::size_t leaves = count == 0 ? 0 : std::size_t{1} << out.depth_;
  const std::size_t max_rows = (count >> out.depth_) + 1;
  const std::size_t lanes = (max_rows + row_index::block - 1) / row_index::block * row_index::block;
  out.lanes_ = lanes;
  out.leaves_.resize(leaves * out.leaf_size());
  for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
    float* const to = out.leaves_.data() + leaf * out.leaf_size();
    const std::size_t begin = out.bound(leaf, out.depth_);
    for (std::size_t i = begin; i < out.bound(leaf + 1, out.depth_); ++i) {
      for (std::size_t axis = 0; axis < dimensions; ++axis)
        to[axis * lanes + (i - begin)] = points[out.rows_[i] * dimensions + axis];
      std::memcpy(to + dimensions * lanes + (i - begin), &out.rows_[i], sizeof out.rows_[i]);
    }
  }
  return out;
}

SWITCHYARD_FUNCTION void row_index_builder::split(row_index& out, std::span<const float> points,
                                                  std::size_t index, std::size_t position, unsigned level) {
  if (level == out.depth_) return;
  const std::size_t dimensions = out.dimensions_;
  const std::size_t begin = out.bound(position, level);
  const std::size_t middle = out.bound(2 * position + 1, level + 1);
  const std::size_t end = out.bound(position + 1, level);
  std::size_t widest = 0;
  float extent = -1;
  for (std::size_t axis = 0; axis < dimensions; ++axis) {
    float low = std::numeric_limits<float>::max();
    float high = std::numeric_limits<float>::lowest();
    for (std::size_t i = begin; i < end; ++i) {
      const float value = points[out.rows_[i] * dimensions + axis];
      low = std::min(low, value);
      high = std::max(high, value);
    }
    if (high - low > extent) {
      extent = high - low;
      widest = axis;
    }
  }
  const auto at = [&](std::uint32_t row) { return points[row * dimensions + widest]; };
  const auto first = out.rows_.begin();
  std::nth_element(first + static_cast<std::ptrdiff_t>(begin), first + static_cast<std::ptrdiff_t>(middle),
                   first + static_cast<std::ptrdiff_t>(end),
                   [&](std::uint32_t a, std::uint32_t b) { return at(a) != at(b) ? at(a) < at(b) : a < b; });
  out.nodes_[index] = {static_cast<std::uint32_t>(widest), at(out.rows_[middle])};
  split(out, points, 2 * index + 1, 2 * position, level + 1);
  split(out, points, 2 * index + 2, 2 * position + 1, level + 1);
}

}  // namespace v0
}  // namespace switchyard
