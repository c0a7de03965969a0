// SPDX-License-Identifier: MIT
// Decoding as its definition reads, in double precision (or in another type, to learn how large rounding
// errors are). Slow and plain on purpose: every score of a row is formed, then the softmax.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/tune/reference/attention_terms.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

/// Calls `visit(out_offset, lse_offset, values, lse)` once for each query row, with the offsets in elements
/// of the row in `out` and of its entry in `lse`. Query i of head h of sequence b is left out where `wants(b,
/// h, i)` is false.
template <class Real = double, class Visit, class Wants>
void attention_decode(const operators::attention_decode::arguments& a, Visit&& visit, const Wants& wants) {
  constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();
  std::vector<Real> weights;
  std::vector<Real> values(static_cast<std::size_t>(a.head_dim_v));
  for (std::int64_t b = 0; b < a.batch; ++b) {
    const std::int64_t keys = a.seqused_k != nullptr ? a.seqused_k[b] : a.seqlen_k;
    const auto key_row = [&](std::int64_t j, std::int64_t head, std::int64_t stride_batch,
                             std::int64_t stride_head, std::int64_t stride_token) {
      if (a.block_table == nullptr) return b * stride_batch + j * stride_token + head * stride_head;
      const std::int64_t page = a.block_table[b * a.block_table_stride + j / a.page_size];
      return page * stride_batch + (j % a.page_size) * stride_token + head * stride_head;
    };
    // Of a latent cache with rotary columns apart.
    const auto column_scale = [&](std::int64_t j, std::int64_t d) {
      if (a.k_rotary == nullptr) return Real{1};
      return static_cast<Real>(a.k_scale[key_row(j, 0, a.k_scale_stride_batch, 0, a.k_scale_stride_token) +
                                         d / operators::scale_group_columns]);
    };
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const std::int64_t h_kv = h / (a.heads / a.heads_kv);
      const Real k_scale = a.k_rotary != nullptr ? 1 : scale_of<Real>(a.k_scale, h_kv * a.k_scale_stride);
      const Real v_scale = scale_of<Real>(a.v_scale, h_kv * a.v_scale_stride);
      for (std::int64_t i = 0; i < a.seqlen_q; ++i) {
        if (!wants(b, h, i)) continue;
        const std::int64_t q_row = b * a.q_stride_batch + h * a.q_stride_head + i * a.q_stride_token;
        const std::int64_t position = i + keys - a.seqlen_q;
        weights.assign(static_cast<std::size_t>(keys), minus_infinity);  // scores at first
        for (std::int64_t j = 0; j < keys; ++j) {
          if (!sees(a, position, j)) continue;
          const std::int64_t k_row = key_row(j, h_kv, a.k_stride_batch, a.k_stride_head, a.k_stride_token);
          Real score = 0;
          for (std::int64_t d = 0; d < (a.k_rotary != nullptr ? a.head_dim_v : a.head_dim); ++d) {
            score += static_cast<Real>(load(a.dtype, a.q, q_row + d)) *
                     static_cast<Real>(load(a.kv_dtype, a.k, k_row + d)) * column_scale(j, d);
          }
          if (a.k_rotary != nullptr) {
            const std::int64_t row = key_row(j, 0, a.k_rotary_stride_batch, 0, a.k_rotary_stride_token);
            for (std::int64_t d = 0; d < a.rotary_dim; ++d) {
              score += static_cast<Real>(load(a.dtype, a.q, q_row + a.head_dim_v + d)) *
                       static_cast<Real>(load(a.dtype, a.k_rotary, row + d));
            }
          }
          score = capped(score * (k_scale * static_cast<Real>(a.scale)), a);
          weights[static_cast<std::size_t>(j)] = score - alibi<Real>(a.alibi_slopes, h, position - j);
        }
        const Real lse = softmax_weights(std::span{weights},
                                         a.sinks != nullptr ? static_cast<Real>(a.sinks[h]) : minus_infinity);
        values.assign(values.size(), Real{0});
        for (std::int64_t j = 0; j < keys; ++j) {
          const Real weight = weights[static_cast<std::size_t>(j)];
          if (weight == 0) continue;
          const std::int64_t v_row = key_row(j, h_kv, a.v_stride_batch, a.v_stride_head, a.v_stride_token);
          for (std::int64_t d = 0; d < a.head_dim_v; ++d) {
            values[static_cast<std::size_t>(d)] +=
                weight * v_scale * static_cast<Real>(load(a.kv_dtype, a.v, v_row + d)) * column_scale(j, d);
          }
        }
        visit(b * a.out_stride_batch + h * a.out_stride_head + i * a.out_stride_token,
              b * a.lse_stride_batch + h * a.lse_stride_head + i, std::span<const Real>{values}, lse);
      }
    }
  }
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
