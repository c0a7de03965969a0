// What an engine calls: an operator on a device, chosen, bound and launched.
//
//   switchyard::catalog catalog;
//   switchyard::device device = switchyard::device::current();
//   switchyard::dispatcher<switchyard::operators::rotary> rotary{catalog, device};
//   rotary(stream, {.q = q, .k = k, ...});
//
// Any number of threads may call one dispatcher at once, also while its catalog is being replaced. The
// catalog outlives it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include <switchyard/binding.hpp>
#include <switchyard/dispatcher_core.hpp>
#include <switchyard/driver.hpp>
#include <switchyard/operator.hpp>

namespace switchyard::inline v0 {

template <operator_type Operator>
class dispatcher {
 public:
  using arguments = typename Operator::arguments;

  /// Finds the operator's manifests and tables. Throws error when none can be used.
  dispatcher(binding_source& source, device where) : core_{describe<Operator>(), source, std::move(where)} {}

  /// Runs the operator on a stream of the dispatcher's device. A problem met before costs no lock, no
  /// allocation and no system call besides the launch. Throws call_error for an illegal call or one that no
  /// variant serves, driver_error when the device refuses.
  void operator()(stream where, const arguments& call, workspace given = {}) {
    core_.launch(make_problem<Operator>(call), &call, where, given, [&call] { return check(call); });
  }

  /// What would run, and why, as data; to_string gives the sentence. Loads nothing.
  [[nodiscard]] explanation explain(const arguments& call) {
    return core_.explain(make_problem<Operator>(call));
  }

  /// Loads what a call needs, so that the call itself loads nothing: before a stream capture, or before
  /// traffic.
  void prepare(const arguments& call) {
    core_.prepare(make_problem<Operator>(call), [&call] { return check(call); });
  }

  /// The same for every call whose axes lie in ranges and are else those of `call`.
  void prepare(const arguments& call, std::initializer_list<axis_span> ranges) {
    core_.prepare(make_problem<Operator>(call), std::span{ranges.begin(), ranges.size()});
  }

  /// Bytes of workspace that a call takes; 0 for most.
  [[nodiscard]] std::size_t workspace_bytes(const arguments& call) {
    return core_.workspace_bytes(make_problem<Operator>(call));
  }

  [[nodiscard]] const device& where() const noexcept { return core_.where(); }

 private:
  [[nodiscard]] static std::string check(const arguments& call) {
    if constexpr (requires { Operator::check(call); }) {
      return Operator::check(call);
    } else {
      return {};
    }
  }

  dispatcher_core core_;
};

}  // namespace switchyard::inline v0
