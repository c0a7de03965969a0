// SPDX-License-Identifier: MIT
#include "sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace llm {
namespace {

/// The index of the largest, the first of equal ones. Throws where no token can be chosen.
[[nodiscard]] std::size_t find_largest(std::span<const float> logits) {
  if (logits.empty()) throw std::invalid_argument{"no logits; expected one for each token of the vocabulary"};
  std::size_t largest = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity()) {
      throw std::invalid_argument{
          "the logit of token " + std::to_string(i) + " is " + (std::isnan(logits[i]) ? "NaN" : "infinite") +
          ": the model's result is unusable. Check its weights and the kernels that ran"};
    }
    if (logits[i] > logits[largest]) largest = i;
  }
  if (std::isinf(logits[largest])) {
    throw std::invalid_argument{
        "all logits are -inf, so no token can be chosen. Check what excludes tokens, the model's weights and "
        "the "
        "kernels that ran"};
  }
  return largest;
}

}  // namespace

sampler::sampler(const sampling_options& options) : options_{options}, generator_{options.seed} {
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    throw std::invalid_argument{"temperature is " + std::to_string(options.temperature) +
                                "; expected a finite number of at least 0"};
  }
  if (options.top_k < 0) {
    throw std::invalid_argument{"top_k is " + std::to_string(options.top_k) +
                                "; expected at least 1, or 0 for all tokens"};
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw std::invalid_argument{"top_p is " + std::to_string(options.top_p) +
                                "; expected above 0 and at most 1"};
  }
}

bool sampler::larger(const candidate& left, const candidate& right) noexcept {
  return left.logit != right.logit ? left.logit > right.logit : left.token < right.token;
}

/// The top_k largest, by token.
void sampler::collect(std::span<const float> logits) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isinf(logits[i])) continue;
    candidates_.push_back({logits[i], static_cast<std::int32_t>(i), 0});
  }
  const auto most = static_cast<std::size_t>(options_.top_k);
  if (most == 0 || most >= candidates_.size()) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + options_.top_k, candidates_.end(), larger);
  candidates_.resize(most);
  // The order decides which token a draw gives, and that of nth_element depends on the C++ library.
  std::sort(candidates_.begin(), candidates_.end(),
            [](const candidate& left, const candidate& right) { return left.token < right.token; });
}

double sampler::set_weights(float largest) {
  // A division could give 0/0 for a temperature that is all but 0; the largest has the weight 1 without one.
  double sum = 0;
  for (candidate& kept : candidates_) {
    const double below = static_cast<double>(kept.logit) - static_cast<double>(largest);
    kept.weight = below == 0 ? 1 : std::exp(below / static_cast<double>(options_.temperature));
    sum += kept.weight;
  }
  return sum;
}

/// Leaves the most probable candidates that together reach top_p of `sum`; returns their sum.
double sampler::keep_top_p(double sum) {
  const double wanted = static_cast<double>(options_.top_p) * sum;
  double reached = 0;
  std::size_t sorted = 0;  // candidates at the front, in order
  // Few candidates reach top_p as a rule: sort only as many, in steps that grow.
  for (std::size_t step = 64; sorted < candidates_.size(); step *= 4) {
    const std::size_t end = std::min(sorted + step, candidates_.size());
    const auto first = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
    const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(end);
    std::nth_element(first, last - 1, candidates_.end(), larger);
    std::sort(first, last, larger);
    for (; sorted < end; ++sorted) {
      reached += candidates_[sorted].weight;
      if (reached >= wanted) {
        candidates_.resize(sorted + 1);
        return reached;
      }
    }
  }
  return reached;  // rounding left the sum just below
}

double sampler::draw() {
  return static_cast<double>(generator_() >> 11U) * 0x1p-53;
}

std::int32_t sampler::sample(std::span<const float> logits) {
  const std::size_t largest = find_largest(logits);
  if (options_.temperature == 0 || options_.top_k == 1) return static_cast<std::int32_t>(largest);
  collect(logits);
  double sum = set_weights(logits[largest]);
  if (options_.top_p < 1) sum = keep_top_p(sum);
  double rest = draw() * sum;
  for (const candidate& kept : candidates_) {
    rest -= kept.weight;
    if (rest < 0) return kept.token;
  }
  return static_cast<std::int32_t>(largest);  // rounding left a rest
}

}  // namespace llm
