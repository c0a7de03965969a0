// SPDX-License-Identifier: MIT
#include "graph_facts.hpp"

#include <cstddef>
#include <cstring>

#include "ggml-impl.h"

namespace switchyard_ggml {

namespace {

/// Appends the bytes of values that have no padding.
class word_writer {
 public:
  explicit word_writer(std::vector<std::uint64_t>& to) : to_{to} {}

  void add(std::uint64_t word) { to_.push_back(word); }
  void add(const void* address) { add(reinterpret_cast<std::uintptr_t>(address)); }
  /// An array of ggml's.
  template <class Array>
  void add_all(const Array& values) {
    constexpr std::size_t word_bytes = 8;
    static_assert(sizeof values % word_bytes == 0);
    const std::size_t first = to_.size();
    to_.resize(first + sizeof values / word_bytes);
    std::memcpy(&to_[first], &values, sizeof values);
  }

  /// What a call reads of a tensor, as a source or as a result.
  void add_tensor(const ggml_tensor& of) {
    add((static_cast<std::uint64_t>(of.type) << 32U) | static_cast<std::uint64_t>(of.op));
    add(of.data);
    add_all(of.ne);
    add_all(of.nb);
  }

 private:
  std::vector<std::uint64_t>& to_;
};

}  // namespace

graph_facts::graph_facts(const ggml_cgraph* of) {
  constexpr std::size_t words_of_node = 96;  // of one with three sources
  words_.reserve(static_cast<std::size_t>(of->n_nodes) * words_of_node);
  word_writer out{words_};
  out.add(static_cast<std::uint64_t>(of->n_nodes));
  for (int i = 0; i < of->n_nodes; ++i) {
    const ggml_tensor* const node = of->nodes[i];
    out.add(static_cast<const void*>(node));
    out.add(static_cast<std::uint64_t>(static_cast<std::uint32_t>(node->flags)));
    out.add_all(node->op_params);
    out.add_tensor(*node);
    for (const ggml_tensor* const source : node->src) {
      out.add(static_cast<const void*>(source));
      if (source != nullptr) out.add_tensor(*source);
    }
  }
}

}  // namespace switchyard_ggml
