// SPDX-License-Identifier: MIT
#include "device_api.hpp"

namespace switchyard_ggml {

device_api::device_api(const switchyard::device& device) : gpu_library{device} {
  find(host_allocate, "cuMemHostAlloc", "hipHostMalloc");
  find(host_free, "cuMemFreeHost", "hipHostFree");
  find(memory_info, "cuMemGetInfo_v2", "hipMemGetInfo");
  find(event_create, "cuEventCreate", "hipEventCreateWithFlags");
  find(event_destroy, "cuEventDestroy_v2", "hipEventDestroy");
  find(event_record, "cuEventRecord", "hipEventRecord");
  find(event_synchronize, "cuEventSynchronize", "hipEventSynchronize");
  find(stream_wait_event, "cuStreamWaitEvent", "hipStreamWaitEvent");
}

void* device_api::make_event() const {
  if (!has_events()) return nullptr;
  const device_scope current{*this};
  constexpr unsigned without_times = 2;
  void* event = nullptr;
  return event_create(&event, without_times) == 0 ? event : nullptr;
}

}  // namespace switchyard_ggml
