// SPDX-License-Identifier: MIT
// Attention for a few query tokens against a long cache, for NVIDIA GPUs: as many blocks as the device holds,
// in groups of one for each KV head. Semantics: operators/attention_decode.hpp. What was tried:
// NOTES-decode.md.
//
//   decode_persistent   each group has the same number of tiles, of whichever sequences, and copies continue
//                       from one sequence into the next
//   decode_join         combines the results of sequences that groups have shared
//
// The division of the keys is that of Flash-Decoding (Dao et al., 2023).
#include "../gpu/ptx.hpp"
#include "decode_call.hpp"
#include "decode_join.hpp"
#include "decode_ring.hpp"
#include "decode_row_state.hpp"

namespace sy {

using ptx::allow_next_launch;
using ptx::wait_for_previous_launch;

/// Bytes of shared memory, as the space file computes them.
template <class Shape>
constexpr int persistent_shared_bytes = Shape::ring_bytes +
                                        Shape::Warps* static_cast<int>(sizeof(joined<Shape>));

/// What a sequence costs a block besides its tiles, in tiles: its queries are loaded, and the warps join.
constexpr int sequence_cost = 6;

/// The tiles of a KV head, sequence after sequence, with a gap of `sequence_cost` behind each that has keys.
/// The blocks of a group have the same stretch of it, each for a KV head of its own: they read a page of keys
/// at about the same time.
template <int Keys>
struct tile_line {
  const decode_call& call;
  const decode_rows& rows;
  int total = 0;

  /// All threads of a warp call these together.
  __device__ __forceinline__ tile_line(const decode_call& of, const decode_rows& of_rows, int lane)
      : call{of}, rows{of_rows} {
    if (call.seqused_k == nullptr) {
      total = length_of(0) * call.batch;
      return;
    }
    for (int b = lane; b < call.batch; b += 32) total += length_of(b);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) total += __shfl_xor_sync(~0U, total, step);
  }
  /// Of a sequence, with the gap.
  [[nodiscard]] __device__ __forceinline__ int length_of(int b) const {
    const int tiles = decode_span<Keys>{call, rows, b}.tiles;
    return tiles > 0 ? tiles + sequence_cost : 0;
  }
  /// Where group `group` of `groups` starts: total * group / groups, in 32 bits.
  [[nodiscard]] __device__ __forceinline__ int first_of(int group, int groups) const {
    const int each = total / groups;
    return group * each + group * (total - each * groups) / groups;
  }
  /// Where a sequence starts.
  [[nodiscard]] __device__ __forceinline__ int first_of_sequence(int b, int lane) const {
    if (call.seqused_k == nullptr) return length_of(0) * b;
    int sum = 0;
    for (int i = lane; i < b; i += 32) sum += length_of(i);
#pragma unroll
    for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(~0U, sum, step);
    return sum;
  }
  /// The sequence of a place below `total`, and how far it is in it.
  __device__ __forceinline__ int sequence_of(int place, int& within, int lane) const {
    if (call.seqused_k == nullptr) {
      const int each = length_of(0);
      within = place % each;
      return place / each;
    }
    int before = 0;
    for (int base = 0;; base += 32) {
      const int b = base + lane;
      const int here = b < call.batch ? length_of(b) : 0;
      int through = here;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int lower = __shfl_up_sync(~0U, through, step);
        if (lane >= step) through += lower;
      }
      const u32 behind = __ballot_sync(~0U, before + through > place);
      if (behind != 0) {
        const int found = __ffs(static_cast<int>(behind)) - 1;
        within = place - before - __shfl_sync(~0U, through - here, found);
        return base + found;
      }
      before += __shfl_sync(~0U, through, 31);
    }
  }
};

/// A tile of a sequence and its place on the line; past the end `b` is the batch.
template <int Keys>
struct line_tile {
  int b, tile, place;
  decode_span<Keys> span;

  /// The first tile at `from` or behind, which lies `within` sequence `sequence`.
  __device__ __forceinline__ line_tile(const decode_call& call, const decode_rows& rows, int from,
                                       int sequence, int within)
      : b{sequence}, tile{within}, place{from}, span{call, rows, sequence} {
    if (tile < span.tiles) return;
    place -= tile - span.tiles;
    tile = span.tiles;
    advance(call, rows, 0);
  }
  __device__ __forceinline__ void advance(const decode_call& call, const decode_rows& rows, int tiles) {
    tile += tiles;
    place += tiles;
    while (tile >= span.tiles) {
      tile -= span.tiles;
      if (span.tiles > 0) place += sequence_cost;
      if (++b == call.batch) return;
      if (call.seqused_k != nullptr) span = decode_span<Keys>{call, rows, b};
    }
  }
  [[nodiscard]] __device__ __forceinline__ int key() const { return span.begin + tile * Keys; }
};

/// Where a block puts a part of a sequence's result: [tiles of rows][blocks][2][rows], the first of a block's
/// sequences and the last.
__device__ __forceinline__ i64 part_index(int row_tile, int blocks, int block, bool last, int rows) {
  return ((static_cast<i64>(row_tile) * blocks + block) * 2 + (last ? 1 : 0)) * rows;
}

/// The grid is [groups * heads_kv, tiles of rows]. What one block has whole it writes out; parts wait for
/// decode_join.
template <class Shape>
__device__ __forceinline__ void decode_persistent(const decode_call& call) {
  constexpr int Warps = Shape::Warps;
  constexpr int Keys = Shape::Keys;
  constexpr int Stages = Shape::Stages;
  static_assert(Shape::Team == 1);
  extern __shared__ __align__(128) char memory[];
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int block = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x);
  const int head_kv = block % call.heads_kv;
  const int row_tile = static_cast<int>(blockIdx.y);
  const decode_rows rows{call, row_tile, Shape::rows};

  wait_for_previous_launch();
  allow_next_launch();  // now, so that decode_join may read lengths before it waits

  const tile_line<Keys> line{call, rows, lane};
  const int group = block / call.heads_kv;
  const int groups = blocks / call.heads_kv;
  const int first = line.first_of(group, groups);
  const int last = line.first_of(group + 1, groups);
  if (first >= last) return;
  int within = 0;
  const int sequence = line.sequence_of(first, within, lane);
  line_tile<Keys> at{call, rows, first, sequence, within};  // what is computed next, of the block
  line_tile<Keys> ahead = at;                               // what is copied next, of the warp
  if (at.place < last) ahead.advance(call, rows, warp);

  const tile_ring<Shape> ring{call, memory, warp, 0, lane};
  auto* const warps = reinterpret_cast<joined<Shape>*>(memory + Shape::ring_bytes);
  // Asked for a tile ahead, so that no copy waits for it.
  int page = Shape::Paged && ahead.place < last ? ring.page(ahead.b, ahead.key(), ahead.span.end) : 0;
  const auto copy_keys = [&](int stage) {
    if (ahead.place < last) ring.copy_keys(stage, ahead.b, head_kv, ahead.key(), ahead.span.end, page);
    commit_copies();
  };
  const auto copy_values = [&](int stage) {
    if (ahead.place < last) {
      ring.copy_values(stage, ahead.b, head_kv, ahead.key(), ahead.span.end, page);
      ahead.advance(call, rows, Warps);
      if (Shape::Paged && ahead.place < last) page = ring.page(ahead.b, ahead.key(), ahead.span.end);
    }
    commit_copies();
  };
#pragma unroll
  for (int n = 0; n < Stages; ++n) {
    copy_keys(n);
    copy_values(n);
  }

  int stage = 0;
  row_state<Shape> state;
  for (int seen = 0; at.place < last;) {
    const int here = min(at.span.tiles - at.tile, last - at.place);
    state.start(call, rows, at.b, head_kv, lane);
    // Tile n of the block is warp n % Warps's.
    for (int i = (warp + Warps - seen % Warps) % Warps; i < here; i += Warps) {
      state.take(
          call, rows, at.span, ring.k_tile(stage), ring.v_tile(stage), at.key() + i * Keys, warp, lane,
          [&] { copy_keys(stage); }, [&] { copy_values(stage); });
      stage = stage + 1 == Stages ? 0 : stage + 1;
    }
    __syncthreads();  // nobody reads what was joined before
    put_rows<Shape>(state, warps[warp], 0, lane);
    __syncthreads();
    const bool whole = at.tile == 0 && here == at.span.tiles;
    for (int n = static_cast<int>(threadIdx.x); n < rows.count * Shape::Dim; n += Warps * 32) {
      const int r = n / Shape::Dim;
      const int d = n % Shape::Dim;
      const row_value value = join_teams<Warps>(warps, r, d);
      if (whole) {
        write_out<typename Shape::Element>(call, value, at.b, head_kv * rows.group + rows.head(r),
                                           rows.query(r), d);
        continue;
      }
      const i64 index = part_index(row_tile, blocks, block, seen != 0, Shape::rows) + r;
      if (d < call.head_dim_v) call.partial[index * call.head_dim_v + d] = value.value;
      if (d == 0) {
        call.partial_state[2 * index] = value.largest;
        call.partial_state[2 * index + 1] = value.total;
      }
    }
    seen += here;
    at.advance(call, rows, here);
  }
  wait_for_copies<0>();
}

/// Most groups of decode_persistent's grid.
constexpr int most_groups = 512;

/// So many that a thread has few elements: what each waits for is one read of memory after the other.
constexpr int join_threads = 512;

/// Joins the parts of one KV head, or writes what a sequence without keys gives. The grid is [heads_kv *
/// batch, tiles of rows]; `blocks` is decode_persistent's grid.
template <class Element, int Rows, int Keys>
__device__ __forceinline__ void decode_join(const decode_call& call, int blocks) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int b = static_cast<int>(blockIdx.x) / call.heads_kv;
  const int head_kv = static_cast<int>(blockIdx.x) % call.heads_kv;
  const int row_tile = static_cast<int>(blockIdx.y);
  const decode_rows rows{call, row_tile, Rows};
  const int groups = blocks / call.heads_kv;

  allow_next_launch();

  // All that depends on lengths alone is found before the wait.
  const tile_line<Keys> line{call, rows, lane};
  const int tiles = decode_span<Keys>{call, rows, b}.tiles;
  const int begin = line.first_of_sequence(b, lane);
  int from = 0;
  int to = -1;
  if (tiles > 0) {
    const auto group_of = [&](int tile) {
      const float about = __fdividef(static_cast<float>(tile), static_cast<float>(line.total));
      int group = min(static_cast<int>(about * static_cast<float>(groups)), groups - 1);
      while (line.first_of(group + 1, groups) <= tile) ++group;
      while (line.first_of(group, groups) > tile) --group;
      return group;
    };
    from = group_of(begin);
    to = group_of(begin + tiles - 1);
  }
  const bool whole = tiles > 0 && from == to;  // written by that block
  const int parts = to - from + 1;
  __shared__ int index_of[most_groups];  // of the parts' first rows; -1: a group without tiles
  __shared__ float weight_of[most_groups][Rows];
  __shared__ row_value joined_row[Rows];
  if (!whole) {
    for (int p = static_cast<int>(threadIdx.x); p < parts; p += join_threads) {
      const int first = line.first_of(from + p, groups);
      const bool empty = first == line.first_of(from + p + 1, groups);
      const int block = (from + p) * call.heads_kv + head_kv;
      const bool later = first < begin - sequence_cost;  // that group has a sequence before
      index_of[p] = empty ? -1 : static_cast<int>(part_index(row_tile, blocks, block, later, Rows));
    }
  }
  wait_for_previous_launch();  // in any case: what follows takes this launch's end for that of both
  if (whole) return;
  __syncthreads();
  // What no block has written may be NaN.
  const auto value_of = [&](int p, int r, int d) {
    return index_of[p] < 0 ? 0.0F : call.partial[static_cast<i64>(index_of[p] + r) * call.head_dim_v + d];
  };
  // A thread's first element is asked for before the weights are known.
  constexpr int early_parts = 16;
  float early[early_parts];
  const int elements = rows.count * call.head_dim_v;
  const int own = min(static_cast<int>(threadIdx.x), elements - 1);
#pragma unroll
  for (int p = 0; p < early_parts; ++p)
    early[p] = p < parts ? value_of(p, own / call.head_dim_v, own % call.head_dim_v) : 0.0F;
  for (int r = static_cast<int>(threadIdx.x) / 32; r < rows.count; r += join_threads / 32) {
    row_value all;
    for (int p = lane; p < parts; p += 32) {
      if (index_of[p] >= 0) all.largest = fmaxf(all.largest, call.partial_state[2 * (index_of[p] + r)]);
    }
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
      all.largest = fmaxf(all.largest, __shfl_xor_sync(~0U, all.largest, step));
    const float shift = all.largest == -INFINITY ? 0.0F : all.largest;
    for (int p = lane; p < parts; p += 32) {
      float weight = 0.0F;
      if (index_of[p] >= 0) {
        weight = exp2_approximate(call.partial_state[2 * (index_of[p] + r)] - shift);
        all.total += weight * call.partial_state[2 * (index_of[p] + r) + 1];
      }
      weight_of[p][r] = weight;
    }
#pragma unroll
    for (int step = 1; step < 32; step *= 2) all.total += __shfl_xor_sync(~0U, all.total, step);
    if (lane == 0) joined_row[r] = all;
  }
  __syncthreads();
  for (int n = static_cast<int>(threadIdx.x); n < elements; n += join_threads) {
    const int r = n / call.head_dim_v;
    const int d = n % call.head_dim_v;
    row_value all = joined_row[r];
    int next = 0;
    if (n < join_threads) {
      next = early_parts;
#pragma unroll
      for (int p = 0; p < early_parts; ++p)
        if (p < parts) all.value += weight_of[p][r] * early[p];
    }
#pragma unroll 8
    for (int p = next; p < parts; ++p) all.value += weight_of[p][r] * value_of(p, r, d);
    write_out<Element>(call, all, b, head_kv * rows.group + rows.head(r), rows.query(r), d);
  }
}

}  // namespace sy

#define SY_DECODE_PERSISTENT(name, element, narrow, dim, tiles, warps, keys, stages, paged)               \
  extern "C" __global__ void __launch_bounds__(32 * warps)                                                \
      name(const __grid_constant__ sy::decode_call call) {                                                \
    sy::decode_persistent<sy::decode_shape<sy::element, narrow, dim, tiles, warps, keys, stages, paged>>( \
        call);                                                                                            \
  }

#define SY_DECODE_JOIN(name, element, tiles, keys)                    \
  extern "C" __global__ void __launch_bounds__(sy::join_threads)      \
      name(const __grid_constant__ sy::decode_call call) {            \
    sy::decode_join<sy::element, 8 * tiles, keys>(call, call.splits); \
  }
