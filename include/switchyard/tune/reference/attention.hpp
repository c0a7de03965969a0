// SPDX-License-Identifier: MIT
// Attention forward as its definition reads, in double precision (or in another type, to learn how large
// rounding errors are). Slow and plain on purpose: every score of a row is formed, then the softmax.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <switchyard/base/philox.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/tune/reference/attention_terms.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

/// Calls `visit(out_offset, lse_offset, values, lse)` once for each query row in use, with the offsets in
/// elements of the row in `out` and of its entry in `lse`. Row i of head h of sequence b is left out where
/// `wants(b, h, i)` is false.
template <class Real = double, class Visit, class Wants>
void attention_forward(const operators::attention_forward::arguments& a, Visit&& visit, const Wants& wants) {
  using operators::attention_mask;
  constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();
  const dtype q_dtype = a.type_of_q();
  const dtype kv_dtype = a.type_of_kv();
  const std::uint64_t seed = a.dropout_state != nullptr ? a.dropout_state[0] : a.dropout_seed;
  const std::uint64_t dropout_offset = a.dropout_state != nullptr ? a.dropout_state[1] : a.dropout_offset;
  std::vector<Real> weights;
  std::vector<Real> values(static_cast<std::size_t>(a.head_dim_v));

  for (std::int64_t b = 0; b < a.batch; ++b) {
    const attention_sequence s{a, b};

    // Offset of a key's row in k or v.
    const auto key_row = [&](std::int64_t j, std::int64_t head, std::int64_t stride_batch,
                             std::int64_t stride_head, std::int64_t stride_token) {
      if (a.block_table != nullptr) {
        const std::int64_t page = a.block_table[b * a.block_table_stride + j / a.page_size];
        return page * stride_batch + (j % a.page_size) * stride_token + head * stride_head;
      }
      if (a.cu_seqlens_k != nullptr) return (s.first_k + j) * stride_token + head * stride_head;
      return b * stride_batch + j * stride_token + head * stride_head;
    };

    for (std::int64_t h = 0; h < a.heads; ++h) {
      const std::int64_t h_kv = h / (a.heads / a.heads_kv);
      const Real q_scale = scale_of<Real>(a.q_scale, h * a.q_scale_stride);
      const Real k_scale = scale_of<Real>(a.k_scale, h_kv * a.k_scale_stride);
      const Real v_scale = scale_of<Real>(a.v_scale, h_kv * a.v_scale_stride);
      for (std::int64_t i = 0; i < s.queries; ++i) {
        if (!wants(b, h, i)) continue;
        const auto token_row = [&](std::int64_t stride_batch, std::int64_t stride_head,
                                   std::int64_t stride_token) {
          return (a.cu_seqlens_q != nullptr ? 0 : b * stride_batch) + h * stride_head +
                 (s.first_q + i) * stride_token;
        };
        const std::int64_t q_row = token_row(a.q_stride_batch, a.q_stride_head, a.q_stride_token);
        const std::int64_t position = i + s.keys - s.queries;
        const std::int64_t diagonal = a.mask == attention_mask::causal_top_left ? i : position;

        const std::vector<bool> in_blocks = seen_in_blocks(a, b, h, i);
        weights.assign(static_cast<std::size_t>(s.keys), minus_infinity);  // scores at first
        for (std::int64_t j = 0; j < s.keys; ++j) {
          if (!sees(a, diagonal, j)) continue;
          if (!in_blocks.empty() && !in_blocks[static_cast<std::size_t>(j)]) continue;
          Real score = 0;
          const std::int64_t k_row = key_row(j, h_kv, a.k_stride_batch, a.k_stride_head, a.k_stride_token);
          for (std::int64_t d = 0; d < a.head_dim; ++d) {
            score += static_cast<Real>(load(q_dtype, a.q, q_row + d)) *
                     static_cast<Real>(load(kv_dtype, a.k, k_row + d));
          }
          score = capped(score * (q_scale * k_scale * static_cast<Real>(a.scale)), a);
          if (a.bias != nullptr) {
            score += static_cast<Real>(
                load(a.dtype, a.bias,
                     b * a.bias_stride_batch + h * a.bias_stride_head + i * a.bias_stride_row + j));
          }
          weights[static_cast<std::size_t>(j)] = score - alibi<Real>(a.alibi_slopes, h, position - j);
        }

        const Real lse = softmax_weights(std::span{weights},
                                         a.sinks != nullptr ? static_cast<Real>(a.sinks[h]) : minus_infinity);
        values.assign(values.size(), Real{0});
        for (std::int64_t j = 0; j < s.keys; ++j) {
          Real weight = weights[static_cast<std::size_t>(j)];
          if (weight == 0) continue;
          if (a.dropout_p != 0.0F) {
            const philox_counter words =
                dropout_words(seed, dropout_offset, static_cast<std::uint32_t>(b * a.heads + h),
                              static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j / 4));
            if (words[static_cast<std::size_t>(j % 4)] < dropout_threshold(a.dropout_p)) continue;
            weight /= Real{1} - static_cast<Real>(a.dropout_p);
          }
          const std::int64_t v_row = key_row(j, h_kv, a.v_stride_batch, a.v_stride_head, a.v_stride_token);
          for (std::int64_t d = 0; d < a.head_dim_v; ++d) {
            values[static_cast<std::size_t>(d)] +=
                weight * v_scale * static_cast<Real>(load(kv_dtype, a.v, v_row + d));
          }
        }
        visit(token_row(a.out_stride_batch, a.out_stride_head, a.out_stride_token),
              (a.cu_seqlens_q != nullptr ? s.first_q : b * a.lse_stride_batch) + h * a.lse_stride_head + i,
              std::span<const Real>{values}, lse);
      }
    }
  }
}

/// All rows.
template <class Real = double, class Visit>
void attention_forward(const operators::attention_forward::arguments& a, Visit&& visit) {
  attention_forward<Real>(a, visit, [](std::int64_t, std::int64_t, std::int64_t) { return true; });
}

/// Computes and writes out and, where wanted, lse.
inline void attention_forward(const operators::attention_forward::arguments& a) {
  attention_forward(a, [&](std::int64_t out, std::int64_t lse_at, std::span<const double> row, double lse) {
    for (std::size_t d = 0; d < row.size(); ++d) {
      store(a.dtype, a.out, out + static_cast<std::int64_t>(d), row[d]);
    }
    if (a.lse != nullptr) a.lse[lse_at] = static_cast<float>(lse);
  });
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
