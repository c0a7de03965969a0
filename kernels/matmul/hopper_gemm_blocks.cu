// SPDX-License-Identifier: MIT
// hopper_gemm.cu with quantised weights, which never become operands in memory: a warpgroup unpacks 64 inputs
// of each output into the ring while two others multiply. Operands are bf16, whose range is that of the
// weights; rounding x and w to it changes results less than rounding x to 8 bits.
//
// A thread unpacks rows of w for itself. Two blocks of 32 are brought to shared memory by the copy engine,
// which minds no alignment; what a thread loads itself is two stages ahead, in registers.
#include "hopper_gemm.hpp"
#include "hopper_packed.hpp"

namespace hopper::gemm {

/// Which stage a thread loads for.
template <class Schedule>
struct cursor {
  i32 index;
  unit now;
  i32 step;

  __device__ __forceinline__ cursor(const arguments& a, const Schedule& tiles)
      : index{static_cast<i32>(blockIdx.x)}, now{tiles.at(a, min(index, tiles.count - 1))}, step{now.begin} {}
  /// Which product of addends, and which step of its inputs.
  __device__ __forceinline__ i32 product(const arguments& a) const { return step / a.inputs_steps; }
  __device__ __forceinline__ i32 within(const arguments& a) const { return step % a.inputs_steps; }
  __device__ __forceinline__ bool is_over(const Schedule& tiles) const { return index >= tiles.count; }
  __device__ __forceinline__ void advance(const arguments& a, const Schedule& tiles) {
    if (++step < now.end) return;
    index += gridDim.x;
    if (is_over(tiles)) return;
    now = tiles.at(a, index);
    step = now.begin;
  }
};

/// Stages that packed weights are ahead in shared memory.
inline constexpr int packed_stages = 4;

template <class T, weight_format Format, int BlockM, int BlockN, int Stages>
struct unpacker {
  using block_type = multiplier<T, BlockM, BlockN, Stages, 1>;
  using schedule_type = schedule<BlockM, BlockN>;
  using packed = packed_depth<Format>;
  static constexpr int rows = BlockN / 128;  ///< of a thread
  static constexpr bool is_staged = packed::staged_bytes != 0;
  static constexpr u32 packed_at = block_type::barriers_at + 16 * Stages + 16 * packed_stages;
  static constexpr u32 packed_bytes = BlockN * packed::staged_bytes;
  static_assert(packed_at % 16 == 0);

  const block_type& block;
  const unsigned char* w;
  i64 w_row_bytes;

  struct ahead {
    packed row[rows];
  };

  __device__ __forceinline__ u32 packed_memory(int stage) const {
    return block.memory + (packed_at + 127) / 128 * 128 + stage * packed_bytes;
  }
  __device__ __forceinline__ u32 packed_full(int stage) const {
    return block.memory + block_type::barriers_at + 16 * Stages + 16 * stage;
  }
  __device__ __forceinline__ u32 packed_empty(int stage) const { return packed_full(stage) + 8; }

  __device__ __forceinline__ void init() const {
    for (int stage = 0; stage < packed_stages; ++stage) {
      init_barrier(packed_full(stage), 1);
      init_barrier(packed_empty(stage), 4);  // warps
    }
  }

  __device__ __forceinline__ void load(const cursor<schedule_type>& at, ahead& to) const {
    if (at.is_over(block.tiles)) return;
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      // Behind the last output there is none: what is read instead is not stored.
      const i32 output =
          min(at.now.column + 128 * i + static_cast<i32>(threadIdx.x), block.a.out_features - 1);
      to.row[i].load(w + output * w_row_bytes, at.within(block.a));
    }
  }

  /// Of thread 0: the packed weights of a step.
  __device__ __forceinline__ void stage(const tensor_map& w_map, const cursor<schedule_type>& at,
                                        int to) const {
    if (at.is_over(block.tiles)) return;
    arrive_expecting(packed_full(to), packed_bytes);
    copy_box(packed_memory(to), w_map, packed_full(to),
             at.within(block.a) * static_cast<i32>(packed::step_bytes / 2), at.now.column);
  }

  /// Of thread 0: 64 inputs of x.
  __device__ __forceinline__ void copy_x(const tensor_map& x, const cursor<schedule_type>& at, u32 to,
                                         u32 full) const {
    const arguments& a = block.a;
    const u32 made_x = 128 * block_type::rows_in(a.rows, at.now.row, BlockM);
    arrive_expecting(full, a.x_made != nullptr ? made_x : BlockM * 128);
    if (a.x_made == nullptr) {
      copy_box(to, x, full, at.within(a) * depth, at.now.row);
    } else {
      const i32 product = at.product(a);
      const i64 panel = at.within(a) + (product != 0 && product == a.x_second ? a.inputs_steps : 0);
      copy_bytes(to, a.x_made + (panel * a.rows + at.now.row) * 128, made_x, full);
    }
  }

  __device__ __forceinline__ void run(const tensor_map& x, const tensor_map& w_map) const {
    const arguments& a = block.a;
    cursor<schedule_type> next{a, block.tiles};
    cursor<schedule_type> at = next;
    ahead loaded[2];
    ring<packed_stages> from;  // packed weights that are unpacked next
    ring<packed_stages> into;  // the place of those that are copied next
    if constexpr (is_staged) {
      for (int i = 0; i < packed_stages - 1; ++i, into.advance()) {
        if (threadIdx.x == 0) stage(w_map, next, into.stage);
        next.advance(a, block.tiles);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        load(next, loaded[i]);
        next.advance(a, block.tiles);
      }
    }
    sy::ptx::wait_for_previous_launch();
    ring<Stages> place;
    const auto fill = [&](ahead& with) {
      if (at.is_over(block.tiles)) return false;
      if constexpr (is_staged) {
        if (threadIdx.x == 0) {
          wait(packed_empty(into.stage), into.phase ^ 1);
          stage(w_map, next, into.stage);
        }
        __syncwarp();
        into.advance();
        wait(packed_full(from.stage), from.phase);
#pragma unroll
        for (int row = 0; row < rows; ++row)
          with.row[row].load(packed_memory(from.stage) + (128 * row + threadIdx.x) * packed::staged_bytes);
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive(packed_empty(from.stage));
        from.advance();
      }
      wait(block.empty(place.stage), place.phase ^ 1);
      const u32 to = block.memory + place.stage * block_type::stage_bytes;
      const u32 full = block.full(place.stage);
      if (threadIdx.x == 0) copy_x(x, at, to, full);
      __syncwarp();
      const i32 step = at.within(a);
      const bool is_remainder = a.w_second != 0 && at.product(a) == a.w_second;
#pragma unroll
      for (int row = 0; row < rows; ++row) {
        const u32 to_row = to + block_type::x_bytes + (128 * row + threadIdx.x) * 128;
        with.row[row].template unpack<T>(step, {to_row, threadIdx.x, is_remainder});
      }
      fence_async_proxy();
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(full);
      if constexpr (!is_staged) load(next, with);
      next.advance(a, block.tiles);
      at.advance(a, block.tiles);
      place.advance();
      return true;
    };
    while (fill(loaded[0]) && fill(loaded[1])) {
    }
  }
};

template <class T, weight_format Format, int BlockM, int BlockN, int Stages>
__device__ __forceinline__ void run_blocks(const tensor_map& x, const tensor_map& w_map,
                                           const tensor_map& out, const arguments& a, const unsigned char* w,
                                           i64 w_row_bytes, bool w_is_constant) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const multiplier<T, BlockM, BlockN, Stages, 1> block{a, shared_address(shared), 0,
                                                       schedule<BlockM, BlockN>{a}};
  const unpacker<T, Format, BlockM, BlockN, Stages> weights{block, w, w_row_bytes};
  if (threadIdx.x == 0) {
    weights.init();
    block.template init<5>();
    prefetch(x);
    prefetch(w_map);
    prefetch(out);
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x / 128);
  if (group != 0 || !w_is_constant) sy::ptx::wait_for_previous_launch();
  sy::ptx::allow_next_launch();
  if (group == 0) {
    give_registers<88>();  // 128 * 88 + 256 * 208 = 384 * 168, what the block has
    weights.run(x, w_map);
  } else {
    take_registers<208>();
    block.multiply(out, group - 1);
  }
}

}  // namespace hopper::gemm

#define HOPPER_GEMM_BLOCKS(NAME, T, FORMAT, BLOCK_M, BLOCK_N, STAGES)                                    \
  extern "C" __global__ void __launch_bounds__(384, 1) NAME(                                             \
      const __grid_constant__ hopper::tensor_map x, const __grid_constant__ hopper::tensor_map w_map,    \
      const __grid_constant__ hopper::tensor_map out, const __grid_constant__ hopper::gemm::arguments a, \
      const unsigned char* w, long long w_row_bytes, int w_is_constant) {                                \
    hopper::gemm::run_blocks<T, sy::weight_format::FORMAT, BLOCK_M, BLOCK_N, STAGES>(                    \
        x, w_map, out, a, w, w_row_bytes, w_is_constant != 0);                                           \
  }
