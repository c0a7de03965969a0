// SPDX-License-Identifier: MIT
// Generates text for several prompts at once. Each step computes one token of every generating sequence and
// fills up with pieces of prompts, so that a long prompt does not delay the others.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "batch.hpp"
#include "forward.hpp"
#include "kv_cache.hpp"
#include "sampler.hpp"
#include "tokenizer.hpp"

namespace llm {

/// Why a sequence ended.
enum class finish_reason { end_token, max_tokens, context_full };

struct generation_request {
  std::vector<token_id> prompt;  ///< one token or more
  sampling_options sampling;
  std::int64_t max_tokens = 256;
  /// Receives each generated token, except the one that ends the sequence.
  std::function<void(token_id)> on_token;
  std::function<void(finish_reason)> on_finish;
};

class engine {
 public:
  /// All must outlive the object. `context`: the most tokens of a sequence.
  engine(forward& model, kv_cache& cache, const tokenizer& text, step_limits limits, std::int64_t context);

  /// Queues a prompt. It starts when the cache has room for its longest possible sequence. Throws
  /// std::invalid_argument if that can never be.
  void add(generation_request request);

  /// Runs one step. Returns false if nothing is left to do.
  bool step();

  /// Since the beginning.
  struct counts {
    std::int64_t prompt_tokens = 0;
    std::int64_t generated_tokens = 0;
    std::int64_t steps = 0;
  };
  [[nodiscard]] const counts& totals() const noexcept { return totals_; }

 private:
  struct sequence {
    generation_request request;
    sampler pick;
    std::vector<std::int32_t> pages;
    std::int64_t cached = 0;  ///< tokens whose keys and values the cache holds
    std::int64_t generated = 0;
    token_id last = 0;  ///< the token to run next, once the prompt is done
    bool is_done = false;

    [[nodiscard]] std::int64_t prompt_left() const noexcept {
      return static_cast<std::int64_t>(request.prompt.size()) - cached;
    }
  };
  /// A sequence's share of a step.
  struct share {
    sequence* of;
    std::int64_t tokens;
  };

  [[nodiscard]] std::int64_t max_cached(const generation_request& request) const;
  void admit();
  [[nodiscard]] std::vector<share> plan();
  [[nodiscard]] batch make_batch(const std::vector<share>& shares) const;
  void accept(sequence& of, std::span<const float> logits);
  void finish(sequence& of, finish_reason why);

  forward& model_;
  kv_cache& cache_;
  const tokenizer& text_;
  step_limits limits_;
  std::int64_t context_;
  std::vector<generation_request> waiting_;
  std::vector<sequence> running_;
  counts totals_;
};

}  // namespace llm
