// SPDX-License-Identifier: MIT
// Exports a CPU kernel under a name: what search spaces write as `instantiate` for kernels that are
// templates.
#pragma once

#include <switchyard/devices/host/kernel.hpp>

#define SWITCHYARD_HOST_KERNEL(name, ...)                                              \
  extern "C" {                                                                         \
  extern __attribute__((visibility("default"))) const switchyard::host::kernel name;   \
  const switchyard::host::kernel name = switchyard::host::make_kernel<&__VA_ARGS__>(); \
  }
