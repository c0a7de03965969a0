// SPDX-License-Identifier: MIT
// The bodies of compare_results.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/dtype.hpp>
#include <switchyard/base/float16.hpp>
#include <switchyard/base/float8.hpp>
#include <switchyard/base/text.hpp>
#include <switchyard/base/tolerance.hpp>
#include <switchyard/launching/compare_results.hpp>
#include <switchyard/tensors/result_tensor.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

template <class Value>
[[nodiscard]] Value element_at(const std::byte* at) noexcept {
  Value out;  // NOLINT(cppcoreguidelines-pro-type-member-init): read below
  std::memcpy(&out, at, sizeof out);
  return out;
}

/// An element of a floating-point type.
[[nodiscard]] inline double floating_at(dtype type, const std::byte* at) noexcept {
  switch (type) {
    case dtype::f16:
      return static_cast<double>(f16_to_float(element_at<std::uint16_t>(at)));
    case dtype::bf16:
      return static_cast<double>(bf16_to_float(element_at<std::uint16_t>(at)));
    case dtype::f64:
      return element_at<double>(at);
    case dtype::f8_e4m3:
      return static_cast<double>(f8_e4m3_to_float(element_at<std::uint8_t>(at)));
    default:
      return static_cast<double>(element_at<float>(at));
  }
}

[[nodiscard]] inline bool is_floating(dtype type) noexcept {
  return type == dtype::f16 || type == dtype::bf16 || type == dtype::f32 || type == dtype::f64 ||
         type == dtype::f8_e4m3;
}

/// Calls visit(offset of a row in bytes, elements, bytes from one to the next) for each row of a tensor.
template <class Visitor>
void for_each_row(const result_tensor& of, const Visitor& visit) {
  const std::int64_t size = size_of(of.dtype);
  if (of.bytes == 0) return;
  if (of.rank == 0) return visit(std::size_t{0}, std::int64_t{1}, std::int64_t{0});
  std::array<std::int64_t, max_rank> at{};
  for (;;) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i + 1 < of.rank; ++i) offset += at[i] * of.strides[i];
    visit(static_cast<std::size_t>(offset * size), of.extents[of.rank - 1], of.strides[of.rank - 1] * size);
    std::size_t dim = of.rank - 1;
    while (dim > 0 && ++at[dim - 1] == of.extents[dim - 1]) at[--dim] = 0;
    if (dim == 0) return;
  }
}

/// The magnitudes of two results, from which their tolerance follows.
struct magnitudes {
  double square_sum = 0;
  double count = 0;

  void add(double value) noexcept {
    if (!std::isfinite(value)) return;
    square_sum += value * value;
    count += 1;
  }
  [[nodiscard]] double root_mean_square() const noexcept {
    return count > 0 ? std::sqrt(square_sum / count) : 0;
  }
};

[[nodiscard]] inline double tolerance_of(dtype type, double magnitude) noexcept {
  constexpr std::int64_t terms = std::int64_t{1} << 20U;
  const double unit = type == dtype::f8_e4m3 ? 0x1p-3 : unit_of(type);
  return 2 * (4 * unit * magnitude + arithmetic_error(terms, magnitude) + smallest_of(type));
}

SWITCHYARD_COLD std::string describe_difference(const result_tensor& of, const std::byte* one,
                                                const std::byte* other) {
  const auto size = static_cast<std::size_t>(size_of(of.dtype));
  const bool floats = is_floating(of.dtype);
  magnitudes all;
  if (floats) {
    for_each_row(of, [&](std::size_t first, std::int64_t count, std::int64_t step) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::size_t at = first + static_cast<std::size_t>(i * step);
        all.add(floating_at(of.dtype, one + at));
        all.add(floating_at(of.dtype, other + at));
      }
    });
  }
  const double least = all.root_mean_square();
  std::uint64_t wrong = 0;
  std::uint64_t compared = 0;
  std::string first_wrong;
  const auto note = [&](const std::string& text) {
    if (wrong++ == 0) first_wrong = text;
  };
  for_each_row(of, [&](std::size_t first, std::int64_t count, std::int64_t step) {
    double largest = least;
    const auto offset = [&](std::int64_t i) { return first + static_cast<std::size_t>(i * step); };
    for (std::int64_t i = 0; floats && i < count; ++i) {
      for (const std::byte* const from : {one, other}) {
        const double value = std::abs(floating_at(of.dtype, from + offset(i)));
        if (std::isfinite(value)) largest = std::max(largest, value);
      }
    }
    const double allowed = std::max(tolerance_of(of.dtype, largest), of.tolerance * largest);
    for (std::int64_t i = 0; i < count; ++i, ++compared) {
      const std::size_t at = offset(i);
      if (std::memcmp(one + at, other + at, size) == 0) continue;
      if (!floats) {
        note("element " + std::to_string(at / size) + " differs");
        continue;
      }
      const double a = floating_at(of.dtype, one + at);
      const double b = floating_at(of.dtype, other + at);
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= allowed) continue;
      note("element " + std::to_string(at / size) + " is " + text::number(a) + " and " + text::number(b) +
           ", within " + text::number(allowed) + " is allowed");
    }
  });
  if (wrong == 0) return {};
  return std::string{of.name} + ": " + std::to_string(wrong) + " of " + std::to_string(compared) +
         " values differ; " + first_wrong;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
