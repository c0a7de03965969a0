// SPDX-License-Identifier: MIT
// A query row against its keys in double, on the CPU: the plain variant of forward and decode.
//
// Private to kernels/attention; unnamed namespace for the reason given in simd.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include <switchyard/devices/host/kernel.hpp>

#include "attention_host.hpp"

namespace {

using switchyard::host::block;

/// Scratch: 8 * head_dim_v + 64 bytes, and what the source of keys takes for one. The grid is [queries,
/// heads, batch].
template <class Element, class Kv, class Query = Element, class Source = rows_in_place<Kv>>
void attend_in_double(const block& this_block, const attention_arguments& a, const kv_scales& scales,
                      Source source = {}) {
  const sequence s{a, this_block.index.z};
  const std::int64_t i = this_block.index.x;
  const std::int64_t h = this_block.index.y;
  if (i >= s.queries) return;
  const std::int64_t head_kv = h / (a.heads / a.heads_kv);
  const double scale = static_cast<double>(a.scale) * static_cast<double>(scales.of_k(head_kv)) *
                       static_cast<double>(scale_of_queries(a, h));
  const Query* q = query_row<Query>(a, s, h, i);
  arena memory{this_block.scratch};
  auto* values = memory.take<double>(a.head_dim_v);
  source.take(memory, 1);
  std::fill_n(values, a.head_dim_v, 0.0);

  constexpr double none = -std::numeric_limits<double>::infinity();
  double largest = a.sinks != nullptr ? static_cast<double>(a.sinks[h]) : none;
  double sum = largest != none ? 1.0 : 0.0;
  const key_range seen = s.visible(a, i);
  for (std::int64_t j = seen.begin; j < seen.end; ++j) {
    if (!sees_in_blocks(a, s.batch, h, i, j)) continue;
    const typename Source::element* k = nullptr;
    const typename Source::element* v = nullptr;
    source.find(a, s, head_kv, {j, j + 1}, &k, &v);
    double x = 0.0;
    for (std::int64_t d = 0; d < a.head_dim; ++d) {
      x += static_cast<double>(to_float(q[d])) * static_cast<double>(to_float(k[d]));
    }
    x *= scale;
    if (a.soft_cap != 0.0F) {
      x = static_cast<double>(a.soft_cap) * std::tanh(x / static_cast<double>(a.soft_cap));
    }
    if (a.bias != nullptr) {
      x += static_cast<double>(to_float(static_cast<const Element*>(
          a.bias)[s.batch * a.bias_stride_batch + h * a.bias_stride_head + i * a.bias_stride_row + j]));
    }
    if (a.alibi_slopes != nullptr) {
      x -= static_cast<double>(a.alibi_slopes[h]) * std::abs(static_cast<double>(i + s.keys - s.queries - j));
    }
    if (x == none) continue;
    if (x > largest) {
      const double rescale = std::exp(largest - x);
      sum *= rescale;
      for (std::int64_t d = 0; d < a.head_dim_v; ++d) values[d] *= rescale;
      largest = x;
    }
    const double weight = std::exp(x - largest);
    sum += weight;
    float kept = 1.0F;
    if (a.dropout_p != 0.0F) drop(a, s.batch * a.heads + h, i, {j, j + 1}, &kept);
    if (kept == 0.0F) continue;
    for (std::int64_t d = 0; d < a.head_dim_v; ++d) {
      values[d] += weight * static_cast<double>(to_float(v[d]));
    }
  }
  const double kept = sum * (1.0 - static_cast<double>(a.dropout_p));
  const double factor = sum == 0.0 ? 0.0 : static_cast<double>(scales.of_v(head_kv)) / kept;
  Element* out = out_row<Element>(a, s, h, i);
  for (std::int64_t d = 0; d < a.head_dim_v; ++d) out[d] = from_double<Element>(values[d] * factor);
  write_lse(a, s, h, i, sum == 0.0 ? -infinity : static_cast<float>(largest + std::log(sum)));
}

}  // namespace
