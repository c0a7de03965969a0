// SPDX-License-Identifier: MIT
#include "graph_uses.hpp"

#include <algorithm>

#include "calls.hpp"
#include "ggml-impl.h"
#include "operations.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;

namespace {

/// Nodes behind a result among which its readers are looked for.
constexpr int reach = 48;

[[nodiscard]] bool reads(const ggml_tensor* node, const ggml_tensor* what) {
  return std::any_of(std::begin(node->src), std::end(node->src),
                     [what](const ggml_tensor* source) { return source == what; });
}

/// Whether a node's result is not rounded for products, or not before they are computed.
[[nodiscard]] bool rounds_nothing(const ggml_cgraph* graph, int index) {
  const ggml_tensor* const node = graph->nodes[index];
  if (ggml_op_is_empty(node->op)) return true;
  switch (node->op) {
    case GGML_OP_ROPE:
    case GGML_OP_SET_ROWS:
    case GGML_OP_CPY:
    case GGML_OP_CONT:
      return true;
    case GGML_OP_ADD:
    case GGML_OP_RMS_NORM:
    case GGML_OP_MUL:
      for (int i = index + 1; i < std::min(index + reach, graph->n_nodes); ++i) {
        if (graph->nodes[i]->op == GGML_OP_MUL_MAT && graph->nodes[i]->src[1] == node) return false;
      }
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<sy::dtype> type_of_products(const calls& with, const ggml_cgraph* graph, int index,
                                          bool may_be_view) {
  const ggml_tensor* const node = graph->nodes[index];
  if (with.is_host() || node->type != GGML_TYPE_F32 || (node->flags & GGML_TENSOR_FLAG_OUTPUT) != 0 ||
      (node->view_src != nullptr && !may_be_view) || !ggml_is_contiguous(node))
    return std::nullopt;
  int left = ggml_node_get_use_count(graph, index);
  std::optional<sy::dtype> out;
  for (int i = index + 1; left > 0 && i < std::min(index + reach, graph->n_nodes); ++i) {
    const ggml_tensor* const user = graph->nodes[i];
    if (user->op == GGML_OP_MUL_MAT && user->src[1] == node && user->src[0] != node) {
      const sy::dtype type = activation_type(with, user);
      if (type == sy::dtype::f32 || out.value_or(type) != type) return std::nullopt;
      out = type;
      --left;
    } else if (reads(user, node) || !rounds_nothing(graph, i)) {
      return std::nullopt;
    }
  }
  return left == 0 ? out : std::nullopt;
}

}  // namespace switchyard_ggml
