// SPDX-License-Identifier: MIT
// Computes graphs of nodes on a device.
#pragma once

#include <cstdint>

#include <switchyard/devices/stream.hpp>

#include "ggml-backend.h"
#include "graph_replays.hpp"
#include "memory.hpp"

struct ggml_cgraph;

namespace switchyard_ggml {

class operators;

/// Where a backend computes.
struct graph_place {
  switchyard::stream on;
  graph_memory& memory;
  graph_replays& replays;
  bool joins = true;  ///< whether one call may compute several nodes
};

/// Every node, in the order of the stream. What fails is logged and returned. `generation` is the catalog's.
[[nodiscard]] ggml_status compute_graph(ggml_cgraph* graph, operators& with, const graph_place& on,
                                        std::uint64_t generation);

/// Whether a node alone would be computed.
[[nodiscard]] bool is_served(operators& with, const ggml_tensor* node);

}  // namespace switchyard_ggml
