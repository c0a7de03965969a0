// Root-mean-square normalisation of rows, with the residual addition that precedes it in a transformer:
//
//   h = x + residual                                  (x alone without a residual)
//   rstd = 1 / sqrt(mean(h^2) + epsilon)
//   out = h * rstd * (gamma + gamma_offset)
//
// h is rounded to dtype before it is used, so that the fused call gives what an addition followed by a
// normalisation gives; sums and the rest are f32. Source: Zhang and Sennrich, arXiv:1910.07467.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>

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
    std::int64_t x_stride_row = 0, residual_stride_row = 0;
    std::int64_t out_stride_row = 0, residual_out_stride_row = 0;

    float epsilon = 1e-6F;
    float gamma_offset = 0.0F;  ///< 1 in models that store gamma around zero
    switchyard::dtype dtype = switchyard::dtype::f32;
    switchyard::dtype gamma_dtype = switchyard::dtype::f32;  ///< dtype or f32

    /// Bytes, 1 to 16, that divide every row's start of all given tensors, and gamma; 0 when a required
    /// pointer is null.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const bool add = residual != nullptr;
      const std::int64_t strides =
          x_stride_row | out_stride_row | (add ? residual_stride_row | residual_out_stride_row : 0);
      const void* optional = reinterpret_cast<const void*>(
          reinterpret_cast<std::uintptr_t>(gamma) |
          static_cast<std::uintptr_t>(strides * detail::size_of_legal(dtype)) | 16);
      return alignment_of(x, out, optional, add ? residual : x, add ? residual_out : out);
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::residual, &arguments::gamma, &arguments::out,
                         &arguments::residual_out, &arguments::rstd, &arguments::rows, &arguments::columns,
                         &arguments::x_stride_row, &arguments::residual_stride_row,
                         &arguments::out_stride_row, &arguments::residual_out_stride_row, &arguments::epsilon,
                         &arguments::gamma_offset, &arguments::dtype, &arguments::gamma_dtype>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(),
      switchyard::type_axis(
          "gamma_dtype",
          [](const arguments& a) noexcept { return a.gamma != nullptr ? a.gamma_dtype : a.dtype; }),
      switchyard::type_axis("with_gamma", [](const arguments& a) noexcept { return a.gamma != nullptr; }),
      switchyard::type_axis("with_residual",
                            [](const arguments& a) noexcept { return a.residual != nullptr; }),
      switchyard::type_axis("with_rstd", [](const arguments& a) noexcept { return a.rstd != nullptr; }),
      switchyard::type_axis("alignment", [](const arguments& a) noexcept { return a.alignment(); }),
      switchyard::size_axis<&arguments::rows>(), switchyard::size_axis<&arguments::columns>());

  /// What is wrong with a call; empty when it is legal.
  [[nodiscard]] static std::string check(const arguments& a) {
    if (a.rows < 0) return "rows must not be negative";
    if (a.columns < 1) return "columns must be positive";
    if (a.dtype != dtype::f32 && a.dtype != dtype::f16 && a.dtype != dtype::bf16) {
      return "dtype must be f32, f16 or bf16";
    }
    if (a.gamma != nullptr && a.gamma_dtype != a.dtype && a.gamma_dtype != dtype::f32) {
      return "gamma_dtype must be dtype or f32";
    }
    const std::int64_t aligned = a.alignment();
    if (aligned == 0) return "x and out, and residual_out where residual is given, must not be null";
    if (aligned < size_of(a.dtype)) return "all tensors must be aligned to their element size";
    return {};
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
