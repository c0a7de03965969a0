// SPDX-License-Identifier: MIT
// What the references of attention share: lengths, which keys a query sees, the terms of a score, the
// softmax.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operators/attention.hpp>

namespace switchyard {
inline namespace v0 {
namespace reference {

/// One batch entry: its lengths, and where it begins in packed tensors.
struct attention_sequence {
  std::int64_t first_q = 0, first_k = 0;
  std::int64_t queries = 0, keys = 0;

  template <class Arguments>
  attention_sequence(const Arguments& a, std::int64_t b)
      : first_q{a.cu_seqlens_q != nullptr ? a.cu_seqlens_q[b] : 0},
        first_k{a.cu_seqlens_k != nullptr ? a.cu_seqlens_k[b] : 0},
        queries{a.cu_seqlens_q != nullptr ? a.cu_seqlens_q[b + 1] - first_q : a.seqlen_q},
        keys{a.cu_seqlens_k != nullptr ? a.cu_seqlens_k[b + 1] - first_k : a.seqlen_k} {
    if (a.seqused_q != nullptr) queries = a.seqused_q[b];
    if (a.seqused_k != nullptr) keys = a.seqused_k[b];
  }
};

/// Whether a query sees key j. `diagonal` is the last key that a causal mask shows it.
template <class Arguments>
[[nodiscard]] bool sees(const Arguments& a, std::int64_t diagonal, std::int64_t j) {
  if (a.mask != operators::attention_mask::none && j > diagonal) return false;
  if (a.window_left >= 0 && j < diagonal - a.window_left) return false;
  if constexpr (requires { a.window_right; }) {
    if (a.window_right >= 0 && j > diagonal + a.window_right) return false;
  }
  return true;
}

/// The keys that query i of head h of sequence b sees under a block mask; empty where there is none.
template <class Arguments>
[[nodiscard]] std::vector<bool> seen_in_blocks(const Arguments& a, std::int64_t b, std::int64_t h,
                                               std::int64_t i) {
  if (a.kv_num_blocks == nullptr) return {};
  const std::int64_t block_k = operators::mask_block_k(a);
  std::vector<bool> out(static_cast<std::size_t>(a.seqlen_k));
  const std::int64_t entry = (a.mask_batch > 1 ? b : 0) * a.mask_heads + (a.mask_heads > 1 ? h : 0);
  const std::int64_t row = entry * a.mask_query_blocks + i / a.mask_block_q;
  const auto see = [&](std::int64_t block, const std::uint32_t* words) {
    for (std::int64_t n = 0; n < block_k && block * block_k + n < a.seqlen_k; ++n) {
      if (words == nullptr || (words[n / 32] >> (n % 32) & 1U) != 0)
        out[static_cast<std::size_t>(block * block_k + n)] = true;
    }
  };
  const std::int64_t first = row * a.mask_key_blocks;
  for (std::int64_t n = 0; n < a.kv_num_blocks[row]; ++n) {
    see(a.kv_indices[first + n],
        a.mask_bits +
            (std::int64_t{a.kv_bits[first + n]} * a.mask_block_q + i % a.mask_block_q) * a.mask_words);
  }
  if (a.full_kv_num_blocks == nullptr) return out;
  for (std::int64_t n = 0; n < a.full_kv_num_blocks[row]; ++n) see(a.full_kv_indices[first + n], nullptr);
  return out;
}

/// tanh(x), by which a soft cap bends scores. Kernels in f16 and bf16 may take a GPU's own, whose relative
/// error is up to 2^-11, and a float reference tells how far off results may be: it is off by a quarter of
/// that, up or down.
template <class Real>
[[nodiscard]] Real bent(Real x, dtype type) {
  const Real exact = std::tanh(x);
  if constexpr (std::is_same_v<Real, float>) {
    if (type != dtype::f32) {
      const float size = std::abs(x);
      const bool up = size < 16.0F && static_cast<int>(size * 128.0F) % 2 == 1;
      return exact * (up ? 1.0F + 0x1p-13F : 1.0F - 0x1p-13F);
    }
  }
  return exact;
}

/// What a score may be off by for it, where scores are about `size`.
template <class Arguments>
[[nodiscard]] double error_of_cap(const Arguments& a, double size) {
  if (a.soft_cap == 0.0F || a.dtype == dtype::f32) return 0;
  return 0x1p-11 * std::min(size, static_cast<double>(a.soft_cap));
}

template <class Real, class Arguments>
[[nodiscard]] Real capped(Real score, const Arguments& a) {
  if (a.soft_cap == 0.0F) return score;
  const auto cap = static_cast<Real>(a.soft_cap);
  return cap * bent(score / cap, a.dtype);
}

/// A scale of queries, keys or values; 1 where none are given.
template <class Real>
[[nodiscard]] Real scale_of(const float* scales, std::int64_t at) {
  return scales != nullptr ? static_cast<Real>(scales[at]) : Real{1};
}

/// What ALiBi takes from a score of head h.
template <class Real>
[[nodiscard]] Real alibi(const float* slopes, std::int64_t h, std::int64_t distance) {
  if (slopes == nullptr) return Real{0};
  return static_cast<Real>(slopes[h]) * static_cast<Real>(std::abs(distance));
}

/// Turns the scores of a row, -infinity where a key is not seen, into weights, and gives their log-sum-exp. A
/// sink takes its share of the sum; -infinity is none. A row that sees nothing gets weights of zero.
template <class Real>
Real softmax_weights(std::span<Real> scores, Real sink) {
  Real maximum = sink;
  for (const Real score : scores) {
    if (score > maximum || std::isnan(score)) maximum = score;
  }
  if (maximum == -std::numeric_limits<Real>::infinity()) {
    for (Real& score : scores) score = 0;
    return maximum;
  }
  Real sum = std::exp(sink - maximum);
  for (const Real score : scores) sum += std::exp(score - maximum);
  for (Real& score : scores) score = std::exp(score - maximum) / sum;
  return maximum + std::log(sum);
}

}  // namespace reference
}  // namespace v0
}  // namespace switchyard
