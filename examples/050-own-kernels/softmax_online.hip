// The same by a HIP kernel: a block of 256 threads computes one row. No SDK is needed to compile it: what
// ROCm's headers would define is defined here.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))

namespace {

constexpr int threads = 256;

__device__ int thread() {
  return static_cast<int>(__builtin_amdgcn_workitem_id_x());
}

__device__ void synchronize() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__device__ float exponential(float x) {
  return __builtin_amdgcn_exp2f(1.44269504F * x);
}

}  // namespace

extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(threads, threads))) void softmax_online_f32(
    float* out, long long out_stride, const float* x, long long x_stride, long long columns, float scale) {
  __shared__ float mosts[threads];
  __shared__ float sums[threads];
  const long long row = __builtin_amdgcn_workgroup_id_x();
  const float* from = x + row * x_stride;
  float* to = out + row * out_stride;
  float most = -3.4e38F;
  float sum = 0;
  for (long long i = thread(); i < columns; i += threads) {
    const float value = scale * from[i];
    const float next = __builtin_fmaxf(most, value);
    sum = sum * exponential(most - next) + exponential(value - next);
    most = next;
  }
  mosts[thread()] = most;
  sums[thread()] = sum;
  for (int apart = threads / 2; apart > 0; apart /= 2) {
    synchronize();
    if (thread() >= apart) continue;
    const float next = __builtin_fmaxf(most, mosts[thread() + apart]);
    sum =
        sum * exponential(most - next) + sums[thread() + apart] * exponential(mosts[thread() + apart] - next);
    most = next;
    mosts[thread()] = most;
    sums[thread()] = sum;
  }
  synchronize();
  for (long long i = thread(); i < columns; i += threads)
    to[i] = exponential(scale * from[i] - mosts[0]) / sums[0];
}
