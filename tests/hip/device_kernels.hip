// Small kernels that device_test.cpp launches. Compiled without any SDK, as the project's kernels are.

#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))

namespace {

struct mixed_value {
  int first;
  double second;
  char third;
};

__attribute__((device)) int thread() {
  return static_cast<int>(__builtin_amdgcn_workitem_id_x());
}
__attribute__((device)) int block() {
  return static_cast<int>(__builtin_amdgcn_workgroup_id_x());
}
__attribute__((device)) int threads() {
  return static_cast<int>(__builtin_amdgcn_workgroup_size_x());
}
__attribute__((device)) void wait_for_workgroup() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

}  // namespace

extern "C" __global__ void scale(float* y, const float* x, float a, int n) {
  const int i = block() * threads() + thread();
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

/// The sum of dynamic shared memory's words, each written by another thread than the one that reads it.
extern "C" __global__ void shared_sum(unsigned long long* out, int words) {
  extern __shared__ int buffer[];
  for (int i = thread(); i < words; i += threads()) buffer[words - 1 - i] = i;
  wait_for_workgroup();
  unsigned long long sum = 0;
  for (int i = thread(); i < words; i += threads()) sum += static_cast<unsigned>(buffer[i]);
  __hip_atomic_fetch_add(out, sum, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(1, 128))) void at_most_128_threads(
    int* out) {
  out[thread()] = 1;
}

/// Every block adds its number, waits until all have, and reads what all have added.
extern "C" __global__ void grid_barrier(int* arrived, int* sum, int* out, int blocks) {
  if (thread() == 0) {
    __hip_atomic_fetch_add(sum, block() + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __hip_atomic_fetch_add(arrived, 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    while (__hip_atomic_load(arrived, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) < blocks)
      __builtin_amdgcn_s_sleep(1);
  }
  wait_for_workgroup();
  if (thread() == threads() - 1)
    out[block()] = __hip_atomic_load(sum, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
