// SPDX-License-Identifier: MIT
// Normalisation, rotary embedding and caching of queries, keys and values as the definition reads, in double
// precision. Slow and plain on purpose.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/operators/rotary_cache.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

/// Which result a value is of.
enum class rotary_cache_result { q, k_cache, v_cache };

/// Calls `visit(result, offset, value, magnitude)` for each element that token `t` writes: its offset in
/// elements, the value before rounding, and the largest magnitude that enters it.
template <class Visit>
void rotary_cache(const operators::rotary_cache::arguments& a, std::int64_t t, Visit&& visit) {
  using result = rotary_cache_result;
  const auto count = static_cast<std::size_t>(a.head_dim);
  const auto half = static_cast<std::size_t>(a.rotary_dim / 2);
  const std::int64_t position = a.positions[t];
  const auto read = [&](const void* from, std::int64_t offset) {
    std::vector<double> out(count);
    for (std::size_t i = 0; i < count; ++i)
      out[i] = load(a.dtype, from, offset + static_cast<std::int64_t>(i));
    return out;
  };
  const auto place = [&](std::vector<double>& x, const float* gamma) {
    if (gamma != nullptr) {
      double squares = 0;
      for (const double value : x) squares += value * value;
      const double factor =
          1 / std::sqrt(squares / static_cast<double>(count) + static_cast<double>(a.epsilon));
      for (std::size_t i = 0; i < count; ++i) x[i] *= factor * static_cast<double>(gamma[i]);
    }
    for (std::size_t i = 0; i < half; ++i) {
      const std::int64_t at = position * a.table_stride + static_cast<std::int64_t>(i);
      const auto c = static_cast<double>(a.cos[at]);
      const auto s = static_cast<double>(a.sin[at]);
      const bool interleaved = a.style == operators::rotary_style::interleaved;
      double& x0 = x[interleaved ? 2 * i : i];
      double& x1 = x[interleaved ? 2 * i + 1 : i + half];
      const double turned = x0 * c - x1 * s;
      x1 = x0 * s + x1 * c;
      x0 = turned;
    }
  };
  const auto write = [&](result to, std::int64_t offset, const std::vector<double>& x, double scale) {
    double largest = 0;
    for (const double value : x) largest = std::fmax(largest, std::abs(value / scale));
    for (std::size_t i = 0; i < count; ++i)
      visit(to, offset + static_cast<std::int64_t>(i), x[i] / scale, largest);
  };
  for (std::int64_t h = 0; h < a.heads; ++h) {
    const std::int64_t at = t * a.q_stride_token + h * a.q_stride_head;
    std::vector<double> x = read(a.q, at);
    place(x, a.q_gamma);
    write(result::q, at, x, 1);
  }
  const std::int64_t slot = a.slots[t];
  if (slot < 0) return;
  const std::int64_t page = slot / a.page_size;
  const std::int64_t within = slot % a.page_size;
  const auto scale_of = [](const float* scales, std::int64_t at) {
    return scales == nullptr ? 1.0 : static_cast<double>(scales[at]);
  };
  for (std::int64_t h = 0; h < a.heads_kv; ++h) {
    std::vector<double> k = read(a.k, t * a.k_stride_token + h * a.k_stride_head);
    place(k, a.k_gamma);
    write(result::k_cache,
          page * a.k_cache_stride_page + within * a.k_cache_stride_token + h * a.k_cache_stride_head, k,
          scale_of(a.k_scale, h * a.k_scale_stride));
    const std::vector<double> v = read(a.v, t * a.v_stride_token + h * a.v_stride_head);
    write(result::v_cache,
          page * a.v_cache_stride_page + within * a.v_cache_stride_token + h * a.v_cache_stride_head, v,
          scale_of(a.v_scale, h * a.v_scale_stride));
  }
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
