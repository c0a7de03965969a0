// SPDX-License-Identifier: MIT
#include "device_api.hpp"

#include <dlfcn.h>
#include <initializer_list>
#include <type_traits>

#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/hip/driver.hpp>
#include <switchyard/devices/hip/library.hpp>
#include <switchyard/devices/hip/open.hpp>

namespace switchyard_ggml {

namespace sy = switchyard;

namespace {

/// The first of the libraries that is open already: the device's driver opened it.
[[nodiscard]] void* find_library(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
  }
  return nullptr;
}

}  // namespace

device_api::device_api(const sy::device& device) {
  const auto* const cuda = dynamic_cast<const sy::cuda::driver*>(device.driver().get());
  const auto* const hip = dynamic_cast<const sy::hip::driver*>(device.driver().get());
  if (cuda == nullptr && hip == nullptr) return;
  void* library = nullptr;
  if (cuda != nullptr) {
    library = find_library({"libcuda.so.1"});
    cuda_ = sy::cuda::open_library().get();  // stays open
    context_ = cuda->context();
  } else {
    library = find_library({"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"});
    hip_ = sy::hip::open_library().get();
    ordinal_ = hip->ordinal();
  }
  if (library == nullptr) return;
  const auto find = [&](auto& pointer, const char* cuda_name, const char* hip_name) {
    void* const address = ::dlsym(library, cuda != nullptr ? cuda_name : hip_name);
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(address);
  };
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
