// SPDX-License-Identifier: MIT
// Computes graphs of nodes on a device.
#pragma once

#include <memory>

#include <switchyard/devices/driver.hpp>

#include "ggml-backend.h"
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

/// Every node, in order. What fails is logged and returned.
[[nodiscard]] ggml_status compute_graph(ggml_cgraph* graph, operators& with, graph_memory& memory);

/// Whether a node alone would be computed.
[[nodiscard]] bool is_served(operators& with, const ggml_tensor* node);

}  // namespace switchyard_ggml
