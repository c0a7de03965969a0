// SPDX-License-Identifier: MIT
// The bodies of canary_selectors.hpp.
#pragma once

#include <cstdint>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/serving/canary_selectors.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_FUNCTION bool is_of_canary(std::string_view operator_name, problem_view problem,
                                      double share) noexcept {
  // FNV-1a over 64-bit words, then SplitMix64's last steps, which spread it over all bits.
  constexpr std::uint64_t prime = 0x100000001b3;
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char character : operator_name) hash = (hash ^ static_cast<unsigned char>(character)) * prime;
  for (const std::int64_t value : problem) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * prime;
    hash ^= hash >> 32U;
  }
  hash = (hash ^ (hash >> 30U)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27U)) * 0x94d049bb133111eb;
  hash ^= hash >> 31U;
  return static_cast<double>(hash >> 11U) * 0x1p-53 < share;
}

}  // namespace v0
}  // namespace switchyard
