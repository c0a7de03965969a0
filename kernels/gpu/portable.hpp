// SPDX-License-Identifier: MIT
// What the GPU kernels need of a device language, so that one source compiles as CUDA C++ (sm_80 and newer)
// and as HIP C++ for a bare AMD target without any SDK: thread indices, shuffles, barriers, element
// conversions, fast arithmetic, 16-byte accesses and asynchronous copies into shared memory.
#pragma once

#if defined(__HIP__) && !defined(SWITCHYARD_HIP_DEVICE)
#define SWITCHYARD_HIP_DEVICE 1
#endif

#if defined(SWITCHYARD_HIP_DEVICE)

using size_t = decltype(sizeof(0));

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define SY_KERNEL(threads, blocks) \
  __attribute__((global, visibility("default"), amdgpu_flat_work_group_size(threads, threads))) void

#else

#include "ptx.hpp"

#define SY_KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)

#endif

namespace sy {

using u16 = unsigned short;
using u32 = unsigned int;
using i32 = int;
using i64 = long long;
using u64 = unsigned long long;

/// Element types: storage only, arithmetic is f32.
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
using f32 = float;

/// 16 bytes, the widest access of a thread.
struct alignas(16) quad {
  u32 word[4];
};

#if defined(SWITCHYARD_HIP_DEVICE)

__device__ __forceinline__ int thread_index() {
  return static_cast<int>(__builtin_amdgcn_workitem_id_x());
}
__device__ __forceinline__ int block_index() {
  return static_cast<int>(__builtin_amdgcn_workgroup_id_x());
}
__device__ __forceinline__ int block_index_y() {
  return static_cast<int>(__builtin_amdgcn_workgroup_id_y());
}
__device__ __forceinline__ int block_threads() {
  return static_cast<int>(__builtin_amdgcn_workgroup_size_x());
}
__device__ __forceinline__ int block_count() {
  return static_cast<int>(__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x());
}

__device__ __forceinline__ void block_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

__device__ __forceinline__ float shuffle_xor(float value, int mask) {
  const int lane = static_cast<int>(__builtin_amdgcn_mbcnt_hi(~0U, __builtin_amdgcn_mbcnt_lo(~0U, 0U)));
  return __builtin_bit_cast(float,
                            __builtin_amdgcn_ds_bpermute((lane ^ mask) << 2, __builtin_bit_cast(int, value)));
}

/// The value of the first of every `Lanes` lanes.
template <int Lanes>
__device__ __forceinline__ float shuffle_first(float value) {
  const int lane = static_cast<int>(__builtin_amdgcn_mbcnt_hi(~0U, __builtin_amdgcn_mbcnt_lo(~0U, 0U)));
  return __builtin_bit_cast(
      float, __builtin_amdgcn_ds_bpermute((lane & ~(Lanes - 1)) << 2, __builtin_bit_cast(int, value)));
}

__device__ __forceinline__ float exp2_approximate(float x) {
  return __builtin_exp2f(x);
}
__device__ __forceinline__ float reciprocal(float x) {
  return __builtin_amdgcn_rcpf(x);
}
__device__ __forceinline__ float reciprocal_square_root(float x) {
  return 1.0F / __builtin_sqrtf(x);
}
__device__ __forceinline__ float maximum(float a, float b) {
  return __builtin_fmaxf(a, b);
}
__device__ __forceinline__ float minimum(float a, float b) {
  return __builtin_fminf(a, b);
}

__device__ __forceinline__ float to_float(f16 x) {
  return static_cast<float>(__builtin_bit_cast(_Float16, x.bits));
}
__device__ __forceinline__ float to_float(bf16 x) {
  return __builtin_bit_cast(float, static_cast<u32>(x.bits) << 16U);
}
__device__ __forceinline__ void from_float(float x, f16& out) {
  out.bits = __builtin_bit_cast(u16, static_cast<_Float16>(x));
}
__device__ __forceinline__ void from_float(float x, bf16& out) {
  const u32 bits = __builtin_bit_cast(u32, x);
  const u32 rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  out.bits = static_cast<u16>((x != x ? bits | 0x400000U : rounded) >> 16U);
}

#else

__device__ __forceinline__ int thread_index() {
  return static_cast<int>(threadIdx.x);
}
__device__ __forceinline__ int block_index() {
  return static_cast<int>(blockIdx.x);
}
__device__ __forceinline__ int block_index_y() {
  return static_cast<int>(blockIdx.y);
}
__device__ __forceinline__ int block_threads() {
  return static_cast<int>(blockDim.x);
}
__device__ __forceinline__ int block_count() {
  return static_cast<int>(gridDim.x);
}
__device__ __forceinline__ void block_barrier() {
  __syncthreads();
}

__device__ __forceinline__ float shuffle_xor(float value, int mask) {
  return __shfl_xor_sync(0xFFFFFFFFU, value, mask);
}

template <int Lanes>
__device__ __forceinline__ float shuffle_first(float value) {
  return __shfl_sync(0xFFFFFFFFU, value, 0, Lanes);
}

using ptx::exp2_approximate;
__device__ __forceinline__ float reciprocal(float x) {
  return ptx::reciprocal_approximate(x);
}
__device__ __forceinline__ float reciprocal_square_root(float x) {
  return rsqrtf(x);
}
__device__ __forceinline__ float maximum(float a, float b) {
  return fmaxf(a, b);
}
__device__ __forceinline__ float minimum(float a, float b) {
  return fminf(a, b);
}

__device__ __forceinline__ float to_float(f16 x) {
  return __half2float(__ushort_as_half(x.bits));
}
__device__ __forceinline__ float to_float(bf16 x) {
  return __uint_as_float(static_cast<u32>(x.bits) << 16U);
}
__device__ __forceinline__ void from_float(float x, f16& out) {
  out.bits = __half_as_ushort(__float2half_rn(x));
}
__device__ __forceinline__ void from_float(float x, bf16& out) {
  out.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

#endif

__device__ __forceinline__ float to_float(float x) {
  return x;
}
__device__ __forceinline__ void from_float(float x, float& out) {
  out = x;
}

template <class T>
inline constexpr int width_of = 16 / static_cast<int>(sizeof(T));  ///< elements in 16 bytes

__device__ __forceinline__ float as_float(u32 bits) {
  return __builtin_bit_cast(float, bits);
}

/// The elements of 16 bytes as floats.
template <class T>
__device__ __forceinline__ void unpack(const quad& packed, float (&values)[width_of<T>]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 word = packed.word[i];
    if constexpr (sizeof(T) == 4) {
      values[i] = as_float(word);
    } else {
      values[2 * i] = to_float(T{static_cast<u16>(word & 0xFFFFU)});
      values[2 * i + 1] = to_float(T{static_cast<u16>(word >> 16U)});
    }
  }
}

/// Floats rounded to nearest even and packed.
template <class T>
__device__ __forceinline__ quad pack(const float (&values)[width_of<T>]) {
  quad packed;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      packed.word[i] = __builtin_bit_cast(u32, values[i]);
    } else {
      T low;
      T high;
      from_float(values[2 * i], low);
      from_float(values[2 * i + 1], high);
      packed.word[i] = static_cast<u32>(low.bits) | (static_cast<u32>(high.bits) << 16U);
    }
  }
  return packed;
}

#if !defined(SWITCHYARD_HIP_DEVICE)
template <>
__device__ __forceinline__ void unpack<bf16>(const quad& packed, float (&values)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = as_float(packed.word[i] << 16U);
    values[2 * i + 1] = as_float(packed.word[i] & 0xFFFF0000U);
  }
}
template <>
__device__ __forceinline__ void unpack<f16>(const quad& packed, float (&values)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&packed.word[i]));
    values[2 * i] = both.x;
    values[2 * i + 1] = both.y;
  }
}
template <>
__device__ __forceinline__ quad pack<bf16>(const float (&values)[8]) {
  quad packed;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
    packed.word[i] = *reinterpret_cast<const u32*>(&both);
  }
  return packed;
}
template <>
__device__ __forceinline__ quad pack<f16>(const float (&values)[8]) {
  quad packed;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __half2 both = __floats2half2_rn(values[2 * i], values[2 * i + 1]);
    packed.word[i] = *reinterpret_cast<const u32*>(&both);
  }
  return packed;
}
#endif

/// A float rounded to an element and back.
template <class T>
__device__ __forceinline__ float round_to(float x) {
  T rounded;
  from_float(x, rounded);
  return to_float(rounded);
}

/// Leaves the value as it is and the compiler not knowing what it was computed from.
__device__ __forceinline__ void hide_origin(quad& value) {
#if !defined(SWITCHYARD_HIP_DEVICE)
  asm volatile("" : "+r"(value.word[0]), "+r"(value.word[1]), "+r"(value.word[2]), "+r"(value.word[3]));
#endif
}

template <class T>
__device__ __forceinline__ quad load_quad(const T* address) {
#if defined(SWITCHYARD_HIP_DEVICE)
  return *reinterpret_cast<const quad*>(address);
#else
  return __builtin_bit_cast(quad, *reinterpret_cast<const uint4*>(address));
#endif
}

/// For data that is read once: leaves the caches to others.
template <class T>
__device__ __forceinline__ quad load_streaming(const T* address) {
#if defined(SWITCHYARD_HIP_DEVICE)
  return *reinterpret_cast<const quad*>(address);
#else
  return __builtin_bit_cast(quad, __ldcs(reinterpret_cast<const uint4*>(address)));
#endif
}

template <class T>
__device__ __forceinline__ void store_quad(T* address, const quad& value) {
  *reinterpret_cast<quad*>(address) = value;
}

template <class T>
__device__ __forceinline__ void store_streaming(T* address, const quad& value) {
#if defined(SWITCHYARD_HIP_DEVICE)
  *reinterpret_cast<quad*>(address) = value;
#else
  __stcs(reinterpret_cast<uint4*>(address), __builtin_bit_cast(uint4, value));
#endif
}

/// First thing in a kernel that may be launched while the one before it on the stream still runs
/// (programmatic dependent launch): lets the next kernel's blocks take their places as this one's leave, and
/// waits until all that was launched before is done and its writes are seen. Launched in the ordinary way it
/// does nothing.
__device__ __forceinline__ void begin_kernel() {
#if !defined(SWITCHYARD_HIP_DEVICE)
  ptx::allow_next_launch();
  ptx::wait_for_previous_launch();
#endif
}

/// Starts a copy of 16 bytes into shared memory; where the device has no such copy, it is done at once.
template <class T>
__device__ __forceinline__ void copy_async(quad* shared, const T* address) {
#if defined(SWITCHYARD_HIP_DEVICE)
  *shared = *reinterpret_cast<const quad*>(address);
#else
  ptx::copy_async(ptx::shared_address(shared), address);
#endif
}

/// Closes the group of copies started since the last call.
__device__ __forceinline__ void commit_copies() {
#if !defined(SWITCHYARD_HIP_DEVICE)
  ptx::commit_copies();
#endif
}

/// Waits until at most `Pending` of this thread's groups are under way.
template <int Pending>
__device__ __forceinline__ void wait_for_copies() {
#if !defined(SWITCHYARD_HIP_DEVICE)
  ptx::wait_for_copies<Pending>();
#endif
}

#if !defined(SWITCHYARD_HIP_DEVICE) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ __forceinline__ int cluster_rank() {
  return static_cast<int>(ptx::cluster_rank());
}

/// Waits for all blocks of the cluster, and until this thread's writes, to global memory too, are seen by
/// all.
__device__ __forceinline__ void cluster_barrier() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n\t"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

/// Initializes an mbarrier that completes when one thread has arrived and the bytes that it expects have come
/// from the cluster's blocks. Unlike cluster_barrier() it does not wait for a thread's writes to global
/// memory. A cluster_barrier() must follow.
__device__ __forceinline__ void init_mbarrier(u64* mbarrier) {
  ptx::init_barrier(ptx::shared_address(mbarrier), 1);
  ptx::fence_barrier_init();
}

/// Arrives, and adds the bytes that must come before the mbarrier completes.
__device__ __forceinline__ void expect_bytes(u64* mbarrier, int bytes) {
  ptx::arrive_expecting(ptx::shared_address(mbarrier), static_cast<u32>(bytes));
}

/// Waits until the mbarrier has completed for the first, third ... (phase 0) or second, fourth ... (1) time.
__device__ __forceinline__ void wait_mbarrier(u64* mbarrier, int phase) {
  ptx::wait(ptx::shared_address(mbarrier), static_cast<u32>(phase));
}

/// Writes to the same place in the shared memory of another block of the cluster, and counts the bytes to the
/// same mbarrier there.
template <int Values>
__device__ __forceinline__ void send(float* slot, u64* mbarrier, int rank, const float (&values)[Values]) {
  static_assert(Values == 1 || Values == 2);
  const u32 remote_slot = ptx::address_in_cluster(ptx::shared_address(slot), rank);
  const u32 remote_mbarrier = ptx::address_in_cluster(ptx::shared_address(mbarrier), rank);
  if constexpr (Values == 1) {
    ptx::store_async(remote_slot, remote_mbarrier, values[0]);
  } else {
    ptx::store_async(remote_slot, remote_mbarrier, values[0], values[1]);
  }
}

#else

__device__ __forceinline__ int cluster_rank() {
  return 0;
}
__device__ __forceinline__ void cluster_barrier() {}
__device__ __forceinline__ void init_mbarrier(u64*) {}
__device__ __forceinline__ void expect_bytes(u64*, int) {}
__device__ __forceinline__ void wait_mbarrier(u64*, int) {}
template <int Values>
__device__ __forceinline__ void send(float*, u64*, int, const float (&)[Values]) {}

#endif

}  // namespace sy
