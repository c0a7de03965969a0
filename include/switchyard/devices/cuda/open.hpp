// SPDX-License-Identifier: MIT
// Opens CUDA devices: by number, of the calling thread, and of a stream.
//
// Opening the same context twice gives the same driver. Any thread may call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include <switchyard/devices/cuda/api.hpp>
#include <switchyard/devices/cuda/context.hpp>
#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

namespace cuda {

namespace detail {

/// The drivers in use, by context: one context has one driver.
class registry {
 public:
  [[nodiscard]] static registry& instance() {
    static registry all;
    return all;
  }

  /// The driver of a context. `retained`: the caller retained the primary context for it.
  [[nodiscard]] std::shared_ptr<driver> driver_of(const std::shared_ptr<const api>& library, int ordinal,
                                                  CUctx_st* context, bool retained) {
    const std::scoped_lock lock{mutex_};
    // A destroyed context may have had the same address, but not the same id.
    unsigned long long id = 0;
    if (library->ctx_get_id == nullptr || library->ctx_get_id(context, &id) != result::success)
      id = reinterpret_cast<std::uintptr_t>(context);
    std::erase_if(drivers_, [](const auto& entry) { return entry.second.expired(); });
    auto& entry = drivers_[{library.get(), ordinal, id}];
    if (auto known = entry.lock()) {
      if (retained) library->primary_ctx_release(ordinal);
      return known;
    }
    auto made = std::make_shared<driver>(library, ordinal, context, retained);
    entry = made;
    return made;
  }

 private:
  switchyard::mutex mutex_;
  std::map<std::tuple<const api*, int, unsigned long long>, std::weak_ptr<driver>> drivers_;
};

/// Throws driver_error: no_device when there is no such device, else driver_failed.
inline void require_device(const api& library, int code, const std::string& problem) {
  if (code == result::success) return;
  const bool absent = code == result::no_device || code == result::invalid_device;
  throw driver_error{absent ? error_code::no_device : error_code::driver_failed,
                     problem + ": " + describe(library, code)};
}

/// The driver of a context that a thread or a stream has.
[[nodiscard]] inline std::shared_ptr<driver> adopt(const std::shared_ptr<const api>& library,
                                                   CUctx_st* context) {
  int ordinal = 0;
  {
    const context_guard guard{*library, context};
    require_device(*library, guard.status(), "cannot make a CUDA context current");
    require_device(*library, library->ctx_get_device(&ordinal),
                   "the device of a CUDA context cannot be queried");
  }
  unsigned flags = 0;
  int active = 0;
  if (library->primary_ctx_get_state(ordinal, &flags, &active) == result::success && active != 0) {
    CUctx_st* primary = nullptr;
    if (library->primary_ctx_retain(&primary, ordinal) == result::success) {
      if (primary == context) return registry::instance().driver_of(library, ordinal, context, true);
      library->primary_ctx_release(ordinal);
    }
  }
  return registry::instance().driver_of(library, ordinal, context, false);
}

}  // namespace detail

/// How many devices there are: at least one. Throws driver_error as open_library does.
[[nodiscard]] inline int count(const options& from = {}) {
  const auto library = open_library(from);
  int devices = 0;
  detail::require_device(*library, library->device_get_count(&devices), "cannot count the CUDA devices");
  if (devices < 1) throw driver_error{error_code::no_device, from.library + " finds no CUDA device"};
  return devices;
}

/// A device in its primary context. Throws driver_error: no_device when there is no such ordinal, or as
/// open_library does.
[[nodiscard]] inline std::shared_ptr<driver> open(int ordinal, const options& from = {}) {
  const int devices = count(from);
  if (ordinal < 0 || ordinal >= devices) {
    throw driver_error{error_code::no_device, "CUDA device " + std::to_string(ordinal) +
                                                  " was asked for; there are " + std::to_string(devices) +
                                                  ", counted from 0"};
  }
  const auto library = open_library(from);
  int number = 0;
  CUctx_st* context = nullptr;
  detail::require_device(*library, library->device_get(&number, ordinal),
                         "CUDA device " + std::to_string(ordinal));
  detail::require_device(*library, library->primary_ctx_retain(&context, number),
                         "the primary context of CUDA device " + std::to_string(ordinal));
  return detail::registry::instance().driver_of(library, number, context, true);
}

/// The device of the calling thread's context. A thread without one gets device 0 in its primary context, as
/// with CUDA's runtime.
[[nodiscard]] inline std::shared_ptr<driver> current(const options& from = {}) {
  const auto library = open_library(from);
  CUctx_st* context = nullptr;
  detail::require_device(*library, library->ctx_get_current(&context), "the calling thread's CUDA context");
  return context == nullptr ? open(0, from) : detail::adopt(library, context);
}

/// The device of a stream. The default streams (null, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD) belong to the
/// calling thread's context; a green context's streams to its device's primary context.
[[nodiscard]] inline std::shared_ptr<driver> of(stream on, const options& from = {}) {
  const auto library = open_library(from);
  if (is_default(on)) return current(from);
  CUctx_st* context = nullptr;
  detail::require_device(*library, detail::context_of(*library, on, &context),
                         "the CUDA context of a stream cannot be queried");
  return detail::adopt(library, context);
}

}  // namespace cuda

}  // namespace v0
}  // namespace switchyard
