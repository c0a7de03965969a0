// SPDX-License-Identifier: MIT
#include <cstdint>

#include <switchyard/operators/softmax.hpp>

#include "../operations.hpp"
#include "elements_call.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;
using sy::operators::softmax;

/// A mask is added before, into the result, of which the softmax is then taken in place.
bool make_softmax(calls& with, const ggml_tensor* node) {
  const ggml_tensor* const x = node->src[0];
  const ggml_tensor* const mask = node->src[1];
  const ggml_tensor* const sinks = node->src[2];
  if (sinks != nullptr || x->type != GGML_TYPE_F32 || node->type != GGML_TYPE_F32) return false;
  auto scale = parameter<float>(node, 0);
  const ggml_tensor* from = x;
  if (mask != nullptr) {
    if (!dtype_of(mask)) return false;
    const element_view scores = view_of(with, x);
    element_view bias = view_of(with, mask);
    bias.extent[1] = x->ne[1];  // it may have more rows
    const element_view out = view_of(with, node);
    if (!with.make<elements>(element_call(element_function::masked_score, scores, &bias, out, scale,
                                          parameter<float>(node, 1))))
      return false;
    from = node;
    scale = 1.0F;
  }
  return for_each_rows(with, {node, from}, [&](const row_block& rows) {
    return with.make<softmax>(
        softmax::call(rows_of(with, from, rows), rows_of(with, node, rows), {.scale = scale}));
  });
}

}  // namespace switchyard_ggml
