// Nearest measured rows of a problem: a search in a k-d tree (Friedman, Bentley and Finkel, 1977) over points
// in the table's metric. build_selector.hpp builds the tree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace switchyard::inline v0 {

/// Most neighbours that a search returns, and most dimensions of a point.
inline constexpr std::size_t max_neighbours = 32;
inline constexpr std::size_t max_dimensions = 16;

struct neighbour {
  float squared_distance = 0;
  std::uint32_t row = 0;
};

struct neighbour_list {
  std::array<neighbour, max_neighbours> entries;  // NOLINT(cppcoreguidelines-pro-type-member-init): see count
  std::uint32_t count = 0;
};

class row_index {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

  /// The `count` rows nearest to a point, nearest first; equally near rows come in their table's order as far
  /// as the search meets them. A search looks at a bounded number of leaves, which holds its time down in
  /// tables of a million rows; within them it is exact.
  void nearest(std::span<const float> point, std::uint32_t count, neighbour_list& out) const noexcept {
    out.count = 0;
    if (rows_.empty() || count == 0) return;
    search state{point.data(),
                 &out,
                 count < max_neighbours ? count : static_cast<std::uint32_t>(max_neighbours),
                 max_leaves(),
                 {}};
    visit(state, 0, 0, 0, 0.0F);
  }

 private:
  friend class row_index_builder;

  static constexpr std::size_t leaf_rows = 28;

  // A leaf's coordinates lie axis by axis, `lanes` to an axis, so that its rows are compared side by side.
  static constexpr std::size_t lanes = 32;
  static_assert(lanes > leaf_rows && lanes % 4 == 0);

  // In large tables fewer leaves are looked at: they come from memory, not from the cache, and rows are dense
  // enough for the nearest of some to do.
  [[nodiscard]] std::uint32_t max_leaves() const noexcept {
    if (depth_ <= 9) return 10;
    return depth_ >= 16 ? 3 : 10 - (depth_ - 9);
  }

  struct node {
    std::uint32_t axis = 0;
    float value = 0;
  };
  struct search {
    const float* point;
    neighbour_list* out;
    std::uint32_t wanted;
    std::uint32_t leaves_left;
    std::array<float, max_dimensions> offsets;  // from the point to the part of space being visited
  };

  // Leaf `leaf` of a level holds rows [size * leaf / leaves, size * (leaf + 1) / leaves).
  [[nodiscard]] std::size_t bound(std::size_t position, unsigned level) const noexcept {
    return (rows_.size() * position) >> level;
  }

  [[nodiscard]] static float worst(const search& state) noexcept {
    return state.out->count < state.wanted ? std::numeric_limits<float>::max()
                                           : state.out->entries[state.out->count - 1].squared_distance;
  }

  void visit(search& state, std::size_t index, std::size_t position, unsigned level,
             float outside) const noexcept {
    if (level == depth_) return scan(state, position);
    const node& here = nodes_[index];
    const float difference = state.point[here.axis] - here.value;
    const bool right = difference >= 0;
    visit(state, 2 * index + 1 + (right ? 1 : 0), 2 * position + (right ? 1 : 0), level + 1, outside);
    if (state.leaves_left == 0) return;
    const float before = state.offsets[here.axis];
    const float beyond = outside - before * before + difference * difference;
    if (beyond >= worst(state)) return;
    state.offsets[here.axis] = difference;
    visit(state, 2 * index + 1 + (right ? 0 : 1), 2 * position + (right ? 0 : 1), level + 1, beyond);
    state.offsets[here.axis] = before;
  }

  void scan(search& state, std::size_t position) const noexcept {
    if (state.leaves_left == 0) return;
    --state.leaves_left;
    using four = float __attribute__((vector_size(16)));
    std::array<four, lanes / 4> sums{};
    const float* from = &points_[position * lanes * dimensions_];
    for (std::size_t i = 16; i < lanes * dimensions_; i += 16)
      __builtin_prefetch(from + i);  // a cache line each
    for (std::size_t axis = 0; axis < dimensions_; ++axis) {
      const float here = state.point[axis];
      for (four& sum : sums) {
        four difference;
        __builtin_memcpy(&difference, from, sizeof difference);
        difference -= here;
        sum += difference * difference;
        from += 4;
      }
    }
    std::array<float, lanes> squared;  // NOLINT(cppcoreguidelines-pro-type-member-init): written next
    __builtin_memcpy(squared.data(), sums.data(), sizeof squared);
    const std::size_t begin = bound(position, depth_);
    const std::size_t count = bound(position + 1, depth_) - begin;
    neighbour_list& out = *state.out;
    float limit = worst(state);
    for (std::size_t i = 0; i < count; ++i) {
      if (squared[i] > limit) continue;
      const neighbour found{squared[i], rows_[begin + i]};
      const auto before = [](const neighbour& a, const neighbour& b) {
        return a.squared_distance != b.squared_distance ? a.squared_distance < b.squared_distance
                                                        : a.row < b.row;
      };
      if (out.count == state.wanted && !before(found, out.entries[out.count - 1])) continue;
      std::uint32_t at = out.count < state.wanted ? out.count++ : out.count - 1;
      for (; at > 0 && before(found, out.entries[at - 1]); --at) out.entries[at] = out.entries[at - 1];
      out.entries[at] = found;
      limit = worst(state);
    }
  }

  std::size_t dimensions_ = 0;
  unsigned depth_ = 0;
  std::vector<node> nodes_;
  std::vector<std::uint32_t> rows_;
  std::vector<float> points_;
};

}  // namespace switchyard::inline v0
