// SPDX-License-Identifier: MIT
// The interfaces between the catalog, which makes operator states, and dispatchers, which use them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/choosing/choice_limits.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/memory_source.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/devices/stream_router.hpp>
#include <switchyard/error.hpp>
#include <switchyard/observing/live_observer.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/serving/made_choice.hpp>
#include <switchyard/serving/operator_state.hpp>

namespace switchyard {
inline namespace v0 {

struct live_comparison;

namespace detail {
struct prepared_ranges;
}  // namespace detail

/// Uses an operator state, and takes a new one when the disk has changed.
class state_user {
 public:
  state_user() = default;
  state_user(const state_user&) = delete;
  state_user& operator=(const state_user&) = delete;
  virtual ~state_user() = default;

  /// Called by the source, one call at a time, with an operator state that replaces the one in use.
  /// Everything that replacing costs is paid here, by the calling thread: loading what served calls need, and
  /// freeing. False where kernels cannot be loaded and calls that are served now would not be: nothing was
  /// replaced then, and `fresh` is left to the caller.
  [[nodiscard]] virtual bool adopt(std::unique_ptr<operator_state>&& fresh) = 0;

  /// The operator state in use, which stays while the source does not call adopt(); null: none.
  [[nodiscard]] virtual const operator_state* in_use() const noexcept = 0;

  /// The limits that the user sets for variants; null: those of the source.
  [[nodiscard]] virtual const choice_limits* limits() const noexcept { return nullptr; }

  /// The choices whose plans it keeps.
  [[nodiscard]] virtual std::vector<made_choice> choices() { return {}; }

  /// Reads the times of calls that are over.
  virtual void poll_live() noexcept {}

  /// Frees replaced operator states that no call uses any more. Called by the source, one call at a time.
  virtual void free_replaced() = 0;
};

/// Where operator states come from. A catalog is one.
class state_source {
 public:
  state_source() = default;
  state_source(const state_source&) = delete;
  state_source& operator=(const state_source&) = delete;
  virtual ~state_source() = default;

  /// Gives the user an operator state for an operator on a device, and a new one whenever the disk changes.
  /// The source outlives the user.
  virtual void attach(const operator_description& op, const device& target, state_user& user) = 0;
  virtual void detach(state_user& user) noexcept = 0;

  /// Where calls on a device take workspaces from; null: its driver.
  [[nodiscard]] virtual std::unique_ptr<memory_source> memory_of(const device& /*target*/) { return nullptr; }

  /// The timer of an operator's calls on a device; null: they are not timed.
  [[nodiscard]] virtual std::unique_ptr<live_timer> timer_of(const operator_description& /*op*/,
                                                             const device& /*target*/) {
    return nullptr;
  }

  /// Takes what a comparison of variants found: keeps it, and acts on it. The caller holds no guard.
  virtual void take(const operator_description& /*op*/, const device& /*target*/,
                    const live_comparison& /*found*/) {}

  /// Bytes of workspace that suffice for every call of ranges, whichever tables decide. Here, since only a
  /// catalog should pay for the code.
  [[nodiscard]] virtual std::size_t bound_workspace(const operator_selectors& /*rules*/,
                                                    const detail::prepared_ranges& /*ranges*/) const {
    throw call_error{error_code::invalid_argument, "the workspace of ranges is known to catalogs alone"};
  }

  /// What checked mode says of a call's tensors of indices, which lie on a device. Here for the same reason.
  [[nodiscard]] virtual std::string check_on_device(const operator_description& /*op*/,
                                                    device_driver& /*driver*/, const void* /*arguments*/,
                                                    stream /*on*/) const {
    return {};
  }

  /// Finds the device of a stream, for users that serve every device. Throws driver_error.
  [[nodiscard]] virtual std::shared_ptr<stream_router> streams() {
    throw driver_error{error_code::unsupported_device,
                       "these files serve one device: give the dispatcher that device"};
  }
};

class catalog;

namespace detail {

/// A catalog as a source, for files that have not read its header, which costs JSON: catalog.hpp instantiates
/// this.
template <class Catalog>
[[nodiscard]] state_source& source_of(Catalog& from);
extern template state_source& source_of<catalog>(catalog& from);

}  // namespace detail

}  // namespace v0
}  // namespace switchyard
