// SPDX-License-Identifier: MIT
// The calls that a node of a graph becomes. The same code answers whether the device takes a node and
// computes it: a node is supported exactly where all of its calls are legal and served.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <switchyard/base/dtype.hpp>
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
  /// Computes, in stream order, with a graph's memory.
  calls(operators& with, switchyard::stream on, graph_memory& memory)
      : with_{with},
        stream_{on},
        lasting_{&memory.lasting},
        scratch_{&memory.scratch},
        rounding_{&memory.rounding} {}

  [[nodiscard]] bool is_asking() const noexcept { return scratch_ == nullptr; }

  /// Whether the device is the CPU, where a node's calls have ended when the next one is made.
  [[nodiscard]] bool is_host() const noexcept;

  /// Makes a call; false where none serves it, or where it is illegal. Throws switchyard::error where it
  /// cannot be computed. Defined in calls.cpp, for the operators of operators.hpp.
  template <class Operator>
  [[nodiscard]] bool make(const typename Operator::arguments& call);

  /// Whether a call would be made.
  template <class Operator>
  [[nodiscard]] bool serves(const typename Operator::arguments& call);

  /// Where a tensor's elements are. One that has no memory yet is taken to be aligned as buffers are.
  [[nodiscard]] void* address(const ggml_tensor* of) const noexcept {
    if (!is_asking() || of->data != nullptr) return of->data;
    return reinterpret_cast<void*>(unknown_address + of->view_offs);
  }

  /// Memory until the next node.
  [[nodiscard]] void* scratch(std::int64_t bytes) { return take(scratch_, bytes); }
  /// Memory until the end of the graph.
  [[nodiscard]] void* kept(std::int64_t bytes) { return take(lasting_, bytes); }
  [[nodiscard]] rope_tables& tables() noexcept { return tables_; }

  /// A tensor in another type, if it is what was rounded last: several nodes read the same activations.
  [[nodiscard]] void* rounded(const ggml_tensor* of, switchyard::dtype type) const noexcept {
    return of == rounded_of_ && type == rounded_type_ ? rounded_ : nullptr;
  }
  /// Memory to round a tensor into, until the next one is.
  [[nodiscard]] void* rounding(const ggml_tensor* of, switchyard::dtype type, std::int64_t bytes) {
    if (rounding_ != nullptr) rounding_->reset();
    rounded_ = take(rounding_, bytes);
    rounded_of_ = is_asking() ? nullptr : of;
    rounded_type_ = type;
    return rounded_;
  }
  void forget_rounded() noexcept { rounded_of_ = nullptr; }

  void end_node() noexcept { scratch_->reset(); }

 private:
  static constexpr std::uintptr_t unknown_address = std::uintptr_t{1} << 20U;

  [[nodiscard]] static void* take(arena* from, std::int64_t bytes) {
    if (from == nullptr) return reinterpret_cast<void*>(unknown_address);
    return from->take(static_cast<std::size_t>(bytes));
  }

  operators& with_;
  switchyard::stream stream_{};
  arena* lasting_ = nullptr;
  arena* scratch_ = nullptr;
  arena* rounding_ = nullptr;
  rope_tables tables_;
  const ggml_tensor* rounded_of_ = nullptr;
  switchyard::dtype rounded_type_ = switchyard::unset_dtype;
  void* rounded_ = nullptr;
};

}  // namespace switchyard_ggml
