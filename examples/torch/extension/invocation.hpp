// SPDX-License-Identifier: MIT
// One call of an op: views of its tensors, new tensors beside them, and the launch on torch's stream with a
// workspace of torch's allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include <switchyard/check_indices.hpp>
#include <switchyard/error.hpp>
#include <switchyard/tensor.hpp>

#include "call_mode.hpp"
#include "capture.hpp"
#include "device_stream.hpp"
#include "dispatchers.hpp"
#include "stable.hpp"

namespace switchyard_torch {

/// torch's number of an element type that new tensors have.
[[nodiscard]] std::int32_t dtype_of(const Tensor& tensor);
[[nodiscard]] std::int32_t dtype_f32() noexcept;
[[nodiscard]] std::int32_t dtype_e4m3() noexcept;
[[nodiscard]] std::int32_t dtype_bytes() noexcept;

/// Throws call_error invalid_argument.
[[noreturn]] void refuse(const char* op, const std::string& text);

/// The tensor, or a contiguous copy where its last dimension is strided.
[[nodiscard]] Tensor with_dense_rows(const Tensor& tensor);
[[nodiscard]] inline optional_tensor with_dense_rows(const optional_tensor& tensor) {
  return tensor.has_value() ? optional_tensor{with_dense_rows(*tensor)} : tensor;
}

/// A tensor of indices, or a contiguous copy: kernels walk them element by element.
[[nodiscard]] Tensor with_dense_elements(const Tensor& tensor);

/// In place of a result that is not wanted: an undefined tensor, None in Python. It costs the host nothing.
[[nodiscard]] inline Tensor nothing() {
  return Tensor{};
}

class invocation {
 public:
  /// Throws where the tensor's device has no backend.
  invocation(const char* op, const Tensor& first)
      : op_{op}, where_{device_stream::of(first)}, of_empty_{first.data_ptr()} {}

  /// Views. `order` lists the tensor's dimensions as the operator has them; empty: as they are. Throws
  /// call_error where the tensor is on another device than the call, or has another number of dimensions.
  [[nodiscard]] switchyard::tensor view(const Tensor& tensor, const char* name,
                                        std::initializer_list<int> order = {}) const;
  [[nodiscard]] switchyard::tensor view(const optional_tensor& tensor, const char* name,
                                        std::initializer_list<int> order = {}) const {
    return tensor.has_value() ? view(*tensor, name, order) : switchyard::tensor{};
  }

  /// A tensor's element type. Throws call_error where it has none of Switchyard's, or is on another device.
  [[nodiscard]] switchyard::dtype type_of(const Tensor& tensor, const char* name) const;

  /// A new tensor on the call's device: contiguous, or with strides in elements.
  [[nodiscard]] Tensor empty(std::span<const std::int64_t> sizes, std::int32_t dtype) const;
  [[nodiscard]] Tensor empty(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides,
                             std::int32_t dtype) const;
  [[nodiscard]] Tensor empty(std::initializer_list<std::int64_t> sizes, std::int32_t dtype) const {
    return empty(std::span{sizes.begin(), sizes.size()}, dtype);
  }

  /// Launches, explains, prepares or checks, as the thread's call mode is. Loads what it needs, also inside a
  /// capture where the device can.
  template <class Operator>
  void run(const typename Operator::arguments& call) const {
    auto& to = dispatchers<Operator>::at(where_);
    if (current_call_mode() != call_mode::launch) [[unlikely]]
      return run_otherwise(to, call);
    try {
      launch_in_capture(
          to, where_.stream, [&] { launch(to, call); }, [&] { to.prepare(where_.stream, call); });
    } catch (const switchyard::error& problem) {
      explain_failure(problem);
      throw;
    }
  }

  [[nodiscard]] const char* op() const noexcept { return op_; }
  [[nodiscard]] bool is_on_host() const noexcept { return where_.is_cpu; }

 private:
  static constexpr std::size_t workspace_alignment = 256;

  template <class Dispatcher>
  void launch(Dispatcher& to, const typename Dispatcher::arguments& call) const {
    const std::size_t bytes = to.workspace_bytes(where_.stream, call);
    if (bytes == 0) return to(where_.stream, call);
    const Tensor memory = empty({static_cast<std::int64_t>(bytes + workspace_alignment)}, dtype_bytes());
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data_ptr());
    const std::uintptr_t aligned =
        (address + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
    to(where_.stream, call, {reinterpret_cast<void*>(aligned), bytes});
  }

  template <class Dispatcher>
  void run_otherwise(Dispatcher& to, const typename Dispatcher::arguments& call) const {
    if (current_call_mode() == call_mode::prepare) return to.prepare(where_.stream, call);
    if (current_call_mode() == call_mode::check) return check_indices(to, where_.stream, call);
    keep_explanation(to.explain(where_.stream, call));
  }

  /// Throws the error with what to do in PyTorch, where there is something.
  void explain_failure(const switchyard::error& problem) const;

  const char* op_;
  device_stream where_;
  void* of_empty_;  // the address of views of empty tensors: theirs is null, which operators take for absent
};

/// Whether tokens may lie behind the last packed sequence, which kernels leave alone. Only the host can read
/// where that ends.
[[nodiscard]] bool may_have_padding(const invocation& call, const optional_tensor& cu_seqlens,
                                    std::int64_t tokens);

}  // namespace switchyard_torch
