// SPDX-License-Identifier: MIT
// What the backend asks of a GPU's API besides what Switchyard's drivers do: pinned memory, free memory, and
// events that another stream waits for. CUDA and HIP have these functions with the same signatures.
#pragma once

#include <cstddef>
#include <optional>

#include <switchyard/devices/cuda/context.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/hip/current_device.hpp>

namespace switchyard_ggml {

/// Functions of the library that serves the device. Those that it lacks are null; for the CPU, all are. The
/// device must be current (device_scope) where they are called. Results are those of the API; 0 is success.
class device_api {
 public:
  explicit device_api(const switchyard::device& device);

  int (*host_allocate)(void** address, std::size_t bytes, unsigned flags) = nullptr;
  int (*host_free)(void* address) = nullptr;
  int (*memory_info)(std::size_t* available, std::size_t* total) = nullptr;
  int (*event_create)(void** event, unsigned flags) = nullptr;
  int (*event_destroy)(void* event) = nullptr;
  int (*event_record)(void* event, void* stream) = nullptr;
  int (*event_synchronize)(void* event) = nullptr;
  int (*stream_wait_event)(void* stream, void* event, unsigned flags) = nullptr;

  [[nodiscard]] bool has_host_memory() const noexcept {
    return host_allocate != nullptr && host_free != nullptr;
  }
  [[nodiscard]] bool has_events() const noexcept {
    return event_create != nullptr && event_destroy != nullptr && event_record != nullptr &&
           event_synchronize != nullptr && stream_wait_event != nullptr;
  }

  /// An event without times; null where it cannot be made.
  [[nodiscard]] void* make_event() const;

 private:
  friend class device_scope;

  const switchyard::cuda::api* cuda_ = nullptr;
  CUctx_st* context_ = nullptr;
  const switchyard::hip::api* hip_ = nullptr;
  int ordinal_ = 0;
};

/// Makes the device current on the calling thread until the end of the scope; nothing for the CPU.
class device_scope {
 public:
  explicit device_scope(const device_api& api) {
    if (api.cuda_ != nullptr) cuda_.emplace(*api.cuda_, api.context_);
    if (api.hip_ != nullptr) hip_.emplace(*api.hip_, api.ordinal_);
  }

 private:
  std::optional<switchyard::cuda::context_guard> cuda_;
  std::optional<switchyard::hip::device_guard> hip_;
};

}  // namespace switchyard_ggml
