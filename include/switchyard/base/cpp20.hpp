// SPDX-License-Identifier: MIT
// Stops compilation with one line that says what is missing, if C++20 or exceptions are. Every header that
// engines include has it first.
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
