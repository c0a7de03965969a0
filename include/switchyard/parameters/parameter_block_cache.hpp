// SPDX-License-Identifier: MIT
// Parameter blocks and tensor maps that were made for earlier calls, in a set-associative table that readers
// search without locks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <switchyard/base/dim3.hpp>
#include <switchyard/parameters/argument_key.hpp>
#include <switchyard/parameters/launch_layout.hpp>

namespace switchyard {
inline namespace v0 {

/// What was made of one launch for certain arguments. Its launch's parameters are bound to `parameter_block`
/// as to one that was made for the call; the tensor maps follow it.
struct kept_block {
  std::uint64_t hash = 0;                           ///< of the query that it is found by
  std::uint64_t owner = 0;                          ///< the launch's number
  const void* workspace = nullptr;                  ///< null where the parameter block has no address of it
  dim3 grid;                                        ///< where the launch's grid reads arguments
  const parameter_line* parameter_block = nullptr;  ///< in `lines`
  const parameter_line* maps = nullptr;             ///< in `lines`
  std::vector<parameter_line> lines;  ///< the arguments under the key's masks, the parameter block, the maps
};

/// What a call looks a kept parameter block up by.
struct block_query {
  std::uint64_t owner = 0;
  const argument_key* key = nullptr;
  const std::byte* arguments = nullptr;
  const void* workspace = nullptr;
};

/// Kept parameter blocks, by launch and by the arguments that they depend on besides the problem: base
/// pointers, strides and what else no axis holds. Bounded, and nothing is kept for arguments that come but
/// once. Any thread may enter, holding a guard of the owner's reclaimer; who displaces an entry retires it
/// there.
class parameter_block_cache {
 public:
  /// Keys that differ only in bytes that the hash does not read fall into one set, for example calls with
  /// several strides on the same tensors. A set has room for a few such groups; a set that is too small would
  /// rebuild its blocks at every call.
  static constexpr std::size_t ways = 8;
  static constexpr unsigned set_bits = 9;
  static constexpr std::size_t seen_ways = 4;
  static constexpr unsigned seen_bits = 10;

  parameter_block_cache() = default;
  parameter_block_cache(const parameter_block_cache&) = delete;
  parameter_block_cache& operator=(const parameter_block_cache&) = delete;
  ~parameter_block_cache() {
    for (auto& slot : slots_) delete slot.load(std::memory_order_relaxed);
  }

  [[nodiscard, gnu::always_inline]] static inline std::uint64_t hash(const block_query& of) noexcept {
    vector sum{};
    const auto add = [&sum](const vector& part, std::size_t) __attribute__((always_inline)) {
      sum += part;
    };
    if (of.key->hashed != 0) {
      const argument_key::mask* const masks = &of.key->masks[of.key->hashed];
      const std::byte* const parts = of.arguments + of.key->first + (of.key->hashed - 1) * part_bytes;
      visit(parts, masks[0], 0, add);
      visit(parts + part_bytes, masks[1], 0, add);
      visit(parts + 2 * part_bytes, masks[2], 0, add);
      visit(parts + 3 * part_bytes, masks[3], 0, add);
      static_assert(argument_key::max_hashed == 4);
    } else {
      for_each_part(of, add);
    }
    const half folded = __builtin_shufflevector(sum, sum, 0, 1) + __builtin_shufflevector(sum, sum, 3, 2);
    std::uint64_t mixed = folded[0] + reinterpret_cast<std::uintptr_t>(of.workspace) +
                          (folded[1] ^ of.owner) * 0x9e3779b97f4a7c15U;
    mixed ^= mixed >> 32U;  // pointers differ in their middle
    return mixed * 0xd6e8feb86659fd93U;
  }

  /// A parameter block that was kept, by its query and the query's hash; or null.
  [[nodiscard, gnu::always_inline]] inline const kept_block* find(std::uint64_t hash,
                                                                  const block_query& of) const noexcept {
    const std::atomic<kept_block*>* set = &slots_[(hash >> (64 - set_bits)) * ways];
    for (std::size_t way = 0; way < ways; ++way) {
      // Sequentially consistent, for the reclaimer's proof; on x86-64 it is an ordinary load.
      const kept_block* const found = set[way].load(std::memory_order_seq_cst);
      if (found == nullptr || found->hash != hash) continue;
      vector different{};
      const std::byte* const key = found->lines.front().bytes.data();
      for_each_part(
          of, [&different, key ](const vector& part, std::size_t at) __attribute__((always_inline)) {
            vector kept;
            __builtin_memcpy(&kept, key + at, sizeof kept);
            different |= part ^ kept;
          });
      const half folded = __builtin_shufflevector(different, different, 0, 1) |
                          __builtin_shufflevector(different, different, 2, 3);
      // What is equal needs no branch of its own: hashes of different queries seldom meet.
      if ((folded[0] | folded[1] | (found->owner ^ of.owner) |
           (reinterpret_cast<std::uintptr_t>(found->workspace) ^
            reinterpret_cast<std::uintptr_t>(of.workspace))) == 0)
        return found;
    }
    return nullptr;
  }

  /// Whether arguments were asked about before, as far as it is remembered. The first time it is noted, and
  /// the oldest of its set forgotten.
  [[nodiscard]] bool seen_before(std::uint64_t hash, const block_query& of) noexcept {
    vector sum{};
    for_each_part(of, [&sum](const vector& part, std::size_t) { sum = (sum << 9U | sum >> 55U) + part; });
    for (std::size_t i = 0; i < sizeof sum / sizeof sum[0]; ++i)
      hash = (hash ^ sum[i]) * 0x9e3779b97f4a7c15U + (hash >> 32U);
    hash *= 0xd6e8feb86659fd93U;
    std::atomic<std::uint32_t>* const set = &seen_[(hash >> (64 - seen_bits)) * seen_ways];
    const auto mark = static_cast<std::uint32_t>(hash) | 1U;
    for (std::size_t way = 0; way < seen_ways; ++way) {
      if (set[way].load(std::memory_order_relaxed) == mark) return true;
    }
    for (std::size_t way = seen_ways - 1; way > 0; --way)
      set[way].store(set[way - 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
    set[0].store(mark, std::memory_order_relaxed);
    return false;
  }

  /// An entry for a query, of a parameter block and of maps that fit its launch.
  [[nodiscard]] static std::unique_ptr<kept_block> make(const block_query& of,
                                                        std::span<const parameter_line> parameter_block,
                                                        std::span<const parameter_line> maps,
                                                        const dim3& grid) {
    auto out = std::make_unique<kept_block>();
    out->owner = of.owner;
    out->workspace = of.workspace;
    out->grid = grid;
    const std::size_t key_lines =
        (of.key->masks.size() * part_bytes + sizeof(parameter_line) - 1) / sizeof(parameter_line);
    out->lines.resize(key_lines + parameter_block.size() + maps.size());
    parameter_line* const to = out->lines.data();
    std::byte* const key = to->bytes.data();
    for_each_part(
        of, [key](const vector& part, std::size_t at) { __builtin_memcpy(key + at, &part, sizeof part); });
    out->parameter_block = to + key_lines;
    out->maps = out->parameter_block + parameter_block.size();
    for (std::size_t i = 0; i < parameter_block.size(); ++i) to[key_lines + i] = parameter_block[i];
    for (std::size_t i = 0; i < maps.size(); ++i) to[key_lines + parameter_block.size() + i] = maps[i];
    return out;
  }

  /// Publishes an entry; returns the one that had to make room, or null.
  [[nodiscard]] kept_block* insert(std::uint64_t hash, std::unique_ptr<kept_block> entry) noexcept {
    kept_block* const fresh = entry.release();
    fresh->hash = hash;
    const std::size_t set = hash >> (64 - set_bits);
    for (std::size_t way = 0; way < ways; ++way) {
      kept_block* none = nullptr;
      if (slots_[set * ways + way].compare_exchange_strong(none, fresh, std::memory_order_seq_cst))
        return nullptr;
    }
    const std::size_t way = victim_.fetch_add(1, std::memory_order_relaxed) % ways;
    return slots_[set * ways + way].exchange(fresh, std::memory_order_seq_cst);
  }

 private:
  using vector = std::uint64_t __attribute__((vector_size(32)));
  using half = std::uint64_t __attribute__((vector_size(16)));

  static constexpr std::size_t part_bytes = sizeof(argument_key::mask);
  static_assert(sizeof(vector) == part_bytes);

  /// Calls `take` with a part of the arguments under its mask, and with its place in a key in bytes.
  template <class Visitor>
  [[gnu::always_inline]] static inline void visit(const std::byte* part, const argument_key::mask& mask,
                                                  std::size_t index, const Visitor& take) noexcept {
    vector value;
    vector under;
    __builtin_memcpy(&value, part, sizeof value);
    __builtin_memcpy(&under, mask.data(), sizeof under);
    value &= under;
    take(value, index * part_bytes);
  }

  /// The same for each part. Straight code for up to 17 parts: a loop takes twice as many instructions.
  template <class Visitor>
  [[gnu::always_inline]] static inline void for_each_part(const block_query& of,
                                                          const Visitor& take) noexcept {
    const argument_key::mask* const masks = of.key->masks.data();
    const std::byte* const parts = of.arguments + of.key->first;
    std::size_t left = of.key->others;
    visit(of.arguments + of.key->last, masks[0], 0, take);
    for (; left > 16; --left) [[unlikely]] visit(parts + (left - 1) * part_bytes, masks[left], left, take);
    // NOLINTBEGIN(bugprone-branch-clone): each case goes on with the next
    switch (left) {
      case 16:
        visit(parts + 15 * part_bytes, masks[16], 16, take);
        [[fallthrough]];
      case 15:
        visit(parts + 14 * part_bytes, masks[15], 15, take);
        [[fallthrough]];
      case 14:
        visit(parts + 13 * part_bytes, masks[14], 14, take);
        [[fallthrough]];
      case 13:
        visit(parts + 12 * part_bytes, masks[13], 13, take);
        [[fallthrough]];
      case 12:
        visit(parts + 11 * part_bytes, masks[12], 12, take);
        [[fallthrough]];
      case 11:
        visit(parts + 10 * part_bytes, masks[11], 11, take);
        [[fallthrough]];
      case 10:
        visit(parts + 9 * part_bytes, masks[10], 10, take);
        [[fallthrough]];
      case 9:
        visit(parts + 8 * part_bytes, masks[9], 9, take);
        [[fallthrough]];
      case 8:
        visit(parts + 7 * part_bytes, masks[8], 8, take);
        [[fallthrough]];
      case 7:
        visit(parts + 6 * part_bytes, masks[7], 7, take);
        [[fallthrough]];
      case 6:
        visit(parts + 5 * part_bytes, masks[6], 6, take);
        [[fallthrough]];
      case 5:
        visit(parts + 4 * part_bytes, masks[5], 5, take);
        [[fallthrough]];
      case 4:
        visit(parts + 3 * part_bytes, masks[4], 4, take);
        [[fallthrough]];
      case 3:
        visit(parts + 2 * part_bytes, masks[3], 3, take);
        [[fallthrough]];
      case 2:
        visit(parts + 1 * part_bytes, masks[2], 2, take);
        [[fallthrough]];
      case 1:
        visit(parts, masks[1], 1, take);
        [[fallthrough]];
      default:
        break;
    }
    // NOLINTEND(bugprone-branch-clone)
  }

  std::array<std::atomic<kept_block*>, (std::size_t{1} << set_bits) * ways> slots_{};
  std::array<std::atomic<std::uint32_t>, (std::size_t{1} << seen_bits) * seen_ways> seen_{};
  std::atomic<std::size_t> victim_{0};
};

}  // namespace v0
}  // namespace switchyard
