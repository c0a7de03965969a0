// SPDX-License-Identifier: MIT
#include "graph.hpp"

#include <exception>
#include <new>
#include <string>

#include <switchyard/error.hpp>

#include "ggml-impl.h"
#include "graph_uses.hpp"
#include "operations.hpp"

namespace switchyard_ggml {

namespace sy = switchyard;

namespace {

[[nodiscard]] bool is_computed(const ggml_tensor* node) {
  return (node->flags & GGML_TENSOR_FLAG_COMPUTE) != 0 && !ggml_is_empty(node);
}

/// Whether nodes from `first` on are RMS_NORM and MUL with one use between them.
[[nodiscard]] bool is_scaled_norm(const ggml_cgraph* graph, int first) {
  constexpr ggml_op pair[] = {GGML_OP_RMS_NORM, GGML_OP_MUL};  // NOLINT(modernize-avoid-c-arrays): for ggml
  return ggml_can_fuse(graph, first, pair, 2);
}

/// RMS_NORM and MUL, whose number is `norm`, with the ADD before them unless `sum` is null.
[[nodiscard]] bool make_norm_of(calls& with, const ggml_cgraph* graph, const ggml_tensor* sum, int norm) {
  const ggml_tensor* const product = graph->nodes[norm + 1];
  if (const auto type = type_of_products(with, graph, norm + 1);
      type && make_rounded_norm(with, sum, graph->nodes[norm], product, *type))
    return true;
  return make_scaled_norm(with, sum, graph->nodes[norm], product);
}

/// Attention whose result one reshape reads, for products.
[[nodiscard]] bool make_attention_of(calls& with, const ggml_cgraph* graph, int first) {
  if (first + 1 >= graph->n_nodes || !ggml_node_has_n_uses(graph, first, 1)) return false;
  const ggml_tensor* const reader = graph->nodes[first + 1];
  if (reader->op != GGML_OP_RESHAPE || reader->src[0] != graph->nodes[first]) return false;
  const auto type = type_of_products(with, graph, first + 1, true);
  return type && make_rounded_attention(with, graph->nodes[first], reader, *type);
}

/// How many nodes from `first` on were computed by one call; 0: none.
[[nodiscard]] int make_fused(calls& with, const ggml_cgraph* graph, int first) {
  ggml_tensor* const* const nodes = graph->nodes + first;
  switch (nodes[0]->op) {
    case GGML_OP_ADD:
      return first + 2 < graph->n_nodes && is_computed(nodes[1]) && nodes[1]->src[0] == nodes[0] &&
                     is_scaled_norm(graph, first + 1) && make_norm_of(with, graph, nodes[0], first + 1)
                 ? 3
                 : 0;
    case GGML_OP_RMS_NORM:
      return is_scaled_norm(graph, first) && make_norm_of(with, graph, nullptr, first) ? 2 : 0;
    case GGML_OP_GLU: {
      const auto type = type_of_products(with, graph, first);
      return type && make_rounded_gated(with, nodes[0], *type) ? 1 : 0;
    }
    case GGML_OP_FLASH_ATTN_EXT:
      return make_attention_of(with, graph, first) ? 1 : 0;
    default:
      return 0;
  }
}

/// The node that could not be computed; null where all were.
struct node_failure {
  const ggml_tensor* node = nullptr;
  ggml_status status = GGML_STATUS_FAILED;
  std::string problem;
  bool is_unloaded = false;  ///< its kernels are not loaded, while the stream is recorded
};

[[nodiscard]] ggml_status report(const node_failure& of) {
  GGML_LOG_ERROR("switchyard: %s '%s': %s\n", ggml_op_desc(of.node), of.node->name, of.problem.c_str());
  return of.status;
}

[[nodiscard]] node_failure make_nodes(calls& made, const ggml_cgraph* graph, bool joins) {
  for (int i = 0; i < graph->n_nodes; ++i) {
    const ggml_tensor* const node = graph->nodes[i];
    if (!is_computed(node)) continue;
    try {
      if (const int fused = joins ? make_fused(made, graph, i) : 0; fused > 0) {
        i += fused - 1;
      } else if (!make_calls(made, node)) {
        return {node, GGML_STATUS_FAILED, "not an operation of this device", false};
      }
    } catch (const sy::error& problem) {
      const bool is_memory = problem.code() == sy::error_code::out_of_memory;
      return {node, is_memory ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED, problem.what(),
              problem.code() == sy::error_code::load_during_capture};
    } catch (const std::bad_alloc& problem) {
      return {node, GGML_STATUS_ALLOC_FAILED, problem.what(), false};
    } catch (const std::exception& problem) {
      return {node, GGML_STATUS_FAILED, problem.what(), false};
    }
    made.end_node();
  }
  return {};
}

}  // namespace

ggml_status compute_graph(ggml_cgraph* graph, operators& with, const graph_place& on,
                          std::uint64_t generation) {
  ggml_status status = GGML_STATUS_SUCCESS;
  static_cast<void>(on.replays.run(graph, generation, [&](bool is_recorded) {
    on.memory.lasting.reset();
    on.memory.scratch.reset();
    calls made{with, on.on, on.memory};
    const node_failure failure = make_nodes(made, graph, on.joins);
    if (failure.node == nullptr) return graph_replays::outcome::done;
    if (failure.is_unloaded) return graph_replays::outcome::unloaded;
    if (!is_recorded) status = report(failure);
    return graph_replays::outcome::failed;
  }));
  return status;
}

bool is_served(operators& with, const ggml_tensor* node) {
  try {
    calls asked{with};
    return ggml_is_empty(node) || make_calls(asked, node);
  } catch (const sy::error&) {
    return false;
  }
}

}  // namespace switchyard_ggml
