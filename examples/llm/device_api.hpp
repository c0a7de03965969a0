// SPDX-License-Identifier: MIT
// What the engine asks of a GPU's API besides what Switchyard's drivers do: a stream of its own, captured
// graphs, pinned memory. CUDA and HIP have these functions with the same signatures.
#pragma once

#include <cstddef>
#include <memory>

#include <switchyard/devices/device.hpp>

#include "../gpu_library.hpp"

namespace llm {

using examples::device_scope;

/// The device must be current (device_scope) where its functions are called, and for cuBLASLt.
class device_api : public examples::gpu_library {
 public:
  /// Of the library that serves the device, which is open already. Null for the CPU. Throws driver_error
  /// driver_too_old where the library lacks a function.
  [[nodiscard]] static std::shared_ptr<const device_api> of(const switchyard::device& device);

  /// Without functions: tests put theirs in.
  explicit device_api(const switchyard::device& device) : gpu_library{device}, device_{device} {}

  // Results are those of the API; 0 is success. Flags and modes have the same values in both.
  int (*stream_create)(void** stream, unsigned flags) = nullptr;
  int (*stream_destroy)(void* stream) = nullptr;
  int (*begin_capture)(void* stream, int mode) = nullptr;
  int (*end_capture)(void* stream, void** graph) = nullptr;
  int (*graph_instantiate)(void** executable, void* graph, unsigned long long flags) = nullptr;
  int (*graph_launch)(void* executable, void* stream) = nullptr;
  int (*executable_destroy)(void* executable) = nullptr;
  int (*graph_destroy)(void* graph) = nullptr;
  int (*host_allocate)(void** address, std::size_t bytes, unsigned flags) = nullptr;
  int (*host_free)(void* address) = nullptr;
  int (*memory_info)(std::size_t* available, std::size_t* total) = nullptr;

  /// Throws driver_error "problem: result in words" unless the result is success.
  void require(int result, const char* problem) const;

 private:
  switchyard::device device_;
};

}  // namespace llm
