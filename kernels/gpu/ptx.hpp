// SPDX-License-Identifier: MIT
// PTX instructions as functions, for the kernels in CUDA C++. Addresses of shared memory are 32-bit numbers.
// Names, operands and layouts: PTX ISA 8.x. What only Hopper's attention kernels use is in
// attention/hopper_ptx.hpp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace sy::ptx {

using u32 = unsigned;
using u64 = unsigned long long;

__device__ __forceinline__ u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The number of the highest bit.
__device__ __forceinline__ int floor_log2(int x) {
  int result;
  asm("bfind.s32 %0, %1;" : "=r"(result) : "r"(x));
  return result;
}

/// Two numbers rounded into one register, the first in the low half.
template <class T>
__device__ __forceinline__ u32 pack(float low, float high);

template <>
__device__ __forceinline__ u32 pack<__half>(float low, float high) {
  u32 both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

template <>
__device__ __forceinline__ u32 pack<__nv_bfloat16>(float low, float high) {
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

/// The two numbers of a word, the lower half first.
template <class T>
__device__ __forceinline__ float2 unpack(u32 both);

template <>
__device__ __forceinline__ float2 unpack<__half>(u32 both) {
  return __half22float2(*reinterpret_cast<const __half2*>(&both));
}

template <>
__device__ __forceinline__ float2 unpack<__nv_bfloat16>(u32 both) {
  return make_float2(__uint_as_float(both << 16), __uint_as_float(both & 0xFFFF0000U));
}

// Asynchronous copies of 16 bytes by each thread.

/// An L2 policy for what is read once: the first to leave the cache.
__device__ __forceinline__ u64 evict_first_policy() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ void copy_async(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// Zeros where there is nothing to copy.
__device__ __forceinline__ void copy_async(u32 to, const void* from, bool there, u64 policy) {
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from),
               "r"(bytes), "l"(policy)
               : "memory");
}

/// Closes the group of copies started since the last call.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most `Pending` of this thread's groups are under way.
template <int Pending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// Matrices of a warp.

__device__ __forceinline__ void load_matrices(u32 (&to)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ void load_transposed(u32 (&to)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ u32 transposed(u32 matrix) {
  u32 result;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(matrix));
  return result;
}

/// sum += a b, of 16 x 16 and 16 x 8 numbers.
template <class Number>
__device__ __forceinline__ void multiply(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1);

template <>
__device__ __forceinline__ void multiply<__half>(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
      "%1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void multiply<__nv_bfloat16>(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Programmatic dependent launch; nothing before sm_90.

/// Waits until all that was launched before is done and its writes are seen.
__device__ __forceinline__ void wait_for_previous_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel's blocks take their places as this one's leave.
__device__ __forceinline__ void allow_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Transaction barriers, by their address in shared memory; sm_90 and newer.

__device__ __forceinline__ void init_barrier(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

/// Makes initialised barriers known to the copy engine and to other blocks.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void arrive_expecting(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

/// Waits until the phase of this parity has completed.
__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Waits for so many threads at one of the block's named barriers, 1 to 15.
__device__ __forceinline__ void named_sync(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Clusters; sm_90 and newer.

__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// The address that block `rank` of the cluster has where this block has `address`.
__device__ __forceinline__ u32 address_in_cluster(u32 address, int rank) {
  u32 remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

/// Writes to the shared memory of a block of the cluster, and counts the bytes to a barrier there.
__device__ __forceinline__ void store_async(u32 to, u32 barrier, float value) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
               "r"(__float_as_uint(value)), "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void store_async(u32 to, u32 barrier, float first, float second) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(to),
               "r"(__float_as_uint(first)), "r"(__float_as_uint(second)), "r"(barrier)
               : "memory");
}

}  // namespace sy::ptx
