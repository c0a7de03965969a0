// SPDX-License-Identifier: MIT
// The counter-based generator Philox4x32-10: random words as a pure function of a counter and a key, so that
// every backend drops the same elements, in any order.
//
// Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace switchyard {
inline namespace v0 {

using philox_counter = std::array<std::uint32_t, 4>;
using philox_key = std::array<std::uint32_t, 2>;

/// Four random words of a counter under a key.
[[nodiscard]] constexpr philox_counter philox4x32_10(philox_counter counter, philox_key key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t odd = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(odd),
               static_cast<std::uint32_t>(even >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(even)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// Words below this drop their element: floor(p * 2^32), for p in [0, 1).
[[nodiscard]] constexpr std::uint32_t dropout_threshold(float p) noexcept {
  return static_cast<std::uint32_t>(static_cast<double>(p) * 4294967296.0);
}

/// The random words that decide attention's elements (row, 4 * quad) to (row, 4 * quad + 3) of one head;
/// `head` counts over batch and heads. The definition is in operators/attention_forward.hpp.
[[nodiscard]] constexpr philox_counter dropout_words(std::uint64_t seed, std::uint64_t offset,
                                                     std::uint32_t head, std::uint32_t row,
                                                     std::uint32_t quad) noexcept {
  const philox_key key{static_cast<std::uint32_t>(seed),
                       static_cast<std::uint32_t>(seed >> 32) ^ static_cast<std::uint32_t>(offset >> 32)};
  return philox4x32_10({quad, row, head, static_cast<std::uint32_t>(offset)}, key);
}

}  // namespace v0
}  // namespace switchyard
