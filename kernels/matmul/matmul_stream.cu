// SPDX-License-Identifier: MIT
// A linear layer for few rows, at the speed of the memory that holds the weights, for Hopper. Semantics:
// operators/matmul_quantized.hpp.
//
// Weights are the wide side of an m16n8k16, 16 outputs a warp, rows of x the narrow one. `Groups` groups of
// `Warps` warps share the inputs of a tile of 16 * Warps outputs among them, and each has a ring of `Stages`
// buffers, which it fills with cp.async. The ring goes on from tile to tile, so that copies never stop.
//
//   matmul_stream   makes operands of x itself and keeps them in shared memory: one row, or a few
//   matmul_ring     has them made by matmul_operands before, and copies them with the weights
//
// Where weights are constant the first copies start before the kernel launched ahead has ended: its result is
// x, and weights are nearly all that is read.
//
// What was tried: bulk copies of single rows are issued one lane after the other, which took longer than the
// products; copies of four lanes a row reach 3.6 TB/s, those of a warp that lie side by side 4.3.
#include "row_operands.hpp"
#include "weight_fragments.hpp"

namespace sy::stream {

struct arguments {
  const char* x;  ///< [rows, in_features] of Number
  const char* w;
  const float* bias;
  char* out;
  const char* operands;  ///< of matmul_operands
  i64 rows, in_features, out_features;
  i64 x_stride_row, out_stride_row, w_row_bytes;
  i32 out_dtype;  ///< as switchyard::dtype: 0 f16, 1 bf16, 2 f32
  i32 w_is_constant;
};

__device__ __forceinline__ void store(const arguments& a, i64 index, float value) {
  if (a.out_dtype == 2) {
    reinterpret_cast<float*>(a.out)[index] = value;
  } else if (a.out_dtype == 0) {
    reinterpret_cast<f16*>(a.out)[index] = __float2half_rn(value);
  } else {
    reinterpret_cast<bf16*>(a.out)[index] = __float2bfloat16_rn(value);
  }
}

/// A thread's copy of 16 bytes into shared memory.
__device__ __forceinline__ void copy_piece(u32 to, const void* from, u64 policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "l"(policy)
               : "memory");
}

/// Where operands come from: made by the block itself, or prepared and copied a chunk at a time.
enum class rows_mode { made, ring };

/// Tiles: of eight rows. Chunk: inputs of a stage. WPitch: bytes from output to output there.
template <format Format, class Number, rows_mode Mode, int Warps, int Groups, int Stages, int Tiles,
          int Chunk, int WPitch>
struct pipeline {
  static constexpr int threads = 32 * Warps * Groups;
  static constexpr int outputs = 16 * Warps;
  static constexpr int most_rows = 8 * Tiles;
  static constexpr bool stays = Mode != rows_mode::ring;
  static constexpr bool has_sums = !is_plain<Format>;
  static constexpr int piece_bytes = 16;  ///< of one copy of weights
  static constexpr int chunk_bytes = Chunk / block_elements<Format> * block_bytes<Format>;
  static constexpr bool is_shifted = chunk_bytes % piece_bytes != 0;
  /// Bytes before a chunk, and those of the words that its last two bytes are read with; chunks of mxfp4
  /// begin at multiples of eight bytes, and end with a word.
  static constexpr int around = !is_shifted ? 0 : Format == format::mxfp4 ? 8 : 2 * piece_bytes - 4;
  static constexpr int row_pieces = (chunk_bytes + around + piece_bytes - 1) / piece_bytes;
  static constexpr int copies = (16 * row_pieces + 31) / 32;  ///< of a thread for a stage
  static constexpr int w_bytes = outputs * WPitch;
  static constexpr int chunk_groups = Chunk / group_elements<Format>;
  static constexpr int sums_bytes = has_sums ? chunk_groups * most_rows * 4 : 0;  ///< of a chunk
  static constexpr int scratch_bytes = block<Format, Tiles>::scratch_bytes;
  static constexpr int results_pitch = Groups > 1 ? outputs + 4 : 0;  ///< floats; one group stores its sums
  static constexpr int largest_bytes = 128;                           ///< a float of each warp
  static constexpr int x_padding = 64;  ///< bytes behind each row: eight threads read different banks
  static_assert(Stages >= 2 && Chunk % block<Format, Tiles>::inputs == 0);
  static_assert(WPitch % 16 == 0);
  static_assert(Format != format::mxfp4 || chunk_bytes % 8 == 0);
  static_assert(WPitch >= row_pieces * piece_bytes);

  const arguments& a;
  char* memory;
  int rows;  ///< of x, for this block
  i64 first_row;
  int chunks;
  int group;
  int warp;  ///< in its group
  int lane;
  u64 policy;  ///< of weights, in L2

  __device__ __forceinline__ pipeline(const arguments& of, char* shared)
      : a{of},
        memory{shared},
        first_row{static_cast<i64>(blockIdx.y) * most_rows},
        chunks{static_cast<int>((of.in_features + Chunk - 1) / Chunk)},
        group{static_cast<int>(threadIdx.x) / (32 * Warps)},
        warp{static_cast<int>(threadIdx.x) / 32 % Warps},
        lane{static_cast<int>(threadIdx.x) % 32},
        policy{ptx::evict_first_policy()} {
    const i64 left = of.rows - first_row;
    rows = left < most_rows ? static_cast<int>(left) : most_rows;
  }

  __device__ __forceinline__ int x_pitch() const {
    return (stays ? 2 * static_cast<int>(a.in_features) : 2 * Chunk) + x_padding;
  }
  __device__ __forceinline__ int stage_bytes() const {
    return w_bytes + (stays ? 0 : rows * x_pitch() + sums_bytes);
  }
  __device__ __forceinline__ char* stage_memory(int stage) const {
    return memory + (group * Stages + stage) * stage_bytes();
  }
  __device__ __forceinline__ char* scratch() const {
    return memory + Groups * Stages * stage_bytes() + (Warps * group + warp) * scratch_bytes;
  }
  __device__ __forceinline__ float* results() const {
    return reinterpret_cast<float*>(memory + Groups * (Stages * stage_bytes() + Warps * scratch_bytes));
  }
  /// Behind all that: scales of the rows, and where x stays its sums and its units.
  __device__ __forceinline__ operand_memory operands() const {
    char* const scales =
        reinterpret_cast<char*>(results() + 2 * Groups * rows * results_pitch) + largest_bytes;
    char* const sums = scales + 4 * most_rows;
    char* const units =
        sums +
        (stays && has_sums ? 4 * most_rows * static_cast<int>(a.in_features / group_elements<Format>) : 0);
    return {units, x_pitch(), reinterpret_cast<float*>(sums), reinterpret_cast<float*>(scales)};
  }

  __device__ __forceinline__ int inputs_of(int chunk) const {
    const i64 left = a.in_features - static_cast<i64>(chunk) * Chunk;
    return left < Chunk ? static_cast<int>(left) : Chunk;
  }
  __device__ __forceinline__ static i64 bytes_of(i64 weights) {
    return weights / block_elements<Format> * block_bytes<Format>;
  }
  /// Copies begin at multiples of their size; what a stage holds begins so many bytes into it.
  __device__ __forceinline__ static int skipped(int chunk) {
    return is_shifted ? static_cast<int>(bytes_of(static_cast<i64>(chunk) * Chunk) % piece_bytes) : 0;
  }

  /// A warp's copies of a stage, lane after lane: what lies side by side in memory is asked for at a time.
  __device__ __forceinline__ void copy_weights(int stage, i64 tile, int chunk) const {
    const i64 begin = bytes_of(static_cast<i64>(chunk) * Chunk) - skipped(chunk);
    const int bytes = static_cast<int>(bytes_of(inputs_of(chunk))) + skipped(chunk);
    const i64 first = tile * outputs + 16 * warp;
    const i64 left = a.out_features - first;
    const char* const from = a.w + first * a.w_row_bytes + begin;
    const u32 to = ptx::shared_address(stage_memory(stage)) + static_cast<u32>(16 * warp * WPitch);
    const bool is_whole = left >= 16 && bytes >= row_pieces * piece_bytes;
    const u32 row_bytes = static_cast<u32>(a.w_row_bytes);
#pragma unroll
    for (int j = 0; j < copies; ++j) {
      const u32 piece = static_cast<u32>(j * 32 + lane);
      const u32 row = piece / row_pieces;
      const u32 at = piece_bytes * (piece % row_pieces);
      if (row < 16 && (is_whole || (static_cast<i64>(row) < left && static_cast<int>(at) < bytes)))
        copy_piece(to + row * WPitch + at, from + static_cast<u64>(row * row_bytes + at), policy);
    }
  }
  __device__ __forceinline__ void copy_operands(int stage, int chunk) const {
    char* const to = stage_memory(stage) + w_bytes;
    const int units = inputs_of(chunk) / 8;
    const int thread = 32 * warp + lane;
    const char* from = a.x + 2 * (first_row * a.x_stride_row + static_cast<i64>(chunk) * Chunk);
    i64 pitch = 2 * a.x_stride_row;
    if constexpr (has_sums) {
      from = a.operands + 2 * (first_row * a.in_features + static_cast<i64>(chunk) * Chunk);
      pitch = 2 * a.in_features;
      const char* const sums = prepared_sums() + 4 * most_rows * chunk * chunk_groups;
      const int pieces = inputs_of(chunk) / group_elements<Format> * most_rows / 4;
      for (int i = thread; i < pieces; i += 32 * Warps)
        ptx::copy_async(ptx::shared_address(to + rows * x_pitch() + 16 * i), sums + 16 * i);
    }
    constexpr int chunk_units = Chunk / 8;
    for (int i = thread; i < rows * chunk_units; i += 32 * Warps) {
      const int row = i / chunk_units;
      const int unit = i % chunk_units;
      if (unit < units)
        ptx::copy_async(ptx::shared_address(to + row * x_pitch() + 16 * unit),
                        from + row * pitch + 16 * unit);
    }
  }
  /// Behind the units that matmul_operands wrote: the sums of each block's rows, and the scales of all rows.
  __device__ __forceinline__ const char* prepared_sums() const {
    return a.operands + 2 * a.rows * a.in_features +
           4 * most_rows * static_cast<i64>(blockIdx.y) * (a.in_features / group_elements<Format>);
  }
  __device__ __forceinline__ const float* prepared_scales() const {
    return reinterpret_cast<const float*>(a.operands + 2 * a.rows * a.in_features +
                                          4 * most_rows * static_cast<i64>(gridDim.y) *
                                              (a.in_features / group_elements<Format>));
  }
  __device__ __forceinline__ void load_rows() const {
    const operand_memory to = operands();
    const int thread = static_cast<int>(threadIdx.x);
    const int units = static_cast<int>(a.in_features / 8);
    for (int row = 0; row < rows; ++row) {
      const auto* const x = reinterpret_cast<const Number*>(a.x) + (first_row + row) * a.x_stride_row;
      if constexpr (has_sums) {
        make_operands<Format, Number, threads>(x, a.in_features, to, row, most_rows,
                                               results() + 2 * Groups * rows * results_pitch);
      } else {
        for (int i = thread; i < units; i += threads)
          *reinterpret_cast<uint4*>(to.units + row * to.pitch + 16 * i) =
              *reinterpret_cast<const uint4*>(x + 8 * i);
      }
    }
  }
  __device__ __forceinline__ void sync_group() const {
    if constexpr (Warps == 1 || stays) {
      __syncwarp();  // a warp copies what it reads
    } else {
      ptx::named_sync(1U + static_cast<u32>(group), 32U * Warps);
    }
  }

  /// The chunks that a group copies, in the order of their use.
  struct cursor {
    i64 tile;
    int chunk;
  };
  __device__ __forceinline__ void advance(cursor& at) const {
    at.chunk += Groups;
    if (at.chunk < chunks) return;
    at.chunk = group;
    at.tile += gridDim.x;
  }

  __device__ __forceinline__ void multiply(totals<Tiles>& total, int stage, int chunk) const {
    const char* const at = stage_memory(stage);
    view<Tiles> from;
    from.t = lane % 4;
    from.scratch = scratch();
    const int g = lane / 4;
    from.w[0] = at + (16 * warp + g) * WPitch + skipped(chunk);
    from.w[1] = from.w[0] + 8 * WPitch;
    const operand_memory all = operands();
    const char* const x = stays ? all.units + 2 * chunk * Chunk : at + w_bytes;
    const float* const sums = stays ? all.sums + chunk * chunk_groups * most_rows
                                    : reinterpret_cast<const float*>(at + w_bytes + rows * x_pitch());
    from.sums = sums + 2 * from.t;
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
      const int row = 8 * n + g;
      from.x[n] = x + (row < rows ? row : 0) * x_pitch();  // results of rows beyond are not stored
    }
    using of_inputs = block<Format, Tiles>;
    const int inputs = inputs_of(chunk);
    if (inputs == Chunk) {
#pragma unroll
      for (int first = 0; first < Chunk; first += of_inputs::inputs) of_inputs::add(total, from, first);
    } else {
#pragma unroll 1
      for (int first = 0; first < inputs; first += of_inputs::inputs) of_inputs::add(total, from, first);
    }
  }

  __device__ __forceinline__ void store_result(float value, int row, i64 output, const float* scales) const {
    if constexpr (has_sums) value = value * units_of_sum<Format> * scales[row];
    if (a.bias != nullptr) value += a.bias[output];
    store(a, (first_row + row) * a.out_stride_row + output, value);
  }

  /// Adds the groups' sums and stores the tile. Two buffers alternate: one barrier a tile suffices.
  __device__ __forceinline__ void finish(const totals<Tiles>& total, i64 tile, int buffer) const {
    const float* const scales = operands().scales;
    float* const all = results() + buffer * Groups * rows * results_pitch;
    float* const mine = all + group * rows * results_pitch + 16 * warp + lane / 4;
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 8 * n + 2 * (lane % 4) + i % 2;
        if (row >= rows) continue;
        if constexpr (Groups == 1) {
          const i64 output = tile * outputs + 16 * warp + lane / 4 + 8 * (i / 2);
          if (output < a.out_features) store_result(total[n][i], row, output, scales);
        } else {
          mine[row * results_pitch + 8 * (i / 2)] = total[n][i];
        }
      }
    }
    if constexpr (Groups == 1) return;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < rows * outputs; i += threads) {
      const int row = i / outputs;
      const i64 output = tile * outputs + i % outputs;
      if (output >= a.out_features) continue;
      float value = 0.0F;
#pragma unroll
      for (int g = 0; g < Groups; ++g) value += all[(g * rows + row) * results_pitch + i % outputs];
      store_result(value, row, output, scales);
    }
  }

  __device__ __forceinline__ void run() const {
    ptx::allow_next_launch();
    const i64 tiles = (a.out_features + outputs - 1) / outputs;
    cursor next{static_cast<i64>(blockIdx.x), group};
    if (group >= chunks) next.tile = tiles;  // fewer chunks than groups
    cursor begin = next;
    if (a.w_is_constant == 0) ptx::wait_for_previous_launch();
    // One stage stays free: it is filled while the others wait for their use.
    for (int stage = 0; stage < Stages - 1; ++stage) {
      if (next.tile < tiles) {
        copy_weights(stage, next.tile, next.chunk);
        advance(next);
      }
      if constexpr (stays) ptx::commit_copies();
    }
    if (a.w_is_constant != 0) ptx::wait_for_previous_launch();
    if constexpr (stays) {
      load_rows();
    } else {
      for (int stage = 0; stage < Stages - 1; ++stage) {
        if (begin.tile < tiles) {
          copy_operands(stage, begin.chunk);
          advance(begin);
        }
        ptx::commit_copies();
      }
    }
    if constexpr (has_sums && !stays) {
      for (int row = static_cast<int>(threadIdx.x); row < rows; row += threads)
        operands().scales[row] = prepared_scales()[first_row + row];
    }
    __syncthreads();
    int stage = 0;
    int buffer = 0;
    for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      totals<Tiles> total{};
      for (int chunk = group; chunk < chunks; chunk += Groups) {
        ptx::wait_for_copies<Stages - 2>();
        sync_group();
        if (next.tile < tiles) {
          const int free = stage == 0 ? Stages - 1 : stage - 1;
          copy_weights(free, next.tile, next.chunk);
          if constexpr (!stays) copy_operands(free, next.chunk);
          advance(next);
        }
        ptx::commit_copies();
        multiply(total, stage, chunk);
        stage = stage + 1 == Stages ? 0 : stage + 1;
      }
      finish(total, tile, buffer);
      buffer ^= 1;
    }
  }
};

/// A block for each row. Rows: those of a block of matmul_ring.
template <format Format, class Number, int Rows>
__device__ __forceinline__ void prepare_operands(const arguments& a) {
  __shared__ float largest[8];
  ptx::wait_for_previous_launch();
  ptx::allow_next_launch();
  const i64 row = blockIdx.x;
  const i64 groups = a.in_features / group_elements<Format>;
  char* const memory = const_cast<char*>(a.operands);
  char* const sums = memory + 2 * a.rows * a.in_features;
  char* const scales = sums + 4 * Rows * ((a.rows + Rows - 1) / Rows) * groups;
  const i64 tile = row / Rows;
  make_operands<Format, Number, 256>(
      reinterpret_cast<const Number*>(a.x) + row * a.x_stride_row, a.in_features,
      {memory + 2 * tile * Rows * a.in_features, 2 * a.in_features,
       reinterpret_cast<float*>(sums) + tile * Rows * groups, reinterpret_cast<float*>(scales) + tile * Rows},
      static_cast<int>(row % Rows), Rows, largest);
}

}  // namespace sy::stream

#define SY_MATMUL_STREAM(NAME, FORMAT, NUMBER, MODE, WARPS, GROUPS, STAGES, TILES, CHUNK, W_PITCH)           \
  extern "C" __global__ void __launch_bounds__(32 * WARPS * GROUPS,                                          \
                                               WARPS * GROUPS <= 8 && TILES <= 4 ? 2 : 1)                    \
      NAME(const __grid_constant__ sy::stream::arguments a) {                                                \
    extern __shared__ __align__(128) char memory[];                                                          \
    sy::stream::pipeline<sy::stream::format::FORMAT, sy::stream::NUMBER, sy::stream::rows_mode::MODE, WARPS, \
                         GROUPS, STAGES, TILES, CHUNK, W_PITCH>{a, memory}                                   \
        .run();                                                                                              \
  }

#define SY_MATMUL_OPERANDS(NAME, FORMAT, NUMBER, TILES)                                                     \
  extern "C" __global__ void __launch_bounds__(256) NAME(const __grid_constant__ sy::stream::arguments a) { \
    sy::stream::prepare_operands<sy::stream::format::FORMAT, sy::stream::NUMBER, 8 * TILES>(a);             \
  }
