// SPDX-License-Identifier: MIT
// What the backend asks of a GPU's API besides what Switchyard's drivers do: pinned memory, free memory, and
// events that another stream waits for. CUDA and HIP have these functions with the same signatures.
#pragma once

#include <cstddef>

#include <switchyard/devices/device.hpp>

#include "../gpu_library.hpp"

namespace switchyard_ggml {

using examples::device_scope;

/// Functions of the library that serves the device. Those that it lacks are null; for the CPU, all are. The
/// device must be current (device_scope) where they are called. Results are those of the API; 0 is success.
class device_api : public examples::gpu_library {
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
};

}  // namespace switchyard_ggml
