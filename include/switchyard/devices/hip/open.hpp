// SPDX-License-Identifier: MIT
// Opens HIP devices: by number, of the calling thread, and of a stream.
//
// Opening the same device twice gives the same driver. Any thread may call.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <switchyard/devices/hip/api.hpp>
#include <switchyard/devices/hip/current_device.hpp>
#include <switchyard/devices/hip/driver.hpp>
#include <switchyard/devices/hip/library.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

namespace hip {

namespace detail {

/// Throws driver_error: no_device when there is no such device, else driver_failed.
inline void require_device(const api& library, int code, const std::string& problem) {
  if (code == result::success) return;
  library.get_last_error();
  const bool absent = code == result::no_device || code == result::invalid_device;
  throw driver_error{absent ? error_code::no_device : error_code::driver_failed,
                     problem + ": " + describe(library, code)};
}

}  // namespace detail

/// How many devices there are: at least one. Throws driver_error as open_library does.
[[nodiscard]] inline int count(const options& from = {}) {
  const auto library = open_library(from);
  int devices = 0;
  detail::require_device(*library, library->get_device_count(&devices), "cannot count the HIP devices");
  if (devices < 1) throw driver_error{error_code::no_device, "HIP finds no device; is /dev/kfd readable?"};
  return devices;
}

/// A device. Throws driver_error: no_device when there is no such ordinal, or as open_library does.
[[nodiscard]] inline std::shared_ptr<driver> open(int ordinal, const options& from = {}) {
  const int devices = count(from);
  if (ordinal < 0 || ordinal >= devices) {
    throw driver_error{error_code::no_device, "HIP device " + std::to_string(ordinal) +
                                                  " was asked for; there are " + std::to_string(devices) +
                                                  ", counted from 0"};
  }
  static switchyard::mutex mutex;
  static std::map<std::pair<const api*, int>, std::weak_ptr<driver>> opened;
  const auto library = open_library(from);
  const std::scoped_lock lock{mutex};
  auto& entry = opened[{library.get(), ordinal}];
  if (auto known = entry.lock()) return known;
  auto made = std::make_shared<driver>(library, ordinal);
  entry = made;
  return made;
}

/// The calling thread's current device.
[[nodiscard]] inline std::shared_ptr<driver> current(const options& from = {}) {
  const auto library = open_library(from);
  int ordinal = 0;
  detail::require_device(*library, library->get_device(&ordinal), "the calling thread's HIP device");
  return open(ordinal, from);
}

/// The device of a stream. The default streams (null, hipStreamLegacy, hipStreamPerThread) belong to the
/// calling thread's current device.
[[nodiscard]] inline std::shared_ptr<driver> of(stream on, const options& from = {}) {
  const auto library = open_library(from);
  if (is_default(on)) return current(from);
  if (library->stream_get_device == nullptr && library->get_stream_device_id == nullptr) return current(from);
  const auto ordinal = detail::device_of(*library, on);
  if (!ordinal) throw driver_error{error_code::driver_failed, "the HIP device of a stream cannot be queried"};
  return open(*ordinal, from);
}

}  // namespace hip

}  // namespace v0
}  // namespace switchyard
