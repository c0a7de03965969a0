// SPDX-License-Identifier: MIT
// Rotary position embedding as its definition reads, in double precision (or in another type, to learn how
// large rounding errors are). Slow and plain on purpose.
#pragma once

#include <cmath>
#include <cstdint>

#include <switchyard/operators/rotary.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

/// Calls `visit(is_key, offset, value)` once for each element of q_out (is_key false) and k_out, with its
/// offset in elements and the value that belongs there. Angles are always computed in double. Token t of
/// sequence b is left out where `wants(b, t)` is false.
template <class Real = double, class Visit, class Wants>
void rotary(const operators::rotary::arguments& a, Visit&& visit, const Wants& wants) {
  const std::int64_t half = a.rotary_dim / 2;
  for (std::int64_t b = 0; b < a.batch; ++b) {
    const bool packed = a.cu_seqlens != nullptr;
    const std::int64_t first = packed ? a.cu_seqlens[b] : 0;
    const std::int64_t length = packed ? a.cu_seqlens[b + 1] - first : a.seqlen;
    for (std::int64_t t = 0; t < length; ++t) {
      if (!wants(b, t)) continue;
      std::int64_t position = a.offset + t;
      if (a.sequence_offsets != nullptr) position = a.sequence_offsets[b] + t;
      if (a.positions != nullptr) position = a.positions[packed ? first + t : b * a.seqlen + t];
      for (std::int64_t h = 0; h < a.heads + a.heads_kv; ++h) {
        const bool is_key = h >= a.heads;
        const std::int64_t head = is_key ? h - a.heads : h;
        const void* in = is_key ? a.k : a.q;
        const auto row = [&](std::int64_t batch, std::int64_t token, std::int64_t per_head) {
          return (packed ? (first + t) * token : b * batch + t * token) + head * per_head;
        };
        const std::int64_t from = is_key ? row(a.k_stride_batch, a.k_stride_token, a.k_stride_head)
                                         : row(a.q_stride_batch, a.q_stride_token, a.q_stride_head);
        const std::int64_t to = is_key ? row(a.k_out_stride_batch, a.k_out_stride_token, a.k_out_stride_head)
                                       : row(a.q_out_stride_batch, a.q_out_stride_token, a.q_out_stride_head);
        for (std::int64_t i = 0; i < half; ++i) {
          double cosine = 0;
          double sine = 0;
          if (a.cos != nullptr) {
            cosine = load(a.table_dtype, a.cos, position * a.table_stride + i);
            sine = load(a.table_dtype, a.sin, position * a.table_stride + i);
          } else {
            const double frequency =
                std::pow(static_cast<double>(a.base),
                         -2.0 * static_cast<double>(i) / static_cast<double>(a.rotary_dim));
            const double angle = static_cast<double>(position) * static_cast<double>(a.scaling) * frequency;
            cosine = std::cos(angle);
            sine = std::sin(angle);
          }
          if (a.inverse) sine = -sine;
          const bool interleaved = a.style == operators::rotary_style::interleaved;
          const std::int64_t i0 = interleaved ? 2 * i : i;
          const std::int64_t i1 = interleaved ? 2 * i + 1 : i + half;
          const auto x0 = static_cast<Real>(load(a.dtype, in, from + i0));
          const auto x1 = static_cast<Real>(load(a.dtype, in, from + i1));
          const auto c = static_cast<Real>(cosine);
          const auto s = static_cast<Real>(sine);
          visit(is_key, to + i0, static_cast<double>(x0 * c - x1 * s));
          visit(is_key, to + i1, static_cast<double>(x0 * s + x1 * c));
        }
        for (std::int64_t i = a.rotary_dim; i < a.head_dim; ++i) {
          visit(is_key, to + i, load(a.dtype, in, from + i));
        }
      }
    }
  }
}

/// All tokens.
template <class Real = double, class Visit>
void rotary(const operators::rotary::arguments& a, Visit&& visit) {
  rotary<Real>(a, visit, [](std::int64_t, std::int64_t) { return true; });
}

/// Computes and writes q_out and k_out. Not in place.
inline void rotary(const operators::rotary::arguments& a) {
  rotary(a, [&](bool is_key, std::int64_t offset, double value) {
    store(a.dtype, is_key ? a.k_out : a.q_out, offset, value);
  });
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
