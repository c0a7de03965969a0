// One step of a model through Switchyard's dispatchers: tokens in, logits out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <switchyard/catalog.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/embedding.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/matmul_quantized.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rotary_cache.hpp>
#include <switchyard/tune/memory.hpp>

#include "batch.hpp"
#include "kv_cache.hpp"
#include "model_config.hpp"
#include "weights.hpp"

namespace llm {

/// How numbers are kept between kernels.
struct precision {
  switchyard::dtype hidden = switchyard::dtype::f32;     ///< between layers and inside the feed-forward block
  switchyard::dtype attention = switchyard::dtype::f16;  ///< queries, keys, values and what attention gives
  bool int8_activations = false;                         ///< whether products may round activations to 8 bits
};

/// The most that a step takes.
struct step_limits {
  std::int64_t tokens = 512;
  std::int64_t sequences = 16;
  std::int64_t pages = 0;  ///< of one sequence
};

class forward {
 public:
  /// Receives the hidden states [tokens, width] before each layer, and after the last one.
  using probe = std::function<void(std::size_t layer, const switchyard::const_tensor& hidden)>;

  /// All arguments but the angles must outlive the object. Throws driver_error out_of_memory.
  forward(switchyard::catalog& catalog, const switchyard::device& device, const model_config& config,
          std::span<const double> angles, const model_weights& weights, kv_cache& cache, precision numbers,
          step_limits limits);

  /// The logits of the wanted tokens, [wanted, vocabulary], in host memory; valid until the next call. Throws
  /// std::invalid_argument for a step beyond the limits, and what dispatchers throw.
  [[nodiscard]] std::span<const float> run(const batch& step);

  void set_probe(probe observer) { probe_ = std::move(observer); }

 private:
  using buffer = switchyard::tune::device_buffer;

  void require_fits(const batch& step) const;
  void upload(const batch& step);
  void run_layer(std::size_t index, const batch& step);
  void run_attention(std::size_t index, const batch& step);
  void multiply(const switchyard::const_tensor& x, const projection& with, const switchyard::tensor& out);
  void normalise(const switchyard::const_tensor& gamma, std::int64_t tokens, bool adds);
  [[nodiscard]] switchyard::tensor hidden_rows(const buffer& of, std::int64_t tokens) const;

  const model_config& config_;
  const model_weights& weights_;
  kv_cache& cache_;
  precision numbers_;
  step_limits limits_;
  switchyard::stream stream_;
  probe probe_;

  switchyard::dispatcher<switchyard::operators::embedding> embedding_;
  switchyard::dispatcher<switchyard::operators::rms_norm> rms_norm_;
  switchyard::dispatcher<switchyard::operators::matmul_quantized> matmul_;
  switchyard::dispatcher<switchyard::operators::rotary_cache> rotary_cache_;
  switchyard::dispatcher<switchyard::operators::attention_forward> attention_;
  switchyard::dispatcher<switchyard::operators::attention_decode> decode_;
  switchyard::dispatcher<switchyard::operators::gated_activation> gated_;

  buffer residual_, normed_, added_, qkv_, attended_, inner_, activated_, gathered_, logits_;
  buffer cos_, sin_;
  buffer ids_, positions_, slots_, starts_, used_, pages_, wanted_;
  std::vector<float> on_host_;
};

}  // namespace llm
