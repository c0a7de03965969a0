// SPDX-License-Identifier: MIT
// What all parts of an operator state share: selectors, loader, log, recorder, observers, kept parameter
// blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <switchyard/observing/log.hpp>
#include <switchyard/observing/observers.hpp>
#include <switchyard/observing/record.hpp>
#include <switchyard/parameters/parameter_block_cache.hpp>
#include <switchyard/plans/kernel_loader.hpp>
#include <switchyard/serving/operator_selectors.hpp>
#include <switchyard/threads/lock.hpp>
#include <switchyard/threads/monotonic_time.hpp>

namespace switchyard {
inline namespace v0 {

/// Whether a blob may be loaded now. Inside a stream capture it may not, nor where a sealed catalog refuses
/// that.
enum class loading : std::uint8_t { refused, allowed, sealed };

/// Counts the events after which a choice may be another one.
using generation_counter = std::atomic<std::uint64_t>;

/// What the type signatures of an operator state share.
struct operator_context {
  std::shared_ptr<const operator_selectors> selectors;
  std::shared_ptr<kernel_loader> loader;
  std::shared_ptr<log> messages;
  std::shared_ptr<recorder> record;                ///< null: problems are not recorded
  std::shared_ptr<generation_counter> generation;  ///< null: nobody counts
  std::atomic<bool> is_in_service{false};          ///< calls use the operator state
  mutex images_mutex{};
  std::unique_ptr<parameter_block_cache> parameter_blocks =
      nullptr;                                     ///< written once, before a plan that needs it
  nanosecond_clock clock = monotonic_nanoseconds;  ///< that waits go by
  observers seen_by{};
};

}  // namespace v0
}  // namespace switchyard
