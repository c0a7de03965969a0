// SPDX-License-Identifier: MIT
// The bodies of multi_device_dispatcher.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>
#include <switchyard/launching/device_dispatcher.hpp>
#include <switchyard/launching/multi_device_dispatcher.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {
namespace detail {

SWITCHYARD_FUNCTION device_dispatcher& multi_device_dispatcher::find_uncached(stream launch_stream) {
  slot_of(reinterpret_cast<std::uintptr_t>(launch_stream.handle())).store(0, std::memory_order_relaxed);
  return find_by_device(launch_stream);
}

SWITCHYARD_FUNCTION std::size_t multi_device_dispatcher::find_route(std::uintptr_t key,
                                                                    std::size_t count) const noexcept {
  for (std::size_t i = 0; i < count && key != 0; ++i) {
    if (routes_[i].key == key) return i;
  }
  return max_routes;
}

SWITCHYARD_FUNCTION std::size_t multi_device_dispatcher::add_route(stream launch_stream, std::uintptr_t key) {
  const locked lock{mutex_};
  const std::size_t count = count_.load(std::memory_order_relaxed);
  const std::size_t known = find_route(key, count);
  if (known != max_routes) return known;
  device found = streams_->of(launch_stream);
  device_dispatcher* core = nullptr;
  for (const auto& candidate : cores_) {
    if (candidate->target().driver() == found.driver()) core = candidate.get();
  }
  for (std::size_t i = 0; i < count && core != nullptr && key == 0; ++i) {
    if (routes_[i].core == core) return i;
  }
  if (count == max_routes) {
    throw driver_error{error_code::unsupported_device,
                       std::string{op_.name} + ": a dispatcher serves at most " + std::to_string(max_routes) +
                           " contexts: reuse contexts, or create a "
                           "dispatcher for each"};
  }
  if (core == nullptr) {
    cores_.push_back(std::make_unique<device_dispatcher>(op_, source_, std::move(found), limits_));
    core = cores_.back().get();
  }
  routes_[count] = {key, core};
  count_.store(count + 1, std::memory_order_release);
  return count;
}

}  // namespace detail
}  // namespace v0
}  // namespace switchyard
