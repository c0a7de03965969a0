// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <optional>

#include <switchyard/operators/attention_forward.hpp>

#include "../kernels/few_queries.hpp"
#include "../kernels/unpack_rows.hpp"
#include "../operations.hpp"
#include "elements_call.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;
using sy::operators::attention_forward;

namespace {

/// [batch, tokens, heads, dim] of a view whose dimensions are dim, `tokens` and `heads` in this order of
/// indices, and batch.
[[nodiscard]] sy::tensor attention_view(const element_view& of, int tokens, int heads) {
  const std::int64_t bytes = sy::size_of(of.type);
  return {of.data,
          of.type,
          {of.extent[3], of.extent[tokens], of.extent[heads], of.extent[0]},
          {of.stride[3] / bytes, of.stride[tokens] / bytes, of.stride[heads] / bytes, 1}};
}

[[nodiscard]] bool is_element_aligned(const ggml_tensor* of) {
  return element_strides(of).has_value();
}

/// Keys or values as they are, or those of a quantised cache in f16; none where they are neither.
[[nodiscard]] std::optional<element_view> unpacked(calls& with, const ggml_tensor* of) {
  if (dtype_of(of)) return is_element_aligned(of) ? std::optional{view_of(with, of)} : std::nullopt;
  const auto format = format_of(of);
  if (!format || of->nb[0] != ggml_type_size(of->type)) return std::nullopt;
  element_view out;
  std::copy_n(&of->ne[0], 4, &out.extent[0]);
  out = dense_view(nullptr, sy::dtype::f16, out);
  out.data = with.scratch(bytes_of(out));
  unpack_rows::arguments call;
  call.x = with.address(of);
  call.out = out.data;
  call.columns = of->ne[0];
  for (int d = 0; d < 3; ++d) {
    call.extent[d] = of->ne[d + 1];
    call.x_stride[d] = static_cast<std::int64_t>(of->nb[d + 1]);
    call.out_stride[d] = out.stride[d + 1];
  }
  call.format = *format;
  call.out_dtype = out.type;
  if (!with.make<unpack_rows>(call)) return std::nullopt;
  return out;
}

/// The mask as a bias of the queries' type: [batch, heads, tokens, keys], where a 1 is shared by all. ALiBi's
/// slopes differ by head, so that the bias has all heads then.
[[nodiscard]] std::optional<element_view> bias_of(calls& with, const ggml_tensor* node, sy::dtype type) {
  const ggml_tensor* const q = node->src[0];
  element_view mask = view_of(with, node->src[3]);
  const auto largest = parameter<float>(node, 1);
  mask.extent[1] = q->ne[1];  // it may have more rows
  if (largest <= 0) return converted(with, mask, type);
  element_view out = mask;
  out.extent[2] = q->ne[2];
  out = dense_view(nullptr, type, out);
  out.data = with.scratch(bytes_of(out));
  const element_view first{out};
  if (!with.make<elements>(element_call(element_function::masked_score, first, &mask, out, 0, largest)))
    return std::nullopt;
  return out;
}

/// Tokens of a sequence up to which few_queries serves.
constexpr std::int64_t max_few_queries = 32;

/// The call of few queries; none where the node has other types. Keys and values may have been unpacked.
[[nodiscard]] std::optional<few_queries::arguments> few_queries_call(const calls& with,
                                                                     const ggml_tensor* node,
                                                                     const element_view& keys,
                                                                     const element_view& values) {
  const ggml_tensor* const q = node->src[0];
  const ggml_tensor* const mask = node->src[3];
  const ggml_tensor* const sinks = node->src[4];
  if (with.is_host() || q->ne[1] > max_few_queries || q->type != GGML_TYPE_F32 || node->type != GGML_TYPE_F32)
    return std::nullopt;
  if (keys.extent[0] != values.extent[0] || keys.extent[2] != values.extent[2] ||
      keys.extent[3] != q->ne[3] || values.extent[3] != q->ne[3] || !ggml_is_contiguous(node))
    return std::nullopt;
  if (mask != nullptr && mask->type != GGML_TYPE_F16) return std::nullopt;
  few_queries::arguments call;
  call.q = static_cast<const float*>(with.address(q));
  call.k = keys.data;
  call.v = values.data;
  call.mask = mask != nullptr ? with.address(mask) : nullptr;
  call.sinks = sinks != nullptr ? static_cast<const float*>(with.address(sinks)) : nullptr;
  call.out = static_cast<float*>(with.address(node));
  call.batch = q->ne[3];
  call.heads = q->ne[2];
  call.tokens = q->ne[1];
  call.heads_kv = keys.extent[2];
  call.keys = keys.extent[1];
  call.head_dim = q->ne[0];
  for (int d = 0; d < 3; ++d) {
    call.q_stride[d] = static_cast<std::int64_t>(q->nb[d + 1]);
    call.k_stride[d] = keys.stride[d + 1];
    call.v_stride[d] = values.stride[d + 1];
    if (mask != nullptr && (d == 0 || mask->ne[d + 1] > 1))
      call.mask_stride[d] = static_cast<std::int64_t>(mask->nb[d + 1]);
  }
  call.scale = parameter<float>(node, 0);
  call.max_bias = parameter<float>(node, 1);
  call.soft_cap = parameter<float>(node, 2);
  call.kv_dtype = keys.type;
  return call;
}

/// What the result is written into: the node's memory, or memory of rounded activations.
struct attention_result {
  const ggml_tensor* reader = nullptr;  ///< null: the node
  sy::dtype type = sy::dtype::f32;
};

/// In the type of keys and values, which is f16 where they are quantised: queries and results are converted
/// where theirs is another.
[[nodiscard]] bool attend(calls& with, const ggml_tensor* node, const attention_result& into) {
  const ggml_tensor* const q = node->src[0];
  const ggml_tensor* const k = node->src[1];
  const ggml_tensor* const v = node->src[2];
  const ggml_tensor* const mask = node->src[3];
  const ggml_tensor* const sinks = node->src[4];
  for (const ggml_tensor* tensor : {q, node}) {
    if (!dtype_of(tensor) || !is_element_aligned(tensor)) return false;
  }
  if (mask != nullptr) {
    if (!is_element_aligned(mask) || mask->ne[0] != k->ne[1]) return false;
    if (mask->ne[2] != 1 && mask->ne[2] != q->ne[2]) return false;
    if (mask->ne[3] != 1 && mask->ne[3] != q->ne[3]) return false;
  }
  const auto keys = unpacked(with, k);
  const auto values = keys ? unpacked(with, v) : std::nullopt;
  if (!values || keys->type != values->type) return false;
  if (auto few = few_queries_call(with, node, *keys, *values); few && with.serves<few_queries>(*few)) {
    if (into.reader != nullptr) {
      few->out = with.rounding(into.reader, into.type, ggml_nelements(node) * sy::size_of(into.type));
      few->out_dtype = into.type;
    }
    return with.make<few_queries>(*few);
  }
  if (into.reader != nullptr) return false;
  const sy::dtype type = keys->type;
  const auto queries = converted(with, view_of(with, q), type);
  if (!queries) return false;
  const element_view out = view_of(with, node);
  element_view result = out;
  if (out.type != type) {
    result = dense_view(nullptr, type, out);
    result.data = with.scratch(bytes_of(result));
  }
  attention_forward::options options;
  options.scale = parameter<float>(node, 0);
  options.soft_cap = parameter<float>(node, 2);
  if (sinks != nullptr) {
    options.sinks = sy::const_tensor{with.address(sinks), sy::dtype::f32, {sinks->ne[0]}};
  }
  if (mask != nullptr) {
    const auto bias = bias_of(with, node, type);
    if (!bias) return false;
    const std::int64_t bytes = sy::size_of(bias->type);
    options.bias =
        sy::const_tensor{bias->data,
                         bias->type,
                         {bias->extent[3], bias->extent[2], bias->extent[1], bias->extent[0]},
                         {bias->stride[3] / bytes, bias->stride[2] / bytes, bias->stride[1] / bytes, 1}};
  }
  if (!with.make<attention_forward>(
          attention_forward::call(attention_view(*queries, 1, 2), attention_view(*keys, 1, 2),
                                  attention_view(*values, 1, 2), attention_view(result, 2, 1), options)))
    return false;
  if (out.type == type) return true;
  return with.make<elements>(element_call(element_function::copy, result, nullptr, out));
}

}  // namespace

bool make_attention(calls& with, const ggml_tensor* node) {
  return attend(with, node, {});
}

bool make_rounded_attention(calls& with, const ggml_tensor* node, const ggml_tensor* reader, sy::dtype type) {
  return node->src[0]->ne[1] <= max_few_queries && attend(with, node, {reader, type});
}

}  // namespace switchyard_ggml
