// SPDX-License-Identifier: MIT
// Computes graphs of nodes on a device.
#pragma once

#include <cstdint>
#include <memory>

#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>

#include "ggml-backend.h"
#include "graph_replays.hpp"
#include "memory.hpp"

struct ggml_cgraph;

namespace switchyard_ggml {

class operators;

/// Temporary memory of one backend, which computes one graph at a time.
struct graph_memory {
  explicit graph_memory(const std::shared_ptr<switchyard::device_driver>& driver)
      : lasting{driver}, passing{driver} {}
  arena lasting;
  arena passing;
};

/// Where a backend computes.
struct graph_place {
  switchyard::stream on;
  graph_memory& memory;
  graph_replays& replays;
};

/// Every node, in the order of the stream. What fails is logged and returned. `generation` is the catalog's.
[[nodiscard]] ggml_status compute_graph(ggml_cgraph* graph, operators& with, const graph_place& on,
                                        std::uint64_t generation);

/// Whether a node alone would be computed.
[[nodiscard]] bool is_served(operators& with, const ggml_tensor* node);

}  // namespace switchyard_ggml
