// SPDX-License-Identifier: MIT
// Kernels that do what a GPU does not forgive, and some that do not, for emulator_test.cpp. Compiled as ../kernels.cl is.

#define THREAD ((int)__builtin_amdgcn_workitem_id_x())
#define BARRIER()                                        \
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \
  __builtin_amdgcn_s_barrier();                          \
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")
#ifdef __GFX9__
#define LOAD "global_load_dword %0, %1, off"
#define LOAD_SHARED "ds_read_b32 %0, %2"
#define LOAD_SCALAR "s_load_dword %0, %2, 0x0"
#define ADD "global_atomic_add %1, %2, off\n\ts_waitcnt vmcnt(0)"
#define RAW 0x27000
#else
#define LOAD "global_load_b32 %0, %1, off"
#define LOAD_SHARED "ds_load_b32 %0, %2"
#define LOAD_SCALAR "s_load_b32 %0, %2, 0x0"
#define RAW 0x31027000
#endif

#ifdef __GFX12__
#define ADD "global_atomic_add_u32 %1, %2, off\n\ts_wait_loadcnt 0x0\n\ts_wait_storecnt 0x0"
#define WAIT "s_wait_loadcnt 0x0"
#define WAIT_SHARED "s_wait_dscnt 0x0"
#define WAIT_SCALAR "s_wait_kmcnt 0x0"
#else
#ifdef __GFX11__
#define ADD "global_atomic_add_u32 %1, %2, off\n\ts_waitcnt vmcnt(0)\n\ts_waitcnt_vscnt null, 0x0"
#endif
#define WAIT "s_waitcnt vmcnt(0)"
#define WAIT_SHARED "s_waitcnt lgkmcnt(0)"
#define WAIT_SCALAR "s_waitcnt lgkmcnt(0)"
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
  __asm__ volatile(LOAD "\n\t" WAIT : "=v"(value) : "v"(in + THREAD));
  out[THREAD] = value;
}

__kernel void no_wait_shared(__global float *out) {
  __local volatile float words[64];
  words[THREAD] = 3;
  float value;
  float early;
  __asm__ volatile(LOAD_SHARED "\n\tv_mov_b32 %1, %0\n\t" WAIT_SHARED
                   : "=&v"(value), "=&v"(early) : "v"((__local float *)words + THREAD));
  out[64 + THREAD] = value;
  value = early;
  out[THREAD] = value;
}

__kernel void no_wait_scalar(__global float *out, __global const float *in) {
  float value;
  float early;
  __asm__ volatile(LOAD_SCALAR "\n\ts_mov_b32 %1, %0\n\t" WAIT_SCALAR : "=&s"(value), "=&s"(early) : "s"(in));
  out[64 + THREAD] = value;
  value = early;
  out[THREAD] = value;
}

/// What nobody sets: a register of each kind, a hidden argument, scratch memory.
__kernel void unset(__global float *out, int index) {
  volatile float words[64];
  float vector, scalar;
  words[index] = 1;
  __asm__ volatile("v_mov_b32 %0, v60" : "=v"(vector) : : "v60");
  __asm__ volatile("s_mov_b32 %0, s60" : "=s"(scalar) : : "s60");
  out[THREAD] = vector;
  out[64 + THREAD] = scalar;
  out[128 + THREAD] = ((__constant float *)__builtin_amdgcn_implicitarg_ptr())[20];
  out[192 + THREAD] = words[index + 1];
}

/// Turns the numbers of each lane, in scratch memory, by `step`.
__kernel void turn(__global int *out, int step) {
  volatile int words[16];
  for (int i = 0; i < 16; ++i) words[(i + step + THREAD) % 16] = 100 * THREAD + i;
  for (int i = 0; i < 16; ++i) out[16 * THREAD + i] = words[(i + THREAD) % 16];
}

__kernel void beyond_scratch(__global int *out, int index) {
  volatile int words[16];
  words[index] = THREAD;
  out[THREAD] = words[index];
}

/// The lanes below `count` swap two registers.
__kernel void swap(__global int *out, int count) {
  int first = THREAD, second = 1000 + THREAD;
  if (THREAD < count) __asm__ volatile("v_swap_b32 %0, %1" : "+v"(first), "+v"(second));
  out[THREAD] = first;
  out[64 + THREAD] = second;
}

#ifndef __GFX12__
/// A scalar register with a constant of 16 bits.
#define COMPARE_WITH(NAME, CONSTANT) \
  __asm__ volatile("s_cmpk_" NAME " %1, " CONSTANT "\n\ts_cselect_b32 %0, 1, 0" : "=s"(found) : "s"(value) : "scc")
__kernel void compare(__global int *out, int value) {
  int found;
  COMPARE_WITH("lt_i32", "-7");
  out[THREAD] = found;
  COMPARE_WITH("eq_i32", "-7");
  out[64 + THREAD] = found;
  COMPARE_WITH("ge_u32", "0xfff9");
  out[128 + THREAD] = found;
  COMPARE_WITH("lg_u32", "0xfff9");
  out[192 + THREAD] = found;
}
#endif

/// Copies a register where lanes meet: once EXEC is restored or, as LLVM at times does, before.
#ifdef __GFX9__
#define BRANCH "s_and_saveexec_b64 %3, vcc\n\ts_cbranch_execz "
#define RESTORE "\n\ts_or_b64 exec, exec, %3"
#define COMPARE "v_cmp_gt_u32 vcc, %2, %0"
#define ADD_TO "v_add_u32 %0, 100, %0"
typedef long mask;
#else
#define BRANCH "s_and_saveexec_b32 %3, vcc_lo\n\ts_cbranch_execz "
#define RESTORE "\n\ts_or_b32 exec_lo, exec_lo, %3"
#define COMPARE "v_cmp_gt_u32 vcc_lo, %2, %0"
#define ADD_TO "v_add_nc_u32 %0, 100, %0"
typedef int mask;
#endif
#define MEET(NAME, JOIN)                                                                                                    \
  __kernel void NAME(__global int *out, int count) {                                                                        \
    int value = THREAD, copy = -1;                                                                                          \
    mask saved;                                                                                                             \
    __asm__ volatile(COMPARE "\n\t" BRANCH #NAME "_meet\n\t" ADD_TO "\n" #NAME "_meet:" JOIN          \
                     : "+v"(value), "+v"(copy), "+s"(count), "=&s"(saved) : : "vcc", "scc");                                  \
    out[THREAD] = copy;                                                                                                     \
  }
MEET(copy_behind, RESTORE "\n\tv_mov_b32 %1, %0")
MEET(copy_before, "\n\tv_mov_b32 %1, %0" RESTORE)

/// Of four waves of 64 lanes, the first does not come.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void missed_barrier(__global int *out) {
  if (THREAD < 64) return;
  __builtin_amdgcn_s_barrier();
  out[THREAD] = 1;
}

/// All waves write the same words: other values than another, the same ones, what another has read.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void both_write(__global int *out, int same) {
  __local volatile int words[64];
  words[THREAD % 64] = same ? 1 : THREAD;
  BARRIER();
  out[THREAD] = words[THREAD % 64];
}
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void write_what_is_read(__global int *out) {
  __local volatile int words[256];
  words[THREAD] = THREAD;
  BARRIER();
  if (THREAD < 128)
    out[THREAD] = words[255 - THREAD];
  else
    words[THREAD] = -1;
}

/// Atomic additions of all waves to one number do not race.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void add_shared(__global int *out) {
  __local int sum;
  if (THREAD == 0) sum = 0;
  BARRIER();
  __opencl_atomic_fetch_add((__local atomic_int *)&sum, 1, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_WORK_GROUP);
  BARRIER();
  out[THREAD] = sum;
}

/// Turns numbers around in global memory. Without the barrier, waves read what others have turned already.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void reverse_in_place(__global int *numbers) {
  const int kept = numbers[255 - THREAD];
  BARRIER();
  numbers[THREAD] = kept;
}
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void reverse_in_place_at_once(__global int *numbers) {
  numbers[THREAD] = numbers[255 - THREAD];
}

/// Adds each number and the next. In place, the last of a workgroup's 32 may find that the next was added to already.
__kernel void add_next(__global int *out, __global int *in) {
  const int i = (int)(__builtin_amdgcn_workgroup_id_x() * 32) + THREAD;
  out[i] = in[i] + in[i + 1];
}

/// All workgroups write one number: the same, or each its own.
__kernel void all_write(__global int *out, int same) {
  out[THREAD] = same ? THREAD : (int)__builtin_amdgcn_workgroup_id_x();
}

/// Puts the number of each wave where the next one is free.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void append(__global int *out, __global int *count) {
  if (THREAD % 64 == 0) out[__atomic_fetch_add(count, 1, __ATOMIC_RELAXED)] = THREAD / 64;
}

/// Sums whose rounding depends on which workgroup adds first.
__kernel void add_floats(__global unsigned int *sum, float step) {
  unsigned int before = *sum;
  unsigned int after;
  const float mine = __builtin_amdgcn_workgroup_id_x() % 2 ? 1e8f : step;
  do after = __builtin_astype(__builtin_astype(before, float) + mine, unsigned int);
  while (!__atomic_compare_exchange_n(sum, &before, after, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/// Adds without and with the sum that was found: what is not asked for must not come into a register.
__kernel void add_and_keep(__global int *sums, __global int *out) {
  const int kept = THREAD * 3;
  int found;
  __asm__ volatile("v_mov_b32 v0, %0\n\t" ADD "\n\tv_mov_b32 %0, v0" : "=&v"(found) : "v"(sums), "v"(1), "0"(kept) : "v0", "memory");
  out[THREAD] = found;
}

/// Through a buffer of `bytes`: what lies behind is 0 when it is read, and is not written.
__kernel void through_buffer(__global int *out, __global int *in, int bytes) {
  typedef unsigned int words __attribute__((ext_vector_type(4)));
  const __amdgpu_buffer_rsrc_t from = __builtin_amdgcn_make_buffer_rsrc((void *)in, 0, bytes, RAW);
  const __amdgpu_buffer_rsrc_t to = __builtin_amdgcn_make_buffer_rsrc((void *)out, 0, bytes, RAW);
  __builtin_amdgcn_raw_buffer_store_b32(__builtin_amdgcn_raw_buffer_load_b32(from, 4 * THREAD, 0, 0) + 1, to, 4 * THREAD, 0, 0);
}

__kernel void unknown(__global int *out) {
  __asm__ volatile("s_trap 2");
  out[THREAD] = 1;
}

__kernel void add_one(__global int *sum) {
  __atomic_fetch_add(sum, 1, __ATOMIC_RELAXED);
}

#pragma OPENCL EXTENSION cl_khr_fp16 : enable
/// d = a b + c, of SIZE x INNER and INNER x SIZE, each lane with what the ISA's manual draws.
#ifdef __GFX9__
#define FACTORS(SIZE, INNER) (INNER * SIZE / 64)
#define MULTIPLY(NAME, SIZE, INNER, TYPE, FACTOR, SUMS, PUT, CALL)                                                          \
  __kernel void NAME(__global float *d, __global const TYPE *a, __global const TYPE *b, __global const float *c) {        \
    const int i = THREAD % SIZE, group = THREAD / SIZE, step = 64 / SIZE;                                                 \
    FACTOR left, right;                                                                                                   \
    SUMS sum;                                                                                                             \
    for (int j = 0; j < FACTORS(SIZE, INNER); ++j) {                                                                      \
      left PUT = a[i * INNER + FACTORS(SIZE, INNER) * group + j];                                                         \
      right PUT = b[(FACTORS(SIZE, INNER) * group + j) * SIZE + i];                                                       \
    }                                                                                                                     \
    for (int r = 0; r < SIZE * SIZE / 64; ++r) sum[r] = c[(4 * step * (r / 4) + 4 * group + r % 4) * SIZE + i];           \
    sum = CALL(left, right, sum, 0, 0, 0);                                                                                \
    for (int r = 0; r < SIZE * SIZE / 64; ++r) d[(4 * step * (r / 4) + 4 * group + r % 4) * SIZE + i] = sum[r];           \
  }
MULTIPLY(multiply_32x8_f16, 32, 8, half, half4, float16, [j], __builtin_amdgcn_mfma_f32_32x32x8f16)
MULTIPLY(multiply_16x16_f16, 16, 16, half, half4, float4, [j], __builtin_amdgcn_mfma_f32_16x16x16f16)
MULTIPLY(multiply_32x8_bf16, 32, 8, short, short4, float16, [j], __builtin_amdgcn_mfma_f32_32x32x8bf16_1k)
MULTIPLY(multiply_16x16_bf16, 16, 16, short, short4, float4, [j], __builtin_amdgcn_mfma_f32_16x16x16bf16_1k)
MULTIPLY(multiply_32x2_f32, 32, 2, float, float, float16, , __builtin_amdgcn_mfma_f32_32x32x2f32)
MULTIPLY(multiply_16x4_f32, 16, 4, float, float, float4, , __builtin_amdgcn_mfma_f32_16x16x4f32)
#elif defined(__GFX12__)
#define MULTIPLY(NAME, TYPE, FACTOR, CALL)                                                                                  \
  __kernel void NAME(__global float *d, __global const TYPE *a, __global const TYPE *b, __global const float *c) {        \
    const int i = THREAD % 16, half_of = 8 * (THREAD / 16);                                                               \
    FACTOR left, right;                                                                                                   \
    float8 sum;                                                                                                           \
    for (int j = 0; j < 8; ++j) {                                                                                         \
      left[j] = a[i * 16 + half_of + j];                                                                                  \
      right[j] = b[(half_of + j) * 16 + i];                                                                               \
    }                                                                                                                     \
    for (int r = 0; r < 8; ++r) sum[r] = c[(half_of + r) * 16 + i];                                                       \
    sum = CALL(left, right, sum);                                                                                         \
    for (int r = 0; r < 8; ++r) d[(half_of + r) * 16 + i] = sum[r];                                                       \
  }
MULTIPLY(multiply_16x16_f16, half, half8, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12)
MULTIPLY(multiply_16x16_bf16, short, short8, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12)

/// What a barrier of two instructions forbids.
__kernel void not_signalled(__global int *out) {
  __asm__ volatile("s_barrier_wait -1");
  out[THREAD] = 1;
}
__kernel void between_signal_and_wait(__global int *out) {
  __local volatile int words[64];
  __asm__ volatile("s_barrier_signal -1");
  words[THREAD] = THREAD;
  __asm__ volatile("s_barrier_wait -1");
  out[THREAD] = words[THREAD];
}
#else
/// `apart`: lanes 16 to 31 have another A than lanes 0 to 15, which hardware does not allow.
#define MULTIPLY(NAME, TYPE, FACTOR, CALL)                                                                                  \
  __kernel void NAME(__global float *d, __global const TYPE *a, __global const TYPE *b, __global const float *c, int apart) { \
    const int i = THREAD % 16;                                                                                            \
    FACTOR left, right;                                                                                                   \
    float8 sum;                                                                                                           \
    for (int j = 0; j < 16; ++j) {                                                                                        \
      left[j] = a[(i + apart * (THREAD / 16)) % 16 * 16 + j];                                                             \
      right[j] = b[j * 16 + i];                                                                                           \
    }                                                                                                                     \
    for (int r = 0; r < 8; ++r) sum[r] = c[(2 * r + THREAD / 16) * 16 + i];                                               \
    sum = CALL(left, right, sum);                                                                                         \
    for (int r = 0; r < 8; ++r) d[(2 * r + THREAD / 16) * 16 + i] = sum[r];                                               \
  }
MULTIPLY(multiply_16x16_f16, half, half16, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32)
MULTIPLY(multiply_16x16_bf16, short, short16, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32)
#endif
