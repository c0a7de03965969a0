// SPDX-License-Identifier: MIT
// Calls inside a CUDA graph's capture that need a kernel which is not loaded yet.
#pragma once

#include <cstdint>

#include <switchyard/devices/device.hpp>
#include <switchyard/devices/stream.hpp>
#include <switchyard/error.hpp>

namespace switchyard_torch {

/// Whether kernels can be loaded on a device while a stream of it is captured. Loading adds nothing to the
/// graph, and Switchyard loads with the thread's capture mode relaxed, so that the capture goes on. CUDA
/// drivers before 12.3 end the capture instead; HIP documents nothing.
[[nodiscard]] inline bool loads_in_capture(const switchyard::device& where) {
  constexpr std::int64_t cuda_12_3 = 12030;
  const auto& properties = where.properties();
  return properties.backend == "cuda" && properties.attribute("driver_version") >= cuda_12_3;
}

/// Calls `launch`. Where a capture keeps it from loading a kernel, calls `prepare`, which loads, and `launch`
/// again: it refuses before anything is launched. Throws what they throw.
template <class Dispatcher, class Launch, class Prepare>
void launch_in_capture(const Dispatcher& to, switchyard::stream on, const Launch& launch,
                       const Prepare& prepare) {
  try {
    return launch();
  } catch (const switchyard::driver_error& problem) {
    const bool is_refused = problem.code() == switchyard::error_code::load_during_capture;
    if (!is_refused || !loads_in_capture(to.device_of(on))) throw;
  }
  prepare();
  launch();
}

}  // namespace switchyard_torch
