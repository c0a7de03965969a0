// SPDX-License-Identifier: MIT
// Root-mean-square normalisation for products that take activations in 16 bits:
//
//   sum = x + residual,   out = round(sum / sqrt(mean(sum^2) + epsilon) * gamma)
//
// Without a residual, sum is x and is not written. out is contiguous; strides are in bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>

namespace switchyard_ggml {

struct round_norm {
  static constexpr std::string_view name = "ggml_round_norm";

  struct arguments {
    const float* x = nullptr;         ///< [rows, columns]
    const float* residual = nullptr;  ///< the same; null: none
    const float* gamma = nullptr;     ///< [columns]
    float* sum = nullptr;             ///< [rows, columns], with a residual; may be x or residual
    void* out = nullptr;              ///< [rows, columns] of out_dtype

    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t x_stride = 0;
    std::int64_t residual_stride = 0;
    std::int64_t sum_stride = 0;
    float epsilon = 0;
    switchyard::dtype out_dtype = switchyard::dtype::bf16;

    [[nodiscard]] bool complete() const noexcept {
      return x != nullptr && gamma != nullptr && out != nullptr && (residual == nullptr) == (sum == nullptr);
    }
    /// Whether four neighbours of a row lie together at a multiple of 16 bytes, and rows are whole such.
    [[nodiscard]] bool wide() const noexcept {
      const auto places = reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(residual) |
                          reinterpret_cast<std::uintptr_t>(gamma) | reinterpret_cast<std::uintptr_t>(sum) |
                          reinterpret_cast<std::uintptr_t>(out) |
                          static_cast<std::uintptr_t>(x_stride | residual_stride | sum_stride);
      return places % 16 == 0 && columns % 4 == 0;
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::residual, &arguments::gamma, &arguments::sum,
                         &arguments::out, &arguments::rows, &arguments::columns, &arguments::x_stride,
                         &arguments::residual_stride, &arguments::sum_stride, &arguments::epsilon,
                         &arguments::out_dtype>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::out_dtype>(), switchyard::type_axis<&arguments::wide>(),
      switchyard::type_axis<&arguments::complete>(), switchyard::size_axis<&arguments::rows>(),
      switchyard::size_axis<&arguments::columns>());

  [[nodiscard]] static std::string check(const arguments& a) {
    if (!a.complete()) return "x, gamma and out must not be null, nor one of residual and sum alone";
    if (a.rows < 0 || a.columns < 1) return "rows must not be negative, and columns must be positive";
    if (a.out_dtype != switchyard::dtype::f16 && a.out_dtype != switchyard::dtype::bf16)
      return "out must be f16 or bf16";
    return {};
  }
};

}  // namespace switchyard_ggml
