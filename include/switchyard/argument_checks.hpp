// SPDX-License-Identifier: MIT
// The messages that check() of several operators shares: strides, addresses and magnitudes.
// base/alignment.hpp marks the calls that must be checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/alignment.hpp>
#include <switchyard/base/checked_product.hpp>
#include <switchyard/base/member.hpp>

namespace switchyard {
inline namespace v0 {

/// Names of the strides that are not set or negative; empty where all are legal. For an operator's check().
template <auto... Strides, class Arguments>
[[nodiscard]] std::string wrong_strides(const Arguments& arguments) {
  if (((arguments.*Strides >= 0) && ...)) return {};  // a name takes a hundred instructions to find
  std::string out;
  const auto look = [&](std::string_view name, std::int64_t stride) {
    if (stride >= 0 || !out.empty()) return;
    out = std::string{name} + (stride == unset ? " is not set"
                               : stride == detail::too_large
                                   ? " is above what 64 bits hold: the extents are too large"
                                   : " must not be negative: it is " + std::to_string(stride));
  };
  (look(detail::member_name<Strides>(), arguments.*Strides), ...);
  return out;
}

/// The name of a pointer that is no multiple of its element size; empty where all are. For an operator's
/// check(); see mark_misaligned.
template <auto... Pointers, class Arguments>
[[nodiscard]] std::string wrong_addresses(const Arguments& arguments) {
  std::string out;
  const auto look = [&](std::string_view name, const auto* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (address % sizeof *pointer == 0 || !out.empty()) return;
    out = std::string{name} + " must be aligned to its element size, " + std::to_string(sizeof *pointer) +
          " bytes: its address is " + std::to_string(address % sizeof *pointer) + " bytes past a multiple";
  };
  (look(detail::member_name<Pointers>(), arguments.*Pointers), ...);
  return out;
}

/// What is wrong with a float that must be finite and not negative; empty where nothing is. For an operator's
/// check(); see mark_unless_positive.
[[nodiscard]] inline std::string wrong_magnitude(std::string_view name, float value) {
  if (mark_unless_positive(value) >= 0) return {};
  return std::string{name} + " must be finite and not negative: it is " + std::to_string(value);
}

}  // namespace v0
}  // namespace switchyard
