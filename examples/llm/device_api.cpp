// SPDX-License-Identifier: MIT
#include "device_api.hpp"

#include <dlfcn.h>
#include <string>
#include <type_traits>

#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/hip/driver.hpp>
#include <switchyard/devices/hip/library.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/error.hpp>

namespace llm {

namespace sy = switchyard;

namespace {

/// The first of the libraries that can be opened.
[[nodiscard]] void* open_one_of(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const device_api> device_api::of(const sy::device& device) {
  const auto* const cuda = dynamic_cast<const sy::cuda::driver*>(device.driver().get());
  const auto* const hip = dynamic_cast<const sy::hip::driver*>(device.driver().get());
  if (cuda == nullptr && hip == nullptr) return nullptr;
  auto out = std::make_shared<device_api>(device);
  void* library = nullptr;
  if (cuda != nullptr) {
    library = open_one_of({"libcuda.so.1"});
    out->cuda_ = sy::cuda::open_library().get();  // stays open
    out->context_ = cuda->context();
  } else {
    library = open_one_of({"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"});
    out->hip_ = sy::hip::open_library().get();
    out->ordinal_ = hip->ordinal();
  }
  const auto find = [&](auto& pointer, const char* cuda_name, const char* hip_name) {
    const char* const name = cuda != nullptr ? cuda_name : hip_name;
    void* const address = library == nullptr ? nullptr : ::dlsym(library, name);
    if (address == nullptr) {
      throw sy::driver_error{sy::error_code::driver_too_old,
                             std::string{"the driver's library lacks "} + name + ": update the driver"};
    }
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(address);
  };
  find(out->stream_create, "cuStreamCreate", "hipStreamCreateWithFlags");
  find(out->stream_destroy, "cuStreamDestroy_v2", "hipStreamDestroy");
  find(out->begin_capture, "cuStreamBeginCapture_v2", "hipStreamBeginCapture");
  find(out->end_capture, "cuStreamEndCapture", "hipStreamEndCapture");
  find(out->graph_instantiate, "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags");
  find(out->graph_launch, "cuGraphLaunch", "hipGraphLaunch");
  find(out->executable_destroy, "cuGraphExecDestroy", "hipGraphExecDestroy");
  find(out->graph_destroy, "cuGraphDestroy", "hipGraphDestroy");
  find(out->host_allocate, "cuMemHostAlloc", "hipHostMalloc");
  find(out->host_free, "cuMemFreeHost", "hipHostFree");
  find(out->memory_info, "cuMemGetInfo_v2", "hipMemGetInfo");
  return out;
}

void device_api::require(int result, const char* problem) const {
  if (result == 0) return;
  throw sy::driver_error{sy::error_code::driver_failed, device_.driver()->properties().name + ": " + problem +
                                                            ": " + device_.driver()->describe(result)};
}

}  // namespace llm
