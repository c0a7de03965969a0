// The devices of this machine.
#pragma once

#include <memory>
#include <vector>

#include <switchyard/cuda/driver.hpp>
#include <switchyard/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/hip/driver.hpp>
#include <switchyard/host/driver.hpp>

namespace switchyard::inline v0 {

inline device device::host() {
  static const auto shared = std::make_shared<host::driver>();
  return device{shared};
}

inline device device::current() {
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

inline std::vector<device> device::all() {
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

}  // namespace switchyard::inline v0
