// SPDX-License-Identifier: MIT
// Root-mean-square normalisation of rows, with the residual addition that precedes it in a transformer:
//
//   h = x + residual                                  (x alone without a residual)
//   rstd = 1 / sqrt(mean(h^2) + epsilon)
//   out = h * rstd * (gamma + gamma_offset)
//
// h is rounded to dtype before it is used, so that the fused call gives what an addition followed by a
// normalisation gives; sums and the rest are f32. Source: Zhang and Sennrich, arXiv:1910.07467.
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

struct rms_norm {
  static constexpr std::string_view name = "rms_norm";

  /// Tensors are [rows, columns] with contiguous rows; strides are in elements.
  struct arguments {
    const void* x = nullptr;
    const void* residual = nullptr;  ///< null: none
    const void* gamma = nullptr;     ///< [columns] of gamma_dtype; null: the factor is 1
    void* out = nullptr;             ///< may be x or residual, with the same stride: in place
    void* residual_out = nullptr;    ///< h; null exactly when residual is; may be x or residual, never out
    float* rstd = nullptr;           ///< [rows], for the backward; null: not wanted

    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t x_stride_row = unset, residual_stride_row = unset;
    std::int64_t out_stride_row = unset, residual_out_stride_row = unset;

    float epsilon = 1e-6F;
    float gamma_offset = 0.0F;  ///< 1 in models that store gamma around zero
    switchyard::dtype dtype = switchyard::dtype::f32;
    switchyard::dtype gamma_dtype = switchyard::dtype::f32;  ///< dtype or f32

    /// Bytes, 1 to 16, that divide every row's start of all given tensors, and gamma; 0 when a required
    /// pointer is null, a stride is not set, or check() refuses a value that no axis holds.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const bool add = residual != nullptr;
      const std::int64_t strides = row_strides(
          rows, x_stride_row | out_stride_row | (add ? residual_stride_row | residual_out_stride_row : 0));
      std::int64_t required = described.mark(*this) | mark_misaligned<alignof(float)>(rstd) |
                              mark_misaligned_for(gamma_dtype, gamma);
      if (!add && residual_out != nullptr) [[unlikely]]
        required = -1;
      return alignment_of_strided(dtype, strides, required, x, out, add ? residual : x,
                                  add ? residual_out : out, optional_tensors(gamma));
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::residual, &arguments::gamma, &arguments::out,
                         &arguments::residual_out, &arguments::rstd, &arguments::rows, &arguments::columns,
                         &arguments::x_stride_row, &arguments::residual_stride_row,
                         &arguments::out_stride_row, &arguments::residual_out_stride_row, &arguments::epsilon,
                         &arguments::gamma_offset, &arguments::dtype, &arguments::gamma_dtype>;

  static constexpr auto operands = switchyard::fields<&arguments::x, &arguments::out>;

  static constexpr auto axes = switchyard::axes(
      type_axis<&arguments::dtype>(),
      type_axis("gamma_dtype",
                [](const arguments& a) noexcept { return a.gamma != nullptr ? a.gamma_dtype : a.dtype; }),
      flag_axis<&arguments::gamma>("with_gamma"), flag_axis<&arguments::residual>("with_residual"),
      flag_axis<&arguments::rstd>("with_rstd"), type_axis<&arguments::alignment>(),
      size_axis<&arguments::rows>(), size_axis<&arguments::columns>());

  static constexpr std::array axis_defaults{axis_default{"with_gamma", "true"}};

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    return rows::wrong_norm<&arguments::rstd>(a, described.wrong(a), "gamma", a.gamma);
  }

  /// What is wrong with how far a call's rows lie apart; empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    return reach::is_near(a, fields) ? std::string{} : rows::wrong_norm_memory(a);
  }

  /// What a call may have besides x and out.
  struct options {
    const_tensor gamma{};
    const_tensor residual{};
    tensor residual_out{};
    tensor rstd{};
    float epsilon = 1e-6F;
    float gamma_offset = 0.0F;
  };
  static constexpr auto described =
      rows::gamma_option<options, arguments> + rows::norm_options<options, arguments>;

  using call_views = views<rows::row_view<arguments, &arguments::x, &arguments::x_stride_row>,
                           rows::row_view<arguments, &arguments::out, &arguments::out_stride_row>>;

  /// The arguments of a call: x and out are [rows, columns]. Throws call_error where tensors disagree.
  template <class Options = options>
  [[nodiscard, gnu::always_inline]] inline static arguments call(
      const const_tensor& x, const tensor& out, const std::type_identity_t<Options>& with = Options{}) {
    arguments a = default_arguments<arguments>(fields);
    described.set(a, with);
    described.bind(call_views{}, name, a, true, with, x, out);
    return a;
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
