// SPDX-License-Identifier: MIT
// Says in one line what a compiler without C++20 lacks, and stops it. First in every header that engines
// include.
#pragma once

#if __cplusplus < 202002L
#error "Switchyard needs C++20: compile with -std=c++20"
#include <the error above ends the compilation>
#endif
