// SPDX-License-Identifier: MIT
// The measured rows nearest to a problem: a k-d tree (Friedman, Bentley and Finkel, 1977) over points in the
// table's metric, searched nearest cells first (best bin first: Beis and Lowe, 1997). build_row_index.hpp
// builds the tree.
//
// Immutable once built. Any number of threads may search; nothing is allocated or thrown.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <switchyard/base/compiled.hpp>

namespace switchyard {
inline namespace v0 {

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

  /// All rows, leaf after leaf: rows that are near each other stand together.
  [[nodiscard]] std::span<const std::uint32_t> rows() const noexcept { return rows_; }

  /// The `count` rows nearest to a point, nearest first; equally near rows in their table's order. A search
  /// visits a bounded number of leaves, which bounds its time in tables of a million rows; within those
  /// leaves it is exact.
  /// `wanted_next`, if it is not null, has an entry of eight bytes for each row: those of rows that are near
  /// are prefetched meanwhile where the table is large.
  void nearest(std::span<const float> point, std::uint32_t count, neighbour_list& out,
               const void* wanted_next = nullptr) const noexcept;

  /// Prefetches the leaf that a search begins with, where the table is large.
  void prefetch_nearest(const float* point) const noexcept;

 private:
  friend class row_index_builder;

  static constexpr std::size_t leaf_rows = 56;

  // A leaf's coordinates are stored axis by axis, `lanes_` per axis, so that vector instructions compare its
  // rows, a block at a time. The rows' numbers follow them: both come from memory together.
  static constexpr std::size_t block = 8;

  struct node {
    std::uint32_t axis = 0;
    float value = 0;
  };
  static constexpr std::uint32_t max_leaf_rows = 8;
  static constexpr unsigned cached_depth = 8;  // leaves of deeper trees come from memory
  static constexpr std::uint32_t no_leaf = 0xffffffffU;

  // Larger tables visit fewer leaves: leaves come from memory rather than from the cache, and rows are so
  // dense that an approximation is good enough.
  [[nodiscard]] std::uint32_t max_leaves() const noexcept;

  // A row as one number that orders by distance, then by row: the bits of a non-negative float order like the
  // float. The bits order in the same way as a double, for which processors have a vector minimum; `normal`
  // keeps that double from being a denormal, which an engine may have set to count as zero.
  static constexpr std::uint64_t normal = std::uint64_t{1} << 52U;
  [[nodiscard]] static double key_of(float squared_distance, std::uint32_t row) noexcept;
  [[nodiscard]] static neighbour row_of(double key) noexcept;
  static constexpr float far = 0x1.fffffep127F;
  [[nodiscard]] static double nothing() noexcept { return key_of(far, 0xffffffffU); }

  /// Parts of space to visit later, in no order.
  struct part_list {
    // A visit adds at most one for each level.
    static constexpr std::size_t room = 96;
    static_assert(room > max_leaf_rows * (cached_depth + 2) && room > 3 * 31 && room % block == 0);

    alignas(32) std::array<float, room> bounds;  // squared distance from the point; `far`: none, or visited
    std::array<std::uint32_t, room> nodes;       // numbered from the root, level after level
    std::array<std::uint8_t, room> visits;       // the one that passed it
    std::uint32_t count;
  };

  struct search {
    const float* point;
    std::uint32_t wanted;
    part_list parts;
    // From the point to the part of space of each visit.
    std::array<std::array<float, max_dimensions>, max_leaf_rows> offsets;
    alignas(32) std::array<double, max_neighbours> found;  // nearest first
  };

  // Leaf `leaf` of a level holds rows [size * leaf / leaves, size * (leaf + 1) / leaves).
  [[nodiscard]] std::size_t bound(std::size_t position, unsigned level) const noexcept {
    return (rows_.size() * position) >> level;
  }

  [[nodiscard]] static float worst(const search& state) noexcept {
    return row_of(state.found[state.wanted - 1]).squared_distance;
  }

  template <class Floats, class Doubles>
  [[gnu::always_inline]] inline void search_in(const float* point, std::uint32_t wanted,
                                               std::uintptr_t wanted_next,
                                               neighbour_list& out) const noexcept {
    search state;  // NOLINT(cppcoreguidelines-pro-type-member-init): what is read is written
    state.point = point;
    state.wanted = wanted;
    for (double& row : state.found) row = nothing();
    for (float& bound : state.parts.bounds) bound = far;
    state.parts.count = 0;
    for (float& offset : state.offsets[0]) offset = 0;
    const bool in_cache = depth_ <= cached_depth;
    std::size_t begin = 0;  // at the root
    float bound_here = 0;
    std::uint32_t unscanned = no_leaf;
    for (std::uint32_t visit = 0, most = max_leaves(); visit < most; ++visit) {
      if (visit > 0) {
        const std::uint32_t next = nearest_part<Floats>(state.parts);
        bound_here = state.parts.bounds[next];
        // One as near as the worst may have a row that stands before it.
        if (bound_here > worst(state) || bound_here == far) break;
        state.parts.bounds[next] = far;
        begin = state.parts.nodes[next];
        state.offsets[visit] = state.offsets[state.parts.visits[next]];
        const node& split = nodes_[(begin - 1) / 2];
        state.offsets[visit][split.axis] = point[split.axis] - split.value;
      }
      const std::uint32_t leaf = descend(state, begin, bound_here, visit);
      prefetch(leaf);
      if (in_cache) {
        scan<Floats, Doubles>(state, leaf);
        continue;
      }
      // While a leaf comes from memory, the way to the next one is found.
      if (unscanned != no_leaf) {
        scan<Floats, Doubles>(state, unscanned);
        if (wanted_next != 0) prefetch_found(state, wanted_next);
      }
      unscanned = leaf;
    }
    if (unscanned != no_leaf) scan<Floats, Doubles>(state, unscanned);
    for (; out.count < wanted && state.found[out.count] != nothing(); ++out.count)
      out.entries[out.count] = row_of(state.found[out.count]);
  }

  /// The nearest leaf of a part. Keeps the parts that it passes on the way. No step branches on a distance:
  /// such branches are unpredictable.
  [[nodiscard, gnu::always_inline]] inline std::uint32_t descend(search& state, std::size_t begin,
                                                                 float bound_here,
                                                                 std::uint32_t visit) const noexcept {
    const float* const offsets = state.offsets[visit].data();
    const float limit = worst(state);
    const std::size_t inner = nodes_.size();
    std::uint32_t count = state.parts.count;
    std::size_t at = begin;
    while (at < inner) {
      const node& here = nodes_[at];
      const float difference = state.point[here.axis] - here.value;
      const std::size_t right = difference >= 0 ? 1 : 0;
      const float before = offsets[here.axis];
      const float passed = bound_here - before * before + difference * difference;
      state.parts.bounds[count] = passed;
      state.parts.nodes[count] = static_cast<std::uint32_t>(2 * at + 2 - right);
      state.parts.visits[count] = static_cast<std::uint8_t>(visit);
      count += passed <= limit ? 1 : 0;
      at = 2 * at + 1 + right;
    }
    state.parts.bounds[count] = far;
    state.parts.count = count;
    return static_cast<std::uint32_t>(at - inner);
  }

  /// Which part is nearest.
  template <class Floats>
  [[nodiscard, gnu::always_inline]] static inline std::uint32_t nearest_part(
      const part_list& parts) noexcept {
    constexpr std::size_t width = sizeof(Floats) / sizeof(float);
    Floats least;
    load(parts.bounds.data(), least);
    for (std::size_t i = width; i < parts.count; i += width) {
      Floats here;
      load(parts.bounds.data() + i, here);
      least = here < least ? here : least;
    }
    float nearest = least[0];
    for (std::size_t i = 1; i < width; ++i) nearest = least[i] < nearest ? least[i] : nearest;
    for (std::uint32_t i = 0;; i += width) {
      Floats here;
      load(parts.bounds.data() + i, here);
      if (const std::uint32_t same = lanes_within(here, nearest); same != 0)
        return i + static_cast<std::uint32_t>(std::countr_zero(same));
    }
  }

  [[nodiscard]] std::size_t leaf_size() const noexcept { return lanes_ * (dimensions_ + 1); }

  /// Prefetches a leaf.
  void prefetch(std::size_t position) const noexcept;

  /// Prefetches the entries of the rows found so far.
  static void prefetch_found(const search& state, std::uintptr_t entries) noexcept;

  template <class Value, class Vector>
  [[gnu::always_inline]] static inline void load(const Value* from, Vector& to) noexcept {
    __builtin_memcpy(&to, from, sizeof to);
  }
  template <class Value, class Vector>
  [[gnu::always_inline]] static inline void store(Value* to, const Vector& from) noexcept {
    __builtin_memcpy(to, &from, sizeof from);
  }

  /// The lanes that are no larger than `limit`, a bit each.
  template <class Floats>
  [[nodiscard, gnu::always_inline]] static inline std::uint32_t lanes_within(const Floats& values,
                                                                             float limit) noexcept {
    std::uint32_t out = 0;
#if defined(__SSE2__)
    using four = float __attribute__((vector_size(16)));
    const auto within = values <= limit;
    for (std::size_t i = 0; i < sizeof(Floats) / sizeof(four); ++i) {
      four part;
      __builtin_memcpy(&part, reinterpret_cast<const std::byte*>(&within) + i * sizeof part, sizeof part);
      out |= static_cast<std::uint32_t>(__builtin_ia32_movmskps(part)) << 4 * i;
    }
#else
    for (std::size_t lane = 0; lane < sizeof(Floats) / sizeof(float); ++lane)
      out |= static_cast<std::uint32_t>(values[lane] <= limit) << lane;
#endif
    return out;
  }

  /// The eight nearest rows so far, in registers.
  template <class Doubles>
  struct nearest_eight {
    Doubles low;
    Doubles high;

    /// Inserts a row and drops the farthest.
    [[gnu::always_inline]] inline void insert(double key) noexcept {
      const Doubles fresh = Doubles{} + key;
      const Doubles before_high = __builtin_shufflevector(low, high, 3, 4, 5, 6);
      const Doubles before_low = __builtin_shufflevector(low, Doubles{}, 4, 0, 1, 2);
      const Doubles nearer_high = fresh < high ? fresh : high;
      const Doubles nearer_low = fresh < low ? fresh : low;
      high = nearer_high > before_high ? nearer_high : before_high;
      low = nearer_low > before_low ? nearer_low : before_low;
    }
    [[nodiscard, gnu::always_inline]] inline float worst() const noexcept {
      return row_of(high[3]).squared_distance;
    }
  };

  /// More than eight of them, in memory.
  struct nearest_many {
    double* found;
    std::uint32_t wanted;

    void insert(double key) noexcept;
    [[nodiscard]] float worst() const noexcept { return row_of(found[wanted - 1]).squared_distance; }
  };

  template <class Floats, class Doubles>
  [[gnu::always_inline]] inline void scan(search& state, std::size_t position) const noexcept {
    if (state.wanted > block) {
      nearest_many nearest{state.found.data(), state.wanted};
      scan_into<Floats>(nearest, state.point, position);
      return;
    }
    nearest_eight<Doubles> nearest;
    load(state.found.data(), nearest.low);
    load(state.found.data() + 4, nearest.high);
    scan_into<Floats>(nearest, state.point, position);
    store(state.found.data(), nearest.low);
    store(state.found.data() + 4, nearest.high);
  }

  /// Adds a leaf's rows to the nearest ones.
  template <class Floats, class Nearest>
  [[gnu::always_inline]] inline void scan_into(Nearest& nearest, const float* point,
                                               std::size_t position) const noexcept {
    constexpr std::size_t width = sizeof(Floats) / sizeof(float);
    static_assert(block % width == 0);
    const float* const leaf = &leaves_[position * leaf_size()];
    const float* const numbers = leaf + dimensions_ * lanes_;
    const std::size_t count = bound(position + 1, depth_) - bound(position, depth_);
    alignas(32) std::array<float, block> squared;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    float limit = nearest.worst();
    for (std::size_t lane = 0; lane < count; lane += block) {
      std::uint32_t near = 0;
      for (std::size_t i = 0; i < block; i += width) {
        Floats sum{};
        for (std::size_t axis = 0; axis < dimensions_; ++axis) {
          Floats there;
          load(leaf + axis * lanes_ + lane + i, there);
          there -= point[axis];
          sum += there * there;
        }
        store(squared.data() + i, sum);
        near |= lanes_within(sum, limit) << i;
      }
      if (count - lane < block) near &= (1U << (count - lane)) - 1;
      for (; near != 0; near &= near - 1) {
        const auto i = static_cast<std::size_t>(std::countr_zero(near));
        std::uint32_t row = 0;
        __builtin_memcpy(&row, numbers + lane + i, sizeof row);
        nearest.insert(key_of(squared[i], row));
      }
      limit = nearest.worst();
    }
  }

  static void search_narrow(const row_index& of, const float* point, std::uint32_t wanted,
                            std::uintptr_t wanted_next, neighbour_list& out) noexcept;
#if defined(__x86_64__)
  [[gnu::target("avx2")]] static void search_wide(const row_index& of, const float* point,
                                                  std::uint32_t wanted, std::uintptr_t wanted_next,
                                                  neighbour_list& out) noexcept;
#endif

  using searcher = void (*)(const row_index& of, const float* point, std::uint32_t wanted,
                            std::uintptr_t wanted_next, neighbour_list& out) noexcept;
  [[nodiscard]] static searcher fastest_searcher() noexcept;

  std::size_t dimensions_ = 0;
  std::size_t lanes_ = 0;  // what the largest leaf needs, in whole blocks
  unsigned depth_ = 0;
  std::vector<node> nodes_;
  std::vector<std::uint32_t> rows_;
  std::vector<float> leaves_;
  searcher search_ = fastest_searcher();
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/choosing/row_index_impl.hpp>
#endif
