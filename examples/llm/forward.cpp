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

/// How many tokens of each sequence a step has, where that is the same number for all; else 0.
[[nodiscard]] std::int64_t tokens_of_each(const batch& step) {
  const std::int64_t first = step.starts[1];
  for (std::size_t i = 1; i + 1 < step.starts.size(); ++i) {
    if (step.starts[i + 1] - step.starts[i] != first) return 0;
  }
  return first;
}

[[nodiscard]] std::int64_t most_tokens(const batch& step) {
  std::int32_t out = 0;
  for (std::size_t i = 0; i + 1 < step.starts.size(); ++i)
    out = std::max(out, step.starts[i + 1] - step.starts[i]);
  return out;
}

template <class Value>
void copy_to(sy::tune::device_buffer& to, const std::vector<Value>& values) {
  if (!values.empty()) to.upload(values.data(), values.size() * sizeof(Value));
}

/// cos and sin of all positions.
void fill_table(std::span<const double> angles, std::int64_t positions, double (*function)(double),
                sy::tune::device_buffer& to) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(positions) * angles.size());
  for (std::int64_t position = 0; position < positions; ++position) {
    for (const double angle : angles)
      values.push_back(static_cast<float>(function(static_cast<double>(position) * angle)));
  }
  copy_to(to, values);
}

}  // namespace

forward::forward(sy::catalog& catalog, const sy::device& device, const model_config& config,
                 std::span<const double> angles, const model_weights& weights, kv_cache& cache,
                 precision numbers, step_limits limits)
    : config_{config},
      weights_{weights},
      cache_{cache},
      numbers_{numbers},
      limits_{limits},
      embedding_{catalog, device},
      rms_norm_{catalog, device},
      matmul_{catalog, device},
      rotary_cache_{catalog, device},
      attention_{catalog, device},
      decode_{catalog, device},
      gated_{catalog, device} {
  const auto make = [&](std::int64_t elements, std::int64_t bytes) {
    return buffer{device.driver(), static_cast<std::size_t>(elements * bytes)};
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
  ids_ = make(rows, sizeof(std::int32_t));
  positions_ = make(rows, sizeof(std::int64_t));
  slots_ = make(rows, sizeof(std::int64_t));
  starts_ = make(limits.sequences + 1, sizeof(std::int32_t));
  used_ = make(limits.sequences, sizeof(std::int32_t));
  pages_ = make(limits.sequences * limits.pages, sizeof(std::int32_t));
  wanted_ = make(limits.sequences, sizeof(std::int32_t));
  const std::int64_t positions = limits.pages * kv_cache::page_size;
  cos_ = make(positions * static_cast<std::int64_t>(angles.size()), sizeof(float));
  sin_ = make(positions * static_cast<std::int64_t>(angles.size()), sizeof(float));
  fill_table(
      angles, positions, [](double angle) { return std::cos(angle); }, cos_);
  fill_table(
      angles, positions, [](double angle) { return std::sin(angle); }, sin_);
}

sy::tensor forward::hidden_rows(const buffer& of, std::int64_t tokens) const {
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

void forward::upload(const batch& step) {
  copy_to(ids_, step.ids);
  copy_to(positions_, step.positions);
  copy_to(slots_, step.slots);
  copy_to(starts_, step.starts);
  copy_to(used_, step.used);
  copy_to(pages_, step.pages);
  copy_to(wanted_, step.wanted);
}

/// Each part of a projection writes its columns of the result.
void forward::multiply(const sy::const_tensor& x, const projection& with, const sy::tensor& out) {
  for (const projection::part& each : with.parts) {
    auto* const first = static_cast<std::byte*>(out.data()) + each.first * sy::size_of(out.dtype());
    const sy::tensor columns{first, out.dtype(), {out.extent(0), each.weights.rows}, {out.stride(0), 1}};
    matmul_(stream_,
            ops::matmul_quantized::call(x, each.weights, columns,
                                        {.bias = each.bias, .int8_activations = numbers_.int8_activations}));
  }
}

/// normed = norm(residual), where `adds` after residual += added.
void forward::normalise(const sy::const_tensor& gamma, std::int64_t tokens, bool adds) {
  const sy::tensor residual = hidden_rows(residual_, tokens);
  const sy::tensor out = hidden_rows(normed_, tokens);
  if (adds) {
    rms_norm_(stream_, ops::rms_norm::call(hidden_rows(added_, tokens), out,
                                           {.gamma = gamma,
                                            .residual = residual,
                                            .residual_out = residual,
                                            .rstd = {},
                                            .epsilon = config_.epsilon,
                                            .gamma_offset = 0}));
  } else {
    rms_norm_(stream_, ops::rms_norm::call(residual, out,
                                           {.gamma = gamma,
                                            .residual = {},
                                            .residual_out = {},
                                            .rstd = {},
                                            .epsilon = config_.epsilon,
                                            .gamma_offset = 0}));
  }
}

/// Few queries of each sequence take the kernels made for that; prompts, and steps of both, the others.
void forward::run_attention(std::size_t index, const batch& step) {
  const std::int64_t tokens = step.tokens();
  const std::int64_t sequences = step.sequences();
  const std::int64_t width = (config_.heads + 2 * config_.heads_kv) * config_.head_dim;
  const ops::paged cached{
      cache_.keys(index),
      cache_.values(index),
      {pages_.data(), sy::dtype::i32, {sequences, step.pages_stride}},
      {used_.data(), sy::dtype::i32, {sequences}},
      // Whole pages: a bound that changes with every token would be a new problem with every token.
      kv_cache::pages_for(*std::max_element(step.used.begin(), step.used.end())) * kv_cache::page_size};
  const std::int64_t each = tokens_of_each(step);
  if (each >= 1 && each <= ops::attention_decode::most_queries) {
    const std::int64_t heads = config_.heads;
    const std::int64_t dim = config_.head_dim;
    const sy::const_tensor q{
        qkv_.data(), numbers_.attention, {sequences, each, heads, dim}, {each * width, width, dim, 1}};
    const sy::tensor out{attended_.data(), numbers_.attention, {sequences, each, heads, dim}};
    decode_(stream_, ops::attention_decode::call(q, cached, out));
    return;
  }
  const sy::const_tensor q{qkv_.data(),
                           numbers_.attention,
                           {tokens, config_.heads, config_.head_dim},
                           {width, config_.head_dim, 1}};
  const sy::tensor out{attended_.data(), numbers_.attention, {tokens, config_.heads, config_.head_dim}};
  ops::attention_forward::options with;
  with.mask = ops::attention_mask::causal_bottom_right;
  with.cu_seqlens_q = {starts_.data(), sy::dtype::i32, {sequences + 1}};
  with.longest_q = most_tokens(step);
  attention_(stream_, ops::attention_forward::call(q, cached, out, with));
}

void forward::run_layer(std::size_t index, const batch& step) {
  const layer_weights& layer = weights_.layers()[index];
  const std::int64_t tokens = step.tokens();
  const std::int64_t heads = config_.heads + 2 * config_.heads_kv;
  normalise(layer.attention_norm, tokens, index > 0);
  if (probe_) probe_(index, hidden_rows(residual_, tokens));
  multiply(hidden_rows(normed_, tokens), layer.qkv,
           {qkv_.data(), numbers_.attention, {tokens, heads * config_.head_dim}});
  const std::int64_t pairs = config_.rotary_dim / 2;
  const std::int64_t positions = limits_.pages * kv_cache::page_size;
  ops::rotary_cache::options with;
  with.q_gamma = layer.query_norm;
  with.k_gamma = layer.key_norm;
  with.epsilon = config_.epsilon;
  with.style =
      config_.pairs == rotary_pairs::halves ? ops::rotary_style::half : ops::rotary_style::interleaved;
  rotary_cache_(stream_, ops::rotary_cache::call_packed(
                             {qkv_.data(), numbers_.attention, {tokens, heads, config_.head_dim}},
                             cache_.keys(index), cache_.values(index),
                             {{cos_.data(), sy::dtype::f32, {positions, pairs}},
                              {sin_.data(), sy::dtype::f32, {positions, pairs}},
                              {positions_.data(), sy::dtype::i64, {tokens}},
                              {slots_.data(), sy::dtype::i64, {tokens}}},
                             with));
  run_attention(index, step);
  multiply({attended_.data(), numbers_.attention, {tokens, config_.heads * config_.head_dim}},
           layer.attention_output, hidden_rows(added_, tokens));
  normalise(layer.inner_norm, tokens, true);
  const sy::tensor inner{inner_.data(), numbers_.hidden, {tokens, 2 * config_.inner_width}};
  const sy::tensor activated{activated_.data(), numbers_.hidden, {tokens, config_.inner_width}};
  multiply(hidden_rows(normed_, tokens), layer.gate_and_up, inner);
  gated_(stream_, ops::gated_activation::call_packed(activated, inner));
  multiply(activated, layer.down, hidden_rows(added_, tokens));
}

std::span<const float> forward::run(const batch& step) {
  if (step.tokens() == 0) return {};
  require_fits(step);
  upload(step);
  const std::int64_t tokens = step.tokens();
  embedding_(stream_, ops::embedding::call(weights_.embedding(), {ids_.data(), sy::dtype::i32, {tokens}},
                                           hidden_rows(residual_, tokens)));
  for (std::size_t i = 0; i < weights_.layers().size(); ++i) run_layer(i, step);
  normalise(weights_.output_norm(), tokens, true);
  if (probe_) probe_(weights_.layers().size(), hidden_rows(residual_, tokens));
  const auto count = static_cast<std::int64_t>(step.wanted.size());
  on_host_.resize(static_cast<std::size_t>(count * config_.vocabulary));
  if (count == 0) return {};
  using ops::weight_format;
  const weight_format plain = numbers_.hidden == sy::dtype::f32   ? weight_format::f32
                              : numbers_.hidden == sy::dtype::f16 ? weight_format::f16
                                                                  : weight_format::bf16;
  const sy::tensor rows = hidden_rows(gathered_, count);
  embedding_(stream_, ops::embedding::call({normed_.data(), plain, tokens, config_.width},
                                           {wanted_.data(), sy::dtype::i32, {count}}, rows));
  multiply(rows, weights_.output(), {logits_.data(), sy::dtype::f32, {count, config_.vocabulary}});
  logits_.download(on_host_.data(), on_host_.size() * sizeof(float));
  return on_host_;
}

}  // namespace llm
