// SPDX-License-Identifier: MIT
// One step of a model through Switchyard's dispatchers: tokens in, logits out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include <switchyard/catalog.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/embedding.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rotary_cache.hpp>

#include "batch.hpp"
#include "device_memory.hpp"
#include "device_stream.hpp"
#include "kv_cache.hpp"
#include "linear_layers.hpp"
#include "model_config.hpp"
#include "step_graphs.hpp"
#include "step_inputs.hpp"
#include "step_limits.hpp"
#include "step_workspace.hpp"
#include "weights.hpp"

namespace llm {

/// How numbers are kept between kernels.
struct precision {
  switchyard::dtype hidden = switchyard::dtype::f32;     ///< between layers and inside the feed-forward block
  switchyard::dtype attention = switchyard::dtype::f16;  ///< queries, keys, values and what attention gives
  bool int8_activations = false;  ///< whether linear layers may round activations to 8 bits
};

/// What a GPU may use besides Switchyard's kernels.
struct gpu_features {
  bool graphs = true;    ///< decode steps are captured and replayed
  bool cublaslt = true;  ///< for linear layers of many rows, where the library is there
};

class forward {
 public:
  /// Receives the hidden states [tokens, width] before each layer, and after the last one.
  using probe = std::function<void(std::size_t layer, const switchyard::const_tensor& hidden)>;

  /// All arguments but the angles must outlive the object. Throws driver_error out_of_memory.
  forward(switchyard::catalog& catalog, const switchyard::device& device, const model_config& config,
          std::span<const double> angles, const model_weights& weights, kv_cache& cache, precision numbers,
          step_limits limits, gpu_features with);
  forward(const forward&) = delete;
  forward& operator=(const forward&) = delete;
  ~forward();

  /// The logits of the wanted tokens, [wanted, vocabulary], in host memory; valid until the next call. Throws
  /// std::invalid_argument for a step beyond the limits, and what dispatchers throw.
  [[nodiscard]] std::span<const float> run(const batch& step);

  /// Steps are not captured while there is one.
  void set_probe(probe observer) { probe_ = std::move(observer); }

  /// Waits for steps without wanted logits.
  void wait() { stream_.wait(); }

  [[nodiscard]] const step_graphs::counts& graphs() const noexcept { return graphs_.totals(); }
  /// Why cuBLASLt does not serve linear layers of many rows; empty if it does.
  [[nodiscard]] const std::string& why_no_cublaslt() const noexcept {
    return linear_layers_.why_no_cublaslt();
  }
  /// Null on the CPU.
  [[nodiscard]] const std::shared_ptr<const device_api>& api() const noexcept { return api_; }

 private:
  void require_fits(const batch& step) const;
  void run_layers(const batch& step);
  void run_layer(std::size_t index, const batch& step);
  void run_attention(std::size_t index, const batch& step);
  void run_output(const batch& step);
  void normalise(const switchyard::const_tensor& gamma, std::int64_t tokens, bool adds);
  [[nodiscard]] std::int64_t longest_of(const batch& step) const;
  [[nodiscard]] switchyard::tensor hidden_rows(const device_memory& of, std::int64_t tokens) const;

  const model_config& config_;
  const model_weights& weights_;
  kv_cache& cache_;
  precision numbers_;
  step_limits limits_;
  std::shared_ptr<const device_api> api_;
  device_stream stream_;
  step_workspace calls_;
  step_graphs graphs_;
  probe probe_;

  linear_layers linear_layers_;
  switchyard::dispatcher<switchyard::operators::embedding> embedding_;
  switchyard::dispatcher<switchyard::operators::rms_norm> rms_norm_;
  switchyard::dispatcher<switchyard::operators::rotary_cache> rotary_cache_;
  switchyard::dispatcher<switchyard::operators::attention_forward> attention_;
  switchyard::dispatcher<switchyard::operators::attention_decode> decode_;
  switchyard::dispatcher<switchyard::operators::gated_activation> gated_;

  device_memory residual_, normed_, added_, qkv_, attended_, inner_, activated_, gathered_, logits_;
  device_memory cos_, sin_;
  step_inputs inputs_;
  host_memory on_host_;  // the logits
  bool is_pending_ = false;
};

}  // namespace llm
