// SPDX-License-Identifier: MIT
// One row a block; the maximum and the sum are found in one pass. The parameters are in this kernel's own
// order: softmax.json lists them by the names of the operator's arguments.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <switchyard/devices/host/kernel.hpp>

namespace {

void softmax_online(const switchyard::host::block& block, float* out, std::int64_t out_stride, const float* x,
                    std::int64_t x_stride, std::int64_t columns, float scale) {
  const float* from = x + std::int64_t{block.index.x} * x_stride;
  float* to = out + std::int64_t{block.index.x} * out_stride;
  float most = -std::numeric_limits<float>::infinity();
  float sum = 0;
  for (std::int64_t i = 0; i < columns; ++i) {
    const float value = scale * from[i];
    const float next = std::max(most, value);
    sum = sum * std::exp(most - next) + std::exp(value - next);
    most = next;
  }
  for (std::int64_t i = 0; i < columns; ++i) to[i] = std::exp(scale * from[i] - most) / sum;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const switchyard::host::kernel softmax_online_f32 =
    switchyard::host::make_kernel<&softmax_online>();
