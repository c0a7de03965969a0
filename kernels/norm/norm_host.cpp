// SPDX-License-Identifier: MIT
// RMSNorm and LayerNorm on the CPU, forward and backward. A block takes an equal share of the rows; in the
// backward it adds up the weights' gradients of its rows, and a second launch adds the blocks' sums. Compiled
// once for each instruction set.
#include <cmath>
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>

#include "../host/instantiate.hpp"
#include "../host/row.hpp"

namespace {

using switchyard::host::block;
using rms_arguments = switchyard::operators::rms_norm::arguments;
using layer_arguments = switchyard::operators::layer_norm::arguments;
using rms_backward_arguments = switchyard::operators::rms_norm_backward::arguments;
using layer_backward_arguments = switchyard::operators::layer_norm_backward::arguments;

template <class Weight, class Count>
SWITCHYARD_INLINE floats factor_of(const Weight* gamma, std::int64_t column, float offset, Count count) {
  return gamma == nullptr ? splat(1.0F) : load_some(gamma + column, count) + splat(offset);
}

template <class Element, class Weight, class Arguments>
void norm_forward(const block& this_block, Arguments a) {
  constexpr bool centred = std::is_same_v<Arguments, layer_arguments>;
  const auto* gamma = static_cast<const Weight*>(a.gamma);
  const Weight* beta = nullptr;
  if constexpr (centred) beta = static_cast<const Weight*>(a.beta);
  const auto columns = static_cast<float>(a.columns);
  const row_range range{a.rows, this_block.grid.x, this_block.index.x};
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const auto* h = static_cast<const Element*>(a.x) + row * a.x_stride_row;
    if (a.residual != nullptr) {
      const auto* residual = static_cast<const Element*>(a.residual) + row * a.residual_stride_row;
      auto* sum = static_cast<Element*>(a.residual_out) + row * a.residual_out_stride_row;
      for_row(
          a.columns, [&](std::int64_t c, auto, auto count) __attribute__((always_inline)) {
            store_some(sum + c, load_some(h + c, count) + load_some(residual + c, count), count);
          });
      h = sum;
    }
    float mean = 0.0F;
    if constexpr (centred) {
      row_sums sums{};
      for_row(
          a.columns, [&](std::int64_t c, auto i, auto count)
                         __attribute__((always_inline)) { sums[i] += load_some(h + c, count); });
      mean = total_of(sums) / columns;
    }
    row_sums squares{};
    for_row(
        a.columns, [&](std::int64_t c, auto i, auto count) __attribute__((always_inline)) {
          const floats apart = first_lanes(count, load_some(h + c, count) - splat(mean), 0.0F);
          squares[i] += apart * apart;
        });
    const float rstd = 1.0F / std::sqrt(total_of(squares) / columns + a.epsilon);
    auto* out = static_cast<Element*>(a.out) + row * a.out_stride_row;
    for_row(
        a.columns, [&](std::int64_t c, auto, auto count) __attribute__((always_inline)) {
          const floats normal = (load_some(h + c, count) - splat(mean)) * splat(rstd);
          floats result = normal * factor_of(gamma, c, a.gamma_offset, count);
          if (beta != nullptr) result += load_some(beta + c, count);
          store_some(out + c, result, count);
        });
    if constexpr (centred) {
      if (a.mean != nullptr) a.mean[row] = mean;
    }
    if (a.rstd != nullptr) a.rstd[row] = rstd;
  }
}

/// `partial` is [1 or 2][blocks][columns]: sums for grad_gamma and, of a LayerNorm, grad_beta. Null: not
/// wanted.
template <class Element, class Weight, class Arguments>
void norm_backward(const block& this_block, Arguments a, float* partial) {
  constexpr bool centred = std::is_same_v<Arguments, layer_backward_arguments>;
  const auto* gamma = static_cast<const Weight*>(a.gamma);
  const auto columns = static_cast<float>(a.columns);
  float* gamma_sums = nullptr;
  float* beta_sums = nullptr;
  if (partial != nullptr) {
    gamma_sums = partial + this_block.index.x * a.columns;
    std::fill_n(gamma_sums, a.columns, 0.0F);
    if constexpr (centred) {
      beta_sums = partial + (this_block.grid.x + this_block.index.x) * a.columns;
      std::fill_n(beta_sums, a.columns, 0.0F);
    }
  }
  const row_range range{a.rows, this_block.grid.x, this_block.index.x};
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const auto* gradient = static_cast<const Element*>(a.grad_out) + row * a.grad_out_stride_row;
    const auto* h = static_cast<const Element*>(a.h) + row * a.h_stride_row;
    const floats rstd = splat(a.rstd[row]);
    floats mean{};
    if constexpr (centred) mean = splat(a.mean[row]);
    row_sums slopes{};
    row_sums levels{};
    for_row(
        a.columns, [&](std::int64_t c, auto i, auto count) __attribute__((always_inline)) {
          const floats weighted = load_some(gradient + c, count) * factor_of(gamma, c, a.gamma_offset, count);
          slopes[i] += weighted * ((load_some(h + c, count) - mean) * rstd);
          if constexpr (centred) levels[i] += weighted;
        });
    const floats slope = splat(total_of(slopes) / columns);
    const floats level = splat(centred ? total_of(levels) / columns : 0.0F);
    const auto* past = static_cast<const Element*>(a.grad_residual);
    if (past != nullptr) past += row * a.grad_residual_stride_row;
    auto* out = static_cast<Element*>(a.grad_x) + row * a.grad_x_stride_row;
    for_row(
        a.columns, [&](std::int64_t c, auto, auto count) __attribute__((always_inline)) {
          const floats d = load_some(gradient + c, count);
          const floats normal = (load_some(h + c, count) - mean) * rstd;
          floats result = rstd * (d * factor_of(gamma, c, a.gamma_offset, count) - level - normal * slope);
          if (past != nullptr) result += load_some(past + c, count);
          if (gamma_sums != nullptr) {
            store_some(gamma_sums + c, load_some(gamma_sums + c, count) + d * normal, count);
            if constexpr (centred) store_some(beta_sums + c, load_some(beta_sums + c, count) + d, count);
          }
          store_some(out + c, result, count);
        });
  }
}

/// Adds `parts` rows of partial for a share of the columns; grid.y is the plane.
template <class Weight>
void sum_partials(const block& this_block, const float* partial, void* grad_gamma, void* grad_beta,
                  std::int64_t parts, std::int64_t columns) {
  auto* out = static_cast<Weight*>(this_block.index.y == 0 ? grad_gamma : grad_beta);
  if (out == nullptr) return;
  const row_range range{columns, this_block.grid.x, this_block.index.x};
  const float* plane = partial + this_block.index.y * parts * columns + range.begin;
  for_row(
      range.end - range.begin, [&](std::int64_t c, auto, auto count) __attribute__((always_inline)) {
        floats sum{};
        for (std::int64_t part = 0; part < parts; ++part) sum += load_some(plane + part * columns + c, count);
        store_some(out + range.begin + c, sum, count);
      });
}

}  // namespace
