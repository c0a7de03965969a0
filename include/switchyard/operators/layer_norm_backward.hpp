// Gradient of layer_norm. With n = (h - mean) * rstd, w = gamma + gamma_offset and g = grad_out * w, per row:
//
//   grad_x = rstd * (g - mean(g) - n * mean(g * n)) + grad_residual
//   grad_gamma = sum over rows of grad_out * n
//   grad_beta = sum over rows of grad_out
//
// h is the forward's residual_out, or its x without a residual. grad_residual is the gradient that reaches h
// past the normalisation, through residual_out; grad_x is then the gradient of both x and residual.
// Sums are f32 and in an order that depends on the launch alone: the same call gives the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

struct layer_norm_backward {
  static constexpr std::string_view name = "layer_norm_backward";

  /// Tensors are [rows, columns] with contiguous rows; strides are in elements.
  struct arguments {
    const void* grad_out = nullptr;
    const void* h = nullptr;              ///< what was normalised
    const void* gamma = nullptr;          ///< [columns] of gamma_dtype; null: the factor is 1
    const float* mean = nullptr;          ///< [rows], from the forward
    const float* rstd = nullptr;          ///< as mean
    const void* grad_residual = nullptr;  ///< null: none
    void* grad_x = nullptr;               ///< may be grad_out, h or grad_residual, with the same stride
    void* grad_gamma = nullptr;           ///< [columns] of gamma_dtype, overwritten; null: not wanted
    void* grad_beta = nullptr;            ///< as grad_gamma

    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t grad_out_stride_row = 0, h_stride_row = 0;
    std::int64_t grad_residual_stride_row = 0, grad_x_stride_row = 0;

    float gamma_offset = 0.0F;
    switchyard::dtype dtype = switchyard::dtype::f32;
    switchyard::dtype gamma_dtype = switchyard::dtype::f32;  ///< of gamma and its gradients: dtype or f32

    /// Bytes, 1 to 16, that divide every row's start of all given tensors, of gamma and the gradients; 0 when
    /// a required pointer is null.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const bool add = grad_residual != nullptr;
      const std::int64_t strides =
          grad_out_stride_row | h_stride_row | grad_x_stride_row | (add ? grad_residual_stride_row : 0);
      const void* optional = reinterpret_cast<const void*>(
          reinterpret_cast<std::uintptr_t>(gamma) | reinterpret_cast<std::uintptr_t>(grad_gamma) |
          reinterpret_cast<std::uintptr_t>(grad_beta) | reinterpret_cast<std::uintptr_t>(grad_residual) |
          static_cast<std::uintptr_t>(strides * detail::size_of_legal(dtype)) | 16);
      return alignment_of(grad_out, h, mean == nullptr || rstd == nullptr ? nullptr : h, grad_x, optional);
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::grad_out, &arguments::h, &arguments::gamma, &arguments::mean,
                         &arguments::rstd, &arguments::grad_residual, &arguments::grad_x,
                         &arguments::grad_gamma, &arguments::grad_beta, &arguments::rows, &arguments::columns,
                         &arguments::grad_out_stride_row, &arguments::h_stride_row,
                         &arguments::grad_residual_stride_row, &arguments::grad_x_stride_row,
                         &arguments::gamma_offset, &arguments::dtype, &arguments::gamma_dtype>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(),
      switchyard::type_axis("gamma_dtype",
                            [](const arguments& a) noexcept {
                              return a.gamma != nullptr || a.grad_gamma != nullptr || a.grad_beta != nullptr
                                         ? a.gamma_dtype
                                         : a.dtype;
                            }),
      switchyard::type_axis("with_gamma", [](const arguments& a) noexcept { return a.gamma != nullptr; }),
      switchyard::type_axis("with_residual",
                            [](const arguments& a) noexcept { return a.grad_residual != nullptr; }),
      switchyard::type_axis(
          "with_weight_gradients",
          [](const arguments& a) noexcept { return a.grad_gamma != nullptr || a.grad_beta != nullptr; }),
      switchyard::type_axis("alignment", [](const arguments& a) noexcept { return a.alignment(); }),
      switchyard::size_axis<&arguments::rows>(), switchyard::size_axis<&arguments::columns>());

  /// What is wrong with a call; empty when it is legal.
  [[nodiscard]] static std::string check(const arguments& a) {
    if (a.rows < 0) return "rows must not be negative";
    if (a.columns < 1) return "columns must be positive";
    if (a.dtype != dtype::f32 && a.dtype != dtype::f16 && a.dtype != dtype::bf16) {
      return "dtype must be f32, f16 or bf16";
    }
    if ((a.gamma != nullptr || a.grad_gamma != nullptr || a.grad_beta != nullptr) &&
        a.gamma_dtype != a.dtype && a.gamma_dtype != dtype::f32) {
      return "gamma_dtype must be dtype or f32";
    }
    const std::int64_t aligned = a.alignment();
    if (aligned == 0) return "grad_out, h, mean, rstd and grad_x must not be null";
    if (aligned < size_of(a.dtype)) return "all tensors must be aligned to their element size";
    return {};
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
