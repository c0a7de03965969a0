// SPDX-License-Identifier: MIT
// Says in one line what a compiler without C++20 or without exceptions lacks, and stops it. First in every
// header that engines include.
#pragma once

#if __cplusplus < 202002L
#error "Switchyard needs C++20: compile with -std=c++20"
#include <the error above ends the compilation>
#endif

// Code for a GPU throws none.
#if !defined(__cpp_exceptions) && !defined(SWITCHYARD_HIP_DEVICE) && !defined(__CUDA_ARCH__)
#error \
    "Switchyard reports errors as exceptions: compile without -fno-exceptions, or call the C API (switchyard/c_api.h)"
#include <the error above ends the compilation>
#endif
