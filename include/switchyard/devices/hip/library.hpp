// SPDX-License-Identifier: MIT
// Opens HIP's run-time library and fills in the entry points. An opened library stays open, because drivers
// do not survive being closed.
#pragma once

#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <switchyard/devices/hip/api.hpp>
#include <switchyard/devices/load_failure.hpp>
#include <switchyard/devices/refuse_in_child.hpp>
#include <switchyard/error.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

namespace hip {

/// How the library is opened.
struct options {
  /// What dlopen is given. Empty: libamdhip64.so, or the versions of it that run-time packages install. Tests
  /// name a library of their own that exports HIP's functions.
  std::string library;
};

/// "5.2" for 50221153.
[[nodiscard, gnu::cold]] inline std::string version_text(int version) {
  return std::to_string(version / 10'000'000) + "." + std::to_string(version % 10'000'000 / 100'000);
}

/// A result in words: "hipErrorInvalidValue (1): invalid argument".
[[nodiscard, gnu::cold]] inline std::string describe(const api& library, int code) {
  if (code == opened_before_fork) return describe_fork("HIP's run time");
  const char* const name = library.get_error_name(code);
  const char* const text = library.get_error_string(code);
  std::string words = name == nullptr ? std::string{"HIP error"} : std::string{name};
  ((words += " (") += std::to_string(code)) += ")";
  // Some versions give the name for the text as well.
  if (text != nullptr && (name == nullptr || std::string_view{text} != name))
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

[[gnu::cold]] inline std::shared_ptr<const api> load_library(const std::string& asked) {
  const std::vector<std::string> names =
      asked.empty() ? std::vector<std::string>{"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
                                               "libamdhip64.so.5"}
                    : std::vector<std::string>{asked};
  void* library = nullptr;
  std::string name;
  std::string why;
  for (const std::string& candidate : names) {
    library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      name = candidate;
      break;
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps the message for each thread
    const char* const text = ::dlerror();
    if (why.empty()) why = text == nullptr ? candidate : std::string{text};
  }
  if (library == nullptr) {
    throw driver_error{error_code::driver_absent, "the HIP library cannot be opened: " + why +
                                                      "; install ROCm's run time, or use another backend"};
  }

  auto table = std::make_shared<refusing_in_child<api>>();
  std::string lacking;
  // Not in the visitor, which is compiled for the type of each entry.
  const auto find = [&](const char* symbol, presence needed) {
    void* const address = ::dlsym(library, symbol);
    if (address == nullptr && needed == presence::required && lacking.empty()) lacking = symbol;
    return address;
  };
  for_each_entry(*table, [&find](auto& pointer, const char* symbol, presence needed) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(find(symbol, needed));
  });
  if (table->init == nullptr || table->runtime_get_version == nullptr || table->get_error_name == nullptr ||
      table->get_error_string == nullptr) {
    throw driver_error{error_code::driver_absent, name + " is not a HIP library: it lacks " + lacking};
  }

  // Before any other call: a library that was opened late has not initialised itself.
  if (const int code = table->init(0); code != result::success) {
    const std::string text = name + ": hipInit: " + describe(*table, code);
    switch (code) {
      case result::no_device:
      case result::invalid_device:
        throw driver_error{error_code::no_device,
                           text + "; is /dev/kfd readable, and HIP_VISIBLE_DEVICES not empty?"};
      case result::insufficient_driver:
        throw driver_error{error_code::driver_too_old, text + "; update the amdgpu kernel driver"};
      default:
        throw driver_error{error_code::driver_failed, text};
    }
  }
  int version = 0;
  if (const int code = table->runtime_get_version(&version); code != result::success) {
    throw driver_error{error_code::driver_failed, name + ": hipRuntimeGetVersion: " + describe(*table, code)};
  }
  if (version < oldest_runtime || !lacking.empty()) {
    throw driver_error{error_code::driver_too_old,
                       name + " is of ROCm " + version_text(version) +
                           (lacking.empty() ? std::string{} : " and lacks " + lacking) + "; ROCm " +
                           version_text(oldest_runtime) + " or newer is needed: update ROCm's run time"};
  }
  return table;
}

}  // namespace detail

/// The library's entry points, initialised. Each library name is opened once; a failure is not remembered.
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

}  // namespace hip

}  // namespace v0
}  // namespace switchyard
