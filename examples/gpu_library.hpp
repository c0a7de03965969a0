// SPDX-License-Identifier: MIT
// The library of a GPU's API, for what an engine asks of it besides what Switchyard's drivers do. CUDA and
// HIP have many functions with the same signatures.
#pragma once

#include <dlfcn.h>
#include <initializer_list>
#include <optional>

#include <switchyard/devices/cuda/context.hpp>
#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/hip/current_device.hpp>
#include <switchyard/devices/hip/driver.hpp>
#include <switchyard/devices/hip/library.hpp>
#include <switchyard/devices/hip/open.hpp>

namespace examples {

/// The library that serves a device, whose driver has opened it already. The CPU has none.
class gpu_library {
 public:
  explicit gpu_library(const switchyard::device& device) {
    const auto* const driver = device.driver().get();
    if (const auto* const cuda = dynamic_cast<const switchyard::cuda::driver*>(driver); cuda != nullptr) {
      open_one_of({"libcuda.so.1"});
      cuda_ = switchyard::cuda::open_library().get();  // stays open
      context_ = cuda->context();
    }
    if (const auto* const hip = dynamic_cast<const switchyard::hip::driver*>(driver); hip != nullptr) {
      open_one_of({"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"});
      hip_ = switchyard::hip::open_library().get();
      ordinal_ = hip->ordinal();
    }
  }

  [[nodiscard]] bool serves_gpu() const noexcept { return cuda_ != nullptr || hip_ != nullptr; }

  /// Sets a pointer to a function, null where the library lacks it. Returns its name.
  template <class Function>
  const char* find(Function*& function, const char* cuda_name, const char* hip_name) const {
    const char* const name = cuda_ != nullptr ? cuda_name : hip_name;
    void* const address = library_ == nullptr ? nullptr : ::dlsym(library_, name);
    function = reinterpret_cast<Function*>(address);
    return name;
  }

 private:
  friend class device_scope;

  void open_one_of(std::initializer_list<const char*> names) {
    for (const char* const name : names)
      if (library_ == nullptr) library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }

  void* library_ = nullptr;
  const switchyard::cuda::api* cuda_ = nullptr;
  CUctx_st* context_ = nullptr;
  const switchyard::hip::api* hip_ = nullptr;
  int ordinal_ = 0;
};

/// Makes the library's device current on the calling thread until the end of the scope; nothing for the CPU.
class device_scope {
 public:
  explicit device_scope(const gpu_library* of) {
    if (of == nullptr) return;
    if (of->cuda_ != nullptr) cuda_.emplace(*of->cuda_, of->context_);
    if (of->hip_ != nullptr) hip_.emplace(*of->hip_, of->ordinal_);
  }
  explicit device_scope(const gpu_library& of) : device_scope{&of} {}

 private:
  std::optional<switchyard::cuda::context_guard> cuda_;
  std::optional<switchyard::hip::device_guard> hip_;
};

}  // namespace examples
