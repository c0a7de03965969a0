// SPDX-License-Identifier: MIT
#include "graph.hpp"

#include <exception>
#include <new>
#include <string>

#include <switchyard/error.hpp>

#include "ggml-impl.h"
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

/// How many nodes from `first` on were computed by one call; 0: none.
[[nodiscard]] int make_fused(calls& with, const ggml_cgraph* graph, int first) {
  ggml_tensor* const* const nodes = graph->nodes + first;
  if (nodes[0]->op == GGML_OP_ADD && first + 2 < graph->n_nodes && is_computed(nodes[1]) &&
      nodes[1]->src[0] == nodes[0] && is_scaled_norm(graph, first + 1) &&
      make_scaled_norm(with, nodes[0], nodes[1], nodes[2]))
    return 3;
  if (nodes[0]->op == GGML_OP_RMS_NORM && is_scaled_norm(graph, first) &&
      make_scaled_norm(with, nullptr, nodes[0], nodes[1]))
    return 2;
  return 0;
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

[[nodiscard]] node_failure make_nodes(calls& made, const ggml_cgraph* graph) {
  for (int i = 0; i < graph->n_nodes; ++i) {
    const ggml_tensor* const node = graph->nodes[i];
    if (!is_computed(node)) continue;
    try {
      if (const int fused = make_fused(made, graph, i); fused > 0) {
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
    on.memory.passing.reset();
    calls made{with, on.on, on.memory};
    const node_failure failure = make_nodes(made, graph);
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
