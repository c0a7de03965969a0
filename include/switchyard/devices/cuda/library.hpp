// SPDX-License-Identifier: MIT
// Opens libcuda at run time and fills in the entry points. An opened library stays open, because drivers do
// not survive being closed.
#pragma once

#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/load_failure.hpp>
#include <switchyard/devices/refuse_in_child.hpp>
#include <switchyard/error.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

/// How the driver's library is opened.
struct options {
  std::string library = "libcuda.so.1";  ///< what dlopen is given; tests name a library of their own
};

/// "12.4" for 12040.
[[nodiscard, gnu::cold]] inline std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// A result in words: "CUDA_ERROR_INVALID_VALUE (1): invalid argument".
[[nodiscard, gnu::cold]] inline std::string describe(const api& library, int code) {
  if (code == opened_before_fork) return describe_fork("the CUDA driver");
  const char* name = nullptr;
  const char* text = nullptr;
  if (library.get_error_name == nullptr || library.get_error_name(code, &name) != result::success ||
      name == nullptr)
    return "CUDA error " + std::to_string(code);
  std::string words = std::string{name} + " (" + std::to_string(code) + ")";
  if (library.get_error_string(code, &text) == result::success && text != nullptr)
    words += std::string{": "} + text;
  return words;
}

/// Throws driver_error driver_failed, "device: problem: result in words", unless the code is success.
inline void require(const api& library, int code, const std::string& device, std::string_view problem) {
  if (code == result::success) return;
  throw driver_error{error_code::driver_failed,
                     device + ": " + std::string{problem} + ": " + describe(library, code),
                     classify_load_failure(code).kind};
}

namespace detail {

[[gnu::cold]] inline std::shared_ptr<const api> load_library(const std::string& name) {
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps the message for each thread
    const char* const why = ::dlerror();
    throw driver_error{error_code::driver_absent, "the CUDA driver cannot be opened: " +
                                                      std::string{why == nullptr ? name.c_str() : why} +
                                                      "; install NVIDIA's driver, or use another backend"};
  }

  auto table = std::make_shared<refusing_in_child<api>>();
  const auto bootstrap = [library](auto& pointer, const char* symbol) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(::dlsym(library, symbol));
    return pointer != nullptr;
  };
  if (!bootstrap(table->init, "cuInit") || !bootstrap(table->driver_get_version, "cuDriverGetVersion") ||
      !bootstrap(table->get_error_name, "cuGetErrorName") ||
      !bootstrap(table->get_error_string, "cuGetErrorString")) {
    throw driver_error{error_code::driver_absent,
                       name + " is not a CUDA driver: it lacks cuInit, cuDriverGetVersion or cuGetErrorName"};
  }

  int version = 0;
  if (const int code = table->driver_get_version(&version); code != result::success) {
    throw driver_error{code == result::stub_library ? error_code::driver_absent : error_code::driver_failed,
                       name + ": cuDriverGetVersion: " + describe(*table, code)};
  }
  if (version < oldest_driver) {
    throw driver_error{error_code::driver_too_old, name + " is of CUDA " + version_text(version) + "; CUDA " +
                                                       version_text(oldest_driver) +
                                                       " or newer is needed: update NVIDIA's driver"};
  }

  get_proc_address_function get = nullptr;
  get_proc_address_11_3_function get_11_3 = nullptr;
  if (!bootstrap(get, "cuGetProcAddress_v2") && !bootstrap(get_11_3, "cuGetProcAddress")) {
    throw driver_error{error_code::driver_too_old,
                       name + " reports CUDA " + version_text(version) +
                           " but has no cuGetProcAddress: update NVIDIA's driver"};
  }
  // Not in the visitor, which is compiled for the type of each entry.
  const auto find = [&](const char* symbol, int since, presence needed) {
    void* address = nullptr;
    int found = 0;
    const int code = get != nullptr ? get(symbol, &address, since, legacy_stream, &found)
                                    : get_11_3(symbol, &address, since, legacy_stream);
    if (code == result::success && address != nullptr) return address;
    if (needed == presence::required) {
      throw driver_error{error_code::driver_too_old, name + " (CUDA " + version_text(version) + ") lacks " +
                                                         symbol + ": update NVIDIA's driver to CUDA " +
                                                         version_text(oldest_driver) + " or newer"};
    }
    return static_cast<void*>(nullptr);
  };
  for_each_entry(*table, [&find](auto& pointer, const char* symbol, int since, presence needed) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(find(symbol, since, needed));
  });

  const int code = table->init(0);
  switch (code) {
    case result::success:
      return table;
    case result::no_device:
    case result::invalid_device:
      throw driver_error{error_code::no_device, name + ": " + describe(*table, code) +
                                                    "; is CUDA_VISIBLE_DEVICES empty, or the GPU not passed "
                                                    "into this container?"};
    case result::stub_library:
      throw driver_error{error_code::driver_absent,
                         name + " is the toolkit's stub, not a driver: take stubs/ off the library path"};
    case result::system_driver_mismatch:
      throw driver_error{error_code::driver_too_old, name + ": " + describe(*table, code) +
                                                         "; the kernel module is of another driver version: "
                                                         "reboot or reload it"};
    default:
      throw driver_error{error_code::driver_failed, name + ": cuInit: " + describe(*table, code)};
  }
}

}  // namespace detail

/// The driver's entry points, initialised. Each library name is opened once; a failure is not remembered.
///
/// Throws driver_error: driver_absent, driver_too_old, no_device, driver_failed.
[[nodiscard]] inline std::shared_ptr<const api> open_library(const options& from = {}) {
  static switchyard::mutex mutex;
  static std::map<std::string, std::shared_ptr<const api>> opened;
  const std::scoped_lock lock{mutex};
  auto& entry = opened[from.library];
  if (entry == nullptr) entry = detail::load_library(from.library);
  return entry;
}

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
