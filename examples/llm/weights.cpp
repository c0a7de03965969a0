// SPDX-License-Identifier: MIT
#include "weights.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace llm {

namespace sy = switchyard;
using sy::operators::weight_format;
using sy::operators::weight_matrix;

namespace {

[[nodiscard]] weight_format format_of(const gguf_file& file, const gguf_tensor& tensor) {
  switch (tensor.type) {
    case tensor_type::f32:
      return weight_format::f32;
    case tensor_type::f16:
      return weight_format::f16;
    case tensor_type::bf16:
      return weight_format::bf16;
    case tensor_type::q8_0:
      return weight_format::q8_0;
    case tensor_type::q4_0:
      return weight_format::q4_0;
    case tensor_type::q4_1:
      return weight_format::q4_1;
    case tensor_type::q4_k:
      return weight_format::q4_k;
    case tensor_type::q6_k:
      return weight_format::q6_k;
    case tensor_type::q5_k:
      return weight_format::q5_k;
    case tensor_type::iq4_nl:
      return weight_format::iq4_nl;
    case tensor_type::mxfp4:
      return weight_format::mxfp4;
    case tensor_type::q5_0:
      return weight_format::q5_0;
    case tensor_type::q5_1:
      return weight_format::q5_1;
    default:
      throw file.error("tensor '" + std::string{tensor.name} + "' is of type " + to_string(tensor.type) +
                       ", which this engine does not multiply with");
  }
}

}  // namespace

model_weights::model_weights(const gguf_file& file, const model_config& config, sy::device device,
                             const load_progress& progress)
    : file_{file}, device_{std::move(device)} {
  if (const auto api = device_api::of(device_); api != nullptr)
    upload_ = std::make_unique<staged_upload>(device_, api);
  const std::int64_t queries = config.heads * config.head_dim;
  const std::int64_t keys = config.heads_kv * config.head_dim;
  embedding_ = matrix({"token_embd.weight", config.width, config.vocabulary});
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    layer_weights layer;
    layer.attention_norm = vector(prefix + "attn_norm.weight", config.width);
    layer.qkv = join(
        prefix,
        {{"attn_q", config.width, queries}, {"attn_k", config.width, keys}, {"attn_v", config.width, keys}});
    layer.query_norm = optional_vector(prefix + "attn_q_norm.weight", config.head_dim);
    layer.key_norm = optional_vector(prefix + "attn_k_norm.weight", config.head_dim);
    layer.attention_output = join(prefix, {{"attn_output", queries, config.width}});
    layer.inner_norm = vector(prefix + "ffn_norm.weight", config.width);
    layer.gate_and_up = join(prefix, {{"ffn_gate", config.width, config.inner_width},
                                      {"ffn_up", config.width, config.inner_width}});
    layer.down = join(prefix, {{"ffn_down", config.inner_width, config.width}});
    layers_.push_back(std::move(layer));
    if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(config.layers));
  }
  output_norm_ = vector("output_norm.weight", config.width);
  if (config.is_tied) {
    output_ = {{{embedding_, {}, 0}}, config.vocabulary};
    bytes_per_token_ += embedding_.rows * embedding_.stride();
  } else {
    output_ = join("", {{"output", config.width, config.vocabulary}});
  }
  if (upload_ != nullptr) upload_->wait();
  upload_.reset();
}

bool model_weights::reads_file() const {
  return device_.driver()->properties().backend == "host";
}

const gguf_tensor& model_weights::find(const shape& wanted) const {
  const gguf_tensor& found = file_.at(wanted.name);
  if (found.rank <= 2 && found.extents[0] == wanted.columns && found.extents[1] == wanted.rows) return found;
  throw file_.error("tensor '" + wanted.name + "' is [" + std::to_string(found.extents[0]) + ", " +
                    std::to_string(found.extents[1]) + "] of rank " + std::to_string(found.rank) +
                    "; by the file's metadata it is [" + std::to_string(wanted.columns) + ", " +
                    std::to_string(wanted.rows) + "]");
}

device_memory& model_weights::allocate(std::size_t bytes) {
  buffers_.emplace_back(device_, bytes);
  return buffers_.back();
}

void model_weights::copy(const device_memory& to, const void* from, std::size_t bytes,
                         std::size_t first) const {
  if (upload_ != nullptr) return upload_->copy(to.data() + first, static_cast<const std::byte*>(from), bytes);
  std::memcpy(to.data() + first, from, bytes);
}

const void* model_weights::place(std::span<const std::byte> bytes) {
  if (reads_file()) return bytes.data();
  const device_memory& out = allocate(bytes.size());
  copy(out, bytes.data(), bytes.size());
  return out.data();
}

weight_matrix model_weights::matrix(const shape& wanted) {
  const gguf_tensor& found = find(wanted);
  return {place(found.data), format_of(file_, found), wanted.rows, wanted.columns};
}

sy::const_tensor model_weights::vector(const std::string& name, std::int64_t count) {
  const gguf_tensor& found = find({name, count, 1});
  if (found.type != tensor_type::f32)
    throw file_.error("tensor '" + name + "' is of type " + to_string(found.type) + "; expected F32");
  return {place(found.data), sy::dtype::f32, {count}};
}

sy::const_tensor model_weights::optional_vector(const std::string& name, std::int64_t count) {
  return file_.find(name) == nullptr ? sy::const_tensor{} : vector(name, count);
}

/// Joins matrices of one format into one, so that one launch serves them. Matrices that are adjacent in the
/// file are not copied.
projection model_weights::join(const std::string& prefix, const std::vector<shape>& shapes) {
  projection out;
  std::vector<const gguf_tensor*> tensors;
  std::size_t bytes = 0;
  bool are_alike = true;
  bool are_adjacent = true;
  for (const shape& part : shapes) {
    const gguf_tensor& found = find({prefix + part.name + ".weight", part.columns, part.rows});
    if (!tensors.empty()) {
      const gguf_tensor& last = *tensors.back();
      are_alike = are_alike && found.type == last.type;
      are_adjacent = are_adjacent && found.data.data() == last.data.data() + last.data.size();
    }
    tensors.push_back(&found);
    bytes += found.data.size();
    out.outputs += part.rows;
  }
  bytes_per_token_ += static_cast<std::int64_t>(bytes);
  // If one has a bias, all do: zeros for those without.
  std::vector<float> biases(static_cast<std::size_t>(out.outputs));
  bool has_bias = false;
  for (std::size_t i = 0, first = 0; i < shapes.size();
       first += static_cast<std::size_t>(shapes[i].rows), ++i) {
    const std::string name = prefix + shapes[i].name + ".bias";
    if (file_.find(name) == nullptr) continue;
    const gguf_tensor& bias = find({name, shapes[i].rows, 1});
    if (bias.type != tensor_type::f32)
      throw file_.error("tensor '" + name + "' is of type " + to_string(bias.type) + "; expected F32");
    std::memcpy(biases.data() + first, bias.data.data(), bias.data.size());
    has_bias = true;
  }
  const float* bias = nullptr;
  if (has_bias) {
    const device_memory& to = allocate(biases.size() * sizeof(float));
    copy(to, biases.data(), to.bytes());
    bias = reinterpret_cast<const float*>(to.data());
  }
  const auto bias_at = [bias](std::int64_t first, std::int64_t count) -> sy::const_tensor {
    if (bias == nullptr) return {};
    return {bias + first, sy::dtype::f32, {count}};
  };
  const weight_format format = format_of(file_, *tensors.front());
  const std::int64_t columns = shapes.front().columns;
  if (are_alike && are_adjacent) {
    const void* const data = place({tensors.front()->data.data(), bytes});
    out.parts.push_back({{data, format, out.outputs, columns}, bias_at(0, out.outputs), 0});
  } else if (are_alike) {
    const device_memory& joined = allocate(bytes);
    std::size_t first = 0;
    for (const gguf_tensor* const tensor : tensors) {
      copy(joined, tensor->data.data(), tensor->data.size(), first);
      first += tensor->data.size();
    }
    out.parts.push_back({{joined.data(), format, out.outputs, columns}, bias_at(0, out.outputs), 0});
  } else {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      out.parts.push_back({{place(tensors[i]->data), format_of(file_, *tensors[i]), shapes[i].rows, columns},
                           bias_at(first, shapes[i].rows),
                           first});
      first += shapes[i].rows;
    }
  }
  return out;
}

}  // namespace llm
