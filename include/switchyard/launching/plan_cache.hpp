// What a binding keeps for calls to come, in set-associative tables of pointers that readers search without
// locks: plans, and the tensor maps that were encoded for them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <switchyard/launching/plan.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

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
      for (std::size_t i = 0; i < problem.size(); ++i) same = same && found->problem.data()[i] == problem[i];
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

/// The tensor maps of one launch, encoded for certain arguments.
struct encoded_maps {
  std::uint64_t owner = 0;                ///< planned_launch::map_owner
  std::vector<argument_part::bytes> key;  ///< the parts of the arguments
  std::vector<image_line> maps;           ///< two lines each
};

/// Encoded tensor maps, by launch and by the arguments they depend on: base pointers, and what no axis holds.
/// Bounded, and nothing is kept for arguments that come but once. Any thread may enter, holding a guard of
/// the owner's reclaimer; who displaces an entry retires it there.
class tensor_map_cache {
 public:
  static constexpr std::size_t ways = 4;
  static constexpr unsigned set_bits = 8;
  static constexpr unsigned seen_bits = 10;

  tensor_map_cache() = default;
  tensor_map_cache(const tensor_map_cache&) = delete;
  tensor_map_cache& operator=(const tensor_map_cache&) = delete;
  ~tensor_map_cache() {
    for (auto& slot : slots_) delete slot.load(std::memory_order_relaxed);
  }

  /// Hash of a call's arguments, by those that are pointers.
  [[nodiscard]] static std::uint64_t hash(const planned_launch& of, const std::byte* arguments) noexcept {
    argument_part::bytes sum{};
    for (std::size_t i = 0; i < of.map_hash_parts; ++i) sum += read(of.map_key[i], arguments);
    std::uint64_t mixed = sum[0] + (sum[1] ^ of.map_owner) * 0x9e3779b97f4a7c15U;
    mixed ^= mixed >> 32U;  // pointers differ in their middle
    return mixed * 0xd6e8feb86659fd93U;
  }

  [[nodiscard]] const encoded_maps* find(std::uint64_t hash, const planned_launch& of,
                                         const std::byte* arguments) const noexcept {
    const std::atomic<encoded_maps*>* set = &slots_[(hash >> (64 - set_bits)) * ways];
    for (std::size_t way = 0; way < ways; ++way) {
      // Sequentially consistent, for the reclaimer's proof; on x86-64 it is an ordinary load.
      const encoded_maps* const found = set[way].load(std::memory_order_seq_cst);
      if (found == nullptr || found->owner != of.map_owner) continue;
      argument_part::bytes different{};
      const argument_part::bytes* wanted = found->key.data();
      for (const argument_part& part : of.map_key) different |= *wanted++ ^ read(part, arguments);
      if ((different[0] | different[1]) == 0) return found;
    }
    return nullptr;
  }

  /// The parts of a call's arguments that its maps depend on.
  [[nodiscard]] static std::vector<argument_part::bytes> read_key(const planned_launch& of,
                                                                  const std::byte* arguments) {
    std::vector<argument_part::bytes> out;
    for (const argument_part& part : of.map_key) out.push_back(read(part, arguments));
    return out;
  }

  /// Whether these arguments were asked about before, as far as it is remembered. The first time it is noted.
  [[nodiscard]] bool seen_before(std::uint64_t hash, const std::vector<argument_part::bytes>& key) noexcept {
    for (const argument_part::bytes& part : key)
      hash = (hash ^ part[0]) * 0x9e3779b97f4a7c15U + (part[1] ^ hash >> 32U);
    hash *= 0xd6e8feb86659fd93U;
    std::atomic<std::uint32_t>* const set = &seen_[(hash >> (64 - seen_bits)) * ways];
    const auto mark = static_cast<std::uint32_t>(hash) | 1U;
    for (std::size_t way = 0; way < ways; ++way) {
      if (set[way].load(std::memory_order_relaxed) == mark) return true;
    }
    // The oldest goes.
    for (std::size_t way = ways - 1; way > 0; --way)
      set[way].store(set[way - 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
    set[0].store(mark, std::memory_order_relaxed);
    return false;
  }

  /// Publishes an entry; returns the one that had to make room, or null.
  [[nodiscard]] encoded_maps* insert(std::uint64_t hash, encoded_maps* fresh) noexcept {
    const std::size_t set = hash >> (64 - set_bits);
    for (std::size_t way = 0; way < ways; ++way) {
      encoded_maps* none = nullptr;
      if (slots_[set * ways + way].compare_exchange_strong(none, fresh, std::memory_order_seq_cst))
        return nullptr;
    }
    const std::size_t way = victim_.fetch_add(1, std::memory_order_relaxed) % ways;
    return slots_[set * ways + way].exchange(fresh, std::memory_order_seq_cst);
  }

 private:
  [[nodiscard]] static argument_part::bytes read(const argument_part& part,
                                                 const std::byte* arguments) noexcept {
    argument_part::bytes out;
    __builtin_memcpy(&out, arguments + part.offset, sizeof out);
    return out & part.mask;
  }

  std::array<std::atomic<encoded_maps*>, (std::size_t{1} << set_bits) * ways> slots_{};
  std::array<std::atomic<std::uint32_t>, (std::size_t{1} << seen_bits) * ways> seen_{};
  std::atomic<std::size_t> victim_{0};
};

}  // namespace v0
}  // namespace switchyard
