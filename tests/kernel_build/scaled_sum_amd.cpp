// SPDX-License-Identifier: MIT
#include <stdint.h>

namespace {

template <class Real, unsigned Threads>
inline void scaled_sum(const Real* x, Real* y, int64_t n, float a) {
  const int64_t i = int64_t{__builtin_amdgcn_workgroup_id_x()} * Threads + __builtin_amdgcn_workitem_id_x();
  if (i < n) y[i] += static_cast<Real>(a) * x[i];
}

}  // namespace

#define SCALED_SUM(name, Real, threads)                                                              \
  extern "C" __attribute__((amdgpu_kernel, visibility("default"))) void name(const Real* x, Real* y, \
                                                                             int64_t n, float a) {   \
    scaled_sum<Real, threads>(x, y, n, a);                                                           \
  }
