// SPDX-License-Identifier: MIT
// How the CPU's attention and decoding kernels are launched, as their search spaces have it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/host_blobs.hpp"

namespace switchyard::test {

[[nodiscard]] inline std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

[[nodiscard]] inline dim3 grid(std::int64_t x, std::int64_t y, std::int64_t z) {
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(z)};
}

/// The launches of one variant.
template <class Arguments>
struct way {
  std::string name;
  std::function<void(const blob&, const Arguments&)> run;
};

/// Bytes in which keys whose rotary columns lie apart are widened, `count` at a time; 0 for other keys.
template <class Arguments>
[[nodiscard]] std::int64_t widened_bytes(const Arguments& a, std::int64_t count) {
  if constexpr (requires { a.k_rotary; }) {
    if (a.k_rotary != nullptr) return 4 * count * round_up(a.head_dim, 32) + 64;
  }
  return 0;
}

/// The variants that both families have: rows of queries, keys split over blocks, and the reference.
/// `prefix` begins the kernels' names, which `types` ends; `tiles` are the sizes of the row kernels' tiles.
template <class Arguments, class Types>
[[nodiscard]] std::vector<way<Arguments>> common_ways(
    const std::string& prefix, const std::vector<std::pair<std::int32_t, std::int32_t>>& tiles,
    std::int32_t split_rows, const Types& types) {
  const auto tiles_of = [](const Arguments& a, std::int64_t m) {
    return (a.seqlen_q * (a.heads / a.heads_kv) + m - 1) / m;
  };
  const auto scratch = [](const Arguments& a, std::int64_t m, std::int64_t n) {
    return static_cast<std::size_t>(
        4 * (m * (round_up(a.head_dim, 32) + round_up(a.head_dim_v, 32) + n + 4) + 4 * n) + 512 +
        widened_bytes(a, n));
  };
  std::vector<way<Arguments>> result;
  for (const auto& tile : tiles) {
    const std::int32_t m = tile.first;
    const std::int32_t n = tile.second;
    result.push_back(
        {"rows " + std::to_string(m) + "x" + std::to_string(n), [=](const blob& from, const Arguments& a) {
           launch(from.find(prefix + "_rows_" + types(a)), grid(tiles_of(a, m), a.batch * a.heads_kv, 1),
                  scratch(a, m, n), a, m, n);
         }});
  }
  for (const int splits : {2, 7}) {
    result.push_back(
        {"split " + std::to_string(splits), [=](const blob& from, const Arguments& a) {
           const std::int32_t m = split_rows;
           constexpr std::int32_t n = 32;
           const auto parts = static_cast<std::size_t>(splits * a.batch * a.heads * a.seqlen_q);
           exact_array<float> partial(parts * static_cast<std::size_t>(a.head_dim_v));
           exact_array<float> states(parts * 2);
           std::fill_n(partial.data(), partial.size(), std::numeric_limits<float>::quiet_NaN());
           std::fill_n(states.data(), states.size(), std::numeric_limits<float>::quiet_NaN());
           float* partial_pointer = partial.data();
           float* states_pointer = states.data();
           launch(from.find(prefix + "_split_" + types(a)),
                  grid(splits, tiles_of(a, m), a.batch * a.heads_kv), scratch(a, m, n), a, m, n,
                  partial_pointer, states_pointer);
           launch(from.find(prefix + "_combine_" + type_name(a.dtype)), grid(a.seqlen_q, a.heads, a.batch),
                  static_cast<std::size_t>(4 * round_up(a.head_dim_v, 32) + 64), a, std::int32_t{splits},
                  static_cast<const float*>(partial_pointer), static_cast<const float*>(states_pointer));
         }});
  }
  result.push_back({"reference", [=](const blob& from, const Arguments& a) {
                      launch(from.find(prefix + "_reference_" + types(a)), grid(a.seqlen_q, a.heads, a.batch),
                             static_cast<std::size_t>(8 * a.head_dim_v + 64 + widened_bytes(a, 1)), a);
                    }});
  return result;
}

}  // namespace switchyard::test
