// SPDX-License-Identifier: MIT
// Chooses the next token from a model's logits.
//
// Steps, in this order: the top_k largest logits; a division by temperature; the smallest set of the most
// probable of these whose probabilities reach top_p; a draw from this set. That is what transformers gives.
// (llama.cpp divides by the temperature last, so that its top_p depends on it less.) Of equal logits, the
// token with the lower id counts as the larger.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace llm {

struct sampling_options {
  float temperature = 0;   ///< 0: the most probable token, whatever the others are
  std::int32_t top_k = 0;  ///< 0: all
  float top_p = 1;         ///< above 0, at most 1
  std::uint64_t seed = 0;
};

/// One sequence's sampler. With one seed, the same logits give the same tokens: draws come from
/// std::mt19937_64, whose output the C++ standard fixes, and their upper 53 bits make a number in [0, 1). Not
/// to be shared between threads.
class sampler {
 public:
  /// Throws std::invalid_argument for settings out of range.
  explicit sampler(const sampling_options& options);

  [[nodiscard]] const sampling_options& options() const noexcept { return options_; }

  /// The next token: an index into `logits`, one for each token of the vocabulary. -inf excludes a token.
  /// Takes time linear in their number, and sorts only candidates. Throws std::invalid_argument where there
  /// is no logit, where one is NaN or +inf, or where all are -inf.
  [[nodiscard]] std::int32_t sample(std::span<const float> logits);

 private:
  struct candidate {
    float logit;
    std::int32_t token;
    double weight = 0;  ///< its probability, not normalised
  };
  [[nodiscard]] static bool larger(const candidate& left, const candidate& right) noexcept;
  void collect(std::span<const float> logits);
  double set_weights(float largest);
  double keep_top_p(double sum);
  [[nodiscard]] double draw();

  sampling_options options_;
  std::mt19937_64 generator_;
  std::vector<candidate> candidates_;
};

}  // namespace llm
