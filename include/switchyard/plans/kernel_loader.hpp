// SPDX-License-Identifier: MIT
// The interface that loads a manifest's kernels on one device.
#pragma once

#include <memory>

#include <switchyard/devices/driver.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/parameters/launch_layout.hpp>

namespace switchyard {
inline namespace v0 {

/// A kernel ready to be launched.
struct loaded_kernel {
  function_handle function = nullptr;       ///< null: not loaded
  std::shared_ptr<const void> module;       ///< keeps it loaded
  std::shared_ptr<launch_layout> layout{};  ///< for the variant that loaded it
};

class kernel_loader {
 public:
  kernel_loader() = default;
  kernel_loader(const kernel_loader&) = delete;
  kernel_loader& operator=(const kernel_loader&) = delete;
  virtual ~kernel_loader() = default;

  [[nodiscard]] virtual device_driver& driver() const noexcept = 0;

  /// Loads a launch's kernel. Throws error with codes 205 to 210.
  [[nodiscard]] virtual loaded_kernel load(const launch& of) = 0;

  /// A launch's kernel where it was loaded before, without a call that a stream capture forbids.
  [[nodiscard]] virtual loaded_kernel find_loaded(const launch& of) = 0;
};

}  // namespace v0
}  // namespace switchyard
