// The plans of one dispatcher: a set-associative table of pointers that readers search without locks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <switchyard/operator.hpp>
#include <switchyard/plan.hpp>

namespace switchyard::inline v0 {

/// How many plans a dispatcher keeps.
inline constexpr std::size_t default_plan_capacity = 1024;

/// Bounded: a full set gives up its plans in turn. Writers hold the owner's lock; who takes a plan out
/// retires it through a reclaimer, since readers may still be using it.
class plan_cache {
 public:
  static constexpr std::size_t ways = 4;

  /// Holds at least `capacity` plans; a power of two.
  explicit plan_cache(std::size_t capacity) {
    std::size_t sets = 1;
    while (sets * ways < capacity) sets *= 2;
    mask_ = sets - 1;
    slots_ = std::make_unique<std::atomic<plan*>[]>(sets * ways);  // NOLINT(modernize-avoid-c-arrays)
    victims_.resize(sets);
  }
  plan_cache(const plan_cache&) = delete;
  plan_cache& operator=(const plan_cache&) = delete;

  /// The plan of a problem, or null. The caller holds a guard of the owner's reclaimer.
  template <std::size_t Count>
  [[nodiscard]] plan* find(std::uint64_t hash,
                           const std::array<std::int64_t, Count>& problem) const noexcept {
    const std::atomic<plan*>* set = &slots_[((hash >> 32U) & mask_) * ways];
    for (std::size_t way = 0; way < ways; ++way) {
      // Sequentially consistent, for the reclaimer's proof; on x86-64 it is an ordinary load.
      plan* const found = set[way].load(std::memory_order_seq_cst);
      if (found == nullptr) continue;
      // A long problem is told apart by its hash first; a short one is compared at once.
      if (Count > 8 && found->hash != hash) continue;
      if (equal(found->problem.data(), problem)) return found;
    }
    return nullptr;
  }

  [[nodiscard]] plan* find(std::uint64_t hash, problem_view problem) const noexcept {
    const std::atomic<plan*>* set = &slots_[((hash >> 32U) & mask_) * ways];
    for (std::size_t way = 0; way < ways; ++way) {
      plan* const found = set[way].load(std::memory_order_seq_cst);
      if (found == nullptr || found->hash != hash) continue;
      bool same = true;
      for (std::size_t i = 0; i < problem.size(); ++i) same = same && found->problem[i] == problem[i];
      if (same) return found;
    }
    return nullptr;
  }

  /// Publishes a plan; returns the one that had to make room, or null.
  [[nodiscard]] plan* insert(plan* fresh) noexcept {
    const std::size_t set = (fresh->hash >> 32U) & mask_;
    std::size_t way = ways;
    for (std::size_t i = 0; i < ways && way == ways; ++i) {
      if (slots_[set * ways + i].load(std::memory_order_relaxed) == nullptr) way = i;
    }
    if (way == ways) way = victims_[set]++ % ways;
    return slots_[set * ways + way].exchange(fresh, std::memory_order_seq_cst);
  }

  template <class Visitor>
  void for_each(const Visitor& visit) const {
    for (std::size_t i = 0; i < (mask_ + 1) * ways; ++i) {
      if (plan* const each = slots_[i].load(std::memory_order_acquire)) visit(*each);
    }
  }

 private:
  using two = std::uint64_t __attribute__((vector_size(16)));

  [[nodiscard]] static two load_two(const std::int64_t* from) noexcept {
    two out;
    __builtin_memcpy(&out, from, sizeof out);
    return out;
  }

  // Unrolled, two at a time: GCC would make a loop of it.
  template <std::size_t Count>
  [[nodiscard]] static bool equal(const std::int64_t* a, const std::array<std::int64_t, Count>& b) noexcept {
    two different{};
    const auto compare = [&]<std::size_t... Pair>(std::index_sequence<Pair...>) {
      ((different |= load_two(a + 2 * Pair) ^ load_two(b.data() + 2 * Pair)), ...);
    };
    compare(std::make_index_sequence<Count / 2>{});
    std::uint64_t last = 0;
    if constexpr (Count % 2 != 0) last = static_cast<std::uint64_t>(a[Count - 1] ^ b[Count - 1]);
    return (different[0] | different[1] | last) == 0;
  }

  std::size_t mask_ = 0;
  std::unique_ptr<std::atomic<plan*>[]> slots_;  // NOLINT(modernize-avoid-c-arrays)
  std::vector<std::uint8_t> victims_;
};

}  // namespace switchyard::inline v0
