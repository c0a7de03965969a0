// SPDX-License-Identifier: MIT
// How fast a loaded model is, with tokens that are made up: prompts, generation behind tokens in the cache,
// and generation while a table is replaced.
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

/// Tokens per second of a prompt, of `runs` runs behind one that warms up. Throws std::invalid_argument where
/// context or cache are too small, here as below.
[[nodiscard]] spread measure_prompt(loaded_model& model, std::int64_t tokens, int runs);

struct decode_speed {
  spread per_second;  ///< tokens of all sequences
  spread step;        ///< seconds of a step, of all runs
  std::int64_t captures = 0;
};

/// Generates `tokens` tokens of each sequence behind `context` tokens each. Those are not computed: what the
/// cache holds has no effect on the time, so that it holds zeros.
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
