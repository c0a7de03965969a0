// SPDX-License-Identifier: MIT
// A model ready to run: its file, weights, cache and kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <switchyard/catalog.hpp>
#include <switchyard/devices/device.hpp>

#include "engine.hpp"
#include "forward.hpp"
#include "gguf.hpp"
#include "kv_cache.hpp"
#include "model_config.hpp"
#include "tokenizer.hpp"
#include "weights.hpp"

namespace llm {

struct load_options {
  std::optional<switchyard::dtype> kv_dtype;  ///< f16, bf16 or f8_e4m3; none: f16 on the CPU, else bf16
  std::int64_t context = 4096;                ///< tokens of a sequence; at most the model's
  std::int64_t cache_tokens = 0;              ///< of all sequences, at least a context; 0: a context for each
  std::int64_t step_tokens =
      0;  ///< most tokens of a step, the pieces of prompts; 0: 512 on the CPU, else 2048
  std::int64_t sequences = 16;  ///< most sequences that generate at a time
  bool int8_activations = false;
  gpu_features gpu;
};

class loaded_model {
 public:
  /// Throws gguf_error, driver_error and std::invalid_argument.
  loaded_model(switchyard::catalog& catalog, const switchyard::device& device, const std::string& path,
               const load_options& options, const load_progress& progress = {});

  [[nodiscard]] const gguf_file& file() const noexcept { return file_; }
  [[nodiscard]] const model_config& config() const noexcept { return config_; }
  [[nodiscard]] const tokenizer& text() const noexcept { return text_; }
  [[nodiscard]] const model_weights& weights() const noexcept { return weights_; }
  [[nodiscard]] kv_cache& cache() noexcept { return cache_; }
  [[nodiscard]] forward& model() noexcept { return model_; }
  [[nodiscard]] const step_limits& limits() const noexcept { return limits_; }
  [[nodiscard]] std::int64_t context() const noexcept { return context_; }

  /// Several may exist one after the other, not at a time: they share the cache.
  [[nodiscard]] engine make_engine() { return {model_, cache_, text_, limits_, context_}; }

 private:
  gguf_file file_;
  model_config config_;
  tokenizer text_;
  std::int64_t context_;
  model_weights weights_;
  step_limits limits_;
  kv_cache cache_;
  forward model_;
};

}  // namespace llm
