// SPDX-License-Identifier: MIT
// The operator y += a x. This struct is its whole description.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/operator.hpp>
#include <switchyard/tensor_call.hpp>

namespace engine {

struct axpy {
  static constexpr std::string_view name = "axpy";

  struct arguments {
    float a = 0;
    const void* x = nullptr;
    void* y = nullptr;
    std::int64_t n = 0;
    switchyard::dtype dtype = switchyard::dtype::f32;
  };

  /// The arguments that manifests may name.
  static constexpr auto fields =
      switchyard::fields<&arguments::a, &arguments::x, &arguments::y, &arguments::n, &arguments::dtype>;

  /// x and y are [n], dense: `axpy::call(x, y, {.a = 3})` gives the arguments, and says where tensors
  /// disagree.
  using x_view = switchyard::view<&arguments::x, &arguments::dtype, switchyard::dim<&arguments::n>>;
  using y_view = switchyard::view<&arguments::y, &arguments::dtype, switchyard::dim<&arguments::n>>;
  static constexpr switchyard::tensor_call<arguments, x_view, y_view> call{name};

  /// What a choice may depend on. The derived axis makes null and misaligned pointers part of the problem.
  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(), switchyard::size_axis<&arguments::n>(),
      switchyard::type_axis("alignment",
                            [](const arguments& a) noexcept { return switchyard::alignment_of(a.x, a.y); }));

  /// Returns what is wrong with a call, or an empty string. Runs once for each new problem.
  [[nodiscard]] static std::string check(const arguments& a) {
    if (a.dtype != switchyard::dtype::f32 && a.dtype != switchyard::dtype::f64)
      return "dtype must be f32 or f64";
    if (a.n < 0) return "n must not be negative";
    if (a.n > 0 && switchyard::alignment_of(a.x, a.y) == 0) return "x and y must not be null";
    return {};
  }
};

}  // namespace engine
