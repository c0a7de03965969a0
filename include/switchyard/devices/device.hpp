// SPDX-License-Identifier: MIT
// A device as a value. switchyard/device.hpp finds the devices of the machine.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/hardware/device_properties.hpp>

namespace switchyard {
inline namespace v0 {

/// One device of one backend, as a value. Copies share the driver.
class device {
 public:
  explicit device(std::shared_ptr<device_driver> driver) noexcept : driver_{std::move(driver)} {}

  /// The device of the calling thread: its CUDA context's, else the first CUDA, else the first HIP device,
  /// else the CPU. Defined in device.hpp.
  [[nodiscard]] static device current();

  /// Every CUDA and HIP device, then the CPU. Defined in device.hpp.
  [[nodiscard]] static std::vector<device> all();

  /// The CPU. Defined in device.hpp.
  [[nodiscard]] static device host();

  [[nodiscard]] const device_properties& properties() const noexcept { return driver_->properties(); }
  [[nodiscard]] const std::shared_ptr<device_driver>& driver() const noexcept { return driver_; }

 private:
  std::shared_ptr<device_driver> driver_;
};

}  // namespace v0
}  // namespace switchyard
