// What an engine calls: an operator, chosen, bound and launched.
//
//   switchyard::catalog catalog;
//   switchyard::dispatcher<switchyard::operators::rotary> rotary{catalog};
//   rotary(stream, {.q = q, .k = k, ...});
//
// Made like this it serves every device: each call goes to the device of its stream, and what a device needs
// is made ready when its first call comes. Made with a device it serves that one, for a few nanoseconds less.
//
// Any number of threads may call one dispatcher at once, also while its catalog is being replaced. The
// catalog outlives it, and so do contexts that an engine made itself and whose streams it was given.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <switchyard/base/lock.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/error.hpp>
#include <switchyard/launching/binding.hpp>
#include <switchyard/launching/dispatcher_core.hpp>
#include <switchyard/operator.hpp>

namespace switchyard {
inline namespace v0 {

/// Most devices and contexts that one dispatcher serves.
inline constexpr std::size_t max_routes = 256;

namespace detail {

/// One operator's cores, one for each device that was met, and the way from a stream to its core: without
/// locks for a device that was met before.
class core_router {
 public:
  core_router(const operator_description& op, binding_source& source)
      : op_{op}, source_{source}, streams_{source.streams()}, keeps_{streams_->refuses_foreign_streams()} {}
  core_router(const core_router&) = delete;
  core_router& operator=(const core_router&) = delete;
  ~core_router() = default;

  /// The core of a stream's device. Throws error where it cannot be told or made.
  [[nodiscard]] dispatcher_core& find(stream where) {
    const auto handle = reinterpret_cast<std::uintptr_t>(where.handle());
    const std::uint64_t met = slot_of(handle).load(std::memory_order_acquire);
    if (handle != 0 && (met & handle_bits) == handle) [[likely]]
      return *routes_[met >> route_shift].core;
    return find_by_device(where);
  }

  /// The same without trust in what was known of the stream.
  [[nodiscard]] dispatcher_core& find_anew(stream where) {
    slot_of(reinterpret_cast<std::uintptr_t>(where.handle())).store(0, std::memory_order_relaxed);
    return find_by_device(where);
  }

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
    dispatcher_core* core = nullptr;
  };

  [[nodiscard]] std::atomic<std::uint64_t>& slot_of(std::uintptr_t handle) noexcept {
    return slots_[handle * 0x9e3779b97f4a7c15U >> (64 - slot_bits)];
  }

  [[nodiscard, gnu::noinline]] dispatcher_core& find_by_device(stream where) {
    const std::uintptr_t key = streams_->key(where);
    std::size_t index = find_route(key, count_.load(std::memory_order_acquire));
    if (index == max_routes) index = add_route(where, key);
    const auto handle = reinterpret_cast<std::uintptr_t>(where.handle());
    if (keeps_ && handle > last_default_stream && handle <= handle_bits)
      slot_of(handle).store(handle | std::uint64_t{index} << route_shift, std::memory_order_release);
    return *routes_[index].core;
  }

  [[nodiscard]] std::size_t find_route(std::uintptr_t key, std::size_t count) const noexcept {
    for (std::size_t i = 0; i < count && key != 0; ++i) {
      if (routes_[i].key == key) return i;
    }
    return max_routes;
  }

  [[nodiscard]] std::size_t add_route(stream where, std::uintptr_t key) {
    const locked lock{mutex_};
    const std::size_t count = count_.load(std::memory_order_relaxed);
    const std::size_t known = find_route(key, count);
    if (known != max_routes) return known;
    device found = streams_->of(where);
    dispatcher_core* core = nullptr;
    for (const auto& each : cores_) {
      if (each->where().driver() == found.driver()) core = each.get();
    }
    for (std::size_t i = 0; i < count && core != nullptr && key == 0; ++i) {
      if (routes_[i].core == core) return i;
    }
    if (count == max_routes) {
      throw driver_error{error_code::unsupported_device, std::string{op_.name} + ": a dispatcher serves " +
                                                             std::to_string(max_routes) +
                                                             " contexts: keep contexts, or make a dispatcher "
                                                             "for each"};
    }
    if (core == nullptr) {
      cores_.push_back(std::make_unique<dispatcher_core>(op_, source_, std::move(found)));
      core = cores_.back().get();
    }
    routes_[count] = {key, core};
    count_.store(count + 1, std::memory_order_release);
    return count;
  }

  const operator_description& op_;
  binding_source& source_;
  std::shared_ptr<stream_router> streams_;
  bool keeps_;
  std::array<std::atomic<std::uint64_t>, std::size_t{1} << slot_bits> slots_{};
  std::array<route, max_routes> routes_{};  // published by count_, and by slots
  std::atomic<std::size_t> count_{0};
  mutex mutex_;
  std::vector<std::unique_ptr<dispatcher_core>> cores_;
};

}  // namespace detail

template <operator_type Operator>
class dispatcher {
 public:
  using arguments = typename Operator::arguments;

  /// For every device: a call goes to the device of its stream, a default stream's to the calling thread's
  /// current device. The CPU is served where there is no GPU. Throws driver_error.
  explicit dispatcher(binding_source& source)
      : router_{std::make_unique<detail::core_router>(describe<Operator>(), source)} {}

  /// For one device. Finds the operator's manifests and tables; throws error when none can be used.
  dispatcher(binding_source& source, device where)
      : core_{std::make_unique<dispatcher_core>(describe<Operator>(), source, std::move(where))} {}

  /// Runs the operator on a stream. A problem met before costs no lock, no allocation and no system call
  /// besides the launch. Throws call_error for an illegal call or one that no variant serves, driver_error
  /// when the device refuses.
  ///
  /// A dispatcher made for a device takes streams of that device and its default streams. Another device's is
  /// refused, with call_error invalid_argument, when a problem is new or the driver refuses the launch, as
  /// CUDA always does.
  void operator()(stream where, const arguments& call, workspace given = {}) {
    const auto problem = make_problem<Operator>(call);
    if (core_ == nullptr) [[unlikely]]
      return launch_routed(problem, where, call, given);
    core_->launch(problem, &call, where, given, [&call] { return check(call); });
  }

  /// What would run, and why, as data; to_string gives the sentence. Loads nothing.
  [[nodiscard]] explanation explain(const arguments& call) { return explain({}, call); }
  [[nodiscard]] explanation explain(stream where, const arguments& call) {
    return core_of(where).explain(make_problem<Operator>(call));
  }

  /// Loads what a call needs, so that the call itself loads nothing: before a stream capture, or before
  /// traffic. With a stream, on that stream's device, as the call will be.
  void prepare(const arguments& call) { prepare(stream{}, call); }
  void prepare(stream where, const arguments& call) {
    core_of(where).prepare(make_problem<Operator>(call), [&call] { return check(call); });
  }

  /// The same for every call whose axes lie in ranges and are else those of `call`.
  void prepare(const arguments& call, std::initializer_list<axis_span> ranges) {
    prepare(stream{}, call, ranges);
  }
  void prepare(stream where, const arguments& call, std::initializer_list<axis_span> ranges) {
    core_of(where).prepare(make_problem<Operator>(call), std::span{ranges.begin(), ranges.size()});
  }

  /// Bytes of workspace that a call takes; 0 for most.
  [[nodiscard]] std::size_t workspace_bytes(const arguments& call) { return workspace_bytes(stream{}, call); }
  [[nodiscard]] std::size_t workspace_bytes(stream where, const arguments& call) {
    return core_of(where).workspace_bytes(make_problem<Operator>(call));
  }

  /// The device that serves a stream's calls.
  [[nodiscard]] const device& where(stream of = {}) const { return core_of(of).where(); }

 private:
  [[nodiscard]] static std::string check(const arguments& call) {
    if constexpr (requires { Operator::check(call); }) {
      return Operator::check(call);
    } else {
      return {};
    }
  }

  // Not inlined, like the next: where a dispatcher is known to have a device, GCC warns of the router that it
  // has not.
  [[nodiscard, gnu::noinline]] dispatcher_core& core_of(stream where) const {
    return core_ != nullptr ? *core_ : router_->find(where);
  }

  [[gnu::noinline]] void launch_routed(const problem_of<Operator>& problem, stream where,
                                       const arguments& call, workspace given) {
    dispatcher_core& core = router_->find(where);
    const auto legal = [&call] { return check(call); };
    try {
      core.launch(problem, &call, where, given, legal);
    } catch (const error&) {
      // A stream that was met may be gone and its handle another's, of another device. The driver has refused
      // to start anything then.
      dispatcher_core& now = router_->find_anew(where);
      if (&now == &core) throw;
      now.launch(problem, &call, where, given, legal);
    }
  }

  std::unique_ptr<dispatcher_core> core_;  // null where each call is routed
  std::unique_ptr<detail::core_router> router_;
};

}  // namespace v0
}  // namespace switchyard
