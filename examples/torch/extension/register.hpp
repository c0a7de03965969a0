// Registers a function as an op's kernel for the CPU and for GPUs: SWITCHYARD_TORCH_OP(softmax, softmax).
#pragma once

#include "stable.hpp"

// A macro, because libtorch's registration is one.
#define SWITCHYARD_TORCH_OP(name, function)        \
  STABLE_TORCH_LIBRARY_IMPL(switchyard, CPU, m) {  \
    m.impl(#name, TORCH_BOX(&(function)));         \
  }                                                \
  STABLE_TORCH_LIBRARY_IMPL(switchyard, CUDA, m) { \
    m.impl(#name, TORCH_BOX(&(function)));         \
  }
