// Attention forward as its definition reads, in double precision (or in another type, to learn how large
// rounding errors are). Slow and plain on purpose: every score of a row is formed, then the softmax.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/philox.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard::inline v0::reference {

/// Calls `visit(out_offset, lse_offset, values, lse)` once for each query row in use, with the offsets in
/// elements of the row in `out` and of its entry in `lse`. Row i of head h of sequence b is left out where
/// `wants(b, h, i)` is false.
template <class Real = double, class Visit, class Wants>
void attention_forward(const operators::attention_forward::arguments& a, Visit&& visit, const Wants& wants) {
  using operators::attention_mask;
  constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();
  const std::uint64_t seed = a.dropout_state != nullptr ? a.dropout_state[0] : a.dropout_seed;
  const std::uint64_t dropout_offset = a.dropout_state != nullptr ? a.dropout_state[1] : a.dropout_offset;
  std::vector<Real> scores;
  std::vector<Real> values(static_cast<std::size_t>(a.head_dim_v));

  for (std::int64_t b = 0; b < a.batch; ++b) {
    const std::int64_t first_q = a.cu_seqlens_q != nullptr ? a.cu_seqlens_q[b] : 0;
    const std::int64_t first_k = a.cu_seqlens_k != nullptr ? a.cu_seqlens_k[b] : 0;
    std::int64_t queries = a.cu_seqlens_q != nullptr ? a.cu_seqlens_q[b + 1] - first_q : a.seqlen_q;
    std::int64_t keys = a.cu_seqlens_k != nullptr ? a.cu_seqlens_k[b + 1] - first_k : a.seqlen_k;
    if (a.seqused_q != nullptr) queries = a.seqused_q[b];
    if (a.seqused_k != nullptr) keys = a.seqused_k[b];

    // Offset of a key's row in k or v.
    const auto key_row = [&](std::int64_t j, std::int64_t head, std::int64_t stride_batch,
                             std::int64_t stride_head, std::int64_t stride_token) {
      if (a.block_table != nullptr) {
        const std::int64_t page = a.block_table[b * a.block_table_stride + j / a.page_size];
        return page * stride_batch + (j % a.page_size) * stride_token + head * stride_head;
      }
      if (a.cu_seqlens_k != nullptr) return (first_k + j) * stride_token + head * stride_head;
      return b * stride_batch + j * stride_token + head * stride_head;
    };

    for (std::int64_t h = 0; h < a.heads; ++h) {
      const std::int64_t h_kv = h / (a.heads / a.heads_kv);
      for (std::int64_t i = 0; i < queries; ++i) {
        if (!wants(b, h, i)) continue;
        const auto token_row = [&](std::int64_t stride_batch, std::int64_t stride_head,
                                   std::int64_t stride_token) {
          return (a.cu_seqlens_q != nullptr ? 0 : b * stride_batch) + h * stride_head +
                 (first_q + i) * stride_token;
        };
        const std::int64_t q_row = token_row(a.q_stride_batch, a.q_stride_head, a.q_stride_token);
        const std::int64_t diagonal = a.mask == attention_mask::causal_top_left ? i : i + keys - queries;

        scores.assign(static_cast<std::size_t>(keys), minus_infinity);
        Real maximum = a.sinks != nullptr ? static_cast<Real>(a.sinks[h]) : minus_infinity;
        for (std::int64_t j = 0; j < keys; ++j) {
          if (a.mask != attention_mask::none && j > diagonal) continue;
          if (a.window_left >= 0 && j < diagonal - a.window_left) continue;
          if (a.window_right >= 0 && j > diagonal + a.window_right) continue;
          Real score = 0;
          const std::int64_t k_row = key_row(j, h_kv, a.k_stride_batch, a.k_stride_head, a.k_stride_token);
          for (std::int64_t d = 0; d < a.head_dim; ++d) {
            score += static_cast<Real>(load(a.dtype, a.q, q_row + d)) *
                     static_cast<Real>(load(a.dtype, a.k, k_row + d));
          }
          score *= static_cast<Real>(a.scale);
          if (a.soft_cap != 0.0F) {
            const auto cap = static_cast<Real>(a.soft_cap);
            score = cap * std::tanh(score / cap);
          }
          if (a.bias != nullptr) {
            score += static_cast<Real>(
                load(a.dtype, a.bias,
                     b * a.bias_stride_batch + h * a.bias_stride_head + i * a.bias_stride_row + j));
          }
          if (a.alibi_slopes != nullptr) {
            score -=
                static_cast<Real>(a.alibi_slopes[h]) * static_cast<Real>(std::abs(i + keys - queries - j));
          }
          scores[static_cast<std::size_t>(j)] = score;
          if (score > maximum || std::isnan(score)) maximum = score;
        }

        values.assign(values.size(), Real{0});
        Real lse = minus_infinity;
        if (maximum != minus_infinity) {
          Real sum = a.sinks != nullptr ? std::exp(static_cast<Real>(a.sinks[h]) - maximum) : Real{0};
          for (const Real score : scores) sum += std::exp(score - maximum);
          lse = maximum + std::log(sum);
          philox_counter words{};
          for (std::int64_t j = 0; j < keys; ++j) {
            Real weight = std::exp(scores[static_cast<std::size_t>(j)] - maximum) / sum;
            if (weight == 0) continue;
            if (a.dropout_p != 0.0F) {
              words = dropout_words(seed, dropout_offset, static_cast<std::uint32_t>(b * a.heads + h),
                                    static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j / 4));
              if (words[static_cast<std::size_t>(j % 4)] < dropout_threshold(a.dropout_p)) continue;
              weight /= Real{1} - static_cast<Real>(a.dropout_p);
            }
            const std::int64_t v_row = key_row(j, h_kv, a.v_stride_batch, a.v_stride_head, a.v_stride_token);
            for (std::int64_t d = 0; d < a.head_dim_v; ++d) {
              values[static_cast<std::size_t>(d)] +=
                  weight * static_cast<Real>(load(a.dtype, a.v, v_row + d));
            }
          }
        }
        visit(token_row(a.out_stride_batch, a.out_stride_head, a.out_stride_token),
              (a.cu_seqlens_q != nullptr ? first_q : b * a.lse_stride_batch) + h * a.lse_stride_head + i,
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

}  // namespace switchyard::inline v0::reference
