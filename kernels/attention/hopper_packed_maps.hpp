// SPDX-License-Identifier: MIT
// Tensor maps of packed tensors that end where the last sequence ends.
//
// The host cannot know that place without waiting for the device, so its maps claim batch * longest rows. A
// copy of a last tile would read rows behind the tensor, which need not be mapped. A block of threads
// therefore keeps copies of the maps in memory and sets their number of rows.
#pragma once

#include "hopper_backward_tiles.hpp"

namespace hopper {

/// Makes `map`, in global memory, a copy of `claimed` that has `rows` tokens; negative: as many as that. The
/// thread may then copy with it.
__device__ __forceinline__ void make_map(tensor_map* map, const tensor_map& claimed, i32 rows) {
  const auto* const from = reinterpret_cast<const uint4*>(&claimed);
  auto* const to = reinterpret_cast<uint4*>(map);
#pragma unroll 1
  for (int i = 0; i < static_cast<int>(sizeof(tensor_map) / sizeof(uint4)); ++i) to[i] = from[i];
  if (rows >= 0) set_extent<1>(map, max(rows, 1));
  publish_map(map);
}

/// produce_tiles() with maps that suit the call. Where sequences are packed it is compiled a second time:
/// with addresses that are chosen at run time, calls of dense tensors lost 6 % at head dim 128.
template <class Shape>
__device__ __forceinline__ void produce_all_tiles(const tensor_map& q_map, const tensor_map& k_map,
                                                  const tensor_map& v_map, const tensor_map& dout_map,
                                                  const backward_problem& p, backward_barriers<Shape> bars,
                                                  unsigned char* memory) {
  if (!(p.has & (has_cu_q | has_cu_k))) {
    produce_tiles<Shape>(q_map, k_map, v_map, dout_map, p, bars, memory);
    return;
  }
  auto* const maps = static_cast<tensor_map*>(p.packed_maps) + 4 * blockIdx.x;
  const i32 queries = p.has & has_cu_q ? __ldg(p.cu_seqlens_q + p.batch) : -1;
  const i32 keys = p.has & has_cu_k ? __ldg(p.cu_seqlens_k + p.batch) : -1;
  make_map(maps, q_map, queries);
  make_map(maps + 1, k_map, keys);
  make_map(maps + 2, v_map, keys);
  make_map(maps + 3, dout_map, queries);
  produce_tiles<Shape>(maps[0], maps[1], maps[2], maps[3], p, bars, memory);
}

}  // namespace hopper
