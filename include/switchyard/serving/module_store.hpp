// SPDX-License-Identifier: MIT
// Blobs loaded on one device: each content once, checked against its hash, and loaded until it is given back.
//
// What was loaded stays loaded, since a captured graph may replay it at any time: memory is flat for a finite
// set of blobs. Any thread may enter. No lock is held while a driver loads or unloads, except the one of the
// blob that is being loaded: only callers that need this very blob wait for it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/base/sha256.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/files/manifest.hpp>
#include <switchyard/plans/kernel_loader.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// Largest blob that is read.
inline constexpr std::size_t max_blob_bytes = std::size_t{1} << 30U;

/// A blob that a driver has loaded. The bytes live as long as the module: some drivers read from them later.
class loaded_module {
 public:
  loaded_module(std::shared_ptr<device_driver> driver, std::string bytes, const std::string& path)
      : driver_{std::move(driver)},
        bytes_{std::move(bytes)},
        handle_{driver_->load(std::as_bytes(std::span{bytes_}), path)} {}
  loaded_module(const loaded_module&) = delete;
  loaded_module& operator=(const loaded_module&) = delete;
  ~loaded_module() { driver_->unload(handle_); }

  /// A kernel of the module. Found once; later requests do not reach the driver. Throws driver_error.
  [[nodiscard]] function_handle find(const launch& of);

  /// The same without a call to the driver; null for a kernel that was not found before.
  [[nodiscard]] function_handle find_known(const launch& of) const;

 private:
  struct kernel {
    function_handle function = nullptr;
    std::vector<parameter_slot> parameters;
    bool tells_parameters = false;
  };

  std::shared_ptr<device_driver> driver_;
  std::string bytes_;
  module_handle handle_;
  mutable switchyard::mutex mutex_;  // never held while the driver works
  std::map<std::string, kernel, std::less<>> kernels_;
};

class module_store final : public kernel_loader {
 public:
  explicit module_store(std::shared_ptr<device_driver> driver) : driver_{std::move(driver)} {}

  /// The store that every catalog of this program uses for a device. It lives until the program ends, and
  /// with it the device and what was loaded there: a graph may outlive the catalog that loaded its kernels.
  [[nodiscard]] static std::shared_ptr<module_store> of(const std::shared_ptr<device_driver>& driver);

  [[nodiscard]] device_driver& driver() const noexcept override { return *driver_; }

  [[nodiscard]] SWITCHYARD_FUNCTION loaded_kernel load(const launch& of) override;

  [[nodiscard]] SWITCHYARD_FUNCTION loaded_kernel find_loaded(const launch& of) override;

  /// Unloads the modules that nothing refers to; returns how many. See catalog::unload_unused.
  std::size_t unload_unused();

 private:
  /// One content, loaded or not.
  class entry {
   public:
    switchyard::mutex loading;  // held while the driver loads it

    [[nodiscard]] std::shared_ptr<loaded_module> get() const;
    void set(std::shared_ptr<loaded_module> loaded);
    [[nodiscard]] bool is_unused() const;

   private:
    mutable switchyard::mutex mutex_;  // never held while the driver works
    std::shared_ptr<loaded_module> loaded_;
  };

  [[nodiscard]] std::shared_ptr<entry> entry_of(const std::string& sha256);

  [[nodiscard]] std::shared_ptr<loaded_module> load_module(const launch& of);

  std::shared_ptr<device_driver> driver_;
  switchyard::mutex mutex_;  // never held while a file is read or a driver works
  std::map<std::string, std::shared_ptr<entry>, std::less<>> entries_;
};

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/serving/module_store_impl.hpp>
#endif
