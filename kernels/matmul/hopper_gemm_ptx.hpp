// SPDX-License-Identifier: MIT
// Hopper's instructions that only the product of matrices uses: copies of boxes of two dimensions, also to
// all blocks of a cluster, and barriers of other blocks. Names and operands: PTX ISA 8.x, chapters
// "cp.async.bulk.tensor", "mbarrier" and "barrier.cluster".
#pragma once

#include "../attention/hopper_ptx.hpp"

namespace hopper {

/// A box of a tensor of two dimensions; x is the innermost coordinate. Signals its bytes to the barrier.
__device__ __forceinline__ void copy_box(u32 to, const tensor_map& map, u32 barrier, i32 x, i32 y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

/// The same to this place of all blocks that `blocks` has a bit for; signals to the barrier of each.
__device__ __forceinline__ void copy_box_to(unsigned short blocks, u32 to, const tensor_map& map, u32 barrier,
                                            i32 x, i32 y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(to),
      "l"(&map), "r"(barrier), "h"(blocks), "r"(x), "r"(y)
      : "memory");
}

/// As copy_bytes, to all blocks that `blocks` has a bit for.
__device__ __forceinline__ void copy_bytes_to(unsigned short blocks, u32 to, const void* from, u32 bytes,
                                              u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(blocks)
      : "memory");
}

/// Bytes out of shared memory, a multiple of 16; part of the thread's current bulk group.
__device__ __forceinline__ void store_bytes(void* to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}

/// A box out of shared memory to a tensor of two dimensions; part of the thread's current bulk group. What
/// lies outside of the tensor is not written.
__device__ __forceinline__ void store_box(const tensor_map& map, u32 from, i32 x, i32 y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
               "r"(from), "r"(x), "r"(y)
               : "memory");
}

/// Waits until at most one of this thread's bulk groups still reads its source.
__device__ __forceinline__ void wait_bulk_reads_but_one() {
  asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}

/// Arrives at the barrier that block `rank` of the cluster has where this block has `barrier`.
__device__ __forceinline__ void arrive_at(u32 barrier, u32 rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// Waits for all threads of the cluster.
__device__ __forceinline__ void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

__device__ __forceinline__ void store_pair(u32 to, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(first), "f"(second) : "memory");
}

__device__ __forceinline__ void store_words(u32 to, const u32 (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}

// 28672 and 14336 outputs are multiples of 224, and 512 rows of them fill the last wave.
#define HOPPER_OUT_112 HOPPER_OUT_96, HOPPER_OUT_8(96), HOPPER_OUT_8(104)
#define HOPPER_NAMES_112                 \
  HOPPER_NAMES_96                        \
  ",%96,%97,%98,%99,%100,%101,%102,%103" \
  ",%104,%105,%106,%107,%108,%109,%110,%111"

HOPPER_SHARED_PRODUCT(shared_product, 0, __half, "f16", 224, 112, "%112", "%113", "%114")
HOPPER_SHARED_PRODUCT(shared_product, 0, __nv_bfloat16, "bf16", 224, 112, "%112", "%113", "%114")

}  // namespace hopper
