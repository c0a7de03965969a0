// SPDX-License-Identifier: MIT
// hopper_gemm.cu with weights in Q4_K, which never become operands in memory: two warpgroups unpack 64 inputs
// of each output into the ring while two others multiply. Operands are bf16, whose range is that of the
// weights. Rounding x and w to it changes results less than rounding x to 8 bits; with two addends each, less
// than rounding to 16.
//
// 64 inputs of an output are the low and the high halves of 32 bytes; each warpgroup unpacks one of the two.
// What a thread loads is two stages ahead, in registers.
#include "../gpu/weight_blocks.hpp"
#include "hopper_gemm.hpp"

namespace hopper::gemm {

inline constexpr i32 block_bytes = 144;  ///< of 256 inputs

/// Which stage a thread unpacks, or loads for.
template <class Schedule>
struct cursor {
  i32 index, column, row, left;
  i32 product, within;  ///< of addends; of its inputs

  __device__ __forceinline__ cursor(const arguments& a, const Schedule& tiles)
      : index{static_cast<i32>(blockIdx.x)} {
    begin(a, tiles);
  }
  __device__ __forceinline__ void begin(const arguments& a, const Schedule& tiles) {
    if (is_over(tiles)) return;
    const unit now = tiles.at(a, index);
    column = now.column;
    row = now.row;
    left = now.end - now.begin;
    product = now.begin / a.inputs_steps;
    within = now.begin - product * a.inputs_steps;
  }
  __device__ __forceinline__ bool is_over(const Schedule& tiles) const { return index >= tiles.count; }
  __device__ __forceinline__ void advance(const arguments& a, const Schedule& tiles) {
    if (is_over(tiles)) return;
    if (--left > 0) {
      if (++within == a.inputs_steps) {
        within = 0;
        ++product;
      }
      return;
    }
    index += gridDim.x;
    begin(a, tiles);
  }
};

/// What a thread has loaded: a block's header, and 32 bytes of two groups.
struct packed_step {
  uint4 header, first, second;
};

/// Stores the 32 inputs of a group: those of the low (0) or the high (1) halves of the bytes. With
/// `Remainder` what rounding them takes away. `row` swizzles.
template <class T, bool Remainder>
__device__ __forceinline__ void unpack_group(const packed_step& from, i32 step, int half, u32 to, u32 row) {
  const u32 group = 2 * (static_cast<u32>(step) % 4) + half;
  const u32 shift = group % 4 * 8;
  const u32 a = from.header.y >> shift;
  const u32 b = from.header.z >> shift;
  const u32 c = from.header.w >> shift;
  const u32 scale_bits = group < 4 ? a & 63U : (c & 15U) | (a >> 2 & 48U);
  const u32 offset_bits = group < 4 ? b & 63U : (c >> 4 & 15U) | (b >> 2 & 48U);
  const float2 factors = unpack<__half>(from.header.x);
  const float scale = factors.x * static_cast<float>(scale_bits);
  const float offset = -factors.y * static_cast<float>(offset_bits);
#pragma unroll
  for (int eight = 0; eight < 4; ++eight) {
    const uint4& part = eight < 2 ? from.first : from.second;
    const u32 bytes[2]{(eight % 2 == 0 ? part.x : part.z) >> (4 * half) & 0x0F0F0F0FU,
                       (eight % 2 == 0 ? part.y : part.w) >> (4 * half) & 0x0F0F0F0FU};
    u32 words[4];
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const float low = fmaf(sy::byte_less(bytes[pair / 2], pair % 2 * 2, 0.0F), scale, offset);
      const float high = fmaf(sy::byte_less(bytes[pair / 2], pair % 2 * 2 + 1, 0.0F), scale, offset);
      words[pair] = pack<T>(low, high);
      if constexpr (Remainder) {
        const float2 rounded = unpack<T>(words[pair]);
        words[pair] = pack<T>(low - rounded.x, high - rounded.y);
      }
    }
    store_words(to + (((4 * half + eight) ^ (row % 8)) << 4), words);
  }
}

template <class T, int BlockM, int Stages>
struct unpacker {
  static constexpr int BlockN = 128;
  using block_type = multiplier<T, BlockM, BlockN, Stages, 1>;
  using cursor_type = cursor<schedule<BlockM, BlockN>>;

  const block_type& block;
  const unsigned char* w;
  i64 w_row_bytes;

  __device__ __forceinline__ void load(const cursor_type& at, packed_step& to) const {
    if (at.is_over(block.tiles)) return;
    // Behind the last output there is none: what is read instead is not stored.
    const i32 output = min(at.column + static_cast<i32>(threadIdx.x % 128), block.a.out_features - 1);
    const unsigned char* const from = w + output * w_row_bytes + i64{at.within / 4} * block_bytes;
    to.header = __ldg(reinterpret_cast<const uint4*>(from));
    to.first = __ldg(reinterpret_cast<const uint4*>(from + 16 + at.within % 4 * 32));
    to.second = __ldg(reinterpret_cast<const uint4*>(from + 32 + at.within % 4 * 32));
  }

  /// Of one thread: 64 inputs of x.
  __device__ __forceinline__ void copy_x(const tensor_map& x, const cursor_type& at, u32 to, u32 full) const {
    const arguments& a = block.a;
    const u32 made_x = 128 * block_type::rows_in(a.rows, at.row, BlockM);
    arrive_expecting(full, a.x_made != nullptr ? made_x : BlockM * 128);
    if (a.x_made == nullptr) {
      copy_box(to, x, full, at.within * depth, at.row);
    } else {
      const i64 panel = at.within + (at.product != 0 && at.product == a.x_second ? a.inputs_steps : 0);
      copy_bytes(to, a.x_made + (panel * a.rows + at.row) * 128, made_x, full);
    }
  }

  __device__ __forceinline__ void run(const tensor_map& x) const {
    const arguments& a = block.a;
    cursor_type next{a, block.tiles};
    cursor_type at = next;
    packed_step loaded[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      load(next, loaded[i]);
      next.advance(a, block.tiles);
    }
    sy::ptx::wait_for_previous_launch();
    ring<Stages> place;
    const int half = static_cast<int>(threadIdx.x / 128);
    const u32 row = threadIdx.x % 128;
    const auto fill = [&](packed_step& with) {
      if (at.is_over(block.tiles)) return false;
      wait(block.empty(place.stage), place.phase ^ 1);
      const u32 to = block.memory + place.stage * block_type::stage_bytes;
      const u32 full = block.full(place.stage);
      if (threadIdx.x == 0) copy_x(x, at, to, full);
      __syncwarp();
      const u32 to_row = to + block_type::x_bytes + row * 128;
      if (a.w_second != 0 && at.product == a.w_second) {
        unpack_group<T, true>(with, at.within, half, to_row, row);
      } else {
        unpack_group<T, false>(with, at.within, half, to_row, row);
      }
      load(next, with);
      fence_async_proxy();
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(full);
      next.advance(a, block.tiles);
      at.advance(a, block.tiles);
      place.advance();
      return true;
    };
    while (fill(loaded[0]) && fill(loaded[1])) {
    }
  }
};

template <class T, int BlockM, int Stages>
__device__ __forceinline__ void run_q4_k(const tensor_map& x, const tensor_map& out, const arguments& a,
                                         const unsigned char* w, i64 w_row_bytes, bool w_is_constant) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const multiplier<T, BlockM, 128, Stages, 1> block{a, shared_address(shared), 0, schedule<BlockM, 128>{a}};
  if (threadIdx.x == 0) {
    block.init(9);
    prefetch(x);
    prefetch(out);
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x / 128);
  if (group >= 2 || !w_is_constant) sy::ptx::wait_for_previous_launch();
  sy::ptx::allow_next_launch();
  if (group < 2) {
    give_registers<56>();  // 256 * 56 + 256 * 200 = 512 * 128, what the block has
    unpacker<T, BlockM, Stages>{block, w, w_row_bytes}.run(x);
  } else {
    take_registers<200>();
    block.multiply(out, group - 2);
  }
}

}  // namespace hopper::gemm

#define HOPPER_GEMM_Q4_K(NAME, T, BLOCK_M, STAGES)                                                           \
  extern "C" __global__ void __launch_bounds__(512, 1)                                                       \
      NAME(const __grid_constant__ hopper::tensor_map x, const __grid_constant__ hopper::tensor_map out,     \
           const __grid_constant__ hopper::gemm::arguments a, const unsigned char* w, long long w_row_bytes, \
           int w_is_constant) {                                                                              \
    hopper::gemm::run_q4_k<T, BLOCK_M, STAGES>(x, out, a, w, w_row_bytes, w_is_constant != 0);               \
  }
