// SPDX-License-Identifier: MIT
// How these shared objects export a kernel.
#pragma once

#include <switchyard/devices/host/kernel.hpp>

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): a template cannot define a symbol of a given name
#define EXPORT_KERNEL(name, function)                                                    \
  extern "C" __attribute__((visibility("default"))) const switchyard::host::kernel name; \
  const switchyard::host::kernel name = switchyard::host::make_kernel<&function>()
