// SPDX-License-Identifier: MIT
// Small kernels that the device tests launch: one for each way of starting a kernel, each leaving something
// that shows it was started that way.
#include <cooperative_groups.h>
#include <cstdint>
#include <cuda.h>

namespace {

struct mixed_value {
  int first;
  double second;
  char third;
};

}  // namespace

extern "C" __global__ void scale(float* y, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}

extern "C" __global__ void mixed(char tag, mixed_value value, long long number, double* out, bool flag) {
  out[0] = tag;
  out[1] = value.first;
  out[2] = value.second;
  out[3] = value.third;
  out[4] = static_cast<double>(number);
  out[5] = flag ? 1 : 0;
}

extern "C" __global__ void nothing() {}

extern "C" __global__ void sixteen(int* out, int a, int b, int c, int d, int e, int f, int g, const float* h,
                                   const float* i, const float* j, float k, float l, long long m, long long n,
                                   double o) {
  if (out == nullptr) return;
  out[0] = a + b + c + d + e + f + g + static_cast<int>(k + l + o) + static_cast<int>(m + n) +
           (h == i ? 1 : 0) + (j == nullptr ? 1 : 0);
}

/// The sum of dynamic shared memory's words, each written by another thread than the one that reads it.
extern "C" __global__ void shared_sum(long long* out, int words) {
  extern __shared__ int buffer[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) buffer[words - 1 - i] = i;
  __syncthreads();
  long long sum = 0;
  for (int i = threadIdx.x; i < words; i += blockDim.x) sum += buffer[i];
  atomicAdd(reinterpret_cast<unsigned long long*>(out), static_cast<unsigned long long>(sum));
}

extern "C" __global__ void __launch_bounds__(128) at_most_128_threads(int* out) {
  out[threadIdx.x] = 1;
}

extern "C" __global__ void grid_barrier(int* partial, int* out) {
  const auto grid = cooperative_groups::this_grid();
  if (threadIdx.x == 0) partial[blockIdx.x] = blockIdx.x + 1;
  if (grid.is_valid()) grid.sync();
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += partial[i];
    out[0] = sum;
    out[1] = grid.is_valid() ? 1 : 0;
  }
}

#if __CUDA_ARCH__ >= 900

namespace {

__device__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

}  // namespace

/// Each block writes its rank in its cluster and the cluster's size.
extern "C" __global__ void cluster_place(int* out) {
  unsigned rank = 0;
  unsigned blocks = 0;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  if (threadIdx.x == 0) {
    out[2 * blockIdx.x] = static_cast<int>(rank);
    out[2 * blockIdx.x + 1] = static_cast<int>(blocks);
  }
}

/// Lets its dependent begin, and waits a while for it to say so: it can only do so where the two overlap.
extern "C" __global__ void primary(volatile int* begun, int* out, int value) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  const long long start = clock64();
  while (*begun == 0 && clock64() - start < 100'000'000) {
  }
  out[0] = *begun;
  __threadfence();
  out[1] = value;
}

extern "C" __global__ void dependent(volatile int* begun, const int* in, int* out) {
  *begun = 1;
  __threadfence();
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[0] = *static_cast<const volatile int*>(in + 1);
}

/// Copies the 16 x 32 tile of floats at (x, y) by the bulk tensor copy engine.
extern "C" __global__ void tensor_tile(const __grid_constant__ CUtensorMap map, float* out, int x, int y) {
  constexpr unsigned tile_bytes = 16 * 32 * sizeof(float);
  __shared__ alignas(128) float tile[16 * 32];
  __shared__ alignas(8) std::uint64_t barrier;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
                 "r"(tile_bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
        "%3}], [%4];" ::"r"(shared_address(tile)),
        "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier))
        : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(&barrier))
        : "memory");
  }
  for (int i = threadIdx.x; i < 16 * 32; i += blockDim.x) out[i] = tile[i];
}

#endif
