// SPDX-License-Identifier: MIT
// Softmax of rows:
//
//   out = exp(scale * x - m) / sum(exp(scale * x - m)),   m = max(scale * x) over the row
//
// An element of -infinity gives 0; a row of nothing else gives NaN, as does a NaN anywhere in the row.
// Evaluated in f32 and rounded once. GPUs evaluate it in units of log2, where scale * x beyond 2.3e38 in
// size counts as infinite.
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

struct softmax {
  static constexpr std::string_view name = "softmax";

  /// Tensors are [rows, columns] with contiguous rows; strides are in elements.
  struct arguments {
    const void* x = nullptr;
    void* out = nullptr;  ///< may be x, with the same stride: in place

    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t x_stride_row = unset, out_stride_row = unset;

    float scale = 1.0F;
    switchyard::dtype dtype = switchyard::dtype::f32;

    /// Bytes, 1 to 16, that divide every row's start of x and out; 0 when one of them is null, a stride is
    /// not set, or the scale is not finite.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t strides = row_strides(rows, x_stride_row | out_stride_row);
      return alignment_of_strided(dtype, strides, described.mark(*this), x, out);
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::out, &arguments::rows, &arguments::columns,
                         &arguments::x_stride_row, &arguments::out_stride_row, &arguments::scale,
                         &arguments::dtype>;

  static constexpr auto operands = switchyard::fields<&arguments::x, &arguments::out>;
  static constexpr auto described = describe_options(
      option<&arguments::scale, &arguments::scale, legal_values::finite>{"what x is multiplied with first"});

  static constexpr auto axes =
      switchyard::axes(type_axis<&arguments::dtype>(), type_axis<&arguments::alignment>(),
                       size_axis<&arguments::rows>(), size_axis<&arguments::columns>());

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    return rows::first_wrong(
        [&] { return rows::wrong_shape(a); }, [&] { return described.wrong(a); },
        [&] { return rows::wrong_row_strides<&arguments::x_stride_row, &arguments::out_stride_row>(a); },
        [&] { return rows::wrong_alignment(a, "x and out", "x and out"); });
  }

  /// What is wrong with how far a call's rows lie apart; empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    if (reach::is_near(a, fields)) return {};
    return reach::wrong_rows(a.rows, a.columns,
                             {{"x_stride_row", a.x_stride_row}, {"out_stride_row", a.out_stride_row}});
  }

  /// The arguments of a call: x and out are [rows, columns]. What else a call has, `scale`, follows:
  /// `softmax::call(x, out, {.scale = 0.5F})`. Throws call_error where tensors disagree.
  static constexpr tensor_call<arguments, rows::row_view<arguments, &arguments::x, &arguments::x_stride_row>,
                               rows::row_view<arguments, &arguments::out, &arguments::out_stride_row>>
      call{name};
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
