// SPDX-License-Identifier: MIT
// Attention backward as its formulas read, in double precision (or in another type, to learn how large
// rounding errors are). Slow and plain on purpose. Takes the forward reference's LSE rather than the call's,
// and its own delta, so that nothing of the call's intermediate results is trusted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <switchyard/base/philox.hpp>
#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/tune/reference/attention_terms.hpp>
#include <switchyard/tune/reference/element.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

/// Gradients in the layouts of dq, dk, dv and dbias; NaN where nothing is written.
template <class Real>
struct attention_gradients {
  std::vector<Real> dq, dk, dv, dbias;
  /// Largest error of an element of dq, dk or dbias, in units of an element's rounding, when every product is
  /// rounded by itself: dP - delta cancels, to nothing for a row with one key, and leaves what both were
  /// rounded by. Of dv when every weight is: the rows that a key is seen by may cancel.
  Real noise_dq = 0, noise_dk = 0, noise_dv = 0, noise_dbias = 0;
};

/// The vectors of `out` have the sizes of the tensors behind the call's pointers.
template <class Real = double>
void attention_backward(const operators::attention_backward::arguments& a, attention_gradients<Real>& out) {
  using operators::attention_mask;
  const std::uint64_t seed = a.dropout_state != nullptr ? a.dropout_state[0] : a.dropout_seed;
  const std::uint64_t dropout_offset = a.dropout_state != nullptr ? a.dropout_state[1] : a.dropout_offset;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const auto read = [&](const void* tensor, std::int64_t i) {
    return static_cast<Real>(load(a.dtype, tensor, i));
  };
  const auto bias_place = [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    return at(b * a.dbias_stride_batch + h * a.dbias_stride_head + i * a.dbias_stride_row + j);
  };
  std::vector<Real> noise_of_bias(out.dbias.size(), Real{0});  // squared
  if (a.dbias != nullptr) {
    const auto count = [](std::int64_t stride, std::int64_t all) { return stride == 0 ? 1 : all; };
    for (std::int64_t b = 0; b < count(a.dbias_stride_batch, a.batch); ++b) {
      for (std::int64_t h = 0; h < count(a.dbias_stride_head, a.heads); ++h) {
        for (std::int64_t i = 0; i < count(a.dbias_stride_row, a.seqlen_q); ++i) {
          for (std::int64_t j = 0; j < a.seqlen_k; ++j) out.dbias[bias_place(b, h, i, j)] = 0;
        }
      }
    }
  }
  for (std::int64_t b = 0; b < a.batch; ++b) {
    const attention_sequence s{a, b};
    const std::int64_t entry_q = a.cu_seqlens_q != nullptr ? 0 : b;
    const std::int64_t entry_k = a.cu_seqlens_k != nullptr ? 0 : b;
    for (std::int64_t h_kv = 0; h_kv < a.heads_kv; ++h_kv) {
      const auto key_row = [&](std::int64_t j, std::int64_t batch, std::int64_t head, std::int64_t token) {
        return entry_k * batch + h_kv * head + (s.first_k + j) * token;
      };
      for (std::int64_t j = 0; j < s.keys; ++j) {
        const auto dk = key_row(j, a.dk_stride_batch, a.dk_stride_head, a.dk_stride_token);
        const auto dv = key_row(j, a.dv_stride_batch, a.dv_stride_head, a.dv_stride_token);
        for (std::int64_t d = 0; d < a.head_dim; ++d) out.dk[at(dk + d)] = 0;
        for (std::int64_t d = 0; d < a.head_dim_v; ++d) out.dv[at(dv + d)] = 0;
      }
      std::vector<Real> noise_of_key(at(s.keys), Real{0});    // squared
      std::vector<Real> noise_of_value(at(s.keys), Real{0});  // squared
      const std::int64_t share = a.heads / a.heads_kv;
      for (std::int64_t h = h_kv * share; h < (h_kv + 1) * share; ++h) {
        for (std::int64_t i = 0; i < s.queries; ++i) {
          const auto query_row = [&](std::int64_t batch, std::int64_t head, std::int64_t token) {
            return entry_q * batch + h * head + (s.first_q + i) * token;
          };
          const auto q = query_row(a.q_stride_batch, a.q_stride_head, a.q_stride_token);
          const auto dout = query_row(a.dout_stride_batch, a.dout_stride_head, a.dout_stride_token);
          const auto dq = query_row(a.dq_stride_batch, a.dq_stride_head, a.dq_stride_token);
          for (std::int64_t d = 0; d < a.head_dim; ++d) out.dq[at(dq + d)] = 0;
          const std::int64_t position = i + s.keys - s.queries;
          const std::int64_t diagonal = a.mask == attention_mask::causal_top_left ? i : position;
          constexpr Real unseen = -std::numeric_limits<Real>::infinity();
          std::vector<Real> weights(at(s.keys), unseen);  // scores at first
          std::vector<Real> flat(at(s.keys), Real{1});
          std::vector<Real> dp(at(s.keys), Real{0});
          std::vector<Real> kept(at(s.keys), Real{1});
          const std::vector<bool> in_blocks = seen_in_blocks(a, b, h, i);
          for (std::int64_t j = 0; j < s.keys; ++j) {
            if (!sees(a, diagonal, j)) continue;
            if (!in_blocks.empty() && !in_blocks[at(j)]) continue;
            const auto k = key_row(j, a.k_stride_batch, a.k_stride_head, a.k_stride_token);
            Real score = 0;
            for (std::int64_t d = 0; d < a.head_dim; ++d) score += read(a.q, q + d) * read(a.k, k + d);
            score *= static_cast<Real>(a.scale);
            if (a.soft_cap != 0.0F) {
              const Real tangent = bent(score / static_cast<Real>(a.soft_cap), a.dtype);
              flat[at(j)] = 1 - tangent * tangent;
              score = static_cast<Real>(a.soft_cap) * tangent;
            }
            if (a.bias != nullptr) {
              score +=
                  read(a.bias, b * a.bias_stride_batch + h * a.bias_stride_head + i * a.bias_stride_row + j);
            }
            weights[at(j)] = score - alibi<Real>(a.alibi_slopes, h, position - j);
          }
          if (softmax_weights(std::span{weights}, unseen) == unseen) continue;
          Real delta = 0;
          Real noise_of_delta = 0;  // squared
          std::vector<Real> noise(at(s.keys), Real{0});
          for (std::int64_t j = 0; j < s.keys; ++j) {
            if (weights[at(j)] == 0) continue;
            if (a.dropout_p != 0.0F) {
              const auto words =
                  dropout_words(seed, dropout_offset, static_cast<std::uint32_t>(b * a.heads + h),
                                static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j / 4));
              kept[at(j)] = words[at(j % 4)] < dropout_threshold(a.dropout_p)
                                ? Real{0}
                                : 1 / (Real{1} - static_cast<Real>(a.dropout_p));
            }
            const auto v = key_row(j, a.v_stride_batch, a.v_stride_head, a.v_stride_token);
            const auto dv = key_row(j, a.dv_stride_batch, a.dv_stride_head, a.dv_stride_token);
            const Real weight = weights[at(j)] * kept[at(j)];
            Real largest_dout = 0;
            for (std::int64_t d = 0; d < a.head_dim_v; ++d) {
              const Real upstream = read(a.dout, dout + d);
              const Real product = upstream * read(a.v, v + d);
              dp[at(j)] += product;
              noise[at(j)] += product * product;
              out.dv[at(dv + d)] += weight * upstream;
              largest_dout = std::max(largest_dout, std::abs(upstream));
            }
            noise_of_value[at(j)] += weight * weight * largest_dout * largest_dout;
            dp[at(j)] *= kept[at(j)];
            noise[at(j)] *= kept[at(j)] * kept[at(j)];
            noise_of_delta += weights[at(j)] * weights[at(j)] * noise[at(j)];
            delta += weights[at(j)] * dp[at(j)];
          }
          if (a.dlse != nullptr) {
            delta -= static_cast<Real>(
                a.dlse[entry_q * a.dlse_stride_batch + h * a.dlse_stride_head + s.first_q + i]);
          }
          Real largest_q = 0;
          for (std::int64_t d = 0; d < a.head_dim; ++d)
            largest_q = std::max(largest_q, std::abs(read(a.q, q + d)));
          Real noise_of_query = 0;  // squared
          for (std::int64_t j = 0; j < s.keys; ++j) {
            if (weights[at(j)] == 0) continue;
            const Real factor = weights[at(j)] * flat[at(j)] * static_cast<Real>(a.scale);
            const Real ds = factor * (dp[at(j)] - delta);
            const auto k = key_row(j, a.k_stride_batch, a.k_stride_head, a.k_stride_token);
            const auto dk = key_row(j, a.dk_stride_batch, a.dk_stride_head, a.dk_stride_token);
            Real largest_k = 0;
            for (std::int64_t d = 0; d < a.head_dim; ++d) {
              out.dq[at(dq + d)] += ds * read(a.k, k + d);
              out.dk[at(dk + d)] += ds * read(a.q, q + d);
              largest_k = std::max(largest_k, std::abs(read(a.k, k + d)));
            }
            const Real noise_of_ds = factor * factor * (noise[at(j)] + noise_of_delta);
            if (a.dbias != nullptr) {
              const std::size_t place = bias_place(b, h, i, j);
              out.dbias[place] += weights[at(j)] * (dp[at(j)] - delta);
              noise_of_bias[place] += weights[at(j)] * weights[at(j)] * (noise[at(j)] + noise_of_delta);
            }
            noise_of_query += noise_of_ds * largest_k * largest_k;
            noise_of_key[at(j)] += noise_of_ds * largest_q * largest_q;
          }
          out.noise_dq = std::max(out.noise_dq, std::sqrt(noise_of_query));
        }
      }
      for (const Real squared : noise_of_key) out.noise_dk = std::max(out.noise_dk, std::sqrt(squared));
      for (const Real squared : noise_of_value) out.noise_dv = std::max(out.noise_dv, std::sqrt(squared));
    }
  }
  for (const Real squared : noise_of_bias) out.noise_dbias = std::max(out.noise_dbias, std::sqrt(squared));
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
