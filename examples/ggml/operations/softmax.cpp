// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>

#include <switchyard/operators/softmax.hpp>

#include "../operations.hpp"
#include "elements_call.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;
using sy::operators::softmax;

namespace {

/// The scores of a node with its mask, into `out`.
[[nodiscard]] bool add_mask(calls& with, const ggml_tensor* node, const element_view& out) {
  const ggml_tensor* const mask = node->src[1];
  const element_view scores = view_of(with, node->src[0]);
  const auto scale = parameter<float>(node, 0);
  if (mask == nullptr)
    return with.make<elements>(element_call(element_function::scale, scores, nullptr, out, scale));
  if (!dtype_of(mask)) return false;
  element_view bias = view_of(with, mask);
  bias.extent[1] = scores.extent[1];  // it may have more rows
  return with.make<elements>(
      element_call(element_function::masked_score, scores, &bias, out, scale, parameter<float>(node, 1)));
}

/// A sink is one more score of each row, in a wider copy, whose share of the result nobody reads.
[[nodiscard]] bool make_with_sinks(calls& with, const ggml_tensor* node) {
  const ggml_tensor* const sinks = node->src[2];
  const element_view out = view_of(with, node);
  if (sinks->type != GGML_TYPE_F32 || sinks->ne[0] != out.extent[2]) return false;
  const std::int64_t columns = out.extent[0] + 1;
  const std::int64_t rows = out.extent[1] * out.extent[2] * out.extent[3];
  element_view scores = out;
  scores.extent[0] = columns;
  scores = dense_view(with.scratch(rows * columns * static_cast<std::int64_t>(sizeof(float))), sy::dtype::f32,
                      scores);
  element_view last = scores;
  scores.extent[0] = out.extent[0];
  last.extent[0] = 1;
  last.data = static_cast<std::byte*>(last.data) + out.extent[0] * static_cast<std::int64_t>(sizeof(float));
  element_view by_head = view_of(with, sinks);
  by_head.extent[2] = by_head.extent[0];
  by_head.stride[2] = by_head.stride[0];
  by_head.extent[0] = 1;
  const sy::tensor wide{scores.data, sy::dtype::f32, {rows, columns}};
  return add_mask(with, node, scores) &&
         with.make<elements>(element_call(element_function::repeat, last, &by_head, last)) &&
         with.make<softmax>(softmax::call(wide, wide, {.scale = 1.0F})) &&
         with.make<elements>(element_call(element_function::copy, scores, nullptr, out));
}

}  // namespace

/// A mask is added before, into the result, of which the softmax is then taken in place.
bool make_softmax(calls& with, const ggml_tensor* node) {
  const ggml_tensor* const x = node->src[0];
  if (x->type != GGML_TYPE_F32 || node->type != GGML_TYPE_F32) return false;
  if (node->src[2] != nullptr) return make_with_sinks(with, node);
  auto scale = parameter<float>(node, 0);
  const ggml_tensor* from = x;
  if (node->src[1] != nullptr) {
    if (!add_mask(with, node, view_of(with, node))) return false;
    from = node;
    scale = 1.0F;
  }
  return for_each_rows(with, {node, from}, [&](const row_block& rows) {
    return with.make<softmax>(
        softmax::call(rows_of(with, from, rows), rows_of(with, node, rows), {.scale = scale}));
  });
}

}  // namespace switchyard_ggml
