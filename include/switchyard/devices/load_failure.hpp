// SPDX-License-Identifier: MIT
// Classifies the status of a failed load: it is transient, it disables the variant, or the whole context is
// broken. CUDA and HIP number these results alike, so one table serves both.
#pragma once

#include <switchyard/error.hpp>

namespace switchyard {
inline namespace v0 {

/// A class of driver results, for a failed load.
struct load_failure {
  error_code code = error_code::blob_not_loadable;
  failure_kind kind = failure_kind::permanent;
};

namespace detail {

struct load_failure_range {
  int first;
  int last;  ///< included
  load_failure meaning;
};

// Names are CUDA's, CUDA_ERROR_ left out; HIP has the same numbers where it has the result.
inline constexpr load_failure_range load_failures[] = {
    // NOLINT(modernize-avoid-c-arrays): a table
    {2, 2, {error_code::out_of_memory, failure_kind::transient}},      // OUT_OF_MEMORY
    {4, 4, {error_code::driver_failed, failure_kind::context}},        // DEINITIALIZED
    {46, 46, {error_code::driver_failed, failure_kind::transient}},    // DEVICE_UNAVAILABLE
    {201, 201, {error_code::driver_failed, failure_kind::context}},    // INVALID_CONTEXT
    {214, 214, {error_code::driver_failed, failure_kind::context}},    // ECC_UNCORRECTABLE
    {220, 220, {error_code::driver_failed, failure_kind::context}},    // NVLINK_UNCORRECTABLE
    {304, 304, {error_code::driver_failed, failure_kind::transient}},  // OPERATING_SYSTEM
    {600, 600, {error_code::driver_failed, failure_kind::transient}},  // NOT_READY
    {700, 700, {error_code::driver_failed, failure_kind::context}},    // ILLEGAL_ADDRESS
    {702, 702, {error_code::driver_failed, failure_kind::context}},    // LAUNCH_TIMEOUT
    {709, 710, {error_code::driver_failed, failure_kind::context}},    // CONTEXT_IS_DESTROYED, ASSERT
    {714, 719, {error_code::driver_failed, failure_kind::context}},  // HARDWARE_STACK_ERROR ... LAUNCH_FAILED
    {802, 802, {error_code::driver_failed, failure_kind::transient}},        // SYSTEM_NOT_READY
    {805, 809, {error_code::driver_failed, failure_kind::transient}},        // MPS_CONNECTION_FAILED ...
    {810, 810, {error_code::driver_failed, failure_kind::context}},          // MPS_CLIENT_TERMINATED
    {900, 908, {error_code::load_during_capture, failure_kind::transient}},  // STREAM_CAPTURE_UNSUPPORTED ...
};

}  // namespace detail

/// What a failed load's status means. A status that the table lacks is the blob's fault.
[[nodiscard]] constexpr load_failure classify_load_failure(int code) noexcept {
  for (const detail::load_failure_range& range : detail::load_failures) {
    if (code >= range.first && code <= range.last) return range.meaning;
  }
  return {};
}

}  // namespace v0
}  // namespace switchyard
