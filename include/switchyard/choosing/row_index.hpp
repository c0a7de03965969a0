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
#include <limits>
#include <span>
#include <vector>

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
  void nearest(std::span<const float> point, std::uint32_t count, neighbour_list& out) const noexcept {
    out.count = 0;
    if (rows_.empty() || count == 0) return;
    search state;  // NOLINT(cppcoreguidelines-pro-type-member-init): what is read is written
    state.point = point.data();
    state.wanted = count < max_neighbours ? count : static_cast<std::uint32_t>(max_neighbours);
    state.waiting = 0;
    for (std::uint32_t i = 0; i < state.wanted; ++i) state.found[i] = nothing;
    for (std::size_t axis = 0; axis < dimensions_; ++axis) state.offsets[0][axis] = 0;
    part next{};
    const bool in_cache = depth_ <= cached_depth;
    std::uint32_t unscanned = no_leaf;
    for (std::uint32_t visit = 0, most = max_leaves(); visit < most; ++visit) {
      std::array<float, max_dimensions>& offsets = state.offsets[visit];
      if (visit > 0) {
        if (state.waiting == 0) break;
        next = state.parts[--state.waiting];
        if (next.bound > worst(state)) break;  // one as near may have a row that stands before the worst
        for (std::size_t axis = 0; axis < dimensions_; ++axis) offsets[axis] = state.offsets[next.from][axis];
        offsets[next.axis] = next.offset;
      }
      const std::uint32_t leaf = descend(state, next, visit, most - visit - 1);
      prefetch(leaf);
      if (in_cache) {
        scan_(*this, state, leaf);
        continue;
      }
      // While a leaf comes from memory, the way to the next one is found.
      if (unscanned != no_leaf) scan_(*this, state, unscanned);
      unscanned = leaf;
    }
    if (unscanned != no_leaf) scan_(*this, state, unscanned);
    for (; out.count < state.wanted && state.found[out.count] != nothing; ++out.count) {
      const std::uint64_t key = state.found[out.count];
      out.entries[out.count] = {distance_of(key), static_cast<std::uint32_t>(key)};
    }
  }

 private:
  friend class row_index_builder;

  static constexpr std::size_t leaf_rows = 28;

  // A leaf's coordinates are stored axis by axis, `lanes_` per axis, so that vector instructions compare its
  // rows, a block at a time.
  static constexpr std::size_t block = 8;
  static constexpr std::size_t most_lanes = 32;
  static_assert(most_lanes > leaf_rows && most_lanes == 32);  // a bit each in rows_within

  // Larger tables visit fewer leaves: leaves come from memory rather than from the cache, and rows are so
  // dense that an approximation is good enough.
  [[nodiscard]] std::uint32_t max_leaves() const noexcept {
    if (depth_ <= cached_depth) return most_leaves;
    return depth_ >= cached_depth + 7 ? 3 : most_leaves - (depth_ - cached_depth);
  }

  struct node {
    std::uint32_t axis = 0;
    float value = 0;
  };
  static constexpr std::uint32_t most_leaves = 10;
  static constexpr unsigned cached_depth = 9;  // leaves of deeper trees come from memory
  static constexpr std::uint32_t no_leaf = 0xffffffffU;

  /// A part of space to visit later.
  struct part {
    float bound = 0;  // its squared distance from the point
    float offset = 0;
    std::uint32_t axis = 0;
    std::uint32_t level = 0;
    std::uint32_t position = 0;
    std::uint32_t from = 0;  // the visit whose offsets are its own, but for the one along `axis`
  };
  // A row as one number that orders by distance, then by row: the bits of a non-negative float order like the
  // float.
  [[nodiscard]] static std::uint64_t key_of(float squared_distance, std::uint32_t row) noexcept {
    return std::uint64_t{std::bit_cast<std::uint32_t>(squared_distance)} << 32U | row;
  }
  [[nodiscard]] static float distance_of(std::uint64_t key) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32U));
  }
  static constexpr std::uint64_t nothing =
      std::uint64_t{std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max())} << 32U | 0xffffffffU;

  struct search {
    const float* point;
    std::array<std::uint64_t, max_neighbours> found;  // nearest first
    std::uint32_t wanted;
    std::uint32_t waiting;
    std::array<part, most_leaves> parts;  // farthest first; at most as many as may still be visited
    // From the point to the part of space of each visit.
    std::array<std::array<float, max_dimensions>, most_leaves> offsets;
  };

  // Leaf `leaf` of a level holds rows [size * leaf / leaves, size * (leaf + 1) / leaves).
  [[nodiscard]] std::size_t bound(std::size_t position, unsigned level) const noexcept {
    return (rows_.size() * position) >> level;
  }

  [[nodiscard]] static float worst(const search& state) noexcept {
    return distance_of(state.found[state.wanted - 1]);
  }

  /// The nearest leaf of a part. Keeps the parts that it passes on the way.
  [[nodiscard]] std::uint32_t descend(search& state, const part& from, std::uint32_t visit,
                                      std::uint32_t room) const noexcept {
    const std::array<float, max_dimensions>& offsets = state.offsets[visit];
    const float limit = worst(state);
    std::uint32_t position = from.position;
    for (std::uint32_t level = from.level; level < depth_; ++level) {
      const node& here = nodes_[(std::size_t{1} << level) - 1 + position];
      const float difference = state.point[here.axis] - here.value;
      const std::uint32_t right = difference >= 0 ? 1 : 0;
      const float before = offsets[here.axis];
      const float bound = from.bound - before * before + difference * difference;
      if (bound <= limit)
        keep(state, {bound, difference, here.axis, level + 1, 2 * position + 1 - right, visit}, room);
      position = 2 * position + right;
    }
    return position;
  }

  /// Prefetches a leaf.
  void prefetch(std::size_t position) const noexcept {
    constexpr std::size_t line = 16;  // values in a cache line
    const std::size_t begin = position * lanes_ * dimensions_;
    for (std::size_t i = 0; i < lanes_ * dimensions_; i += line) __builtin_prefetch(&points_[begin + i]);
    for (std::size_t i = bound(position, depth_); i < bound(position + 1, depth_); i += line)
      __builtin_prefetch(&rows_[i]);
  }

  /// Inserts a part in order, and keeps the nearest `room` parts.
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

  /// Adds the squares of the differences along one axis.
  template <class Floats>
  [[gnu::always_inline]] static inline void add_squares(const float* from, const Floats& here,
                                                        Floats& sum) noexcept {
    Floats there;
    __builtin_memcpy(&there, from, sizeof there);
    there -= here;
    sum += there * there;
  }
  template <class Floats>
  [[gnu::always_inline]] static inline void store(float* to, const Floats& from) noexcept {
    __builtin_memcpy(to, &from, sizeof from);
  }

  /// The squared distances of a leaf's rows.
  template <class Floats>
  [[gnu::always_inline]] inline void measure(const search& state, const float* leaf,
                                             float* squared) const noexcept {
    constexpr std::size_t width = sizeof(Floats) / sizeof(float);
    static_assert(block % width == 0);
    for (std::size_t lane = 0; lane < lanes_; lane += block) {
      std::array<Floats, block / width> sums{};
      for (std::size_t axis = 0; axis < dimensions_; ++axis) {
        const Floats here = Floats{} + state.point[axis];
        for (std::size_t i = 0; i < sums.size(); ++i)
          add_squares(leaf + axis * lanes_ + lane + i * width, here, sums[i]);
      }
      for (std::size_t i = 0; i < sums.size(); ++i) store(squared + lane + i * width, sums[i]);
    }
  }

  /// The rows of a leaf that are no farther than `limit`, a bit each.
  [[nodiscard, gnu::always_inline]] inline std::uint32_t rows_within(const float* squared, float limit,
                                                                     std::size_t count) const noexcept {
    std::uint32_t near = 0;
#if defined(__SSE2__)
    using four = float __attribute__((vector_size(16)));
    const four limits = four{} + limit;
    for (std::size_t lane = 0; lane < lanes_; lane += 4) {
      four here;
      __builtin_memcpy(&here, squared + lane, sizeof here);
      const auto bits =
          static_cast<unsigned>(__builtin_ia32_movmskps(reinterpret_cast<four>(here <= limits)));
      near |= bits << lane;
    }
#else
    for (std::size_t lane = 0; lane < lanes_; ++lane)
      near |= static_cast<std::uint32_t>(squared[lane] <= limit) << lane;
#endif
    return near & ((std::uint32_t{1} << count) - 1);
  }

  /// Scans a leaf. No step branches on a single distance: such branches are unpredictable.
  template <class Floats>
  [[gnu::always_inline]] inline void scan_in(search& state, std::size_t position) const noexcept {
    alignas(32) std::array<float, most_lanes> squared;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    measure<Floats>(state, &points_[position * lanes_ * dimensions_], squared.data());
    const std::size_t begin = bound(position, depth_);
    std::uint32_t near = rows_within(squared.data(), worst(state), bound(position + 1, depth_) - begin);
    for (; near != 0; near &= near - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(near));
      insert(state, key_of(squared[i], rows_[begin + i]));
    }
  }

  static void scan(const row_index& of, search& state, std::size_t position) noexcept {
    using four = float __attribute__((vector_size(16)));
    of.scan_in<four>(state, position);
  }
#if defined(__x86_64__)
  [[gnu::target("avx2")]] static void scan_wide(const row_index& of, search& state,
                                                std::size_t position) noexcept {
    using eight = float __attribute__((vector_size(32)));
    of.scan_in<eight>(state, position);
  }
#endif

  using scanner = void (*)(const row_index& of, search& state, std::size_t position) noexcept;
  [[nodiscard]] static scanner fastest_scanner() noexcept {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return scan_wide;
#endif
    return scan;
  }

  /// Inserts a row and drops the farthest.
  static void insert(search& state, std::uint64_t key) noexcept {
    std::uint64_t before = state.found[0];
    state.found[0] = key < before ? key : before;
    for (std::uint32_t i = 1; i < state.wanted; ++i) {
      const std::uint64_t here = state.found[i];
      const std::uint64_t nearer = key < here ? key : here;
      state.found[i] = nearer > before ? nearer : before;
      before = here;
    }
  }

  std::size_t dimensions_ = 0;
  std::size_t lanes_ = 0;  // what the largest leaf needs, in whole blocks
  unsigned depth_ = 0;
  std::vector<node> nodes_;
  std::vector<std::uint32_t> rows_;
  std::vector<float> points_;
  scanner scan_ = fastest_scanner();
};

}  // namespace v0
}  // namespace switchyard
