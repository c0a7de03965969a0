// SPDX-License-Identifier: MIT
// Measures the speed of a loaded model with invented tokens: prompts, generation behind cached tokens, and
// generation while a table is replaced.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <switchyard/catalog.hpp>

#include "loaded_model.hpp"

namespace llm {

/// Of several runs.
struct spread {
  double median = 0, least = 0, most = 0;
};
[[nodiscard]] spread spread_of(std::vector<double> values);

/// Tokens per second of a prompt, in `runs` runs after a warm-up. This and the functions below throw
/// std::invalid_argument if context or cache are too small.
[[nodiscard]] spread measure_prompt(loaded_model& model, std::int64_t tokens, int runs);

struct decode_speed {
  spread per_second;  ///< tokens of all sequences
  spread step;        ///< seconds of a step, of all runs
  std::int64_t captures = 0;
};

/// Generates `tokens` tokens of each sequence behind `context` tokens. These are not computed: the content of
/// the cache does not affect the time, so it is zero.
[[nodiscard]] decode_speed measure_decode(loaded_model& model, std::int64_t sequences, std::int64_t context,
                                          std::int64_t tokens, int runs);

struct swap_effect {
  double median = 0;          ///< seconds of a step
  double longest_before = 0;  ///< before the table was replaced
  double longest_after = 0;
  std::int64_t captures = 0;  ///< after that
  bool was_taken = false;     ///< whether the catalog's generation changed
};

/// Generates for a second, renames a copy of the file `table` to `target`, and generates for three more. The
/// catalog must be watching.
[[nodiscard]] swap_effect measure_swap(loaded_model& model, const switchyard::catalog& catalog,
                                       std::int64_t sequences, std::int64_t context, const std::string& table,
                                       const std::string& target);

}  // namespace llm
