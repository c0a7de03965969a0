// SPDX-License-Identifier: MIT
#include <stdint.h>

namespace {

template <class Real, unsigned Threads>
__attribute__((device)) inline void scaled_sum(const Real* x, Real* y, int64_t n, float a) {
  static __attribute__((shared)) Real staged[Threads];
  const unsigned lane = __builtin_amdgcn_workitem_id_x();
  const int64_t i = int64_t{__builtin_amdgcn_workgroup_id_x()} * Threads + lane;
  staged[lane] = i < n ? x[i] : Real{};
  __builtin_amdgcn_s_barrier();
  if (i < n) y[i] += static_cast<Real>(a) * staged[lane];
}

}  // namespace

#define SCALED_SUM(name, Real, threads)                                                  \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, threads))) void name( \
      const Real* x, Real* y, int64_t n, float a) {                                      \
    scaled_sum<Real, threads>(x, y, n, a);                                               \
  }
