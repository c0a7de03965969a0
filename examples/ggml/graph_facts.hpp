// SPDX-License-Identifier: MIT
// What the calls of a graph depend on, as values that can be compared.
#pragma once

#include <cstdint>
#include <vector>

struct ggml_cgraph;

namespace switchyard_ggml {

/// Graphs with equal facts become the same calls with the same arguments: they have the same nodes of the
/// same shapes at the same addresses.
class graph_facts {
 public:
  explicit graph_facts(const ggml_cgraph* of);

  friend bool operator==(const graph_facts&, const graph_facts&) = default;

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace switchyard_ggml
