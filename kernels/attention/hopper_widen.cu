// SPDX-License-Identifier: MIT
// Attention forward on Hopper over keys and values in e4m3: the launch before, which makes copies of them in
// the queries' type for `term::widened` of hopper_forward.cu. Exact: scales stay with the scores and results.
//
// A block of threads makes as many rows of the keys, or of the values, as its threads have loads under way at
// once. The rows' places come first, a thread each, since what a sequence and its pages are takes several
// reads of memory, one after the other. The last sequence comes first: the launch behind starts with the
// first, which is then still in the L2 cache.
#include "hopper_e4m3_numbers.hpp"
#include "hopper_widen_rows.hpp"

namespace hopper {

/// A piece of a row that is not read again, of zeros where there is none. Without a branch, so that a
/// thread's loads go out one behind the other.
__device__ __forceinline__ uint2 load_once(const unsigned char* row, i32 piece) {
  uint2 out;
  asm volatile(
      "{\n.reg .pred there;\n"
      "setp.ne.u64 there, %2, 0;\n"
      "mov.b32 %0, 0;\n"
      "mov.b32 %1, 0;\n"
      "@there ld.global.cs.v2.b32 {%0, %1}, [%3];\n}\n"
      : "=&r"(out.x), "=&r"(out.y)
      : "l"(row), "l"(row + 8 * piece));
  return out;
}

template <class T>
__device__ __forceinline__ void widen_rows(const widening& p) {
  __shared__ const unsigned char* from[widening_threads];  // null: zeros
  __shared__ i32 to[widening_threads];
  // Blocks of the launch behind take the places of those that leave, and wait there for the rest.
  sy::ptx::allow_next_launch();
  const auto thread = static_cast<i32>(threadIdx.x);
  const bool values = blockIdx.y != 0;
  if (p.tile_counter != nullptr && blockIdx.x + blockIdx.y + blockIdx.z + threadIdx.x == 0)
    *p.tile_counter = 0;
  const i32 rows = rows_of_block(p);
  const i32 first = static_cast<i32>(blockIdx.x) * rows;
  const widened_keys keys = keys_of_entry(p, p.batch - 1 - static_cast<i32>(blockIdx.z));
  if (first >= keys.end * p.heads_kv || first + rows <= keys.begin * p.heads_kv) return;

  if (thread < rows) {
    const widened_row found = find_row(p, keys, values ? p.v_strides : p.k_strides, first + thread);
    from[thread] = found.from < 0 ? nullptr : (values ? p.v : p.k) + found.from;
    to[thread] = found.to;
  }
  __syncthreads();

  const i32 row = thread * p.reciprocal >> 16;
  const i32 piece = thread - row * p.pieces;
  if (row >= p.rows_at_once) return;
  const unsigned char* at[widening_loads];
  uint2 bytes[widening_loads];
#pragma unroll
  for (i32 j = 0; j < widening_loads; ++j) at[j] = from[row + j * p.rows_at_once];
#pragma unroll
  for (i32 j = 0; j < widening_loads; ++j) bytes[j] = load_once(at[j], piece);
  auto* const copy = static_cast<uint4*>(values ? p.values : p.keys);
#pragma unroll
  for (i32 j = 0; j < widening_loads; ++j) {
    const i32 target = to[row + j * p.rows_at_once];
    if (target < 0) continue;
    u32 words[4];
    convert(bytes[j], words, T{});
    copy[place_of(p, target, piece)] = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

}  // namespace hopper

#define WIDEN_KEYS(name, T)                                              \
  extern "C" __global__ void __launch_bounds__(hopper::widening_threads) \
      name(const __grid_constant__ hopper::widening p) {                 \
    hopper::widen_rows<T>(p);                                            \
  }
