// Kernels that do what a GPU does not forgive, and some that do not, for emulator_test.cpp. Compiled as ../kernels.cl is.

#define THREAD ((int)__builtin_amdgcn_workitem_id_x())
#define BARRIER()                                        \
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \
  __builtin_amdgcn_s_barrier();                          \
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")
#ifdef __GFX11__
#define LOAD "global_load_b32 %0, %1, off"
#else
#define LOAD "global_load_dword %0, %1, off"
#endif

/// Right where n is at most the number of elements.
__kernel void scale(__global float *y, __global const float *x, float a, int n) {
  const int i = (int)(__builtin_amdgcn_workgroup_id_x() * 64) + THREAD;
  if (i < n) y[i] = a * x[i];
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void reverse(__global int *out, __global const int *in) {
  __local int words[256];
  words[THREAD] = in[THREAD];
  BARRIER();
  out[THREAD] = words[255 - THREAD];
}

/// The same without its barrier.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void reverse_at_once(__global int *out, __global const int *in) {
  __local volatile int words[256];
  words[THREAD] = in[THREAD];
  out[THREAD] = words[255 - THREAD];
}

__kernel void beyond_shared(__global int *out, int index) {
  __local volatile int words[64];
  words[THREAD] = THREAD;
  BARRIER();
  out[THREAD] = words[index];
}

__kernel void unset_shared(__global float *out) {
  __local volatile float words[64];
  out[THREAD] = words[THREAD];
}

/// Uses what it loads before it has waited.
__kernel void no_wait(__global float *out, __global const float *in) {
  float value;
  __asm__ volatile(LOAD : "=v"(value) : "v"(in + THREAD));
  out[THREAD] = value;
}

__kernel void waits(__global float *out, __global const float *in) {
  float value;
  __asm__ volatile(LOAD "\n\ts_waitcnt vmcnt(0)" : "=v"(value) : "v"(in + THREAD));
  out[THREAD] = value;
}

__kernel void unknown(__global int *out) {
  __asm__ volatile("s_trap 2");
  out[THREAD] = 1;
}

__kernel void add_one(__global int *sum) {
  __atomic_fetch_add(sum, 1, __ATOMIC_RELAXED);
}

#ifdef __GFX9__
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
/// d = a b + c, of 32 x 8 and 8 x 32, with the layout that the ISA's manual draws.
__kernel void multiply_32(__global float *d, __global const half *a, __global const half *b, __global const float *c) {
  const int i = THREAD % 32, group = THREAD / 32;
  half4 left, right;
  float16 sum;
  for (int j = 0; j < 4; ++j) {
    left[j] = a[i * 8 + 4 * group + j];
    right[j] = b[(4 * group + j) * 32 + i];
  }
  for (int r = 0; r < 16; ++r) sum[r] = c[(8 * (r / 4) + 4 * group + r % 4) * 32 + i];
  sum = __builtin_amdgcn_mfma_f32_32x32x8f16(left, right, sum, 0, 0, 0);
  for (int r = 0; r < 16; ++r) d[(8 * (r / 4) + 4 * group + r % 4) * 32 + i] = sum[r];
}

/// The same of 16 x 16 and 16 x 16.
__kernel void multiply_16(__global float *d, __global const half *a, __global const half *b, __global const float *c) {
  const int i = THREAD % 16, group = THREAD / 16;
  half4 left, right;
  float4 sum;
  for (int j = 0; j < 4; ++j) {
    left[j] = a[i * 16 + 4 * group + j];
    right[j] = b[(4 * group + j) * 16 + i];
  }
  for (int r = 0; r < 4; ++r) sum[r] = c[(4 * group + r) * 16 + i];
  sum = __builtin_amdgcn_mfma_f32_16x16x16f16(left, right, sum, 0, 0, 0);
  for (int r = 0; r < 4; ++r) d[(4 * group + r) * 16 + i] = sum[r];
}
#endif
