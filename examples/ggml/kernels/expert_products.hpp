// SPDX-License-Identifier: MIT
// Products of rows with the matrices of the experts that they are routed to, ggml's MUL_MAT_ID:
//
//   out[token, slot] = w[ids[token, slot]] x[token, slot]
//
// Strides are in bytes; rows are contiguous. An id that names no expert gives NaN.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/weight_format.hpp>

namespace switchyard_ggml {

struct expert_products {
  static constexpr std::string_view name = "ggml_expert_products";

  struct arguments {
    const float* x = nullptr;           ///< [tokens, slots, in_features]
    const void* w = nullptr;            ///< [experts, out_features, in_features] in `weights`
    const std::int32_t* ids = nullptr;  ///< [tokens, slots]
    float* out = nullptr;               ///< [tokens, slots, out_features]

    std::int64_t tokens = 0;
    std::int64_t slots = 0;
    std::int64_t experts = 0;
    std::int64_t in_features = 0;  ///< a multiple of the format's block
    std::int64_t out_features = 0;
    std::int64_t x_stride[2] = {};    // NOLINT(modernize-avoid-c-arrays): fields of manifests; slot, token
    std::int64_t ids_stride[2] = {};  // NOLINT(modernize-avoid-c-arrays)
    std::int64_t out_stride[2] = {};  // NOLINT(modernize-avoid-c-arrays)
    std::int64_t w_stride[2] = {};    // NOLINT(modernize-avoid-c-arrays): row, expert
    switchyard::operators::weight_format weights = switchyard::operators::weight_format::f32;

    [[nodiscard]] std::int64_t rows() const noexcept { return tokens * slots; }
    [[nodiscard]] bool complete() const noexcept {
      return x != nullptr && w != nullptr && ids != nullptr && out != nullptr;
    }
    /// Bytes, up to 16, that divide every row's start of x.
    [[nodiscard]] std::int64_t alignment() const noexcept {
      return divisor(reinterpret_cast<std::uintptr_t>(x), x_stride[0], x_stride[1]);
    }
    /// The same of w.
    [[nodiscard]] std::int64_t weight_alignment() const noexcept {
      return divisor(reinterpret_cast<std::uintptr_t>(w), w_stride[0], w_stride[1]);
    }

   private:
    [[nodiscard]] static std::int64_t divisor(std::uintptr_t address, std::int64_t a,
                                              std::int64_t b) noexcept {
      const std::uintptr_t bits = address | static_cast<std::uintptr_t>(a | b) | 16U;
      return static_cast<std::int64_t>(bits & (~bits + 1));
    }
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::w, &arguments::ids, &arguments::out, &arguments::tokens,
                         &arguments::slots, &arguments::experts, &arguments::in_features,
                         &arguments::out_features, &arguments::x_stride, &arguments::ids_stride,
                         &arguments::out_stride, &arguments::w_stride, &arguments::weights>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::weights>(), switchyard::type_axis<&arguments::alignment>(),
      switchyard::type_axis<&arguments::weight_alignment>(), switchyard::type_axis<&arguments::complete>(),
      switchyard::size_axis<&arguments::rows>(), switchyard::size_axis<&arguments::experts>(),
      switchyard::size_axis<&arguments::in_features>(), switchyard::size_axis<&arguments::out_features>());

  [[nodiscard]] static std::string check(const arguments& a) {
    if (!a.complete()) return "x, w, ids and out must not be null";
    if (a.tokens < 0 || a.slots < 0 || a.out_features < 0 || a.in_features < 1 || a.experts < 1)
      return "tokens, slots and out_features must not be negative, in_features and experts must be positive";
    if (!is_weight_format(a.weights)) return "weights is no weight_format";
    if (a.in_features % block_elements(a.weights) != 0)
      return "in_features must be a multiple of the format's block";
    return {};
  }
};

}  // namespace switchyard_ggml
