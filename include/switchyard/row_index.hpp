// Nearest measured rows of a problem: a search in a k-d tree (Friedman, Bentley and Finkel, 1977) over points
// in the table's metric, nearest parts of space first (best bin first: Beis and Lowe, 1997).
// build_selector.hpp builds the tree.
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
    search state;  // NOLINT(cppcoreguidelines-pro-type-member-init): what is read is written
    state.point = point.data();
    state.out = &out;
    state.wanted = count < max_neighbours ? count : static_cast<std::uint32_t>(max_neighbours);
    state.waiting = 0;
    for (std::size_t axis = 0; axis < dimensions_; ++axis) state.offsets[0][axis] = 0;
    part next{};
    for (std::uint32_t visit = 0, most = max_leaves(); visit < most; ++visit) {
      std::array<float, max_dimensions>& offsets = state.offsets[visit];
      if (visit > 0) {
        if (state.waiting == 0) return;
        next = state.parts[--state.waiting];
        if (next.bound >= worst(state)) return;
        for (std::size_t axis = 0; axis < dimensions_; ++axis) offsets[axis] = state.offsets[next.from][axis];
        offsets[next.axis] = next.offset;
      }
      descend(state, next, visit, most - visit - 1);
    }
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
    if (depth_ <= 9) return most_leaves;
    return depth_ >= 16 ? 3 : most_leaves - (depth_ - 9);
  }

  struct node {
    std::uint32_t axis = 0;
    float value = 0;
  };
  static constexpr std::uint32_t most_leaves = 10;

  /// A part of space that waits to be visited.
  struct part {
    float bound = 0;  // its squared distance from the point
    float offset = 0;
    std::uint32_t axis = 0;
    std::uint32_t level = 0;
    std::uint32_t position = 0;
    std::uint32_t from = 0;  // the visit whose offsets are its own, but for the one along `axis`
  };
  struct search {
    const float* point;
    neighbour_list* out;
    std::uint32_t wanted;
    std::uint32_t waiting;
    std::array<part, most_leaves> parts;  // farthest first; no more than may still be visited
    // From the point to the part of space of each visit.
    std::array<std::array<float, max_dimensions>, most_leaves> offsets;
  };

  // Leaf `leaf` of a level holds rows [size * leaf / leaves, size * (leaf + 1) / leaves).
  [[nodiscard]] std::size_t bound(std::size_t position, unsigned level) const noexcept {
    return (rows_.size() * position) >> level;
  }

  [[nodiscard]] static float worst(const search& state) noexcept {
    return state.out->count < state.wanted ? std::numeric_limits<float>::max()
                                           : state.out->entries[state.out->count - 1].squared_distance;
  }

  /// Goes down to the leaf of a part that is nearest, and keeps the nearest of what it passes by.
  void descend(search& state, const part& from, std::uint32_t visit, std::uint32_t room) const noexcept {
    const std::array<float, max_dimensions>& offsets = state.offsets[visit];
    const float limit = worst(state);
    std::uint32_t position = from.position;
    for (std::uint32_t level = from.level; level < depth_; ++level) {
      const node& here = nodes_[(std::size_t{1} << level) - 1 + position];
      const float difference = state.point[here.axis] - here.value;
      const std::uint32_t right = difference >= 0 ? 1 : 0;
      const float before = offsets[here.axis];
      const float bound = from.bound - before * before + difference * difference;
      if (bound < limit)
        keep(state, {bound, difference, here.axis, level + 1, 2 * position + 1 - right, visit}, room);
      position = 2 * position + right;
    }
    scan(state, position);
  }

  /// Keeps a part in its place, and no more than the nearest `room`.
  static void keep(search& state, const part& fresh, std::uint32_t room) noexcept {
    std::uint32_t at = 0;
    if (state.waiting < room) {
      for (at = state.waiting++; at > 0 && state.parts[at - 1].bound < fresh.bound; --at)
        state.parts[at] = state.parts[at - 1];
    } else {
      if (room == 0 || fresh.bound >= state.parts[0].bound) return;  // the farthest goes, or this one
      for (; at + 1 < room && state.parts[at + 1].bound > fresh.bound; ++at)
        state.parts[at] = state.parts[at + 1];
    }
    state.parts[at] = fresh;
  }

  void scan(search& state, std::size_t position) const noexcept {
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
