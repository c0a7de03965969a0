// SPDX-License-Identifier: MIT
#include "device_api.hpp"

#include <string>

#include <switchyard/error.hpp>

namespace llm {

namespace sy = switchyard;

std::shared_ptr<const device_api> device_api::of(const sy::device& device) {
  auto out = std::make_shared<device_api>(device);
  if (!out->serves_gpu()) return nullptr;
  const auto find = [&out](auto& function, const char* cuda_name, const char* hip_name) {
    const char* const name = out->find(function, cuda_name, hip_name);
    if (function == nullptr) {
      throw sy::driver_error{sy::error_code::driver_too_old,
                             std::string{"the driver's library lacks "} + name + ": update the driver"};
    }
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
