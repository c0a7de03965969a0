// SPDX-License-Identifier: MIT
// What an engine calls: chooses a variant of an operator, plans it, and launches it.
//
//   switchyard::catalog catalog;
//   switchyard::dispatcher<switchyard::operators::rotary> rotary{catalog};
//   rotary(stream, switchyard::operators::rotary::in_place(q, k, {.cos = cos, .sin = sin}));
//
// Without a device, a dispatcher serves every device: each call goes to the device of its stream, and a
// device is prepared at its first call. With a device it serves that one alone, and a call takes a few
// nanoseconds less.
//
// Any number of threads may call one dispatcher at once, also while its catalog is being replaced. The
// catalog outlives it, and so do contexts that an engine made itself and whose streams it was given.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <switchyard/base/cpp20.hpp>
#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>
#include <switchyard/launching/device_dispatcher.hpp>
#include <switchyard/launching/multi_device_dispatcher.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/problem/problem_key.hpp>
#include <switchyard/serving/state_source.hpp>

namespace switchyard {
inline namespace v0 {

namespace detail {

/// What stands behind a dispatcher, for functions of other headers.
struct dispatcher_access {
  template <class Dispatcher>
  [[nodiscard]] static device_dispatcher& find(const Dispatcher& of, stream on) {
    return of.find(on);
  }
  template <class Dispatcher>
  [[nodiscard]] static std::string check(const Dispatcher& of, const typename Dispatcher::arguments& call) {
    return of.check(call);
  }
};

}  // namespace detail

template <operator_type Operator>
class dispatcher {
 public:
  using arguments = typename Operator::arguments;

  /// For every device: a call goes to the device of its stream, a default stream's to the calling thread's
  /// current device. The CPU is served where there is no GPU. Throws driver_error.
  ///     dispatcher<softmax> run{catalog};
  explicit dispatcher(state_source& source)
      : all_devices_{std::make_unique<detail::multi_device_dispatcher>(describe<Operator>(), source)} {}

  /// The same of a catalog, whose header need not be included.
  ///     dispatcher<softmax> run{catalog};
  explicit dispatcher(catalog& source) : dispatcher{detail::source_of(source)} {}

  /// For one device. Finds the operator's manifests and tables; throws error when none can be used.
  ///     dispatcher<softmax> run{catalog, device::current()};
  dispatcher(state_source& source, device target)
      : one_device_{std::make_unique<device_dispatcher>(describe<Operator>(), source, std::move(target))} {}

  /// The same of a catalog.
  ///     dispatcher<softmax> run{catalog, device::host()};
  dispatcher(catalog& source, device target) : dispatcher{detail::source_of(source), std::move(target)} {}

  /// The same with limits of its own in place of the catalog's: variants that exceed one never serve.
  ///     dispatcher<softmax> small{catalog, device::current(), {.workspace_bytes = 1 << 20}};
  dispatcher(catalog& source, choice_limits limits)
      : all_devices_{std::make_unique<detail::multi_device_dispatcher>(
            describe<Operator>(), detail::source_of(source),
            std::make_shared<const choice_limits>(std::move(limits)))} {}
  dispatcher(catalog& source, device target, choice_limits limits)
      : one_device_{std::make_unique<device_dispatcher>(
            describe<Operator>(), detail::source_of(source), std::move(target),
            std::make_shared<const choice_limits>(std::move(limits)))} {}

  /// Runs the operator on a stream. A problem met before costs no lock, no allocation and no system call
  /// besides the launch. Throws call_error for an illegal call or one that no variant serves, driver_error
  /// when the device refuses.
  ///
  /// A dispatcher made for a device takes streams of that device and its default streams. Another device's is
  /// refused, with call_error invalid_argument, when a problem is new or the driver refuses the launch, as
  /// CUDA always does.
  ///     run(stream, softmax::call(x, out), {workspace, bytes});
  void operator()(stream launch_stream, const arguments& call, workspace given = {}) {
    if (one_device_ == nullptr) [[unlikely]]
      return launch_on_its_device(launch_stream, call, given);
    one_device_->launch(launch_stream, given, typed_call{&call});
  }

  /// What would run, and why, as data; to_string gives the sentence. Loads nothing.
  ///     std::puts(to_string(run.explain(softmax::call(x, out))).c_str());
  [[nodiscard]] explanation explain(const arguments& call) { return explain({}, call); }
  [[nodiscard]] explanation explain(stream launch_stream, const arguments& call) {
    return find(launch_stream).explain(make_problem<Operator>(call), &call);
  }

  /// Loads what a call needs, so that the call itself loads nothing: before a stream capture, or before
  /// traffic. With a stream, on that stream's device, as the call will be.
  ///     run.prepare(stream, softmax::call(x, out));
  void prepare(const arguments& call) { prepare(stream{}, call); }
  void prepare(stream launch_stream, const arguments& call) {
    find(launch_stream).prepare(make_problem<Operator>(call), &call, [&call] { return check(call); });
  }

  /// The same for every call whose axes lie in the ranges and otherwise have the values of `call`.
  ///     run.prepare(softmax::call(x, out), {{"rows", 1, 4096}});
  void prepare(const arguments& call, std::initializer_list<axis_span> ranges) {
    prepare(stream{}, call, ranges);
  }
  void prepare(stream launch_stream, const arguments& call, std::initializer_list<axis_span> ranges) {
    prepare(launch_stream, call, std::span{ranges.begin(), ranges.size()});
  }
  void prepare(stream launch_stream, const arguments& call, std::span<const axis_span> ranges) {
    find(launch_stream).prepare(make_problem<Operator>(call), &call, ranges);
  }

  /// Bytes of workspace that a call takes; 0 for most. Loads what the call needs, as prepare does, but not
  /// inside a stream capture, where a call that is not prepared throws driver_error load_during_capture.
  ///     const std::size_t bytes = run.workspace_bytes(stream, softmax::call(x, out));
  [[nodiscard]] std::size_t workspace_bytes(const arguments& call) { return workspace_bytes(stream{}, call); }
  [[nodiscard]] std::size_t workspace_bytes(stream launch_stream, const arguments& call) {
    return find(launch_stream).workspace_bytes(make_problem<Operator>(call), &call, launch_stream, [&call] {
      return check(call);
    });
  }

  /// Bytes that suffice for every call whose axes lie in the ranges and otherwise have the values of `call`,
  /// whichever tables arrive: over all variants of the manifests. A call that is given less is served by a
  /// variant for which it suffices.
  ///     run.workspace_bytes(softmax::call(x, out), {{"rows", 1, 4096}});
  [[nodiscard]] std::size_t workspace_bytes(const arguments& call, std::initializer_list<axis_span> ranges) {
    return workspace_bytes(stream{}, call, std::span{ranges.begin(), ranges.size()});
  }
  [[nodiscard]] std::size_t workspace_bytes(stream launch_stream, const arguments& call,
                                            std::span<const axis_span> ranges) {
    return find(launch_stream).workspace_bytes(make_problem<Operator>(call), &call, ranges);
  }

  /// The device that serves a stream's calls.
  ///     run.device_of(stream).properties().name
  [[nodiscard]] const device& device_of(stream of = {}) const { return find(of).target(); }

 private:
  friend struct detail::dispatcher_access;

  struct typed_call {
    const dispatcher::arguments* of;
    [[nodiscard]] const void* arguments() const noexcept { return of; }
    [[nodiscard, gnu::always_inline]] inline problem_key<Operator> key() const noexcept {
      return make_key<Operator>(*of);
    }
    [[nodiscard]] problem_of<Operator> problem() const noexcept { return make_problem<Operator>(*of); }
    [[nodiscard]] std::string check() const { return dispatcher::check(*of); }
  };

  [[nodiscard]] static std::string check(const arguments& call) {
    if constexpr (requires { Operator::check(call); }) {
      return Operator::check(call);
    } else {
      return {};
    }
  }

  // Not inlined, like the next: where a dispatcher is known to have a device, GCC warns of the null
  // all_devices_.
  [[nodiscard, gnu::noinline]] device_dispatcher& find(stream launch_stream) const {
    return one_device_ != nullptr ? *one_device_ : all_devices_->find(launch_stream);
  }

  [[gnu::noinline]] void launch_on_its_device(stream launch_stream, const arguments& call, workspace given) {
    device_dispatcher& found = all_devices_->find(launch_stream);
    const typed_call typed{&call};
    try {
      found.launch(launch_stream, given, typed);
    } catch (const error&) {
      // A stream that was met may be gone and its handle another's, of another device. The driver has refused
      // to start anything then.
      device_dispatcher& now = all_devices_->find_uncached(launch_stream);
      if (&now == &found) throw;
      now.launch(launch_stream, given, typed);
    }
  }

  std::unique_ptr<device_dispatcher> one_device_;  // null: all_devices_ finds a call's device
  std::unique_ptr<detail::multi_device_dispatcher> all_devices_;
};

}  // namespace v0
}  // namespace switchyard
