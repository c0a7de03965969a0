// SPDX-License-Identifier: MIT
// Erased problems: hashing, and their text form "dtype=bf16 head_dim=128 batch=4".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/compiled.hpp>
#include <switchyard/operator_description.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

// One more than axes: for conditions on arguments.
inline constexpr std::size_t hash_factor_count = max_axes + 1;

[[nodiscard]] constexpr std::array<std::uint64_t, hash_factor_count> make_hash_factors() noexcept {
  std::array<std::uint64_t, hash_factor_count> factors{};
  std::uint64_t state = 0x9e3779b97f4a7c15;
  for (auto& factor : factors) {  // SplitMix64 (Steele, Lea, Flood)
    state += 0x9e3779b97f4a7c15;
    std::uint64_t z = state;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111eb;
    factor = (z ^ (z >> 31U)) | 1U;
  }
  return factors;
}

inline constexpr std::array<std::uint64_t, hash_factor_count> hash_factors = make_hash_factors();

}  // namespace detail

/// Hash of axis values, of rows for example; plans are found by a problem_key. A sum of products, so that the
/// terms are computed side by side. Its upper half is the one to use: the lowest bits depend on the values'
/// lowest bits alone.
[[nodiscard]] inline std::uint64_t hash(problem_view problem) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < problem.size(); ++i) {
    sum += static_cast<std::uint64_t>(problem[i]) * detail::hash_factors[i];
  }
  return sum;
}

/// A value as files and messages spell it: an enumerator's name, or the number.
[[nodiscard]] std::string format_value(const axis_description& axis, std::int64_t value);

/// The name that an axis or an argument has now. Everything that reads names from files asks here.
[[nodiscard]] inline std::string_view current_name(const operator_description& op,
                                                   std::string_view name) noexcept {
  for (const former_name& renamed : op.formerly) {
    if (renamed.former == name) return renamed.name;
  }
  return name;
}

/// Index of an axis by its name or a former one; the number of axes for a name that is none.
[[nodiscard]] inline std::uint32_t find_axis(const operator_description& op, std::string_view name) noexcept {
  name = current_name(op, name);
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    if (op.axes[i].name == name) return static_cast<std::uint32_t>(i);
  }
  return static_cast<std::uint32_t>(op.axes.size());
}

/// "axis=value" for every axis, in the operator's order.
[[nodiscard]] std::string format_problem(const operator_description& op, problem_view problem);

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/problem/problem_impl.hpp>
#endif
