// SPDX-License-Identifier: MIT
// What the engine asks of a GPU's API besides what Switchyard's drivers do: a stream of its own, captured
// graphs, pinned memory. CUDA and HIP have these functions with the same signatures.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include <switchyard/devices/cuda/context.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/hip/current_device.hpp>
#include <switchyard/devices/stream.hpp>

namespace llm {

class device_api {
 public:
  /// Of the library that serves the device, which is open already. Null for the CPU. Throws driver_error
  /// driver_too_old where the library lacks a function.
  [[nodiscard]] static std::shared_ptr<const device_api> of(const switchyard::device& device);

  /// Without functions: tests put theirs in.
  explicit device_api(const switchyard::device& device) : device_{device} {}

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
  friend class device_scope;

  switchyard::device device_;
  const switchyard::cuda::api* cuda_ = nullptr;
  CUctx_st* context_ = nullptr;
  const switchyard::hip::api* hip_ = nullptr;
  int ordinal_ = 0;
};

/// Makes the device current on the calling thread until the end of the scope; nothing for the CPU. The
/// functions of device_api need that, and so does cuBLASLt.
class device_scope {
 public:
  explicit device_scope(const device_api* api) {
    if (api == nullptr) return;
    if (api->cuda_ != nullptr) cuda_.emplace(*api->cuda_, api->context_);
    if (api->hip_ != nullptr) hip_.emplace(*api->hip_, api->ordinal_);
  }

 private:
  std::optional<switchyard::cuda::context_guard> cuda_;
  std::optional<switchyard::hip::device_guard> hip_;
};

}  // namespace llm
