// SPDX-License-Identifier: MIT
// Hopper's instructions as functions: bulk tensor copies and warpgroup matrix products; gpu/ptx.hpp has what
// other kernels use as well.
// Names, operands and layouts: PTX ISA 8.x, chapters "wgmma", "cp.async.bulk.tensor" and "mbarrier".
#pragma once

#include "../gpu/ptx.hpp"

namespace hopper {

using i32 = int;
using u32 = unsigned;
using i64 = long long;
using u64 = unsigned long long;

/// A CUtensorMap, opaque.
struct alignas(64) tensor_map {
  unsigned char bytes[128];
};

using sy::ptx::arrive;
using sy::ptx::arrive_expecting;
using sy::ptx::exp2_approximate;
using sy::ptx::fence_barrier_init;
using sy::ptx::init_barrier;
using sy::ptx::named_sync;
using sy::ptx::pack;
using sy::ptx::shared_address;
using sy::ptx::unpack;
using sy::ptx::wait;

/// One thread of a converged warp.
__device__ __forceinline__ bool elect_one() {
  u32 chosen;
  asm volatile(
      "{\n.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.b32 %0, 1, 0, p;\n}\n"
      : "=r"(chosen));
  return chosen != 0;
}

// Named barriers of the block.

__device__ __forceinline__ void named_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Bulk tensor copies.

__device__ __forceinline__ void prefetch(const tensor_map& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Sets the extent of one dimension of a map in global memory; 0 is the innermost.
template <int Dimension>
__device__ __forceinline__ void set_extent(tensor_map* map, i32 extent) {
  asm volatile(
      "tensormap.replace.tile.global_dim.global.b1024.b32 [%0], %1, %2;" ::"l"(__cvta_generic_to_global(map)),
      "n"(Dimension), "r"(extent)
      : "memory");
}

/// Lets this thread's copies use a map in global memory that it has written.
__device__ __forceinline__ void publish_map(const tensor_map* map) {
  asm volatile(
      "fence.proxy.tensormap::generic.release.gpu;\n"
      "fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map)
      : "memory");
}

/// A box of a tensor of four dimensions; x is the innermost coordinate. Signals its bytes to the barrier.
__device__ __forceinline__ void copy_box(u32 to, const tensor_map& map, u32 barrier, i32 x, i32 y, i32 z,
                                         i32 w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

/// The same out of shared memory; part of the thread's current bulk group. What lies outside of the tensor is
/// not written.
__device__ __forceinline__ void store_box(const tensor_map& map, u32 from, i32 x, i32 y, i32 z, i32 w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
      "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

/// A row of bytes, a multiple of 16 at an address that is one. Signals its bytes to the barrier.
__device__ __forceinline__ void copy_bytes(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

/// Adds f32 values in shared memory to as many in global memory; part of the thread's current bulk group.
__device__ __forceinline__ void add_floats(float* to, u32 from, u32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
               "r"(from), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void add_four(float* to, float a, float b, float c, float d) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}

__device__ __forceinline__ void commit_bulk_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until all of this thread's bulk groups have read their sources.
__device__ __forceinline__ void wait_bulk_reads() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/// Waits until all of this thread's bulk groups are complete.
__device__ __forceinline__ void wait_bulk_groups() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/// Orders ordinary stores to shared memory before later reads by tensor cores or the copy engine.
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <u32 Registers>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

template <u32 Registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

// Warpgroup matrix products.

__device__ __forceinline__ void product_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void product_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most `Pending` of the committed groups run.
template <int Pending>
__device__ __forceinline__ void product_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// Keeps the compiler from moving uses of registers across this point.
template <int Count>
__device__ __forceinline__ void pin(float (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

template <int Count>
__device__ __forceinline__ void pin(u32 (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

/// A matrix in shared memory, in panels of 128-byte rows with the 128-byte swizzle; a panel's address is a
/// multiple of 1024. `panel_bytes` is the distance between panels, which matters only where they lie along
/// the dimension that the product keeps (values).
__device__ __forceinline__ u64 swizzled_operand(u32 address, u32 panel_bytes) {
  constexpr u64 group_of_rows = 1024 >> 4;
  return (u64{1} << 62) | (group_of_rows << 32) | (u64{panel_bytes >> 4} << 16) | ((address & 0x3FFFF) >> 4);
}

/// Stores four 8 x 8 matrices of 16-bit numbers; lane 8 i + r has the address of row r of matrix i, and
/// register i holds its two numbers of that matrix as a product leaves them.
__device__ __forceinline__ void store_matrices(u32 address, const u32 (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

/// Stores four 8 x 8 matrices of 16-bit numbers transposed; lane 8 i + r has the address of row r of the
/// transposed matrix i, and register i holds its two numbers of that matrix as a product leaves them.
__device__ __forceinline__ void store_transposed(u32 address, const u32* words) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// d, 64 x N, holds for thread t of the warpgroup, with r = 16 (t / 32) + t % 32 / 4 and c = 2 (t % 4):
//   d[4 j + 0], d[4 j + 1]  row r,     columns 8 j + c, 8 j + c + 1
//   d[4 j + 2], d[4 j + 3]  row r + 8, the same columns

/// d = a b^T, or d += a b^T: a is 64 x 16 and b is N x 16, both in shared memory with the summed dimension
/// innermost.
template <class T, int N>
struct shared_product;

/// d = a b, or d += a b: a is 64 x 16 in shared memory with the summed dimension innermost, b is 16 x N in
/// shared memory with N innermost.
template <class T, int N>
struct mixed_product;

/// d = a b^T, or d += a b^T: a is 64 x 16 in registers, b is N x 16 in shared memory with the summed
/// dimension innermost.
template <class T, int N>
struct held_product;

/// d += a b: a is 64 x 16 in registers, b is 16 x N in shared memory with N innermost.
template <class T, int N>
struct register_product;

#define HOPPER_OUT_8(i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define HOPPER_OUT_16 HOPPER_OUT_8(0), HOPPER_OUT_8(8)
#define HOPPER_OUT_24 HOPPER_OUT_16, HOPPER_OUT_8(16)
#define HOPPER_OUT_32 HOPPER_OUT_16, HOPPER_OUT_8(16), HOPPER_OUT_8(24)
#define HOPPER_OUT_40 HOPPER_OUT_32, HOPPER_OUT_8(32)
#define HOPPER_OUT_48 HOPPER_OUT_40, HOPPER_OUT_8(40)
#define HOPPER_OUT_56 HOPPER_OUT_48, HOPPER_OUT_8(48)
#define HOPPER_OUT_64 HOPPER_OUT_56, HOPPER_OUT_8(56)
#define HOPPER_OUT_72 HOPPER_OUT_64, HOPPER_OUT_8(64)
#define HOPPER_OUT_80 HOPPER_OUT_72, HOPPER_OUT_8(72)
#define HOPPER_OUT_88 HOPPER_OUT_80, HOPPER_OUT_8(80)
#define HOPPER_OUT_96 HOPPER_OUT_88, HOPPER_OUT_8(88)
#define HOPPER_OUT_128 \
  HOPPER_OUT_96, HOPPER_OUT_8(96), HOPPER_OUT_8(104), HOPPER_OUT_8(112), HOPPER_OUT_8(120)

#define HOPPER_NAMES_16      \
  "%0,%1,%2,%3,%4,%5,%6,%7," \
  "%8,%9,%10,%11,%12,%13,%14,%15"
#define HOPPER_NAMES_24 HOPPER_NAMES_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define HOPPER_NAMES_32              \
  "%0,%1,%2,%3,%4,%5,%6,%7,"         \
  "%8,%9,%10,%11,%12,%13,%14,%15,"   \
  "%16,%17,%18,%19,%20,%21,%22,%23," \
  "%24,%25,%26,%27,%28,%29,%30,%31"
#define HOPPER_NAMES_40 HOPPER_NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define HOPPER_NAMES_48 HOPPER_NAMES_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define HOPPER_NAMES_56 HOPPER_NAMES_48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define HOPPER_NAMES_64 HOPPER_NAMES_56 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define HOPPER_NAMES_72 HOPPER_NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define HOPPER_NAMES_80 HOPPER_NAMES_72 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define HOPPER_NAMES_88 HOPPER_NAMES_80 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define HOPPER_NAMES_96 HOPPER_NAMES_88 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define HOPPER_NAMES_128                     \
  HOPPER_NAMES_96                            \
  ",%96,%97,%98,%99,%100,%101,%102,%103"     \
  ",%104,%105,%106,%107,%108,%109,%110,%111" \
  ",%112,%113,%114,%115,%116,%117,%118,%119" \
  ",%120,%121,%122,%123,%124,%125,%126,%127"

#define HOPPER_SHARED_PRODUCT(STRUCT, ROWS, T, TYPE, N, COUNT, A, B, KEEP)                                   \
  template <>                                                                                                \
  struct STRUCT<T, N> {                                                                                      \
    __device__ __forceinline__ static void run(float (&d)[COUNT], u64 a, u64 b, bool keep) {                 \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP                                            \
                   ", 0;\n"                                                                                  \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" HOPPER_NAMES_##COUNT \
                   "}, " A ", " B ", keep, 1, 1, 0, " #ROWS ";\n}\n"                                         \
                   : HOPPER_OUT_##COUNT                                                                      \
                   : "l"(a), "l"(b), "r"(static_cast<i32>(keep)));                                           \
    }                                                                                                        \
  };

#define HOPPER_REGISTER_PRODUCT(STRUCT, ROWS, T, TYPE, N, COUNT, A0, A1, A2, A3, B, KEEP)                    \
  template <>                                                                                                \
  struct STRUCT<T, N> {                                                                                      \
    __device__ __forceinline__ static void run(float (&d)[COUNT], const u32* a, u64 b, bool keep = true) {   \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP                                            \
                   ", 0;\n"                                                                                  \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" HOPPER_NAMES_##COUNT \
                   "}, {" A0 ", " A1 ", " A2 ", " A3 "}, " B ", keep, 1, 1, " #ROWS ";\n}\n"                 \
                   : HOPPER_OUT_##COUNT                                                                      \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<i32>(keep)));       \
    }                                                                                                        \
  };

#define HOPPER_BOTH(T, TYPE, N, COUNT, I0, I1, I2, I3, I4, I5)            \
  HOPPER_SHARED_PRODUCT(shared_product, 0, T, TYPE, N, COUNT, I0, I1, I2) \
  HOPPER_REGISTER_PRODUCT(register_product, 1, T, TYPE, N, COUNT, I0, I1, I2, I3, I4, I5)

#define HOPPER_PRODUCTS(T, TYPE)                                                                          \
  HOPPER_BOTH(T, TYPE, 64, 32, "%32", "%33", "%34", "%35", "%36", "%37")                                  \
  HOPPER_BOTH(T, TYPE, 80, 40, "%40", "%41", "%42", "%43", "%44", "%45")                                  \
  HOPPER_BOTH(T, TYPE, 96, 48, "%48", "%49", "%50", "%51", "%52", "%53")                                  \
  HOPPER_BOTH(T, TYPE, 112, 56, "%56", "%57", "%58", "%59", "%60", "%61")                                 \
  HOPPER_BOTH(T, TYPE, 128, 64, "%64", "%65", "%66", "%67", "%68", "%69")                                 \
  HOPPER_BOTH(T, TYPE, 144, 72, "%72", "%73", "%74", "%75", "%76", "%77")                                 \
  HOPPER_BOTH(T, TYPE, 160, 80, "%80", "%81", "%82", "%83", "%84", "%85")                                 \
  HOPPER_BOTH(T, TYPE, 176, 88, "%88", "%89", "%90", "%91", "%92", "%93")                                 \
  HOPPER_BOTH(T, TYPE, 192, 96, "%96", "%97", "%98", "%99", "%100", "%101")                               \
  HOPPER_BOTH(T, TYPE, 256, 128, "%128", "%129", "%130", "%131", "%132", "%133")                          \
  HOPPER_REGISTER_PRODUCT(register_product, 1, T, TYPE, 32, 16, "%16", "%17", "%18", "%19", "%20", "%21") \
  HOPPER_REGISTER_PRODUCT(register_product, 1, T, TYPE, 48, 24, "%24", "%25", "%26", "%27", "%28", "%29") \
  HOPPER_REGISTER_PRODUCT(held_product, 0, T, TYPE, 64, 32, "%32", "%33", "%34", "%35", "%36", "%37")     \
  HOPPER_SHARED_PRODUCT(shared_product, 0, T, TYPE, 32, 16, "%16", "%17", "%18")                          \
  HOPPER_SHARED_PRODUCT(mixed_product, 1, T, TYPE, 32, 16, "%16", "%17", "%18")                           \
  HOPPER_SHARED_PRODUCT(mixed_product, 1, T, TYPE, 48, 24, "%24", "%25", "%26")                           \
  HOPPER_SHARED_PRODUCT(mixed_product, 1, T, TYPE, 64, 32, "%32", "%33", "%34")                           \
  HOPPER_SHARED_PRODUCT(mixed_product, 1, T, TYPE, 96, 48, "%48", "%49", "%50")                           \
  HOPPER_SHARED_PRODUCT(mixed_product, 1, T, TYPE, 128, 64, "%64", "%65", "%66")

HOPPER_PRODUCTS(__half, "f16")
HOPPER_PRODUCTS(__nv_bfloat16, "bf16")

}  // namespace hopper
