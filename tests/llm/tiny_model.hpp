// SPDX-License-Identifier: MIT
// A small model with random weights, as a GGUF file, and what it computes in double precision: for tests that
// have no model at hand.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <switchyard/operators/weight_format.hpp>
#include <switchyard/tune/reference/weights.hpp>
#include <switchyard/tune/workloads/weights.hpp>

#include "gguf_writer.hpp"
#include "tiny_tokenizer.hpp"

namespace switchyard::test {

struct tiny_shape {
  std::string architecture = "llama";
  std::int64_t layers = 2, width = 256, inner_width = 512, heads = 4, heads_kv = 2, head_dim = 64;
  operators::weight_format format = operators::weight_format::q8_0;        ///< of most matrices
  operators::weight_format value_format = operators::weight_format::q8_0;  ///< of attn_v
  bool is_tied = true;
};

/// A model's metadata and tensors, kept for the reference.
class tiny_model {
 public:
  static constexpr double epsilon = 1e-5;
  static constexpr double base = 10000;

  explicit tiny_model(const tiny_shape& shape, std::uint64_t seed) : shape_{shape}, generator_{seed} {
    const std::string& arch = shape.architecture;
    const auto size = [&](const std::string& key, std::int64_t value) {
      file_.set(arch + "." + key, static_cast<std::uint32_t>(value));
    };
    file_.set("general.architecture", arch);
    size("block_count", shape.layers);
    size("context_length", 512);
    size("embedding_length", shape.width);
    size("feed_forward_length", shape.inner_width);
    size("attention.head_count", shape.heads);
    size("attention.head_count_kv", shape.heads_kv);
    size("attention.key_length", shape.head_dim);
    size("rope.dimension_count", shape.head_dim);
    file_.set(arch + ".attention.layer_norm_rms_epsilon", static_cast<float>(epsilon));
    file_.set(arch + ".rope.freq_base", static_cast<float>(base));
    tiny_tokenizer text;
    text.write_to(file_);
    vocabulary_ = static_cast<std::int64_t>(text.tokens.size());
    add_tensors();
  }

  void write(const std::string& path) const { file_.write(path); }
  [[nodiscard]] gguf_writer& file() noexcept { return file_; }
  [[nodiscard]] std::int64_t vocabulary() const noexcept { return vocabulary_; }

  /// The logits behind the last of the tokens.
  [[nodiscard]] std::vector<double> logits(const std::vector<std::int32_t>& ids) const {
    std::vector<std::vector<double>> hidden;
    for (const std::int32_t id : ids) hidden.push_back(row("token_embd.weight", id));
    for (std::int64_t layer = 0; layer < shape_.layers; ++layer) run_layer(layer, hidden);
    const std::vector<double> last = normalised(hidden.back(), "output_norm.weight");
    return product(shape_.is_tied ? "token_embd.weight" : "output.weight", last);
  }

 private:
  using numbers = std::vector<double>;
  struct matrix {
    operators::weight_format format;
    std::int64_t rows, columns;
    numbers values;
  };

  [[nodiscard]] static llm::tensor_type type_of(operators::weight_format format) {
    using llm::tensor_type;
    constexpr std::array types{tensor_type::f32,  tensor_type::f16,    tensor_type::bf16,  tensor_type::q8_0,
                               tensor_type::q4_0, tensor_type::q4_1,   tensor_type::q4_k,  tensor_type::q6_k,
                               tensor_type::q5_k, tensor_type::iq4_nl, tensor_type::mxfp4, tensor_type::q5_0,
                               tensor_type::q5_1};
    return types[static_cast<std::size_t>(format)];
  }

  /// Of f32, f16 or bf16, between -1/2 and 1/2.
  [[nodiscard]] std::vector<std::byte> random_numbers(operators::weight_format format, std::int64_t count) {
    std::uniform_real_distribution<float> any{-0.5F, 0.5F};
    const auto size = static_cast<std::size_t>(operators::block_bytes(format));
    std::vector<std::byte> out(static_cast<std::size_t>(count) * size);
    for (std::size_t at = 0; at < out.size(); at += size) {
      const float value = any(generator_);
      const std::uint16_t bits = format == operators::weight_format::f16
                                     ? f16_from(static_cast<double>(value))
                                     : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
      std::memcpy(out.data() + at, size == sizeof value ? static_cast<const void*>(&value) : &bits, size);
    }
    return out;
  }

  void add_matrix(const std::string& name, operators::weight_format format, std::int64_t rows,
                  std::int64_t columns) {
    const std::vector<std::byte> bytes = operators::block_elements(format) == 1
                                             ? random_numbers(format, rows * columns)
                                             : tune::random_blocks(format, rows * columns, generator_());
    matrix made{format, rows, columns, {}};
    for (std::int64_t i = 0; i < rows * columns; ++i)
      made.values.push_back(reference::weight_at(format, bytes.data(), i));
    file_.add_tensor(name, type_of(format),
                     {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)}, bytes);
    matrices_.emplace(name, std::move(made));
  }
  void add_vector(const std::string& name, std::int64_t count, double centre, double spread) {
    std::uniform_real_distribution<double> any{centre - spread, centre + spread};
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(any(generator_));
    file_.add_tensor(name, llm::tensor_type::f32, {static_cast<std::uint64_t>(count)},
                     std::span<const float>{values});
    vectors_.emplace(name, numbers(values.begin(), values.end()));
  }

  void add_tensors() {
    const std::int64_t queries = shape_.heads * shape_.head_dim;
    const std::int64_t keys = shape_.heads_kv * shape_.head_dim;
    add_matrix("token_embd.weight", shape_.format, vocabulary_, shape_.width);
    add_vector("output_norm.weight", shape_.width, 1, 0.5);
    if (!shape_.is_tied) add_matrix("output.weight", shape_.format, vocabulary_, shape_.width);
    for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
      const std::string at = "blk." + std::to_string(layer) + ".";
      // Small, so that no key takes all of the attention: rounding would decide which.
      add_vector(at + "attn_norm.weight", shape_.width, 0.1, 0.05);
      add_matrix(at + "attn_q.weight", shape_.format, queries, shape_.width);
      add_matrix(at + "attn_k.weight", shape_.format, keys, shape_.width);
      add_matrix(at + "attn_v.weight", shape_.value_format, keys, shape_.width);
      if (shape_.architecture == "qwen2") {
        add_vector(at + "attn_q.bias", queries, 0, 1);
        add_vector(at + "attn_k.bias", keys, 0, 1);
        add_vector(at + "attn_v.bias", keys, 0, 1);
      }
      if (shape_.architecture == "qwen3") {
        add_vector(at + "attn_q_norm.weight", shape_.head_dim, 1, 0.5);
        add_vector(at + "attn_k_norm.weight", shape_.head_dim, 1, 0.5);
      }
      add_matrix(at + "attn_output.weight", shape_.format, shape_.width, queries);
      add_vector(at + "ffn_norm.weight", shape_.width, 1, 0.5);
      add_matrix(at + "ffn_gate.weight", shape_.format, shape_.inner_width, shape_.width);
      add_matrix(at + "ffn_up.weight", shape_.format, shape_.inner_width, shape_.width);
      add_matrix(at + "ffn_down.weight", shape_.format, shape_.width, shape_.inner_width);
    }
  }

  [[nodiscard]] numbers row(const std::string& name, std::int64_t index) const {
    const matrix& of = matrices_.at(name);
    const auto begin = of.values.begin() + index * of.columns;
    return {begin, begin + of.columns};
  }
  [[nodiscard]] numbers product(const std::string& name, const numbers& x) const {
    const matrix& of = matrices_.at(name);
    numbers out;
    const double* w = of.values.data();
    for (std::int64_t i = 0; i < of.rows; ++i) {
      double sum = 0;
      for (const double value : x) sum += value * *w++;
      out.push_back(sum);
    }
    return out;
  }
  [[nodiscard]] numbers projected(const std::string& name, const numbers& x) const {
    numbers out = product(name + ".weight", x);
    if (const auto bias = vectors_.find(name + ".bias"); bias != vectors_.end()) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += bias->second[i];
    }
    return out;
  }
  [[nodiscard]] numbers normalised(const numbers& x, const std::string& gamma) const {
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
    numbers out = x;
    for (std::size_t i = 0; i < x.size(); ++i) out[i] *= factor * vectors_.at(gamma)[i];
    return out;
  }
  /// Each head of x, normalised where the model does so, and turned.
  [[nodiscard]] numbers placed(const numbers& x, const std::string& gamma, std::int64_t position) const {
    const auto dim = static_cast<std::size_t>(shape_.head_dim);
    numbers out;
    for (std::size_t first = 0; first < x.size(); first += dim) {
      numbers head(x.begin() + static_cast<std::ptrdiff_t>(first),
                   x.begin() + static_cast<std::ptrdiff_t>(first + dim));
      if (vectors_.contains(gamma)) head = normalised(head, gamma);
      for (std::size_t i = 0; i < dim / 2; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        const bool neighbours = shape_.architecture == "llama";
        double& x0 = head[neighbours ? 2 * i : i];
        double& x1 = head[neighbours ? 2 * i + 1 : i + dim / 2];
        const double turned = x0 * std::cos(angle) - x1 * std::sin(angle);
        x1 = x0 * std::sin(angle) + x1 * std::cos(angle);
        x0 = turned;
      }
      out.insert(out.end(), head.begin(), head.end());
    }
    return out;
  }

  /// Attention of the last of the queries.
  [[nodiscard]] numbers attended(const numbers& query, const std::vector<numbers>& keys,
                                 const std::vector<numbers>& values) const {
    const auto dim = static_cast<std::size_t>(shape_.head_dim);
    const auto shared = static_cast<std::size_t>(shape_.heads / shape_.heads_kv);
    numbers out(query.size());
    for (std::size_t h = 0; h < static_cast<std::size_t>(shape_.heads); ++h) {
      const std::size_t at_key = h / shared * dim;
      numbers weights;
      for (const numbers& key : keys) {
        double score = 0;
        for (std::size_t i = 0; i < dim; ++i) score += query[h * dim + i] * key[at_key + i];
        weights.push_back(score / std::sqrt(static_cast<double>(dim)));
      }
      const double most = *std::max_element(weights.begin(), weights.end());
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight - most);
      for (std::size_t t = 0; t < keys.size(); ++t) {
        for (std::size_t i = 0; i < dim; ++i) out[h * dim + i] += weights[t] / sum * values[t][at_key + i];
      }
    }
    return out;
  }

  void run_layer(std::int64_t layer, std::vector<numbers>& hidden) const {
    const std::string at = "blk." + std::to_string(layer) + ".";
    std::vector<numbers> keys;
    std::vector<numbers> values;
    for (std::size_t t = 0; t < hidden.size(); ++t) {
      const auto position = static_cast<std::int64_t>(t);
      const numbers x = normalised(hidden[t], at + "attn_norm.weight");
      keys.push_back(placed(projected(at + "attn_k", x), at + "attn_k_norm.weight", position));
      values.push_back(projected(at + "attn_v", x));
      const numbers query = placed(projected(at + "attn_q", x), at + "attn_q_norm.weight", position);
      const numbers added = projected(at + "attn_output", attended(query, keys, values));
      for (std::size_t i = 0; i < added.size(); ++i) hidden[t][i] += added[i];
      const numbers y = normalised(hidden[t], at + "ffn_norm.weight");
      numbers gate = projected(at + "ffn_gate", y);
      const numbers up = projected(at + "ffn_up", y);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      const numbers down = projected(at + "ffn_down", gate);
      for (std::size_t i = 0; i < down.size(); ++i) hidden[t][i] += down[i];
    }
  }

  tiny_shape shape_;
  std::mt19937_64 generator_;
  gguf_writer file_;
  std::int64_t vocabulary_ = 0;
  std::map<std::string, matrix> matrices_;
  std::map<std::string, numbers> vectors_;
};

}  // namespace switchyard::test
