// SPDX-License-Identifier: MIT
// Checks that the operators on rows share, for their `check` and `check_memory`. Each function says what is
// wrong with a call; empty when nothing is.
#pragma once

#include <cstdint>
#include <string>

#include <switchyard/argument_checks.hpp>
#include <switchyard/base/dtype.hpp>
#include <switchyard/operators/reach.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

namespace rows {

[[nodiscard]] constexpr bool is_float(switchyard::dtype type) noexcept {
  return type == dtype::f32 || type == dtype::f16 || type == dtype::bf16;
}

/// `least_columns`: 0 where a call without columns is legal.
template <class A>
[[nodiscard]] std::string wrong_shape(const A& a, std::int64_t least_columns = 1) {
  if (least_columns == 0 && (a.rows < 0 || a.columns < 0)) return "rows and columns must not be negative";
  if (a.rows < 0) return "rows must not be negative";
  if (a.columns < least_columns) return "columns must be positive";
  return is_float(a.dtype) ? std::string{} : "dtype must be f32, f16 or bf16";
}

/// Strides that matter where there are several rows.
template <auto... Strides, class A>
[[nodiscard]] std::string wrong_row_strides(const A& a, bool matter = true) {
  return a.rows > 1 && matter ? wrong_strides<Strides...>(a) : std::string{};
}

/// `required` names the tensors that must not be null, and `all` the aligned ones.
template <class A>
[[nodiscard]] std::string wrong_alignment(const A& a, const char* required, const char* all = "all tensors") {
  const std::int64_t aligned = a.alignment();
  if (aligned == 0) return std::string{required} + " must not be null";
  return aligned < size_of(a.dtype) ? std::string{all} + " must be aligned to their element size"
                                    : std::string{};
}

/// The first of several that is not empty.
template <class... Checks>
[[nodiscard]] std::string first_wrong(const Checks&... checks) {
  std::string out;
  static_cast<void>(((out = checks(), out.empty()) && ...));
  return out;
}

/// A norm's weights, or its backward's with their gradients: `names`, of gamma_dtype.
template <class A, class... Weights>
[[nodiscard]] std::string wrong_weight_type(const A& a, const Weights*... weights) {
  if (((weights == nullptr) && ...) || a.gamma_dtype == a.dtype || a.gamma_dtype == dtype::f32) return {};
  return "gamma_dtype must be dtype or f32";
}
template <class A, class... Weights>
[[nodiscard]] std::string wrong_weight_alignment(const A& a, const char* names, const Weights*... weights) {
  if (mark_misaligned_for(a.gamma_dtype, weights...) >= 0) return {};
  return std::string{names} + (sizeof...(weights) > 1 ? " must be aligned to their element size"
                                                      : " must be aligned to its element size");
}

/// What a norm checks. `Statistics` are what it writes for each row, `wrong_option` what is wrong with an
/// option.
template <auto... Statistics, class A, class... Weights>
[[nodiscard]] std::string wrong_norm(const A& a, const std::string& wrong_option, const char* names,
                                     const Weights*... weights) {
  return first_wrong([&] { return wrong_shape(a); }, [&] { return wrong_weight_type(a, weights...); },
                     [&] { return wrong_option; },
                     [&] {
                       return a.residual == nullptr && a.residual_out != nullptr
                   ? std::string{"residual_out is given without residual: there is no sum to write"}
                   : std::string{};
                     },
                     [&] { return wrong_addresses<Statistics...>(a); },
                     [&] { return wrong_row_strides<&A::x_stride_row, &A::out_stride_row>(a); },
                     [&] {
                       return wrong_row_strides<&A::residual_stride_row, &A::residual_out_stride_row>(
                           a, a.residual != nullptr);
                     },
                     [&] { return wrong_weight_alignment(a, names, weights...); },
                     [&] {
                       return wrong_alignment(a, "x and out, and residual_out where residual is given,");
                     });
}
template <class A>
[[nodiscard]] std::string wrong_norm_memory(const A& a) {
  return reach::wrong_rows(
      a.rows, a.columns,
      {{"x_stride_row", a.x_stride_row},
       {"out_stride_row", a.out_stride_row},
       {"residual_stride_row", a.residual_stride_row, a.residual != nullptr},
       {"residual_out_stride_row", a.residual_out_stride_row, a.residual_out != nullptr}});
}

/// What a norm's backward checks. `required` names the tensors that must not be null.
template <auto... Statistics, class A, class... Weights>
[[nodiscard]] std::string wrong_norm_backward(const A& a, const char* required, const char* names,
                                              const Weights*... weights) {
  return first_wrong(
      [&] { return wrong_shape(a); }, [&] { return wrong_weight_type(a, weights...); },
      [&] { return wrong_addresses<Statistics...>(a); },
      [&] { return wrong_row_strides<&A::grad_out_stride_row, &A::h_stride_row, &A::grad_x_stride_row>(a); },
      [&] { return wrong_row_strides<&A::grad_residual_stride_row>(a, a.grad_residual != nullptr); },
      [&] { return wrong_weight_alignment(a, names, weights...); },
      [&] { return wrong_alignment(a, required); });
}
template <class A>
[[nodiscard]] std::string wrong_norm_backward_memory(const A& a) {
  return reach::wrong_rows(
      a.rows, a.columns,
      {{"grad_out_stride_row", a.grad_out_stride_row},
       {"h_stride_row", a.h_stride_row},
       {"grad_x_stride_row", a.grad_x_stride_row},
       {"grad_residual_stride_row", a.grad_residual_stride_row, a.grad_residual != nullptr}});
}

}  // namespace rows

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
