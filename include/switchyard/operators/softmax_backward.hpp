// SPDX-License-Identifier: MIT
// Gradient of softmax(scale * x), from its output:
//
//   grad_x = scale * out * (grad_out - sum(grad_out * out))        (the sum over the row)
//
// Evaluated in f32 and rounded once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

struct softmax_backward {
  static constexpr std::string_view name = "softmax_backward";

  /// Tensors are [rows, columns] with contiguous rows; strides are in elements.
  struct arguments {
    const void* grad_out = nullptr;
    const void* out = nullptr;  ///< what the forward gave
    void* grad_x = nullptr;     ///< may be grad_out or out, with the same stride: in place

    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t grad_out_stride_row = unset, out_stride_row = unset, grad_x_stride_row = unset;

    float scale = 1.0F;  ///< the forward's
    switchyard::dtype dtype = switchyard::dtype::f32;

    /// Bytes, 1 to 16, that divide every row's start of all tensors; 0 when one of them is null, a stride is
    /// not set, or the scale is not finite.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t strides =
          row_strides(rows, grad_out_stride_row | out_stride_row | grad_x_stride_row);
      return alignment_of_strided(dtype, strides, described.mark(*this), grad_out, out, grad_x);
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::grad_out, &arguments::out, &arguments::grad_x, &arguments::rows,
                         &arguments::columns, &arguments::grad_out_stride_row, &arguments::out_stride_row,
                         &arguments::grad_x_stride_row, &arguments::scale, &arguments::dtype>;

  static constexpr auto operands =
      switchyard::fields<&arguments::grad_out, &arguments::out, &arguments::grad_x>;
  static constexpr auto described = describe_options(
      option<&arguments::scale, &arguments::scale, legal_values::finite>{"the forward call's"});

  static constexpr auto axes =
      switchyard::axes(type_axis<&arguments::dtype>(), type_axis<&arguments::alignment>(),
                       size_axis<&arguments::rows>(), size_axis<&arguments::columns>());

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    return rows::first_wrong(
        [&] { return rows::wrong_shape(a); }, [&] { return described.wrong(a); },
        [&] {
          return rows::wrong_row_strides<&arguments::grad_out_stride_row, &arguments::out_stride_row,
                                         &arguments::grad_x_stride_row>(a);
        },
        [&] { return rows::wrong_alignment(a, "grad_out, out and grad_x"); });
  }

  /// What is wrong with how far a call's rows lie apart; empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    if (reach::is_near(a, fields)) return {};
    return reach::wrong_rows(a.rows, a.columns,
                             {{"grad_out_stride_row", a.grad_out_stride_row},
                              {"out_stride_row", a.out_stride_row},
                              {"grad_x_stride_row", a.grad_x_stride_row}});
  }

  /// The arguments of a call: grad_out, out and grad_x, each [rows, columns], and `scale`. Throws call_error
  /// where tensors disagree.
  static constexpr tensor_call<
      arguments, rows::row_view<arguments, &arguments::grad_out, &arguments::grad_out_stride_row>,
      rows::row_view<arguments, &arguments::out, &arguments::out_stride_row>,
      rows::row_view<arguments, &arguments::grad_x, &arguments::grad_x_stride_row>>
      call{name};
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
