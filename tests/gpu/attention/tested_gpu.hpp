// SPDX-License-Identifier: MIT
// The GPU that the tests of attention run on: SWITCHYARD_TEST_DEVICE, which is cuda, unless it is set, or
// hip.
#pragma once

#include <stdexcept>
#include <string>

#include <switchyard/devices/cuda/open.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/driver.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/error.hpp>

#include "catch.hpp"
#include "cuda/raw.hpp"
#include "environment.hpp"

namespace {

/// Whether it is a device of CUDA's, for what is asked of the driver itself.
inline bool tests_cuda() {
  static const bool answer = [] {
    const char* const given = switchyard::test::variable("SWITCHYARD_TEST_DEVICE");
    const std::string wanted = given == nullptr ? "cuda" : given;
    if (wanted != "cuda" && wanted != "hip")
      throw std::runtime_error{"SWITCHYARD_TEST_DEVICE=" + wanted + " is neither cuda nor hip"};
    return wanted == "cuda";
  }();
  return answer;
}

/// Ends the program as skipped where there is none.
[[maybe_unused]] inline const switchyard::device& tested_gpu() {
  static const switchyard::device chosen = [] {
    if (tests_cuda()) {
      if (!raw::available()) skip_program("no CUDA device");
      raw::set_current(raw::primary_context());
      return switchyard::device{switchyard::cuda::open(0)};
    }
    try {
      return switchyard::device{switchyard::hip::open(0)};
    } catch (const switchyard::driver_error& problem) {
      skip_program(problem.what());
    }
  }();
  return chosen;
}

[[maybe_unused]] inline void succeeded(switchyard::status result) {
  if (result != 0) throw std::runtime_error{tested_gpu().driver()->describe(result)};
}

/// Waits for all that the GPU has to do: a kernel's stream does not wait for fills.
[[maybe_unused]] inline void wait_for_gpu() {
  if (tests_cuda())
    raw::call("cuCtxSynchronize");
  else
    succeeded(tested_gpu().driver()->synchronize({}));
}

}  // namespace
