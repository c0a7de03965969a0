// SPDX-License-Identifier: MIT
// The bodies of device.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/device.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/cuda/router.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/devices/hip/router.hpp>
#include <switchyard/devices/host/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/stream_router.hpp>
#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

SWITCHYARD_COLD device device::host() {
  // What was loaded keeps the driver for good; its threads must end before a plug-in's code is unmapped.
  struct owner {
    std::shared_ptr<host::driver> driver = std::make_shared<host::driver>();
    owner() = default;
    owner(const owner&) = delete;
    owner& operator=(const owner&) = delete;
    ~owner() { driver->end_threads(); }
  };
  static const owner shared;
  return device{shared.driver};
}

SWITCHYARD_COLD device device::current() {
  try {
    return device{cuda::current()};
  } catch (const driver_error&) {  // no CUDA here
  }
  try {
    return device{hip::current()};
  } catch (const driver_error&) {  // nor HIP
  }
  return host();
}

SWITCHYARD_COLD std::vector<device> device::all() {
  std::vector<device> out;
  const auto add = [&out](const auto& count, const auto& open) {
    try {
      const int devices = count();
      for (int i = 0; i < devices; ++i) out.emplace_back(open(i));
    } catch (const driver_error&) {  // a backend that is not here has no devices
    }
  };
  add([] { return cuda::count(); }, [](int ordinal) { return cuda::open(ordinal); });
  add([] { return hip::count(); }, [](int ordinal) { return hip::open(ordinal); });
  out.push_back(host());
  return out;
}

SWITCHYARD_COLD std::shared_ptr<stream_router> stream_router::of_machine() {
  class host_router final : public stream_router {
   public:
    [[nodiscard]] device of(stream /*on*/) override { return device::host(); }
    [[nodiscard]] std::uintptr_t key(stream /*on*/) noexcept override { return 1; }
    [[nodiscard]] bool refuses_foreign_streams() const noexcept override { return false; }
  };
  const auto has_devices = [](const auto& count) {
    try {
      return count() > 0;
    } catch (const driver_error&) {
      return false;
    }
  };
  const bool has_cuda = has_devices([] { return cuda::count(); });
  const bool has_hip = has_devices([] { return hip::count(); });
  if (has_cuda && has_hip) {
    throw driver_error{
        error_code::unsupported_device,
        "both CUDA and HIP devices were found, and a stream handle does not identify its backend: pass the "
        "dispatcher a device, or the catalog's options a cuda::router or hip::router"};
  }
  if (has_cuda) return std::make_shared<cuda::router>();
  if (has_hip) return std::make_shared<hip::router>();
  return std::make_shared<host_router>();
}

}  // namespace v0
}  // namespace switchyard
