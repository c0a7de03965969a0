// SPDX-License-Identifier: MIT
// For tests whose kernels are made for Hopper GPUs.
#pragma once

#include <switchyard/devices/cuda/open.hpp>

#include "catch.hpp"
#include "raw.hpp"

namespace cuda_test {

/// First thing in every case.
inline void need_hopper() {
  if (!raw::available()) skip_program("no CUDA device");
  const auto device = switchyard::cuda::open(0);
  if (device->compute_capability() != 90)
    skip_program("the kernels are for sm_90a, the device is " + device->properties().arch);
  raw::set_current(raw::primary_context());
}

}  // namespace cuda_test
