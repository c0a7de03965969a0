// SPDX-License-Identifier: MIT
// Softmax of rows on the CPU, forward and backward. A block takes an equal share of the rows. Compiled once
// for each instruction set.
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>

#include "../host/instantiate.hpp"
#include "../host/row.hpp"

namespace {

using switchyard::host::block;

template <class Element>
void softmax_forward(const block& this_block, switchyard::operators::softmax::arguments a) {
  const floats scale = splat(a.scale);
  const row_range range{a.rows, this_block.grid.x, this_block.index.x};
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const auto* x = static_cast<const Element*>(a.x) + row * a.x_stride_row;
    auto* out = static_cast<Element*>(a.out) + row * a.out_stride_row;
    row_sums tops;
    tops.fill(splat(-infinity));
    for_row(
        a.columns, [&](std::int64_t c, auto i, auto count) __attribute__((always_inline)) {
          tops[i] = larger(tops[i], first_lanes(count, load_some(x + c, count) * scale, -infinity));
        });
    const floats top = splat(largest_of(larger(larger(tops[0], tops[1]), larger(tops[2], tops[3]))));
    // In units of log2 only the differences: the largest numbers have no room for the factor.
    row_sums sums{};
    for_row(
        a.columns, [&](std::int64_t c, auto i, auto count) __attribute__((always_inline)) {
          sums[i] += first_lanes(count, exp2((load_some(x + c, count) * scale - top) * log2e), 0.0F);
        });
    const floats share = splat(1.0F / total_of(sums));
    for_row(
        a.columns, [&](std::int64_t c, auto, auto count) __attribute__((always_inline)) {
          store_some(out + c, exp2((load_some(x + c, count) * scale - top) * log2e) * share, count);
        });
  }
}

template <class Element>
void softmax_backward(const block& this_block, switchyard::operators::softmax_backward::arguments a) {
  const row_range range{a.rows, this_block.grid.x, this_block.index.x};
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const auto* gradient = static_cast<const Element*>(a.grad_out) + row * a.grad_out_stride_row;
    const auto* out = static_cast<const Element*>(a.out) + row * a.out_stride_row;
    auto* grad_x = static_cast<Element*>(a.grad_x) + row * a.grad_x_stride_row;
    row_sums sums{};
    for_row(
        a.columns, [&](std::int64_t c, auto i, auto count) __attribute__((always_inline)) {
          sums[i] += load_some(gradient + c, count) * load_some(out + c, count);
        });
    const floats total = splat(total_of(sums));
    for_row(
        a.columns, [&](std::int64_t c, auto, auto count) __attribute__((always_inline)) {
          const floats value = load_some(out + c, count);
          store_some(grad_x + c, splat(a.scale) * value * (load_some(gradient + c, count) - total), count);
        });
  }
}

}  // namespace
