// Tensor maps that were encoded for earlier calls, in a set-associative table that readers search without
// locks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/launching/plan.hpp>

namespace switchyard {
inline namespace v0 {

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
    for (std::size_t i = 0; i < of.layout->map_hash_parts; ++i) sum += read(of.layout->map_key[i], arguments);
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
      for (const argument_part& part : of.layout->map_key) different |= *wanted++ ^ read(part, arguments);
      if ((different[0] | different[1]) == 0) return found;
    }
    return nullptr;
  }

  /// The parts of a call's arguments that its maps depend on.
  [[nodiscard]] static std::vector<argument_part::bytes> read_key(const planned_launch& of,
                                                                  const std::byte* arguments) {
    std::vector<argument_part::bytes> out;
    for (const argument_part& part : of.layout->map_key) out.push_back(read(part, arguments));
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
