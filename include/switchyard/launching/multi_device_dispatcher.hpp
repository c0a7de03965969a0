// SPDX-License-Identifier: MIT
// Finds the dispatcher of a stream's device. An operator has one for each device in use. From the second call
// on, it is found without locks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <switchyard/base/compiled.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/stream_router.hpp>
#include <switchyard/launching/device_dispatcher.hpp>
#include <switchyard/serving/state_source.hpp>
#include <switchyard/threads/lock.hpp>

namespace switchyard {
inline namespace v0 {

/// Most devices and contexts that one dispatcher serves.
inline constexpr std::size_t max_routes = 256;

namespace detail {

/// One operator's cores, one for each device that was met, and the way from a stream to its core: without
/// locks for a device that was met before.
class multi_device_dispatcher {
 public:
  multi_device_dispatcher(const operator_description& op, state_source& source,
                          std::shared_ptr<const choice_limits> limits = nullptr)
      : op_{op},
        source_{source},
        limits_{std::move(limits)},
        streams_{source.streams()},
        keeps_{streams_->refuses_foreign_streams()} {
    if (limits_ != nullptr) limits_->require_valid();
  }
  multi_device_dispatcher(const multi_device_dispatcher&) = delete;
  multi_device_dispatcher& operator=(const multi_device_dispatcher&) = delete;
  ~multi_device_dispatcher() = default;

  /// The core of a stream's device. Throws error where the device cannot be found or used.
  [[nodiscard]] device_dispatcher& find(stream launch_stream) {
    const auto handle = reinterpret_cast<std::uintptr_t>(launch_stream.handle());
    const std::uint64_t met = slot_of(handle).load(std::memory_order_acquire);
    if (handle != 0 && (met & handle_bits) == handle) [[likely]]
      return *routes_[met >> route_shift].core;
    return find_by_device(launch_stream);
  }

  /// Like find(), but ignores the cached route.
  [[nodiscard]] device_dispatcher& find_uncached(stream launch_stream);

 private:
  // A slot holds the handle of a stream and the number of its route in one word, so that it is read whole.
  // Handles are addresses, of 48 bits; one that has more is not kept, nor are the default streams (0, 1, 2),
  // whose device changes.
  static constexpr unsigned route_shift = 48;
  static constexpr std::uint64_t handle_bits = (std::uint64_t{1} << route_shift) - 1;
  static constexpr std::uintptr_t last_default_stream = 2;
  static constexpr unsigned slot_bits = 7;

  struct route {
    std::uintptr_t key = 0;
    device_dispatcher* core = nullptr;
  };

  [[nodiscard]] std::atomic<std::uint64_t>& slot_of(std::uintptr_t handle) noexcept {
    return slots_[handle * 0x9e3779b97f4a7c15U >> (64 - slot_bits)];
  }

  [[nodiscard, gnu::noinline]] device_dispatcher& find_by_device(stream launch_stream) {
    const std::uintptr_t key = streams_->key(launch_stream);
    std::size_t index = find_route(key, count_.load(std::memory_order_acquire));
    if (index == max_routes) index = add_route(launch_stream, key);
    const auto handle = reinterpret_cast<std::uintptr_t>(launch_stream.handle());
    if (keeps_ && handle > last_default_stream && handle <= handle_bits)
      slot_of(handle).store(handle | std::uint64_t{index} << route_shift, std::memory_order_release);
    return *routes_[index].core;
  }

  [[nodiscard]] std::size_t find_route(std::uintptr_t key, std::size_t count) const noexcept;

  [[nodiscard]] std::size_t add_route(stream launch_stream, std::uintptr_t key);

  const operator_description& op_;
  state_source& source_;
  std::shared_ptr<const choice_limits> limits_;  // null: the source's
  std::shared_ptr<stream_router> streams_;
  bool keeps_;
  std::array<std::atomic<std::uint64_t>, std::size_t{1} << slot_bits> slots_{};
  std::array<route, max_routes> routes_{};  // published by count_, and by slots
  std::atomic<std::size_t> count_{0};
  mutex mutex_;
  std::vector<std::unique_ptr<device_dispatcher>> cores_;
};

}  // namespace detail

}  // namespace v0
}  // namespace switchyard

#ifndef SWITCHYARD_COMPILED
#include <switchyard/launching/multi_device_dispatcher_impl.hpp>
#endif
