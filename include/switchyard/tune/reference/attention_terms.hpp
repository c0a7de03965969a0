// What the references of attention share: lengths, which keys a query sees, the terms of a score, the
// softmax.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>

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

template <class Real>
[[nodiscard]] Real capped(Real score, float soft_cap) {
  if (soft_cap == 0.0F) return score;
  const auto cap = static_cast<Real>(soft_cap);
  return cap * std::tanh(score / cap);
}

/// A scale of keys or values; 1 where none are given.
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
