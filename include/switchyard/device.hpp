// The devices of this machine.
#pragma once

#include <memory>

#include <switchyard/driver.hpp>
#include <switchyard/host/driver.hpp>

namespace switchyard::inline v0 {

inline device device::host() {
  static const auto shared = std::make_shared<host::driver>();
  return device{shared};
}

inline device device::current() {
  return host();
}

}  // namespace switchyard::inline v0
