// SPDX-License-Identifier: MIT
#include "loaded_model.hpp"

#include <algorithm>
#include <stdexcept>

namespace llm {

namespace sy = switchyard;

namespace {

[[nodiscard]] bool is_host(const sy::device& device) {
  return device.driver()->properties().backend == "host";
}

[[nodiscard]] sy::dtype kv_dtype_of(const load_options& options, const sy::device& device) {
  const sy::dtype out = options.kv_dtype.value_or(is_host(device) ? sy::dtype::f16 : sy::dtype::bf16);
  if (out == sy::dtype::f16 || out == sy::dtype::bf16 || out == sy::dtype::f8_e4m3) return out;
  throw std::invalid_argument{"keys and values are kept in f16, bf16 or f8_e4m3, not in " +
                              std::string{sy::name_of(out)}};
}

/// The CPU computes in f32 and keeps what attention reads in 16 bits; GPUs keep 16 bits throughout.
[[nodiscard]] precision precision_of(const load_options& options, const sy::device& device) {
  const sy::dtype cached = kv_dtype_of(options, device);
  const sy::dtype otherwise = is_host(device) ? sy::dtype::f16 : sy::dtype::bf16;
  precision out;
  out.attention = cached == sy::dtype::f8_e4m3 ? otherwise : cached;
  out.hidden = is_host(device) ? sy::dtype::f32 : out.attention;
  out.int8_activations = options.int8_activations;
  return out;
}

[[nodiscard]] std::int64_t positive(std::int64_t value, const char* name) {
  if (value >= 1) return value;
  throw std::invalid_argument{std::string{name} + " must be positive, not " + std::to_string(value)};
}

/// Longer pieces keep a GPU busy, and each piece reads the weights once.
[[nodiscard]] std::int64_t step_tokens_of(const load_options& options, const sy::device& device) {
  if (options.step_tokens == 0) return is_host(device) ? 512 : 2048;
  return positive(options.step_tokens, "the number of tokens of a step");
}

[[nodiscard]] step_limits limits_of(const load_options& options, const sy::device& device,
                                    std::int64_t context) {
  const std::int64_t sequences = positive(options.sequences, "the number of sequences");
  // A step holds a token of each sequence that generates.
  return {std::max(step_tokens_of(options, device), sequences), sequences, kv_cache::pages_for(context)};
}

}  // namespace

loaded_model::loaded_model(sy::catalog& catalog, const sy::device& device, const std::string& path,
                           const load_options& options, const load_progress& progress)
    : file_{path},
      config_{read_config(file_)},
      text_{file_},
      context_{std::min(positive(options.context, "the context"), config_.context)},
      weights_{file_, config_, device, progress},
      limits_{limits_of(options, device, context_)},
      cache_{config_, device, kv_dtype_of(options, device),
             options.cache_tokens > 0 ? std::max(options.cache_tokens, context_)
                                      : limits_.sequences * limits_.pages * kv_cache::page_size},
      model_{catalog,
             device,
             config_,
             rotary_angles(file_, config_),
             weights_,
             cache_,
             precision_of(options, device),
             limits_,
             options.gpu} {}

}  // namespace llm
