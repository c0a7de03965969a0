// SPDX-License-Identifier: MIT
// How far the strides of a call reach, for operators' check_memory(): a stride that leaves the address space
// is refused by name, before products of extents and strides overflow in a kernel.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include <switchyard/base/cpp20.hpp>
#include <switchyard/base/member.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators::reach {

/// Elements, or bytes: no program's memory has as many. Sums and products with sizes of elements stay far
/// below what 64 bits hold.
inline constexpr std::int64_t farthest = std::int64_t{1} << 47U;

/// Whether nothing of a call can be far away, by its largest stride and its largest extent: a few
/// instructions for each argument. Where it is false, the precise check follows.
template <class Arguments, auto... Members>
[[nodiscard, gnu::always_inline]] inline bool is_near(const Arguments& a,
                                                      detail::field_list<Members...> /*of*/) noexcept {
  std::int64_t strides = 1;
  std::int64_t extents = 1;
  const auto join = [&]<auto Member>() __attribute__((always_inline)) {
    if constexpr (std::is_same_v<detail::member_value<Member>, std::int64_t>) {
      constexpr std::string_view name = detail::member_name<Member>();
      constexpr bool is_stride =
          name.find("stride") != std::string_view::npos || name.find("row_bytes") != std::string_view::npos;
      const std::int64_t value = a.*Member;
      (is_stride ? strides : extents) |= value & ~(value >> 63U);  // what is not set counts as 0
    }
  };
  (join.template operator()<Members>(), ...);
  std::int64_t most = 0;
  return !__builtin_mul_overflow(strides, extents, &most) && most < farthest / 8;
}

/// A dimension of a tensor that a call uses. Without a stride, a number of elements.
struct dimension {
  std::string_view extent_name;
  std::int64_t extent = 0;
  std::string_view stride_name = {};
  std::int64_t stride = 1;
  bool is_used = true;
};

/// The first of them that leads too far, in words; empty where none does.
[[nodiscard, gnu::cold, gnu::noinline]] inline std::string wrong_dimension(
    std::initializer_list<dimension> all) {
  for (const dimension& dim : all) {
    std::int64_t last = 0;
    const bool is_far = dim.is_used && dim.extent > 1 && dim.stride > 0 &&
                        (__builtin_mul_overflow(dim.extent - 1, dim.stride, &last) || last >= farthest);
    if (!is_far) continue;
    std::string out = std::string{dim.extent_name} + " is " + std::to_string(dim.extent);
    if (!dim.stride_name.empty())
      out += " and " + std::string{dim.stride_name} + " " + std::to_string(dim.stride);
    return out + ": no memory reaches as far";
  }
  return {};
}

/// The stride of a tensor's rows.
struct row_stride {
  std::string_view name;
  std::int64_t stride = 0;
  bool is_used = true;
};

/// The same for tensors of rows and columns.
[[nodiscard, gnu::cold, gnu::noinline]] inline std::string wrong_rows(std::int64_t rows, std::int64_t columns,
                                                                      std::initializer_list<row_stride> all) {
  std::string out = wrong_dimension({{"columns", columns}, {"rows", rows}});
  for (const row_stride& row : all) {
    if (out.empty()) out = wrong_dimension({{"rows", rows, row.name, row.stride, row.is_used}});
  }
  return out;
}

}  // namespace operators::reach

}  // namespace v0
}  // namespace switchyard
