// SPDX-License-Identifier: MIT
#include "forward.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace llm {

namespace sy = switchyard;
namespace ops = switchyard::operators;

namespace {

/// The number of tokens that each sequence has in a step if it is the same for all, otherwise 0.
[[nodiscard]] std::int64_t tokens_of_each(const batch& step) {
  const std::int64_t first = step.starts[1];
  for (std::size_t i = 1; i + 1 < step.starts.size(); ++i) {
    if (step.starts[i + 1] - step.starts[i] != first) return 0;
  }
  return first;
}

[[nodiscard]] std::int64_t max_tokens(const batch& step) {
  std::int32_t out = 0;
  for (std::size_t i = 0; i + 1 < step.starts.size(); ++i)
    out = std::max(out, step.starts[i + 1] - step.starts[i]);
  return out;
}

/// cos and sin of all positions.
void fill_table(std::span<const double> angles, std::int64_t positions, double (*function)(double),
                device_memory& to) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(positions) * angles.size());
  for (std::int64_t position = 0; position < positions; ++position) {
    for (const double angle : angles)
      values.push_back(static_cast<float>(function(static_cast<double>(position) * angle)));
  }
  to.upload(values.data(), values.size() * sizeof(float));
}

}  // namespace

forward::forward(sy::catalog& catalog, const sy::device& device, const model_config& config,
                 std::span<const double> angles, const model_weights& weights, kv_cache& cache,
                 precision numbers, step_limits limits, gpu_features with)
    : config_{config},
      weights_{weights},
      cache_{cache},
      numbers_{numbers},
      limits_{limits},
      api_{device_api::of(device)},
      stream_{device, api_},
      calls_{device, stream_.get()},
      graphs_{catalog, with.graphs ? api_ : nullptr},
      linear_layers_{catalog,      device, api_, weights, calls_, numbers.hidden, numbers.int8_activations,
                     with.cublaslt},
      embedding_{catalog, device},
      rms_norm_{catalog, device},
      rotary_cache_{catalog, device},
      attention_{catalog, device},
      decode_{catalog, device},
      gated_{catalog, device},
      inputs_{device, api_, limits} {
  const auto make = [&](std::int64_t elements, std::int64_t bytes) {
    return device_memory{device, static_cast<std::size_t>(elements * bytes)};
  };
  const std::int64_t wide = sy::size_of(numbers.hidden);
  const std::int64_t narrow = sy::size_of(numbers.attention);
  const std::int64_t rows = limits.tokens;
  residual_ = make(rows * config.width, wide);
  normed_ = make(rows * config.width, wide);
  added_ = make(rows * config.width, wide);
  qkv_ = make(rows * (config.heads + 2 * config.heads_kv) * config.head_dim, narrow);
  attended_ = make(rows * config.heads * config.head_dim, narrow);
  inner_ = make(rows * 2 * config.inner_width, wide);
  activated_ = make(rows * config.inner_width, wide);
  gathered_ = make(limits.sequences * config.width, wide);
  logits_ = make(limits.sequences * config.vocabulary, sizeof(float));
  on_host_ = host_memory{api_, logits_.bytes()};
  const std::int64_t positions = limits.pages * kv_cache::page_size;
  cos_ = make(positions * static_cast<std::int64_t>(angles.size()), sizeof(float));
  sin_ = make(positions * static_cast<std::int64_t>(angles.size()), sizeof(float));
  fill_table(
      angles, positions, [](double angle) { return std::cos(angle); }, cos_);
  fill_table(
      angles, positions, [](double angle) { return std::sin(angle); }, sin_);
}

forward::~forward() {
  try {
    stream_.wait();  // buffers are freed without waiting for the stream
  } catch (const sy::error&) {
    // The step reported the failure, or nobody waits for it any more.
  }
}

sy::tensor forward::hidden_rows(const device_memory& of, std::int64_t tokens) const {
  return {of.data(), numbers_.hidden, {tokens, config_.width}};
}

/// The buffers are made for the limits.
void forward::require_fits(const batch& step) const {
  const auto require = [](std::int64_t found, std::int64_t most, const char* of) {
    if (found <= most) return;
    throw std::invalid_argument{"a step has " + std::to_string(found) + " " + of +
                                "; this model was made for " + std::to_string(most)};
  };
  require(step.tokens(), limits_.tokens, "tokens");
  require(step.sequences(), limits_.sequences, "sequences");
  require(static_cast<std::int64_t>(step.wanted.size()), limits_.sequences, "tokens whose logits are wanted");
  require(step.pages_stride, limits_.pages, "pages for each sequence");
}

/// normed = norm(residual), where `adds` after residual += added.
void forward::normalise(const sy::const_tensor& gamma, std::int64_t tokens, bool adds) {
  const sy::tensor residual = hidden_rows(residual_, tokens);
  const sy::tensor out = hidden_rows(normed_, tokens);
  if (adds) {
    calls_.launch(rms_norm_, ops::rms_norm::call(hidden_rows(added_, tokens), out,
                                                 {.gamma = gamma,
                                                  .residual = residual,
                                                  .residual_out = residual,
                                                  .rstd = {},
                                                  .epsilon = config_.epsilon,
                                                  .gamma_offset = 0}));
  } else {
    calls_.launch(rms_norm_, ops::rms_norm::call(residual, out,
                                                 {.gamma = gamma,
                                                  .residual = {},
                                                  .residual_out = {},
                                                  .rstd = {},
                                                  .epsilon = config_.epsilon,
                                                  .gamma_offset = 0}));
  }
}

/// Rounds up to whole pages: a bound that changed with every token would make every token a new problem and,
/// on a GPU, a new graph.
std::int64_t forward::longest_of(const batch& step) const {
  const std::int64_t pages = kv_cache::pages_for(*std::max_element(step.used.begin(), step.used.end()));
  const bool is_captured = api_ != nullptr && tokens_of_each(step) == 1;
  return std::min(is_captured ? captured_pages(pages) : pages, step.pages_stride) * kv_cache::page_size;
}

/// Steps of few queries for each sequence use attention_decode; prompts and mixed steps use
/// attention_forward.
void forward::run_attention(std::size_t index, const batch& step) {
  const std::int64_t tokens = step.tokens();
  const std::int64_t sequences = step.sequences();
  const std::int64_t width = (config_.heads + 2 * config_.heads_kv) * config_.head_dim;
  const ops::paged cached{cache_.keys(index), cache_.values(index), inputs_.pages, inputs_.used,
                          longest_of(step)};
  const std::int64_t tokens_each = tokens_of_each(step);
  if (tokens_each >= 1 && tokens_each <= ops::attention_decode::max_queries) {
    const std::int64_t heads = config_.heads;
    const std::int64_t dim = config_.head_dim;
    const sy::const_tensor q{qkv_.data(),
                             numbers_.attention,
                             {sequences, tokens_each, heads, dim},
                             {tokens_each * width, width, dim, 1}};
    const sy::tensor out{attended_.data(), numbers_.attention, {sequences, tokens_each, heads, dim}};
    calls_.launch(decode_, ops::attention_decode::call(q, cached, out));
    return;
  }
  const sy::const_tensor q{qkv_.data(),
                           numbers_.attention,
                           {tokens, config_.heads, config_.head_dim},
                           {width, config_.head_dim, 1}};
  const sy::tensor out{attended_.data(), numbers_.attention, {tokens, config_.heads, config_.head_dim}};
  ops::attention_forward::options with;
  with.mask = ops::attention_mask::causal_bottom_right;
  with.cu_seqlens_q = inputs_.starts;
  with.longest_q = max_tokens(step);
  calls_.launch(attention_, ops::attention_forward::call(q, cached, out, with));
}

void forward::run_layer(std::size_t index, const batch& step) {
  const layer_weights& layer = weights_.layers()[index];
  const std::int64_t tokens = step.tokens();
  const std::int64_t heads = config_.heads + 2 * config_.heads_kv;
  normalise(layer.attention_norm, tokens, index > 0);
  if (probe_) probe_(index, hidden_rows(residual_, tokens));
  linear_layers_.multiply(hidden_rows(normed_, tokens), layer.qkv,
                          {qkv_.data(), numbers_.attention, {tokens, heads * config_.head_dim}});
  const std::int64_t pairs = config_.rotary_dim / 2;
  const std::int64_t positions = limits_.pages * kv_cache::page_size;
  ops::rotary_cache::options with;
  with.q_gamma = layer.query_norm;
  with.k_gamma = layer.key_norm;
  with.epsilon = config_.epsilon;
  with.style =
      config_.pairs == rotary_pairs::halves ? ops::rotary_style::half : ops::rotary_style::interleaved;
  calls_.launch(rotary_cache_, ops::rotary_cache::call_packed(
                                   {qkv_.data(), numbers_.attention, {tokens, heads, config_.head_dim}},
                                   cache_.keys(index), cache_.values(index),
                                   {{cos_.data(), sy::dtype::f32, {positions, pairs}},
                                    {sin_.data(), sy::dtype::f32, {positions, pairs}},
                                    inputs_.positions,
                                    inputs_.slots},
                                   with));
  run_attention(index, step);
  linear_layers_.multiply({attended_.data(), numbers_.attention, {tokens, config_.heads * config_.head_dim}},
                          layer.attention_output, hidden_rows(added_, tokens));
  normalise(layer.inner_norm, tokens, true);
  const sy::tensor inner{inner_.data(), numbers_.hidden, {tokens, 2 * config_.inner_width}};
  const sy::tensor activated{activated_.data(), numbers_.hidden, {tokens, config_.inner_width}};
  linear_layers_.multiply(hidden_rows(normed_, tokens), layer.gate_and_up, inner);
  calls_.launch(gated_, ops::gated_activation::call_packed(activated, inner));
  linear_layers_.multiply(activated, layer.down, hidden_rows(added_, tokens));
}

/// Everything between the copies: the content of a graph.
void forward::run_layers(const batch& step) {
  const std::int64_t tokens = step.tokens();
  calls_.launch(embedding_,
                ops::embedding::call(weights_.embedding(), inputs_.ids, hidden_rows(residual_, tokens)));
  for (std::size_t i = 0; i < weights_.layers().size(); ++i) run_layer(i, step);
  normalise(weights_.output_norm(), tokens, true);
  if (probe_) probe_(weights_.layers().size(), hidden_rows(residual_, tokens));
  if (!step.wanted.empty()) run_output(step);
}

void forward::run_output(const batch& step) {
  const auto count = static_cast<std::int64_t>(step.wanted.size());
  using ops::weight_format;
  const weight_format plain = numbers_.hidden == sy::dtype::f32   ? weight_format::f32
                              : numbers_.hidden == sy::dtype::f16 ? weight_format::f16
                                                                  : weight_format::bf16;
  const sy::tensor rows = hidden_rows(gathered_, count);
  calls_.launch(embedding_, ops::embedding::call({normed_.data(), plain, step.tokens(), config_.width},
                                                 inputs_.wanted, rows));
  linear_layers_.multiply(rows, weights_.output(),
                          {logits_.data(), sy::dtype::f32, {count, config_.vocabulary}});
}

std::span<const float> forward::run(const batch& step) {
  if (step.tokens() == 0) return {};
  require_fits(step);
  const device_scope current{api_.get()};
  if (is_pending_) stream_.wait();  // its inputs may still be copied
  is_pending_ = true;
  inputs_.upload(step, stream_);
  if (!probe_ && tokens_of_each(step) == 1) {
    graphs_.run({step.sequences(), static_cast<std::int64_t>(step.wanted.size()), longest_of(step),
                 step.pages_stride},
                stream_.get(), [&] { run_layers(step); });
  } else {
    run_layers(step);
  }
  if (step.wanted.empty()) return {};
  const auto count = step.wanted.size() * static_cast<std::size_t>(config_.vocabulary);
  stream_.copy(on_host_.data(), logits_.data(), count * sizeof(float));
  stream_.wait();
  is_pending_ = false;
  return {on_host_.data<float>(), count};
}

}  // namespace llm
