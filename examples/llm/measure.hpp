// Tokens a second of a loaded model: prompts, and generation behind them.
#pragma once

#include <cstdint>
#include <vector>

#include "loaded_model.hpp"

namespace llm {

struct speed {
  std::int64_t prompt_tokens;     ///< of a sequence
  std::int64_t generated_tokens;  ///< of a sequence, behind that prompt
  std::int64_t sequences;
  double prompt_per_second;  ///< tokens of all sequences
  double generated_per_second;
};

/// The medians of `runs` runs behind one that warms up. Throws std::invalid_argument where the cache is too
/// small.
[[nodiscard]] speed measure(loaded_model& model, std::int64_t prompt_tokens, std::int64_t generated_tokens,
                            std::int64_t sequences, int runs);

}  // namespace llm
