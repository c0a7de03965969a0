// SPDX-License-Identifier: MIT
// What the loaded backend owns: one catalog, and the devices that it has kernels for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <switchyard/devices/device.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/host/driver.hpp>
#include <switchyard/serving/state_source.hpp>

#include "device_api.hpp"
#include "ggml-backend-impl.h"

namespace switchyard_ggml {

class operators;

/// A device as ggml sees it. Any thread may call any function.
class device {
 public:
  device(switchyard::catalog& catalog, switchyard::device target, std::string name);
  device(const device&) = delete;
  device& operator=(const device&) = delete;
  ~device();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& description() const noexcept { return target_.properties().name; }
  [[nodiscard]] bool is_host() const noexcept { return target_.properties().backend == "host"; }
  [[nodiscard]] const std::shared_ptr<switchyard::device_driver>& driver() const noexcept {
    return target_.driver();
  }

  /// Whether there are kernels for the products that models consist of.
  [[nodiscard]] bool has_products();

  /// The operators for launches on this many threads; 0: as many as the process may use. A GPU has one set.
  [[nodiscard]] operators& with_threads(int threads);

  /// Whether a node is computed here.
  [[nodiscard]] bool supports(const ggml_tensor* node);

  /// Of the catalog: how often other kernels may have come to serve.
  [[nodiscard]] std::uint64_t generation() const noexcept;
  [[nodiscard]] const device_api& api() const noexcept { return api_; }

  ggml_backend_buffer_type buffers{};
  ggml_backend_buffer_type host_buffers{};  ///< of a GPU: in pinned memory
  ggml_backend_device handle{};

 private:
  struct threaded {
    std::shared_ptr<switchyard::host::driver> driver;  // null: the device's own
    std::unique_ptr<operators> with;
  };

  switchyard::catalog& catalog_;
  switchyard::device target_;
  device_api api_;
  std::string name_;
  std::mutex mutex_;
  std::map<int, threaded> by_threads_;  // guarded by mutex_
  std::uint64_t generation_ = 0;  // guarded by mutex_: of the catalog, when questions were last answered
};

/// Null where the catalog has no kernels for this machine, which is said once.
[[nodiscard]] ggml_backend_reg_t open_library();

/// The devices, the CPU last.
[[nodiscard]] const std::vector<std::unique_ptr<device>>& devices();

/// In device.cpp, buffers.cpp, host_buffers.cpp and backend.cpp: the functions that ggml calls.
[[nodiscard]] const ggml_backend_device_i& device_functions();
[[nodiscard]] const ggml_backend_buffer_type_i& buffer_type_functions();
[[nodiscard]] const ggml_backend_buffer_type_i& host_buffer_type_functions();
[[nodiscard]] ggml_backend_buffer_t wrap_host_memory(device& of, void* address, std::size_t bytes);
[[nodiscard]] ggml_backend_t make_backend(device& of);
void set_threads(ggml_backend_t backend, int threads);

}  // namespace switchyard_ggml
