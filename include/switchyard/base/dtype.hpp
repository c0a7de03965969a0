// SPDX-License-Identifier: MIT
// Element types of tensors, and the names of enumerators as files and messages spell them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace switchyard {
inline namespace v0 {

/// Element type of a tensor. The numeric values are part of the kernel ABI: kernels may receive them.
enum class dtype : std::int32_t {
  f16 = 0,
  bf16 = 1,
  f32 = 2,
  f64 = 3,
  f8_e4m3 = 4,
  f8_e5m2 = 5,
  i8 = 6,
  i32 = 7,
  i64 = 8
};

/// An element type that was not set.
inline constexpr dtype unset_dtype{-1};

/// Names of an enumeration's values, in order from 0, as manifests, tables and messages spell them.
/// An operator that has an axis of its own enumeration specialises this.
template <class Enumeration>
inline constexpr std::array<std::string_view, 0> enumerator_names{};

template <>
inline constexpr std::array<std::string_view, 9> enumerator_names<dtype>{
    "f16", "bf16", "f32", "f64", "f8_e4m3", "f8_e5m2", "i8", "i32", "i64"};
template <>
inline constexpr std::array<std::string_view, 2> enumerator_names<bool>{"false", "true"};

/// The name of an element type, as files and messages spell it; "?" for a value that is none.
[[nodiscard]] constexpr std::string_view name_of(dtype type) noexcept {
  const auto index = static_cast<std::uint32_t>(type);
  return index < enumerator_names<dtype>.size() ? enumerator_names<dtype>[index] : "?";
}

/// Size of one element in bytes.
[[nodiscard]] constexpr std::int64_t size_of(dtype type) noexcept {
  switch (type) {
    case dtype::f16:
    case dtype::bf16:
      return 2;
    case dtype::f32:
    case dtype::i32:
      return 4;
    case dtype::f64:
    case dtype::i64:
      return 8;
    case dtype::f8_e4m3:
    case dtype::f8_e5m2:
    case dtype::i8:
      return 1;
  }
  return 0;
}

namespace detail {

/// A power of two of them, so that an index is masked.
inline constexpr std::array<std::int64_t, 16> sizes_of_types{2, 2, 4, 8, 1, 1, 1, 4, 8};

/// The same without a branch, for a type that is legal.
[[nodiscard]] constexpr std::int64_t size_of_legal(dtype type) noexcept {
  return sizes_of_types[static_cast<std::uint32_t>(type) % sizes_of_types.size()];
}

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
