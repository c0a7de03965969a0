// SPDX-License-Identifier: MIT
// Gradient of rms_norm. With n = h * rstd, w = gamma + gamma_offset and g = grad_out * w, per row:
//
//   grad_x = rstd * (g - n * mean(g * n)) + grad_residual
//   grad_gamma = sum over rows of grad_out * n
//
// h is the forward's residual_out, or its x without a residual. grad_residual is the gradient that reaches h
// past the normalisation, through residual_out; grad_x is then the gradient of both x and residual.
// Sums are f32 and in an order that depends on the launch alone: the same call gives the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <switchyard/base/dtype.hpp>
#include <switchyard/call_options.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/reach.hpp>
#include <switchyard/operators/row_checks.hpp>
#include <switchyard/operators/row_views.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

struct rms_norm_backward {
  static constexpr std::string_view name = "rms_norm_backward";

  /// Tensors are [rows, columns] with contiguous rows; strides are in elements.
  struct arguments {
    const void* grad_out = nullptr;
    const void* h = nullptr;              ///< what was normalised
    const void* gamma = nullptr;          ///< [columns] of gamma_dtype; null: the factor is 1
    const float* rstd = nullptr;          ///< [rows], from the forward
    const void* grad_residual = nullptr;  ///< null: none
    void* grad_x = nullptr;               ///< may be grad_out, h or grad_residual, with the same stride
    void* grad_gamma = nullptr;           ///< [columns] of gamma_dtype, overwritten; null: not wanted

    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t grad_out_stride_row = unset, h_stride_row = unset;
    std::int64_t grad_residual_stride_row = unset, grad_x_stride_row = unset;

    float gamma_offset = 0.0F;
    switchyard::dtype dtype = switchyard::dtype::f32;
    switchyard::dtype gamma_dtype = switchyard::dtype::f32;  ///< of gamma and grad_gamma: dtype or f32

    /// Bytes, 1 to 16, that divide every row's start of all given tensors, gamma and grad_gamma; 0 when a
    /// required pointer is null, or a stride is not set.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const bool add = grad_residual != nullptr;
      const std::int64_t strides = row_strides(rows, grad_out_stride_row | h_stride_row | grad_x_stride_row |
                                                         (add ? grad_residual_stride_row : 0));
      return alignment_of_strided(dtype, strides,
                                  count_null(rstd) | mark_misaligned<alignof(float)>(rstd) |
                                      mark_misaligned_for(gamma_dtype, gamma, grad_gamma),
                                  grad_out, h, grad_x, optional_tensors(gamma, grad_gamma, grad_residual));
    }
  };

  static constexpr auto fields = switchyard::fields<
      &arguments::grad_out, &arguments::h, &arguments::gamma, &arguments::rstd, &arguments::grad_residual,
      &arguments::grad_x, &arguments::grad_gamma, &arguments::rows, &arguments::columns,
      &arguments::grad_out_stride_row, &arguments::h_stride_row, &arguments::grad_residual_stride_row,
      &arguments::grad_x_stride_row, &arguments::gamma_offset, &arguments::dtype, &arguments::gamma_dtype>;

  static constexpr auto operands =
      switchyard::fields<&arguments::grad_out, &arguments::h, &arguments::rstd, &arguments::grad_x>;

  static constexpr auto axes = switchyard::axes(
      type_axis<&arguments::dtype>(),
      type_axis("gamma_dtype",
                [](const arguments& a) noexcept {
                  return a.gamma != nullptr || a.grad_gamma != nullptr ? a.gamma_dtype : a.dtype;
                }),
      flag_axis<&arguments::gamma>("with_gamma"), flag_axis<&arguments::grad_residual>("with_residual"),
      flag_axis<&arguments::grad_gamma>("with_weight_gradients"), type_axis<&arguments::alignment>(),
      size_axis<&arguments::rows>(), size_axis<&arguments::columns>());

  static constexpr std::array axis_defaults{axis_default{"with_gamma", "true"},
                                            axis_default{"with_weight_gradients", "true"}};

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    return rows::wrong_norm_backward<&arguments::rstd>(a, "grad_out, h, rstd and grad_x",
                                                       "gamma and grad_gamma", a.gamma, a.grad_gamma);
  }

  /// What is wrong with how far a call's rows lie apart; empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    return reach::is_near(a, fields) ? std::string{} : rows::wrong_norm_backward_memory(a);
  }

  /// What a call may have besides.
  struct options {
    const_tensor gamma{};
    const_tensor grad_residual{};
    tensor grad_gamma{};
    float gamma_offset = 0.0F;
  };
  static constexpr auto described =
      rows::gamma_option<options, arguments> + rows::norm_backward_options<options, arguments>;

  using call_views = views<rows::row_view<arguments, &arguments::grad_out, &arguments::grad_out_stride_row>,
                           rows::row_view<arguments, &arguments::h, &arguments::h_stride_row>,
                           rows::statistic_view<arguments, &arguments::rstd>,
                           rows::row_view<arguments, &arguments::grad_x, &arguments::grad_x_stride_row>>;

  /// The arguments of a call: grad_out, h and grad_x are [rows, columns], rstd f32 [rows]. Throws call_error
  /// where tensors disagree.
  template <class Options = options>
  [[nodiscard, gnu::always_inline]] inline static arguments call(
      const const_tensor& grad_out, const const_tensor& h, const const_tensor& rstd, const tensor& grad_x,
      const std::type_identity_t<Options>& with = Options{}) {
    arguments a = default_arguments<arguments>(fields);
    described.set(a, with);
    described.bind(call_views{}, name, a, true, with, grad_out, h, rstd, grad_x);
    return a;
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
