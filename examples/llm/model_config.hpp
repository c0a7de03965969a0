// SPDX-License-Identifier: MIT
// The shape of a model of the Llama family, as a GGUF file states it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gguf.hpp"

namespace llm {

/// The layout of the pairs that rotary embedding rotates.
enum class rotary_pairs { neighbours, halves };

struct model_config {
  std::string architecture;  ///< llama, qwen2 or qwen3
  std::int64_t layers = 0;
  std::int64_t width = 0;        ///< of a token's hidden state
  std::int64_t inner_width = 0;  ///< of the feed-forward block
  std::int64_t heads = 0;        ///< of queries
  std::int64_t heads_kv = 0;     ///< of keys and values
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;
  std::int64_t context = 0;  ///< tokens that the model was trained on
  std::int64_t vocabulary = 0;
  float epsilon = 0;  ///< of the normalisations
  double rotary_base = 0;
  double rotary_stretch = 1;  ///< positions are divided by it
  rotary_pairs pairs = rotary_pairs::neighbours;
  bool is_tied = false;  ///< the table of the embedding is also the output's matrix
};

/// Reads and checks the metadata. Throws gguf_error: another architecture, a missing or absurd size, sizes
/// that contradict each other, an extension of the context that is not supported.
[[nodiscard]] model_config read_config(const gguf_file& file);

/// The angle of each pair at position 1. Llama 3.1's files give a factor for each (rope_freqs).
[[nodiscard]] std::vector<double> rotary_angles(const gguf_file& file, const model_config& config);

}  // namespace llm
