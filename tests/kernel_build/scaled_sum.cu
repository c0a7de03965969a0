// SPDX-License-Identifier: MIT
#include <cassert>
#include <cstdint>

namespace {

// A variable of internal linkage: nvcc names it after the place it is compiled in, unless the build prevents
// it.
__device__ std::int32_t launches;

template <class Real, int Threads>
__device__ void scaled_sum(const Real* x, Real* y, std::int64_t n, float a, std::int32_t* count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * Threads + threadIdx.x;
  assert(n >= 0);
  if (i == 0) atomicAdd(count, atomicAdd(&launches, 1));
  if (i < n) y[i] += static_cast<Real>(a) * x[i];
}

}  // namespace

#define SCALED_SUM(name, Real, threads)                                            \
  extern "C" __global__ void __launch_bounds__(threads)                            \
      name(const Real* x, Real* y, std::int64_t n, float a, std::int32_t* count) { \
    scaled_sum<Real, threads>(x, y, n, a, count);                                  \
  }
