// SPDX-License-Identifier: MIT
// hopper_gemm.cu with quantised weights, which never become operands in memory: a warpgroup unpacks 64 inputs
// of each output into the ring while two others multiply. Operands are bf16, whose range is that of the
// weights; rounding x and w to it changes results less than rounding x to 8 bits.
//
// A thread unpacks rows of w for itself. What it loads is two stages ahead, in registers.
#include "../gpu/weight_blocks.hpp"
#include "hopper_gemm.hpp"

namespace hopper::gemm {

/// The blocks of `depth` inputs of a row.
template <sy::weight_format Format>
struct packed_depth;

/// A quarter of a block: two groups of 32, low and high halves of 32 bytes.
template <>
struct packed_depth<sy::weight_format::q4_k> {
  uint4 header, first, second;

  __device__ __forceinline__ void load(const unsigned char* row, i32 step) {
    const unsigned char* const block = row + i64{step / 4} * 144;
    header = __ldg(reinterpret_cast<const uint4*>(block));
    first = __ldg(reinterpret_cast<const uint4*>(block + 16 + step % 4 * 32));
    second = __ldg(reinterpret_cast<const uint4*>(block + 32 + step % 4 * 32));
  }

  /// Into a row of 128 bytes whose eights are swizzled by `row`.
  template <class T>
  __device__ __forceinline__ void unpack(i32 step, u32 to, u32 row) const {
    const float d = __half2float(__ushort_as_half(static_cast<unsigned short>(header.x)));
    const float least = __half2float(__ushort_as_half(static_cast<unsigned short>(header.x >> 16)));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const u32 group = 2 * (step % 4) + half;
      const u32 shift = group % 4 * 8;
      const u32 a = header.y >> shift;
      const u32 b = header.z >> shift;
      const u32 c = header.w >> shift;
      const u32 scale_bits = group < 4 ? a & 63U : (c & 15U) | (a >> 2 & 48U);
      const u32 offset_bits = group < 4 ? b & 63U : (c >> 4 & 15U) | (b >> 2 & 48U);
      const float scale = d * static_cast<float>(scale_bits);
      const float offset = -least * static_cast<float>(offset_bits);
#pragma unroll
      for (int eight = 0; eight < 4; ++eight) {
        const uint4& part = eight < 2 ? first : second;
        const u32 bytes[2]{(eight % 2 == 0 ? part.x : part.z) >> (4 * half) & 0x0F0F0F0FU,
                           (eight % 2 == 0 ? part.y : part.w) >> (4 * half) & 0x0F0F0F0FU};
        u32 words[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
          const u32 from = bytes[pair / 2];
          words[pair] = pack<T>(fmaf(sy::byte_less(from, pair % 2 * 2, 0.0F), scale, offset),
                                fmaf(sy::byte_less(from, pair % 2 * 2 + 1, 0.0F), scale, offset));
        }
        store_words(to + (((4 * half + eight) ^ (row % 8)) << 4), words);
      }
    }
  }
};

/// Which stage a thread loads for.
template <class Schedule>
struct cursor {
  i32 index;
  unit now;
  i32 step;

  __device__ __forceinline__ cursor(const arguments& a, const Schedule& tiles)
      : index{static_cast<i32>(blockIdx.x)}, now{tiles.at(a, min(index, tiles.count - 1))}, step{now.begin} {}
  __device__ __forceinline__ bool is_over(const Schedule& tiles) const { return index >= tiles.count; }
  __device__ __forceinline__ void advance(const arguments& a, const Schedule& tiles) {
    if (++step < now.end) return;
    index += gridDim.x;
    if (is_over(tiles)) return;
    now = tiles.at(a, index);
    step = now.begin;
  }
};

template <class T, sy::weight_format Format, int BlockM, int BlockN, int Stages>
struct unpacker {
  using block_type = multiplier<T, BlockM, BlockN, Stages, 1>;
  using schedule_type = schedule<BlockM, BlockN>;
  static constexpr int rows = BlockN / 128;  ///< of a thread

  const block_type& block;
  const unsigned char* w;
  i64 w_row_bytes;

  struct ahead {
    packed_depth<Format> row[rows];
  };

  __device__ __forceinline__ void load(const cursor<schedule_type>& at, ahead& to) const {
    if (at.is_over(block.tiles)) return;
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      // Behind the last output there is none: what is read instead is not stored.
      const i32 output =
          min(at.now.column + 128 * i + static_cast<i32>(threadIdx.x), block.a.out_features - 1);
      to.row[i].load(w + output * w_row_bytes, at.step);
    }
  }

  __device__ __forceinline__ void run(const tensor_map& x) const {
    const arguments& a = block.a;
    cursor<schedule_type> next{a, block.tiles};
    cursor<schedule_type> at = next;
    ahead loaded[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      load(next, loaded[i]);
      next.advance(a, block.tiles);
    }
    sy::ptx::wait_for_previous_launch();
    ring<Stages> place;
    const auto fill = [&](ahead& with) {
      if (at.is_over(block.tiles)) return false;
      wait(block.empty(place.stage), place.phase ^ 1);
      const u32 to = block.memory + place.stage * block_type::stage_bytes;
      const u32 full = block.full(place.stage);
      if (threadIdx.x == 0) {
        const u32 made_x = 128 * block_type::rows_in(a.rows, at.now.row, BlockM);
        arrive_expecting(full, a.x_made != nullptr ? made_x : BlockM * 128);
        if (a.x_made == nullptr) {
          copy_box(to, x, full, at.step * depth, at.now.row);
        } else {
          copy_bytes(to, a.x_made + (i64{at.step} * a.rows + at.now.row) * 128, made_x, full);
        }
      }
      __syncwarp();
#pragma unroll
      for (int row = 0; row < rows; ++row) {
        with.row[row].template unpack<T>(at.step, to + block_type::x_bytes + (128 * row + threadIdx.x) * 128,
                                         threadIdx.x);
      }
      fence_async_proxy();
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(full);
      load(next, with);
      next.advance(a, block.tiles);
      at.advance(a, block.tiles);
      place.advance();
      return true;
    };
    while (fill(loaded[0]) && fill(loaded[1])) {
    }
  }
};

template <class T, sy::weight_format Format, int BlockM, int BlockN, int Stages>
__device__ __forceinline__ void run_blocks(const tensor_map& x, const tensor_map& out, const arguments& a,
                                           const unsigned char* w, i64 w_row_bytes, bool w_is_constant) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const multiplier<T, BlockM, BlockN, Stages, 1> block{a, shared_address(shared), 0,
                                                       schedule<BlockM, BlockN>{a}};
  if (threadIdx.x == 0) {
    block.template init<5>();
    prefetch(x);
    prefetch(out);
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x / 128);
  if (group != 0 || !w_is_constant) sy::ptx::wait_for_previous_launch();
  sy::ptx::allow_next_launch();
  if (group == 0) {
    give_registers<96>();
    unpacker<T, Format, BlockM, BlockN, Stages>{block, w, w_row_bytes}.run(x);
  } else {
    take_registers<208>();
    block.multiply(out, group - 1);
  }
}

}  // namespace hopper::gemm

#define HOPPER_GEMM_BLOCKS(NAME, T, FORMAT, BLOCK_M, BLOCK_N, STAGES)                                        \
  extern "C" __global__ void __launch_bounds__(384, 1)                                                       \
      NAME(const __grid_constant__ hopper::tensor_map x, const __grid_constant__ hopper::tensor_map out,     \
           const __grid_constant__ hopper::gemm::arguments a, const unsigned char* w, long long w_row_bytes, \
           int w_is_constant) {                                                                              \
    hopper::gemm::run_blocks<T, sy::weight_format::FORMAT, BLOCK_M, BLOCK_N, STAGES>(                        \
        x, out, a, w, w_row_bytes, w_is_constant != 0);                                                      \
  }
