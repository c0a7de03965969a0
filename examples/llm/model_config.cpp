// SPDX-License-Identifier: MIT
#include "model_config.hpp"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

namespace llm {

namespace {

/// Reads keys of one architecture.
class keys {
 public:
  keys(const gguf_file& file, std::string prefix) : file_{file}, prefix_{std::move(prefix)} {}

  [[nodiscard]] std::int64_t size(std::string_view name, std::int64_t most) const {
    const std::int64_t value = file_.integer<std::int64_t>(key(name));
    check(name, value, most);
    return value;
  }
  [[nodiscard]] std::int64_t size_or(std::string_view name, std::int64_t otherwise, std::int64_t most) const {
    const std::int64_t value = file_.find_integer<std::int64_t>(key(name)).value_or(otherwise);
    check(name, value, most);
    return value;
  }
  [[nodiscard]] double positive(std::string_view name, std::optional<double> otherwise = {}) const {
    const std::optional<double> found = file_.find_real(key(name));
    const double value = found ? *found : otherwise ? *otherwise : file_.real(key(name));
    if (!(value > 0) || !std::isfinite(value))
      throw file_.error(key(name) + " is " + std::to_string(value) + "; it must be positive");
    return value;
  }
  [[nodiscard]] std::string key(std::string_view name) const { return prefix_ + "." + std::string{name}; }

 private:
  void check(std::string_view name, std::int64_t value, std::int64_t most) const {
    if (value >= 1 && value <= most) return;
    throw file_.error(key(name) + " is " + std::to_string(value) + "; it must be 1 to " +
                      std::to_string(most));
  }

  const gguf_file& file_;
  std::string prefix_;
};

void read_stretch(const gguf_file& file, const keys& read, model_config& out) {
  const auto kind = file.find_string(read.key("rope.scaling.type")).value_or("none");
  if (kind == "linear") {
    out.rotary_stretch = read.positive("rope.scaling.factor");
  } else if (kind != "none") {
    throw file.error(read.key("rope.scaling.type") + " is '" + std::string{kind} +
                     "', an extension of the context that is not supported (known are none and linear)");
  }
}

}  // namespace

model_config read_config(const gguf_file& file) {
  constexpr std::int64_t max_layers = 1024;
  constexpr std::int64_t max_width = std::int64_t{1} << 20;
  constexpr std::int64_t max_heads = 4096;
  constexpr std::int64_t max_head_dim = 1024;
  constexpr std::int64_t max_context = std::int64_t{1} << 24;
  model_config out;
  out.architecture = file.string("general.architecture");
  if (out.architecture != "llama" && out.architecture != "qwen2" && out.architecture != "qwen3") {
    throw file.error("general.architecture is '" + out.architecture +
                     "'; this engine runs llama, qwen2 and qwen3");
  }
  const keys read{file, out.architecture};
  if (file.find_integer<std::int64_t>(read.key("expert_count")).value_or(0) > 0)
    throw file.error("the model is a mixture of experts, which this engine does not run");
  out.layers = read.size("block_count", max_layers);
  out.width = read.size("embedding_length", max_width);
  out.inner_width = read.size("feed_forward_length", max_width);
  out.heads = read.size("attention.head_count", max_heads);
  out.heads_kv = read.size_or("attention.head_count_kv", out.heads, max_heads);
  out.head_dim =
      read.size_or("attention.key_length", std::max<std::int64_t>(out.width / out.heads, 1), max_head_dim);
  out.rotary_dim = read.size_or("rope.dimension_count", out.head_dim, max_head_dim);
  out.context = read.size("context_length", max_context);
  out.epsilon = static_cast<float>(read.positive("attention.layer_norm_rms_epsilon"));
  out.rotary_base = read.positive("rope.freq_base", 10000.0);
  out.pairs = out.architecture == "llama" ? rotary_pairs::neighbours : rotary_pairs::halves;
  read_stretch(file, read, out);
  if (out.heads % out.heads_kv != 0) {
    throw file.error(std::to_string(out.heads) + " heads cannot share " + std::to_string(out.heads_kv) +
                     " heads of keys and values evenly");
  }
  if (const auto values = file.find_integer<std::int64_t>(read.key("attention.value_length"));
      values && *values != out.head_dim)
    throw file.error("keys and values have different head dimensions, which this engine does not run");
  if (out.rotary_dim % 2 != 0 || out.rotary_dim > out.head_dim) {
    throw file.error(read.key("rope.dimension_count") + " is " + std::to_string(out.rotary_dim) +
                     "; it must be even and at most " + std::to_string(out.head_dim) +
                     ", the head dimension");
  }
  const gguf_tensor& table = file.at("token_embd.weight");
  out.vocabulary = table.extents[1];
  out.is_tied = file.find("output.weight") == nullptr;
  return out;
}

std::vector<double> rotary_angles(const gguf_file& file, const model_config& config) {
  std::vector<double> out(static_cast<std::size_t>(config.rotary_dim / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(config.rotary_dim);
    out[i] = std::pow(config.rotary_base, exponent) / config.rotary_stretch;
  }
  const gguf_tensor* const factors = file.find("rope_freqs.weight");
  if (factors == nullptr) return out;
  if (factors->type != tensor_type::f32 || factors->elements() != static_cast<std::int64_t>(out.size())) {
    throw file.error("rope_freqs.weight has " + std::to_string(factors->elements()) + " elements of " +
                     to_string(factors->type) + "; expected " + std::to_string(out.size()) + " of F32");
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    float factor = 0;
    std::memcpy(&factor, factors->data.data() + i * sizeof factor, sizeof factor);
    if (!(factor > 0)) throw file.error("rope_freqs.weight has a factor that is not positive");
    out[i] /= static_cast<double>(factor);
  }
  return out;
}

}  // namespace llm
