// SPDX-License-Identifier: MIT
// What kernels/attention/hopper_widen_rows.hpp needs of CUDA, on the CPU. Reads of constant memory are
// recorded.
#pragma once

#include <algorithm>
#include <set>

inline std::set<const int*> widening_reads;

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): CUDA's names
#define __device__
#define __forceinline__ inline

inline int __ldg(const int* from) {
  widening_reads.insert(from);
  return *from;
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

using std::max;
using std::min;

#include <attention/hopper_widen_rows.hpp>
