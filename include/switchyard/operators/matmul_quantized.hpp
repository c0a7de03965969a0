// SPDX-License-Identifier: MIT
// A linear layer whose weights may be quantised:
//
//   out = x w^T + bias
//
// with x [rows, in_features], w [out_features, in_features] and one bias for each output. Products are summed
// in f32, or exactly as integers, and rounded once. A kernel may round x to 16 bits in groups of 32 elements
// of one row, each with its own scale, max|x| / 32767, which keeps more than f16 does; with int8_activations
// also to 8 bits, with max|x| / 127. The root-mean-square error of a result from this rounding is sqrt(sum of
// (scale w)^2 / 12).
//
// Sources: Dettmers et al., 8-bit Matrix Multiplication for Transformers at Scale, arXiv:2208.07339; the
// formats are those of GGUF files (weight_format.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <switchyard/base/dtype.hpp>
#include <switchyard/call_options.hpp>
#include <switchyard/error.hpp>
#include <switchyard/named_call.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/reach.hpp>
#include <switchyard/operators/weight_format.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

struct matmul_quantized {
  static constexpr std::string_view name = "matmul_quantized";

  /// Rows of x and out are contiguous; their strides are in elements.
  struct arguments {
    const void* x = nullptr;      ///< [rows, in_features] of dtype
    const void* w = nullptr;      ///< [out_features, in_features] in `weights`
    const float* bias = nullptr;  ///< [out_features]; null: none
    void* out = nullptr;          ///< [rows, out_features] of out_dtype

    std::int64_t rows = 0;
    std::int64_t in_features = 0;  ///< a multiple of the format's block
    std::int64_t out_features = 0;
    std::int64_t x_stride_row = unset, out_stride_row = unset;
    std::int64_t w_row_bytes = unset;  ///< from row to row of w, in bytes

    switchyard::dtype dtype = switchyard::dtype::f32;      ///< f32, f16 or bf16
    switchyard::dtype out_dtype = switchyard::dtype::f32;  ///< f32, f16 or bf16
    weight_format weights = weight_format::f32;
    bool int8_activations = false;  ///< whether x may be rounded to 8 bits: faster, and less exact
    /// Whether w was complete before the launch ahead of this call began. A kernel may then read it while
    /// that launch still runs.
    bool w_is_constant = false;

    /// Bytes, 1 to 16, that divide every row's start of x and out; 0 when one of them is null, or a stride is
    /// not set.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t required = row_strides(rows, x_stride_row | out_stride_row) |
                                    mark_misaligned<alignof(float)>(bias) | mark_misaligned_for(dtype, x) |
                                    mark_misaligned_for(out_dtype, out);
      const std::int64_t out_stride = rows > 1 ? out_stride_row : 0;
      const auto* const out_rows =
          reinterpret_cast<const void*>(static_cast<std::uintptr_t>(out_stride) *
                                        static_cast<std::uintptr_t>(detail::size_of_legal(out_dtype)));
      return alignment_of_strided(dtype, rows > 1 ? x_stride_row : 0, required, x, out,
                                  optional_tensors(out_rows));
    }

    /// Bytes, 1 to 16, that divide every row's start of w; 0 when it is null, or its stride is not set.
    [[nodiscard, gnu::always_inline]] inline std::int64_t weight_alignment() const noexcept {
      if (w == nullptr || w_row_bytes < 0) [[unlikely]]
        return 0;
      const std::uintptr_t bits =
          reinterpret_cast<std::uintptr_t>(w) | static_cast<std::uintptr_t>(w_row_bytes) | 16U;
      return static_cast<std::int64_t>(bits & (~bits + 1));
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::w, &arguments::bias, &arguments::out, &arguments::rows,
                         &arguments::in_features, &arguments::out_features, &arguments::x_stride_row,
                         &arguments::out_stride_row, &arguments::w_row_bytes, &arguments::dtype,
                         &arguments::out_dtype, &arguments::weights, &arguments::int8_activations,
                         &arguments::w_is_constant>;

  static constexpr auto operands = switchyard::fields<&arguments::x, &arguments::w, &arguments::out>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(), switchyard::type_axis<&arguments::out_dtype>(),
      switchyard::type_axis<&arguments::weights>(), switchyard::type_axis<&arguments::int8_activations>(),
      switchyard::type_axis("with_bias", [](const arguments& a) noexcept { return given(a.bias); }),
      switchyard::type_axis<&arguments::alignment>(), switchyard::type_axis<&arguments::weight_alignment>(),
      switchyard::size_axis<&arguments::rows>(), switchyard::size_axis<&arguments::in_features>(),
      switchyard::size_axis<&arguments::out_features>());

  static constexpr std::array axis_defaults{axis_default{"out_dtype", "=dtype"},
                                            axis_default{"weight_alignment", "16"}};

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    if (a.rows < 0 || a.out_features < 0) return "rows and out_features must not be negative";
    if (a.in_features < 1) return "in_features must be positive";
    for (const switchyard::dtype type : {a.dtype, a.out_dtype}) {
      if (type != dtype::f32 && type != dtype::f16 && type != dtype::bf16)
        return "dtype and out_dtype must be f32, f16 or bf16";
    }
    if (!is_weight_format(a.weights)) return "weights is no weight_format";
    if (a.in_features % block_elements(a.weights) != 0) {
      return "in_features must be a multiple of " + std::to_string(block_elements(a.weights)) +
             ", the block of " +
             std::string{enumerator_names<weight_format>[static_cast<std::size_t>(a.weights)]} + ", not " +
             std::to_string(a.in_features);
    }
    if (std::string wrong = wrong_addresses<&arguments::bias>(a); !wrong.empty()) return wrong;
    if (a.rows > 1) {
      if (std::string wrong = wrong_strides<&arguments::x_stride_row, &arguments::out_stride_row>(a);
          !wrong.empty())
        return wrong;
    }
    if (std::string wrong = wrong_strides<&arguments::w_row_bytes>(a); !wrong.empty()) return wrong;
    const std::int64_t weights_aligned = a.weight_alignment();
    if ((mark_misaligned_for(a.dtype, a.x) | mark_misaligned_for(a.out_dtype, a.out)) < 0)
      return "x and out must be aligned to their element size";
    if (a.alignment() == 0 || weights_aligned == 0) return "x, w and out must not be null";
    const std::int64_t many = a.rows > 1 ? 1 : 0;
    if (alignment_of_strided(a.dtype, many * a.x_stride_row, 0, a.x) < size_of(a.dtype) ||
        alignment_of_strided(a.out_dtype, many * a.out_stride_row, 0, a.out) < size_of(a.out_dtype))
      return "x and out must be aligned to their element size";
    if (weights_aligned < block_alignment(a.weights))
      return "w and w_row_bytes must be multiples of " + std::to_string(block_alignment(a.weights));
    return {};
  }

  /// What is wrong with how far a call's rows lie apart; empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    if (reach::is_near(a, fields)) return {};
    return reach::wrong_dimension({{"in_features", a.in_features},
                                   {"rows", a.rows, "x_stride_row", a.x_stride_row},
                                   {"rows", a.rows, "out_stride_row", a.out_stride_row},
                                   {"out_features", a.out_features, "w_row_bytes", a.w_row_bytes},
                                   {"out_features", a.out_features}});
  }

  /// What a call may have besides x, w and out.
  struct options {
    const_tensor bias{};
    bool int8_activations = false;
    bool w_is_constant = false;
  };
  static constexpr auto described = describe_options(
      tensor_option<&options::bias,
                    optional_view<&arguments::bias, dtype::f32, dim<&arguments::out_features>>>{
          "added to the products"},
      option<&options::int8_activations, &arguments::int8_activations>{
          "whether x may be rounded to 8 bits: faster, and less exact"},
      option<&options::w_is_constant, &arguments::w_is_constant>{
          "whether w was complete before the launch ahead of this call began"});

  /// How far apart right results may be: activations are rounded to 16 bits, or to 8, over a block or a row.
  template <class = void>
  [[nodiscard]] static double result_tolerance(const arguments& a) {
    return a.int8_activations ? 0.5 : 0x1p-7;
  }

  /// The tensors that a call writes: see tensors/result_tensor.hpp.
  template <class Visitor>
  static void visit_results(const arguments& /*a*/, Visitor& visit) {
    visit.template
    operator()<view<&arguments::out, &arguments::out_dtype, dim<&arguments::rows, &arguments::out_stride_row>,
                    dim<&arguments::out_features>>>();
  }

  /// The arguments of a call: x is [rows, in_features], out is [rows, out_features]. Throws call_error where
  /// they, the weights or the bias disagree.
  template <class Options = options>
  [[nodiscard, gnu::always_inline]] inline static arguments call(
      const const_tensor& x, const weight_matrix& w, const tensor& out,
      const std::type_identity_t<Options>& with = Options{}) {
    arguments a = default_arguments<arguments>(fields);
    described.bind(call_views{}, name, a, false, with, x, out);
    described.set(a, with);
    a.w = w.data;
    a.weights = w.format;
    a.w_row_bytes = w.stride();
    if (w.rows != a.out_features || w.columns != a.in_features) [[unlikely]]
      fail_weights(w, a);
    return a;
  }

  /// A binding's call.
  template <class Reader>
  [[nodiscard]] static arguments call_named(Reader& in) {
    const weight_matrix w = in.weights("w");
    return call(in.tensor("x"), w, in.tensor("out"), read_options(described, in));
  }

 private:
  using call_views =
      views<view<&arguments::x, &arguments::dtype, dim<&arguments::rows, &arguments::x_stride_row>,
                 dim<&arguments::in_features>>,
            view<&arguments::out, &arguments::out_dtype, dim<&arguments::rows, &arguments::out_stride_row>,
                 dim<&arguments::out_features>>>;

  [[noreturn, gnu::cold, gnu::noinline]] static void fail_weights(const weight_matrix& w,
                                                                  const arguments& a) {
    throw call_error{error_code::invalid_argument,
                     "matmul_quantized: w is [" + std::to_string(w.rows) + ", " + std::to_string(w.columns) +
                         "], but x and out ask for [" + std::to_string(a.out_features) + ", " +
                         std::to_string(a.in_features) + "]"};
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
