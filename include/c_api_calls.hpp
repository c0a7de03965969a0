// Calls by names: an operator's arguments from those of the C API. Each adapter reads what its operator's
// `call` takes; a name that nobody reads is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <switchyard/c_api.h>
#include <switchyard/switchyard.hpp>

namespace switchyard::c_api {

[[noreturn]] inline void fail(const std::string& message) {
  throw call_error{error_code::invalid_argument, message};
}

/// The arguments of one call.
class named_arguments {
 public:
  static constexpr std::size_t most = 64;

  named_arguments(std::string_view op, const switchyard_argument* first, std::size_t count)
      : op_{op}, all_{first, count} {
    if (count > most)
      fail(std::string{op} + ": a call has at most 64 arguments, not " + std::to_string(count));
    if (count > 0 && first == nullptr) fail(std::string{op} + ": arguments is null");
    for (const switchyard_argument& each : all_) {
      if (each.size < sizeof(switchyard_argument)) fail_size(op, "switchyard_argument", each.size);
      if (each.name == nullptr) fail(std::string{op} + ": an argument has no name");
    }
  }

  [[nodiscard]] const_tensor read(std::string_view name) { return view(name); }
  [[nodiscard]] tensor written(std::string_view name) { return view(name); }

  template <class Integer>
  [[nodiscard]] Integer integer(std::string_view name, Integer otherwise) {
    const switchyard_argument* const found = find(name, SWITCHYARD_INTEGER, "an integer");
    if (found == nullptr) return otherwise;
    const auto out = static_cast<Integer>(found->integer);
    if (static_cast<std::int64_t>(out) != found->integer)
      fail(about(name) + " is " + std::to_string(found->integer) + ", which does not fit");
    return out;
  }
  [[nodiscard]] float real(std::string_view name, float otherwise) {
    const switchyard_argument* const found = find(name, SWITCHYARD_REAL, "a real number");
    return found == nullptr ? otherwise : static_cast<float>(found->real);
  }
  template <class Element>
  [[nodiscard]] const Element* pointer(std::string_view name) {
    const switchyard_argument* const found = find(name, SWITCHYARD_POINTER, "a pointer");
    return found == nullptr ? nullptr : static_cast<const Element*>(found->pointer);
  }
  template <class Enumeration>
  [[nodiscard]] Enumeration choice(std::string_view name, Enumeration otherwise) {
    const switchyard_argument* const found = find(name, SWITCHYARD_TEXT, "a text");
    if (found == nullptr) return otherwise;
    const std::string_view text = found->text == nullptr ? "" : found->text;
    std::string known;
    for (std::size_t i = 0; i < enumerator_names<Enumeration>.size(); ++i) {
      if (enumerator_names<Enumeration>[i] == text) return static_cast<Enumeration>(i);
      known += (i > 0 ? ", " : "") + std::string{enumerator_names<Enumeration>[i]};
    }
    fail(about(name) + " is '" + std::string{text} + "'; known are " + known);
  }
  [[nodiscard]] bool has(std::string_view name) const {
    for (const switchyard_argument& each : all_) {
      if (each.name == name) return true;
    }
    return false;
  }

  [[noreturn]] void fail_about(std::string_view name, const std::string& what) const {
    fail(about(name) + " " + what);
  }

  /// Throws where an argument was not read.
  void require_all_read() const {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if ((read_ >> i & 1U) == 0)
        fail(std::string{op_} + ": unknown or repeated argument '" + all_[i].name + "'");
    }
  }

  [[noreturn]] static void fail_size(std::string_view function, std::string_view type, std::uint64_t size) {
    fail(std::string{function} + ": " + std::string{type} + " begins with the size " + std::to_string(size) +
         ", which is no version's");
  }

 private:
  [[nodiscard]] std::string about(std::string_view name) const {
    return std::string{op_} + ": " + std::string{name};
  }

  [[nodiscard]] const switchyard_argument* find(std::string_view name, int kind, const char* kind_name) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].name != name) continue;
      read_ |= std::uint64_t{1} << i;
      if (all_[i].kind != kind) fail(about(name) + " must be " + kind_name);
      return &all_[i];
    }
    return nullptr;
  }

  [[nodiscard]] tensor view(std::string_view name) {
    const switchyard_argument* const found = find(name, SWITCHYARD_TENSOR, "a tensor");
    if (found == nullptr || found->tensor == nullptr) return {};
    const switchyard_tensor& from = *found->tensor;
    if (from.size < sizeof(switchyard_tensor)) fail_size(about(name), "switchyard_tensor", from.size);
    if (from.rank < 0 || from.rank > SWITCHYARD_MAX_RANK)
      fail(about(name) + " has " + std::to_string(from.rank) + " dimensions; at most 5 are possible");
    if (from.dtype < 0 || from.dtype > SWITCHYARD_I64)
      fail(about(name) + " has the unknown element type " + std::to_string(from.dtype));
    const auto rank = static_cast<std::size_t>(from.rank);
    return tensor::from_spans(from.data, static_cast<dtype>(from.dtype), {from.extents, rank},
                              {from.strides, rank});
  }

  std::string_view op_;
  std::span<const switchyard_argument> all_;
  std::uint64_t read_ = 0;
};

using namespace operators;

/// The arguments of a call of an operator.
template <class Operator>
typename Operator::arguments make(named_arguments& in);

template <>
inline softmax::arguments make<softmax>(named_arguments& in) {
  return softmax::call(in.read("x"), in.written("out"), {.scale = in.real("scale", 1.0F)});
}
template <>
inline softmax_backward::arguments make<softmax_backward>(named_arguments& in) {
  return softmax_backward::call(in.read("grad_out"), in.read("out"), in.written("grad_x"),
                                {.scale = in.real("scale", 1.0F)});
}
template <>
inline gated_activation::arguments make<gated_activation>(named_arguments& in) {
  const gated_activation::arguments others{.function = in.choice("function", gated_function::silu)};
  if (!in.has("up")) return gated_activation::call_packed(in.written("out"), in.read("gate"), others);
  return gated_activation::call(in.read("gate"), in.read("up"), in.written("out"), others);
}
template <>
inline gated_activation_backward::arguments make<gated_activation_backward>(named_arguments& in) {
  using op = gated_activation_backward;
  const op::arguments others{.function = in.choice("function", gated_function::silu)};
  if (!in.has("up"))
    return op::call_packed(in.read("grad_out"), in.read("gate"), in.written("grad_gate"), others);
  return op::call(in.read("grad_out"), in.read("gate"), in.read("up"), in.written("grad_gate"),
                  in.written("grad_up"), others);
}
template <>
inline rms_norm::arguments make<rms_norm>(named_arguments& in) {
  return rms_norm::call(in.read("x"), in.written("out"),
                        {.gamma = in.read("gamma"),
                         .residual = in.read("residual"),
                         .residual_out = in.written("residual_out"),
                         .rstd = in.written("rstd"),
                         .epsilon = in.real("epsilon", 1e-6F),
                         .gamma_offset = in.real("gamma_offset", 0)});
}
template <>
inline rms_norm_backward::arguments make<rms_norm_backward>(named_arguments& in) {
  return rms_norm_backward::call(in.read("grad_out"), in.read("h"), in.read("rstd"), in.written("grad_x"),
                                 {.gamma = in.read("gamma"),
                                  .grad_residual = in.read("grad_residual"),
                                  .grad_gamma = in.written("grad_gamma"),
                                  .gamma_offset = in.real("gamma_offset", 0)});
}
template <>
inline layer_norm::arguments make<layer_norm>(named_arguments& in) {
  return layer_norm::call(in.read("x"), in.written("out"),
                          {.gamma = in.read("gamma"),
                           .beta = in.read("beta"),
                           .residual = in.read("residual"),
                           .residual_out = in.written("residual_out"),
                           .mean = in.written("mean"),
                           .rstd = in.written("rstd"),
                           .epsilon = in.real("epsilon", 1e-5F),
                           .gamma_offset = in.real("gamma_offset", 0)});
}
template <>
inline layer_norm_backward::arguments make<layer_norm_backward>(named_arguments& in) {
  return layer_norm_backward::call(in.read("grad_out"), in.read("h"), in.read("mean"), in.read("rstd"),
                                   in.written("grad_x"),
                                   {.gamma = in.read("gamma"),
                                    .grad_residual = in.read("grad_residual"),
                                    .grad_gamma = in.written("grad_gamma"),
                                    .grad_beta = in.written("grad_beta"),
                                    .gamma_offset = in.real("gamma_offset", 0)});
}
template <>
inline rotary::arguments make<rotary>(named_arguments& in) {
  return rotary::call(in.read("q"), in.read("k"), in.written("q_out"), in.written("k_out"),
                      {.cos = in.read("cos"),
                       .sin = in.read("sin"),
                       .rotary_dim = in.integer("rotary_dim", unset),
                       .positions = in.read("positions"),
                       .sequence_offsets = in.read("sequence_offsets"),
                       .cu_seqlens = in.read("cu_seqlens"),
                       .longest = in.integer("longest", unset),
                       .offset = in.integer("offset", std::int64_t{0}),
                       .base = in.real("base", 10000.0F),
                       .scaling = in.real("scaling", 1.0F),
                       .style = in.choice("style", rotary_style::half),
                       .inverse = in.integer("inverse", 0) != 0});
}
/// Dropout, for the arguments or the options of a call.
template <class Options>
void read_dropout(named_arguments& in, Options& out) {
  out.dropout_p = in.real("dropout_p", 0);
  out.dropout_seed = static_cast<std::uint64_t>(in.integer("dropout_seed", std::int64_t{0}));
  out.dropout_offset = static_cast<std::uint64_t>(in.integer("dropout_offset", std::int64_t{0}));
  out.dropout_state = in.pointer<std::uint64_t>("dropout_state");
}

/// The options that attention has forward and backward.
template <class Options>
[[nodiscard]] Options read_attention_options(named_arguments& in) {
  Options out;
  out.mask = in.choice("mask", attention_mask::none);
  out.scale = in.real("scale", unset_scale);
  out.soft_cap = in.real("soft_cap", 0);
  out.window_left = in.integer("window_left", std::int32_t{-1});
  out.window_right = in.integer("window_right", std::int32_t{-1});
  out.bias = in.read("bias");
  out.alibi_slopes = in.read("alibi_slopes");
  out.cu_seqlens_q = in.read("cu_seqlens_q");
  out.cu_seqlens_k = in.read("cu_seqlens_k");
  out.longest_q = in.integer("longest_q", unset);
  out.longest_k = in.integer("longest_k", unset);
  out.seqused_q = in.read("seqused_q");
  out.seqused_k = in.read("seqused_k");
  read_dropout(in, out);
  return out;
}

template <>
inline attention_forward::arguments make<attention_forward>(named_arguments& in) {
  auto with = read_attention_options<attention_forward::options>(in);
  with.lse = in.written("lse");
  with.k_scale = in.read("k_scale");
  with.v_scale = in.read("v_scale");
  with.sinks = in.read("sinks");
  if (in.has("block_table")) {
    const paged cache{in.read("k"), in.read("v"), in.read("block_table"), std::exchange(with.seqused_k, {}),
                      with.longest_k};
    return attention_forward::call(in.read("q"), cache, in.written("out"), with);
  }
  return attention_forward::call(in.read("q"), in.read("k"), in.read("v"), in.written("out"), with);
}
template <>
inline attention_decode::arguments make<attention_decode>(named_arguments& in) {
  attention_decode::options with{.mask = in.choice("mask", attention_mask::causal_bottom_right),
                                 .scale = in.real("scale", unset_scale),
                                 .soft_cap = in.real("soft_cap", 0),
                                 .window_left = in.integer("window_left", std::int32_t{-1}),
                                 .lse = in.written("lse"),
                                 .k_scale = in.read("k_scale"),
                                 .v_scale = in.read("v_scale"),
                                 .alibi_slopes = in.read("alibi_slopes"),
                                 .sinks = in.read("sinks"),
                                 .seqused_k = in.read("seqused_k")};
  if (in.has("block_table")) {
    const paged cache{in.read("k"), in.read("v"), in.read("block_table"), std::exchange(with.seqused_k, {}),
                      in.integer("longest_k", unset)};
    return attention_decode::call(in.read("q"), cache, in.written("out"), with);
  }
  return attention_decode::call(in.read("q"), in.read("k"), in.read("v"), in.written("out"), with);
}
template <>
inline attention_backward::arguments make<attention_backward>(named_arguments& in) {
  auto with = read_attention_options<attention_backward::options>(in);
  with.dbias = in.written("dbias");
  with.deterministic = in.integer("deterministic", 0) != 0;
  return attention_backward::call({.q = in.read("q"),
                                   .k = in.read("k"),
                                   .v = in.read("v"),
                                   .out = in.read("out"),
                                   .dout = in.read("dout"),
                                   .lse = in.read("lse"),
                                   .dq = in.written("dq"),
                                   .dk = in.written("dk"),
                                   .dv = in.written("dv")},
                                  with);
}
template <>
inline attention_dropout_mask::arguments make<attention_dropout_mask>(named_arguments& in) {
  attention_dropout_mask::arguments others;
  read_dropout(in, others);
  return attention_dropout_mask::call(in.written("mask"), others);
}

/// A matrix of weights: a pointer, the text `weights`, and the integers <name>_rows, <name>_columns and,
/// where rows do not follow each other, <name>_stride_bytes.
[[nodiscard]] inline weight_matrix read_weights(named_arguments& in, const std::string& name) {
  weight_matrix out{in.pointer<std::byte>(name), in.choice("weights", weight_format::f32),
                    in.integer(name + "_rows", std::int64_t{-1}),
                    in.integer(name + "_columns", std::int64_t{-1})};
  if (out.rows < 0 || out.columns < 0)
    in.fail_about(name, "needs " + name + "_rows and " + name + "_columns, which must not be negative");
  out.stride_bytes = in.integer(name + "_stride_bytes", out.stride());
  return out;
}
template <>
inline matmul_quantized::arguments make<matmul_quantized>(named_arguments& in) {
  const weight_matrix w = read_weights(in, "w");
  return matmul_quantized::call(in.read("x"), w, in.written("out"),
                                {.bias = in.read("bias"),
                                 .int8_activations = in.integer("int8_activations", 0) != 0,
                                 .w_is_constant = in.integer("w_is_constant", 0) != 0});
}
template <>
inline embedding::arguments make<embedding>(named_arguments& in) {
  const weight_matrix table = read_weights(in, "table");
  return embedding::call(table, in.read("ids"), in.written("out"));
}
template <>
inline rotary_cache::arguments make<rotary_cache>(named_arguments& in) {
  const rotary_cache::places at{in.read("cos"), in.read("sin"), in.read("positions"), in.read("slots")};
  const rotary_cache::options with{.q_gamma = in.read("q_gamma"),
                                   .k_gamma = in.read("k_gamma"),
                                   .k_scale = in.read("k_scale"),
                                   .v_scale = in.read("v_scale"),
                                   .epsilon = in.real("epsilon", 1e-6F),
                                   .style = in.choice("style", rotary_style::half)};
  const tensor k_cache = in.written("k_cache");
  const tensor v_cache = in.written("v_cache");
  if (in.has("qkv")) return rotary_cache::call_packed(in.written("qkv"), k_cache, v_cache, at, with);
  return rotary_cache::call(in.written("q"), in.read("k"), in.read("v"), k_cache, v_cache, at, with);
}

}  // namespace switchyard::c_api
