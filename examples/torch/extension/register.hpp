// SPDX-License-Identifier: MIT
// Registers a function as an op's kernel for the CPU and for GPUs: SWITCHYARD_TORCH_OP(name, function).
#pragma once

#include "stable.hpp"

// Macros, because libtorch's registration is one.
#define SWITCHYARD_TORCH_OP(name, function) SWITCHYARD_TORCH_KERNEL(name, TORCH_BOX(&(function)))

/// The same for what the dispatcher calls itself.
#define SWITCHYARD_TORCH_KERNEL(name, ...)         \
  STABLE_TORCH_LIBRARY_IMPL(switchyard, CPU, m) {  \
    m.impl(#name, (__VA_ARGS__));                  \
  }                                                \
  STABLE_TORCH_LIBRARY_IMPL(switchyard, CUDA, m) { \
    m.impl(#name, (__VA_ARGS__));                  \
  }
