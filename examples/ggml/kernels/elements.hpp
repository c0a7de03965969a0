// SPDX-License-Identifier: MIT
// Element-wise operations and copies of tensors with up to four dimensions, as ggml's graphs have them:
//
//   out[i] = function(a[i], b[i mod extent of b])
//
// Values are read as f32 and rounded once; a copy between tensors of one type keeps the bits. Strides are in
// bytes. The first dimension is the innermost.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>

#include "element_functions.hpp"

namespace switchyard_ggml {

/// The values are part of the kernel ABI. element_functions.hpp says what each computes.
enum class element_function : std::int32_t {
#define SWITCHYARD_GGML_ENUMERATOR(name, expression) name,
  SWITCHYARD_GGML_UNARY_FUNCTIONS(SWITCHYARD_GGML_ENUMERATOR)
      SWITCHYARD_GGML_BINARY_FUNCTIONS(SWITCHYARD_GGML_ENUMERATOR)
#undef SWITCHYARD_GGML_ENUMERATOR
};

struct elements {
  static constexpr std::string_view name = "ggml_elements";

  struct arguments {
    const void* a = nullptr;
    const void* b = nullptr;  ///< null for functions of one tensor
    void* out = nullptr;      ///< may be a or b, with the same strides

    std::int64_t extent[4] = {1, 1, 1, 1};    // NOLINT(modernize-avoid-c-arrays): fields of manifests
    std::int64_t b_extent[4] = {1, 1, 1, 1};  // NOLINT(modernize-avoid-c-arrays): divide those of out
    std::int64_t a_stride[4] = {};            // NOLINT(modernize-avoid-c-arrays)
    std::int64_t b_stride[4] = {};            // NOLINT(modernize-avoid-c-arrays)
    std::int64_t out_stride[4] = {};          // NOLINT(modernize-avoid-c-arrays)

    float p = 0;
    float q = 0;
    switchyard::dtype a_dtype = switchyard::dtype::f32;
    switchyard::dtype b_dtype = switchyard::dtype::f32;
    switchyard::dtype out_dtype = switchyard::dtype::f32;
    element_function function = element_function::copy;

    [[nodiscard]] bool is_binary() const noexcept { return function >= element_function::add; }
    [[nodiscard]] std::int64_t columns() const noexcept { return extent[0]; }
    [[nodiscard]] std::int64_t rows() const noexcept { return extent[1] * extent[2] * extent[3]; }
    /// Whether four neighbours of a row lie together in every tensor, at a multiple of their bytes.
    [[nodiscard]] bool wide() const noexcept {
      constexpr std::int64_t neighbours = 4;
      const auto lies_wide = [this](const void* data, const std::int64_t* stride, switchyard::dtype type) {
        const std::int64_t bytes = switchyard::size_of(type);
        std::uintptr_t places = reinterpret_cast<std::uintptr_t>(data);
        for (int d = 1; d < 4; ++d) {
          if (extent[d] != 1) places |= static_cast<std::uintptr_t>(stride[d]);
        }
        return bytes <= 4 && stride[0] == bytes &&
               places % static_cast<std::uintptr_t>(neighbours * bytes) == 0;
      };
      if (extent[0] % neighbours != 0 || !lies_wide(a, &a_stride[0], a_dtype) ||
          !lies_wide(out, &out_stride[0], out_dtype))
        return false;
      return !is_binary() || b_extent[0] == 1 ||
             (b_extent[0] % neighbours == 0 && lies_wide(b, &b_stride[0], b_dtype));
    }
    /// Whether no tensor is missing.
    [[nodiscard]] bool complete() const noexcept {
      return a != nullptr && out != nullptr && (b != nullptr || !is_binary());
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::a, &arguments::b, &arguments::out, &arguments::extent,
                         &arguments::b_extent, &arguments::a_stride, &arguments::b_stride,
                         &arguments::out_stride, &arguments::p, &arguments::q, &arguments::a_dtype,
                         &arguments::b_dtype, &arguments::out_dtype, &arguments::function>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::function>(), switchyard::type_axis<&arguments::a_dtype>(),
      switchyard::type_axis<&arguments::b_dtype>(), switchyard::type_axis<&arguments::out_dtype>(),
      switchyard::type_axis<&arguments::wide>(), switchyard::type_axis<&arguments::complete>(),
      switchyard::size_axis<&arguments::rows>(), switchyard::size_axis<&arguments::columns>());

  [[nodiscard]] static std::string check(const arguments& a) {
    const auto is_real = [](switchyard::dtype type) {
      return type == switchyard::dtype::f32 || type == switchyard::dtype::f16 ||
             type == switchyard::dtype::bf16;
    };
    const auto is_whole = [](switchyard::dtype type) {
      return type == switchyard::dtype::i32 || type == switchyard::dtype::i64;
    };
    if (!a.complete()) return "a, out, and b of functions of two tensors, must not be null";
    if (a.function == element_function::copy) {
      const bool is_same = a.a_dtype == a.out_dtype && (is_real(a.a_dtype) || is_whole(a.a_dtype));
      const bool is_number = (is_real(a.a_dtype) || a.a_dtype == switchyard::dtype::i32) &&
                             (is_real(a.out_dtype) || a.out_dtype == switchyard::dtype::i32);
      if (!is_same && !is_number) return "a copy takes f32, f16, bf16 and i32, and i64 to i64";
      return {};
    }
    if (!is_real(a.a_dtype) || !is_real(a.out_dtype) || (a.is_binary() && !is_real(a.b_dtype)))
      return "a, b and out must be f32, f16 or bf16";
    return {};
  }
};

}  // namespace switchyard_ggml

namespace switchyard {
inline namespace v0 {
template <>
inline constexpr std::array<std::string_view, 37> enumerator_names<switchyard_ggml::element_function>{
#define SWITCHYARD_GGML_NAME(name, expression) std::string_view{#name},
    SWITCHYARD_GGML_UNARY_FUNCTIONS(SWITCHYARD_GGML_NAME)
        SWITCHYARD_GGML_BINARY_FUNCTIONS(SWITCHYARD_GGML_NAME)
#undef SWITCHYARD_GGML_NAME
};
}  // namespace v0
}  // namespace switchyard
