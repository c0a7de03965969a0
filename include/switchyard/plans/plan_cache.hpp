// SPDX-License-Identifier: MIT
// The plans of an operator state, in a hash table that readers search without locks.
//
// Writers hold their owner's lock. A writer that removes a plan retires it through a reclaimer, since readers
// may still be using it. A removed plan keeps its link, so that a reader standing on it can go on: the link
// leads to a plan that is still listed or was removed later. The reader's guard is older than either removal,
// so neither plan is freed before the reader leaves. Readers that come later reach neither.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <switchyard/operator.hpp>
#include <switchyard/plans/plan.hpp>
#include <switchyard/problem/problem_key.hpp>

namespace switchyard {
inline namespace v0 {

/// How many problems a dispatcher keeps plans for, on each device.
inline constexpr std::size_t default_plan_capacity = 4096;

class plan_cache {
 public:
  /// Holds exactly `capacity` plans, at least one: of as many problems, none is made twice.
  explicit plan_cache(std::size_t capacity) : capacity_{capacity > 0 ? capacity : 1} {
    std::size_t buckets = 1;
    while (buckets < 2 * capacity_) {
      buckets *= 2;
      --shift_;
    }
    shift_ += 1;
    buckets_ = std::make_unique<std::atomic<plan*>[]>(buckets);  // NOLINT(modernize-avoid-c-arrays)
  }
  plan_cache(const plan_cache&) = delete;
  plan_cache& operator=(const plan_cache&) = delete;

  /// The plan of a problem, or null. The caller holds a guard of the owner's reclaimer.
  template <std::size_t Parts>
  [[nodiscard, gnu::always_inline]] inline plan* find(std::uint64_t hash,
                                                      const key_of_parts<Parts>& key) const noexcept {
    // Sequentially consistent, for the reclaimer's proof; on x86-64 these are ordinary loads.
    plan* found = bucket_of(hash).load(std::memory_order_seq_cst);
    while (found != nullptr && !equal(*found, key)) found = found->next.load(std::memory_order_seq_cst);
    return found;
  }

  /// The first plan of the problem's bucket, or null: its plan most of the time.
  [[nodiscard, gnu::always_inline]] inline plan* first_of(std::uint64_t hash) const noexcept {
    return bucket_of(hash).load(std::memory_order_seq_cst);
  }
  template <std::size_t Parts>
  [[nodiscard, gnu::always_inline]] static inline bool is_of(const plan& kept,
                                                             const key_of_parts<Parts>& key) noexcept {
    return equal(kept, key);
  }

  /// By the operator's own axes, and the conditions on arguments.
  [[nodiscard]] plan* find(std::uint64_t hash, problem_view own, std::uint64_t conditions) const noexcept {
    return find_from(bucket_of(hash).load(std::memory_order_seq_cst), hash, own, conditions);
  }

  /// From the first plan of a key on, the one of the same problem but for these conditions on arguments; or
  /// null.
  [[nodiscard]] static plan* find_alike(plan& first, std::uint64_t conditions) noexcept {
    if (first.problem.conditions() == conditions) return &first;
    return find_from(first.next.load(std::memory_order_seq_cst), first.hash, first.problem.own(), conditions);
  }

  /// Publishes a plan of a problem that has none; returns the one that had to make room, or null.
  [[nodiscard]] plan* insert(plan* fresh) {
    if (kept_.size() < capacity_) {
      fresh->position = kept_.size();
      kept_.push_back(fresh);
      link(fresh);
      return nullptr;
    }
    // At random: problems in a longer cycle than the capacity then still find some of their plans.
    plan* const displaced = kept_[next_displaced()];
    replace(displaced, fresh);
    random_ = random_ * 6364136223846793005U + 1442695040888963407U;
    prefetch(*kept_[next_displaced()]);
    return displaced;
  }

  /// Publishes a plan in the place of one that is published.
  void replace(plan* old, plan* fresh) noexcept {
    fresh->position = old->position;
    kept_[fresh->position] = fresh;
    link(fresh);
    std::atomic<plan*>* from = &bucket_of(old->hash);
    while (from->load(std::memory_order_relaxed) != old) from = &from->load(std::memory_order_relaxed)->next;
    from->store(old->next.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  }

  /// Visits each plan that stays published meanwhile. The caller holds a guard of the owner's reclaimer.
  template <class Visitor>
  void for_each(const Visitor& visit) const {
    for (std::size_t i = 0; i < std::size_t{1} << (64 - shift_); ++i) {
      for (plan* kept = buckets_[i].load(std::memory_order_seq_cst); kept != nullptr;) {
        plan* const next = kept->next.load(std::memory_order_seq_cst);  // the visitor may delete the plan
        visit(*kept);
        kept = next;
      }
    }
  }

 private:
  [[nodiscard]] std::size_t next_displaced() const noexcept { return (random_ >> 33U) % kept_.size(); }

  /// Plans are many, so that the one which goes next has left the cache. The allocator soon hands its memory
  /// out again.
  static void prefetch(const plan& kept) noexcept {
    const auto* const begin = reinterpret_cast<const std::byte*>(&kept);
    for (std::size_t at = 0; at < sizeof(plan); at += 64) __builtin_prefetch(begin + at, 1);
  }

  [[nodiscard]] std::atomic<plan*>& bucket_of(std::uint64_t hash) const noexcept {
    return buckets_[hash >> shift_];
  }

  void link(plan* fresh) noexcept {
    std::atomic<plan*>& bucket = bucket_of(fresh->hash);
    fresh->next.store(bucket.load(std::memory_order_relaxed), std::memory_order_relaxed);
    bucket.store(fresh, std::memory_order_seq_cst);
  }

  [[nodiscard]] static plan* find_from(plan* found, std::uint64_t hash, problem_view own,
                                       std::uint64_t conditions) noexcept {
    while (found != nullptr &&
           (found->hash != hash || found->problem.conditions() != conditions ||
            __builtin_memcmp(found->problem.own().data(), own.data(), own.size_bytes()) != 0))
      found = found->next.load(std::memory_order_seq_cst);
    return found;
  }

  template <std::size_t Parts>
  [[nodiscard, gnu::always_inline]] static inline bool equal(const plan& kept,
                                                             const key_of_parts<Parts>& key) noexcept {
    const detail::key_part different = compare(kept, key, std::make_index_sequence<Parts>{});
    return (different[0] | different[1]) == 0;
  }

  // Functions instead of lambdas: GCC does not inline those here.
  template <std::size_t Parts, std::size_t... Part>
  [[nodiscard, gnu::always_inline]] static inline detail::key_part compare(
      const plan& kept, const key_of_parts<Parts>& key, std::index_sequence<Part...> /*all*/) noexcept {
    return ((kept.key[Part] ^ key[Part]) | ...);
  }

  std::size_t capacity_;
  unsigned shift_ = 63;                            // a hash without its upper bits
  std::unique_ptr<std::atomic<plan*>[]> buckets_;  // NOLINT(modernize-avoid-c-arrays)
  std::vector<plan*> kept_;                        // guarded by the owner's lock, as what follows
  std::uint64_t random_ = 0;
};

}  // namespace v0
}  // namespace switchyard
