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

namespace switchyard_ggml {

/// The values are part of the kernel ABI. Functions of one tensor come first, then those of two. p and q are
/// the arguments of that name.
enum class element_function : std::int32_t {
  copy,
  negate,
  absolute,
  sign,
  step,
  relu,
  sigmoid,
  silu,
  gelu,  ///< the tanh form
  gelu_erf,
  gelu_quick,  ///< a / (1 + exp(-1.702 a))
  tanh,
  elu,
  exp,
  softplus,
  hard_swish,
  hard_sigmoid,
  square,
  square_root,
  logarithm,
  sine,
  cosine,
  scale,       ///< p a + q
  clamp,       ///< to [p, q]
  leaky_relu,  ///< p a below zero
  add,
  subtract,
  multiply,
  divide,
  repeat,        ///< b
  masked_score,  ///< p a + slope b, without a where p is 0, with ALiBi's slope of the head, the third index,
                 ///< for a largest bias of q
  gated_relu,
  gated_quick,
  gated_oai,  ///< gpt-oss: min(a, q) sigmoid(p min(a, q)) (1 + clamp(b, -q, q))
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
      switchyard::type_axis<&arguments::complete>(), switchyard::size_axis<&arguments::rows>(),
      switchyard::size_axis<&arguments::columns>());

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
inline constexpr std::array<std::string_view, 34> enumerator_names<switchyard_ggml::element_function>{
    "copy",     "negate",     "absolute",     "sign",       "step",        "relu",      "sigmoid",
    "silu",     "gelu",       "gelu_erf",     "gelu_quick", "tanh",        "elu",       "exp",
    "softplus", "hard_swish", "hard_sigmoid", "square",     "square_root", "logarithm", "sine",
    "cosine",   "scale",      "clamp",        "leaky_relu", "add",         "subtract",  "multiply",
    "divide",   "repeat",     "masked_score", "gated_relu", "gated_quick", "gated_oai"};
}  // namespace v0
}  // namespace switchyard
