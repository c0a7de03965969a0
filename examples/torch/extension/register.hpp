// SPDX-License-Identifier: MIT
// Defines an op of torch.ops.switchyard, with its kernel for the CPU and for GPUs.
//
// Ops are functional and write new tensors only, except for rotary_cache and those named `_into`, which write
// what their schemas mark. A result that was not asked for is None. The Python package adds fake kernels and
// gradients, and says what arguments mean.
#pragma once

#include "op_options.hpp"
#include "stable.hpp"

// Macros, because libtorch's registration is one.

/// The last argument is an op_kernel. `operands` and `results` are the parts of the schema beside its
/// options.
#define SWITCHYARD_TORCH_OP(name, operands, results, ...)                        \
  SWITCHYARD_TORCH_SCHEMA(__VA_ARGS__::schema(#name, operands, results).c_str()) \
  SWITCHYARD_TORCH_KERNEL(name, &__VA_ARGS__::run)

#define SWITCHYARD_TORCH_SCHEMA(...)             \
  STABLE_TORCH_LIBRARY_FRAGMENT(switchyard, m) { \
    m.def(__VA_ARGS__);                          \
  }

/// A function that the dispatcher calls itself.
#define SWITCHYARD_TORCH_KERNEL(name, ...)         \
  STABLE_TORCH_LIBRARY_IMPL(switchyard, CPU, m) {  \
    m.impl(#name, (__VA_ARGS__));                  \
  }                                                \
  STABLE_TORCH_LIBRARY_IMPL(switchyard, CUDA, m) { \
    m.impl(#name, (__VA_ARGS__));                  \
  }
