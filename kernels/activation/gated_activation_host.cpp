// SPDX-License-Identifier: MIT
// Gated activations on the CPU, forward and backward. A block takes an equal share of the rows. Compiled once
// for each instruction set.
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>

#include "../host/instantiate.hpp"
#include "../host/row.hpp"

namespace {

using switchyard::host::block;
using switchyard::operators::gated_function;

struct activated {
  floats value;
  floats slope;
};

/// 1 / (1 + exp(-x)).
SWITCHYARD_INLINE floats logistic(floats x) {
  const floats power = x * -log2e;
  return 1.0F / (1.0F + exp2(select(power > splat(126.0F), splat(126.0F), power)));
}

/// activation(x) and its derivative at x.
template <gated_function Function>
SWITCHYARD_INLINE activated activate(floats x) {
  if constexpr (Function == gated_function::silu) {
    const floats share = logistic(x);
    const floats value = x * share;
    return {value, share + value * (1.0F - share)};
  } else if constexpr (Function == gated_function::gelu_tanh) {
    // 1/2 (1 + tanh(y)) is the logistic function of 2y.
    constexpr float factor = 2.0F * 0.7978845608028654F;
    const floats squared =
        select(x * x > splat(1e30F), splat(1e30F), x * x);  // finite, as it meets a zero below
    const floats share = logistic(factor * x * (1.0F + 0.044715F * squared));
    const floats value = x * share;
    return {value, share + value * (1.0F - share) * factor * (1.0F + 3.0F * 0.044715F * squared)};
  } else {
    // The normal distribution's tail by Abramowitz and Stegun 7.1.26 (absolute error below 1e-7).
    const floats z = bits_of<floats>(bits_of<words>(x) & 0x7FFF'FFFFU) * 0.7071067811865476F;
    const floats t = 1.0F / (1.0F + 0.3275911F * z);
    const floats power = exp2(-log2e * z * z);
    floats p = t * 1.061405429F + -1.453152027F;
    p = p * t + 1.421413741F;
    p = p * t + -0.284496736F;
    p = p * t + 0.254829592F;
    const floats tail = 0.5F * power * t * p;
    const floats distribution = select(x < floats{}, tail, 1.0F - tail);
    return {x * distribution, distribution + x * 0.3989422804014327F * power};
  }
}

template <class Element, gated_function Function>
void gated_forward(const block& this_block, switchyard::operators::gated_activation::arguments a) {
  const row_range range{a.rows, this_block.grid.x, this_block.index.x};
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const auto* gate = static_cast<const Element*>(a.gate) + row * a.gate_stride_row;
    const auto* up =
        a.packed() ? gate + a.columns : static_cast<const Element*>(a.up) + row * a.up_stride_row;
    auto* out = static_cast<Element*>(a.out) + row * a.out_stride_row;
    for_row(
        a.columns, [&](std::int64_t c, auto, auto count) __attribute__((always_inline)) {
          const floats value = activate<Function>(load_some(gate + c, count)).value;
          store_some(out + c, value * load_some(up + c, count), count);
        });
  }
}

template <class Element, gated_function Function>
void gated_backward(const block& this_block, switchyard::operators::gated_activation_backward::arguments a) {
  const row_range range{a.rows, this_block.grid.x, this_block.index.x};
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const auto* gradient = static_cast<const Element*>(a.grad_out) + row * a.grad_out_stride_row;
    const auto* gate = static_cast<const Element*>(a.gate) + row * a.gate_stride_row;
    const auto* up =
        a.packed() ? gate + a.columns : static_cast<const Element*>(a.up) + row * a.up_stride_row;
    auto* grad_gate = static_cast<Element*>(a.grad_gate) + row * a.grad_gate_stride_row;
    auto* grad_up =
        a.packed() ? grad_gate + a.columns : static_cast<Element*>(a.grad_up) + row * a.grad_up_stride_row;
    for_row(
        a.columns, [&](std::int64_t c, auto, auto count) __attribute__((always_inline)) {
          const floats d = load_some(gradient + c, count);
          const floats u = load_some(up + c, count);
          const activated at = activate<Function>(load_some(gate + c, count));
          store_some(grad_gate + c, d * u * at.slope, count);
          store_some(grad_up + c, d * at.value, count);
        });
  }
}

}  // namespace
