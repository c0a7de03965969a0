// SPDX-License-Identifier: MIT
// The calls that a node of a graph becomes. The same code answers whether the device takes a node and
// computes it: a node is supported exactly where all of its calls are legal and served.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/devices/stream.hpp>

#include "ggml.h"
#include "memory.hpp"

namespace switchyard_ggml {

class operators;

/// The tables of cosines and sines that a graph's nodes share.
struct rope_tables {
  struct table {
    const ggml_tensor* positions;
    const ggml_tensor* factors;
    std::array<std::int32_t, 16> parameters;
    float* cos;
    float* sin;
  };
  std::vector<table> known;
};

class calls {
 public:
  /// Asks only: nothing is computed, and tensors need no memory yet.
  explicit calls(operators& with) : with_{with} {}
  /// Computes, in stream order. `lasting` is for what later nodes of the graph read, `passing` for one node.
  calls(operators& with, switchyard::stream on, arena& lasting, arena& passing)
      : with_{with}, stream_{on}, lasting_{&lasting}, passing_{&passing} {}

  [[nodiscard]] bool is_asking() const noexcept { return passing_ == nullptr; }

  /// Whether the device is the CPU, where a node's calls have ended when the next one is made.
  [[nodiscard]] bool is_host() const noexcept;

  /// Makes a call; false where none serves it, or where it is illegal. Throws switchyard::error where it
  /// cannot be computed. Defined in calls.cpp, for the operators of operators.hpp.
  template <class Operator>
  [[nodiscard]] bool make(const typename Operator::arguments& call);

  /// Where a tensor's elements are. One that has no memory yet is taken to be aligned as buffers are.
  [[nodiscard]] void* address(const ggml_tensor* of) const noexcept {
    if (!is_asking() || of->data != nullptr) return of->data;
    return reinterpret_cast<void*>(unknown_address + of->view_offs);
  }

  /// Memory until the next node.
  [[nodiscard]] void* scratch(std::int64_t bytes) { return take(passing_, bytes); }
  /// Memory until the end of the graph.
  [[nodiscard]] void* kept(std::int64_t bytes) { return take(lasting_, bytes); }
  [[nodiscard]] rope_tables& tables() noexcept { return tables_; }

  void end_node() noexcept { passing_->reset(); }

 private:
  static constexpr std::uintptr_t unknown_address = std::uintptr_t{1} << 20U;

  [[nodiscard]] static void* take(arena* from, std::int64_t bytes) {
    if (from == nullptr) return reinterpret_cast<void*>(unknown_address);
    return from->take(static_cast<std::size_t>(bytes));
  }

  operators& with_;
  switchyard::stream stream_{};
  arena* lasting_ = nullptr;
  arena* passing_ = nullptr;
  rope_tables tables_;
};

}  // namespace switchyard_ggml
