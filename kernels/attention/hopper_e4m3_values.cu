// SPDX-License-Identifier: MIT
// Attention forward on Hopper in e4m3: values as its products read them. A product of e4m3 numbers wants both
// factors with the summed dimension innermost, which for the values is the keys'.
//
// The result is [batch, heads_kv, keys / 16, dim, 16]: 16 bytes are one column of 16 keys, in the order in
// which a thread holds weights of them: place 4 q + i has key 8 (i / 2) + 2 q + i % 2. Keys behind a sequence
// are zeros.
#include "hopper_parts.hpp"

namespace hopper {

struct turned_values {
  const unsigned char* v;
  unsigned char* to;
  const i32* cu_seqlens_k;  ///< null: none
  const i32* seqused_k;     ///< null: all
  i64 stride_batch, stride_head, stride_token;
  i64 keys_stride;  ///< of each head in the result, a multiple of 32
  i32 batch, heads_kv, seqlen_k;
};

inline constexpr int turned_keys = 32;  ///< of a block of threads

template <int Dim>
__device__ __forceinline__ void turn_values(const turned_values& p) {
  constexpr int row_bytes = Dim + 16;
  constexpr int pieces = Dim / 16;
  __shared__ __align__(16) unsigned char rows[turned_keys * row_bytes];
  const i32 blocks = static_cast<i32>(p.keys_stride / turned_keys);
  const i32 item = static_cast<i32>(blockIdx.x) / blocks;
  const i32 first = (static_cast<i32>(blockIdx.x) - item * blocks) * turned_keys;
  const i32 entry = item / p.heads_kv;
  const i32 head = item - entry * p.heads_kv;
  i32 keys = p.seqlen_k;
  i64 token = 0;
  i64 batch = entry;
  if (p.cu_seqlens_k != nullptr) {
    token = __ldg(p.cu_seqlens_k + entry);
    keys = __ldg(p.cu_seqlens_k + entry + 1) - static_cast<i32>(token);
    batch = 0;
  }
  if (p.seqused_k != nullptr) keys = __ldg(p.seqused_k + entry);
  sy::ptx::allow_next_launch();
  const unsigned char* const from = p.v + batch * p.stride_batch + head * p.stride_head;
  for (int i = static_cast<int>(threadIdx.x); i < turned_keys * pieces; i += static_cast<int>(blockDim.x)) {
    const int key = i / pieces;
    const int piece = i - key * pieces;
    uint4 word = make_uint4(0, 0, 0, 0);
    if (first + key < keys) {
      word =
          __ldg(reinterpret_cast<const uint4*>(from + (token + first + key) * p.stride_token + 16 * piece));
    }
    *reinterpret_cast<uint4*>(rows + key * row_bytes + 16 * piece) = word;
  }
  __syncthreads();
  unsigned char* const to = p.to + (static_cast<i64>(item) * p.keys_stride + first) * Dim;
  for (int i = static_cast<int>(threadIdx.x); i < turned_keys / 16 * Dim; i += static_cast<int>(blockDim.x)) {
    const unsigned char* const column = rows + i / Dim * 16 * row_bytes + i % Dim;
    u32 words[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const auto at = [&](int key) { return static_cast<u32>(column[key * row_bytes]); };
      words[q] = at(2 * q) | at(2 * q + 1) << 8 | at(8 + 2 * q) << 16 | at(9 + 2 * q) << 24;
    }
    *reinterpret_cast<uint4*>(to + 16 * i) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

}  // namespace hopper

#define TURN_VALUES(name, dim)                                                            \
  extern "C" __global__ void __launch_bounds__(256) name(const hopper::turned_values p) { \
    hopper::turn_values<dim>(p);                                                          \
  }
