// SPDX-License-Identifier: MIT
// Decoding on Hopper where the values are the first columns of the keys (multi-head latent attention): 576
// columns of one KV head, of which 512 are values. Semantics: operators/attention_decode.hpp.
//
//   latent_decode  has 64 query rows a block: queries times heads. All keys of all sequences, in pairs of
//                  blocks of 64, are dealt evenly to the blocks of a row tile, whatever the lengths
//   latent_join    joins the parts of sequences that several blocks had
//
// Two warpgroups share a block's rows, and take its blocks of keys in turns: in its turn one multiplies the
// queries by a block and makes the weights, and both sum 256 of the 512 columns of each block's values. The
// weights are in the registers of one and come to the other through shared memory. That holds the queries and
// two blocks of keys, no more: the weights take the place of the keys' last panel, which is no value and has
// been multiplied by then. A half of a block is refilled as soon as it has been multiplied.
//
// Splitting the columns of the result is FlashMLA's idea; the division of the keys is that of Flash-Decoding
// (Dao et al., 2023).
#include "hopper_latent_deal.hpp"

namespace hopper {

HOPPER_SHARED_PRODUCT(mixed_product, 1, __half, "f16", 256, 128, "%128", "%129", "%130")
HOPPER_SHARED_PRODUCT(mixed_product, 1, __nv_bfloat16, "bf16", 256, 128, "%128", "%129", "%130")

namespace latent {

/// Barriers of the two blocks of keys. The half that the block's own warpgroup sums is one part, the other
/// half and the last panel are the other.
struct barriers {
  u32 base;
  [[nodiscard]] __device__ __forceinline__ u32 full(int block, int part) const {
    return base + static_cast<u32>(block * 4 + part) * 8;
  }
  [[nodiscard]] __device__ __forceinline__ u32 empty(int block, int part) const {
    return full(block, part) + 16;
  }
};
inline constexpr int own = 0;
inline constexpr int other = 1;

/// Tells latent_join of a sequence that this block shares with others. All threads of a warp call this.
__device__ __forceinline__ void plan_join(const deal& dealt, const share& work) {
  const i32 begin = dealt.first_of(static_cast<i32>(blockIdx.x)) + work.done - work.begin;  // of the sequence
  const i32 from = dealt.block_of(begin);
  const i32 to = dealt.block_of(begin + dealt.pairs_of(work.b) - 1);
  if (dealt.lane != 0) return;
  dealt.c.plan[2 * blockIdx.x + (work.done != 0 ? 1 : 0)] =
      make_int4(work.b, from, to, dealt.first_of(from) < begin ? 1 : 0);
}

/// Writes what sequences without keys give, those of this block.
template <class T>
__device__ __forceinline__ void clear_empty(const deal& dealt) {
  const call& c = dealt.c;
  const i32 first = static_cast<i32>(blockIdx.y) * rows;
  const i32 live = min(c.seqlen_q * c.heads - first, rows);
  for (i32 b = static_cast<i32>(blockIdx.x); b < c.batch; b += c.blocks) {
    if (dealt.pairs_of(b) > 0) continue;
    for (i32 row = first; row < first + live; ++row) {
      const i32 query = row / c.heads;
      const i32 head = row - query * c.heads;
      T* const to = static_cast<T*>(c.out) + b * c.out_stride_batch + head * c.out_stride_head +
                    query * c.out_stride_token;
      for (i32 at = dealt.lane * 8; at < columns; at += 32 * 8)
        *reinterpret_cast<uint4*>(to + at) = make_uint4(0, 0, 0, 0);
      if (c.lse != nullptr && dealt.lane == 0)
        c.lse[b * c.lse_stride_batch + head * c.lse_stride_head + query] = -infinity;
    }
  }
}

/// What one of four warps that copy keys does: a part of one of the two blocks of a pair.
template <class T>
__device__ __forceinline__ void produce(const tensor_map& map, const call& c, barriers bars, u32 shared,
                                        int warp) {
  const deal dealt{c};
  const int lane = dealt.lane;
  const int block = warp / 2;
  const int part = warp % 2;
  const bool low = (block == 0) == (part == own);  // which half of the values
  const i32 box_rows = min(c.page_size, keys);
  const i32 boxes = keys / box_rows;  // of a panel, a power of two
  const int shift = sy::ptx::floor_log2(boxes);
  const i32 count = (part == own ? half_panels : half_panels + 1) << shift;
  const u32 full = bars.full(block, part);
  const u32 empty = bars.empty(block, part);
  const u32 to = shared + at_keys + static_cast<u32>(block) * tile_bytes;
  u32 phase = 1;
  share work{dealt, static_cast<i32>(blockIdx.x)};
  const bool plans = warp == 0 && blockIdx.y == 0;
  if (plans && lane < 2) c.plan[2 * blockIdx.x + lane] = make_int4(-1, 0, 0, 0);
  for (; work.left(); work.advance(dealt)) {
    const i32* const table =
        c.block_table != nullptr ? c.block_table + work.b * c.block_table_stride : nullptr;
    // Where box row `lane` of a pair's block lies: looked up a pair early.
    const auto page_of = [&](i32 pair) {
      const i32 key = (2 * pair + block) * keys + lane * box_rows;
      if (table == nullptr) return work.b;
      return lane < boxes && key < work.keys ? __ldg(table + key / c.page_size) : 0;
    };
    i32 pages = page_of(work.begin);
    for (i32 pair = work.begin; pair < work.end; ++pair) {
      const i32 next_pages = pair + 1 < work.end ? page_of(pair + 1) : 0;
      const i32 left = max(work.keys - (2 * pair + block) * keys, 0);
      const i32 there = min((left + box_rows - 1) / box_rows, boxes);
      wait(empty, phase);
      phase ^= 1;
      if (lane == 0) arrive_expecting(full, static_cast<u32>((count >> shift) * there * box_rows) * 128);
      __syncwarp();
      const i32 first = (2 * pair + block) * keys;
      const i32 token = c.page_size <= keys ? 0 : first % c.page_size;
      for (i32 at = 0; at < count; at += 32) {
        const i32 box = at + lane;
        const i32 row = box & (boxes - 1);
        const i32 page = __shfl_sync(~0U, pages, row);
        if (box >= count || row >= there) continue;
        const i32 inside = box >> shift;
        const i32 panel = inside == half_panels ? panels - 1 : inside + (low ? 0 : half_panels);
        copy_box(to + static_cast<u32>(panel) * panel_bytes + static_cast<u32>(row * box_rows) * 128, map,
                 full, panel * 64, token, 0, page);
      }
      __syncwarp();
      pages = next_pages;
    }
    if (plans && !work.whole()) plan_join(dealt, work);
  }
  if (warp == 3 && (c.seqused_k != nullptr || c.seqlen_k == 0)) clear_empty<T>(dealt);
}

/// One of the two warpgroups that multiply. It takes the blocks of keys in turns with the other: in its turn
/// it makes the weights of a block, and each block's values both sum.
template <class T, int group>
struct consumer {
  const call& c;
  barriers bars;
  u32 shared;
  int thread, lane, warp;
  i32 first_row;        ///< of the block
  u32 phase = 0;        ///< of this warpgroup's block of keys
  u32 other_phase = 0;  ///< of the other's
  i32 query[2], head[2];
  bool live[2];
  float factor;

  float out[128];
  float largest[2];
  float sum[2];

  __device__ __forceinline__ consumer(const call& of, barriers b, u32 memory)
      : c{of},
        bars{b},
        shared{memory},
        thread{static_cast<int>(threadIdx.x) % 128},
        lane{thread % 32},
        warp{thread / 32},
        first_row{static_cast<i32>(blockIdx.y) * rows} {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const i32 row = first_row + mine() + 8 * r;
      query[r] = row / c.heads;
      head[r] = row - query[r] * c.heads;
      live[r] = query[r] < c.seqlen_q;
    }
    factor = c.scale * log2_e * (c.k_scale != nullptr ? __ldg(c.k_scale) : 1.0F);
  }

  /// This thread's first row of the block's; the second is 8 behind.
  [[nodiscard]] __device__ __forceinline__ int mine() const {
    return warp * 16 + lane / 4;
  }
  [[nodiscard]] __device__ __forceinline__ u32 tile(int block) const {
    return here() + at_keys + static_cast<u32>(block) * tile_bytes;
  }
  /// The block's shared memory. What follows from it is computed anew: all operands' addresses would not fit
  /// the registers.
  [[nodiscard]] __device__ __forceinline__ u32 here() const {
    u32 address = shared;
    asm volatile("" : "+r"(address));
    return address;
  }
  __device__ __forceinline__ static void meet(u32 id) {
    named_sync(id, 256);
  }

  /// Lets a part be overwritten.
  __device__ __forceinline__ void leave(int block, int part) {
    __syncwarp();
    if (lane == 0) arrive(bars.empty(block, part));
  }

  /// Copies the queries of a sequence, zeros for rows that do not exist.
  __device__ __forceinline__ void load_queries(i32 b) {
    const u64 policy = sy::ptx::evict_first_policy();
    const T* const q = static_cast<const T*>(c.q) + b * c.q_stride_batch;
    // Eight threads copy a panel of a row.
    const int chunk = thread % 8;
#pragma unroll 1
    for (int row = group * 16 + thread / 8; row < rows; row += 32) {
      const i32 at = first_row + row;
      const i32 token = at / c.heads;
      const bool there = token < c.seqlen_q;
      const T* const from =
          q + (there ? (at - token * c.heads) * c.q_stride_head + token * c.q_stride_token : 0) + chunk * 8;
      const u32 to = shared + static_cast<u32>(row) * 128 + static_cast<u32>((chunk ^ row % 8) * 16);
#pragma unroll
      for (int panel = 0; panel < panels; ++panel)
        sy::ptx::copy_async(to + static_cast<u32>(panel) * panel_bytes, from + panel * 64, there, policy);
    }
    sy::ptx::commit_copies();
    sy::ptx::wait_for_copies<0>();
    fence_async_proxy();
  }

  /// scores = queries keys^T, of this warpgroup's block; panels in the order in which they come.
  __device__ __forceinline__ void multiply_keys(float (&scores)[32]) {
    const u64 a = swizzled_operand(here(), 0);
    const u64 b = swizzled_operand(tile(group), 0);
    const u64 first = static_cast<u64>(group * half_panels) * (panel_bytes >> 4);
    const u64 second = static_cast<u64>((1 - group) * half_panels) * (panel_bytes >> 4);
    const auto panel = [&](u64 at, bool keep) {
#pragma unroll
      for (u32 k = 0; k < 4; ++k)
        shared_product<T, 64>::run(scores, a + at + k * 2, b + at + k * 2, keep || k > 0);
    };
    wait(bars.full(group, own), phase);
    product_fence();
#pragma unroll
    for (u32 p = 0; p < half_panels; ++p) panel(first + p * (panel_bytes >> 4), p > 0);
    product_commit();
    wait(bars.full(group, other), phase);
    product_fence();
#pragma unroll
    for (u32 p = 0; p < half_panels; ++p) panel(second + p * (panel_bytes >> 4), true);
    panel(last_panel >> 4, true);
    product_commit();
  }

  /// Where a block of keys ends within the sequence, what is behind is cleared: it may be anything, and 0 *
  /// NaN is NaN.
  __device__ __forceinline__ void clear_behind(i32 there) {
    for (i32 i = there * 8 + thread; i < keys * 8; i += 128) {
#pragma unroll
      for (u32 p = 0; p < panels - 1; ++p) {
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(tile(group) + p * panel_bytes +
                                                                      static_cast<u32>(i) * 16),
                     "r"(0)
                     : "memory");
      }
    }
    fence_async_proxy();
  }

  /// Scores to base 2, those of keys that a row does not see -infinity.
  __device__ __forceinline__ void finish_scores(float (&scores)[32], i32 first, i32 in_use) {
#pragma unroll
    for (int i = 0; i < 32; ++i) scores[i] *= factor;
    const i32 least = c.causal ? in_use - c.seqlen_q + 1 : in_use;  // what every row sees
    if (first + keys <= least) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const i32 end = min(c.causal ? least + query[r] : in_use, in_use) - first - 2 * (lane % 4);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int k = 0; k < 2; ++k)
          if (8 * j + k >= end) scores[4 * j + 2 * r + k] = -infinity;
      }
    }
  }

  __device__ __forceinline__ void store_float(u32 to, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(value) : "memory");
  }
  [[nodiscard]] __device__ __forceinline__ float load_float(u32 from) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
    return value;
  }
  [[nodiscard]] __device__ __forceinline__ u32 shared_row(u32 of, int which, int r) const {
    return here() + of + static_cast<u32>(which * rows + mine() + 8 * r) * 4;
  }

  /// Takes up the anchors of the rows' weights: results are scaled anew where they differ from the last.
  __device__ __forceinline__ void anchor(const float (&at)[2]) {
    if (!__any_sync(~0U, at[0] != largest[0] || at[1] != largest[1])) return;
    float rescale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      rescale[r] = largest[r] == at[r] ? 1.0F : exp2_approximate(largest[r] - at[r]);
      sum[r] *= rescale[r];
      largest[r] = at[r];
    }
#pragma unroll
    for (int i = 0; i < 128; ++i) out[i] *= rescale[i / 2 % 2];
  }

  /// Starts to add the values of the other's block, when its weights are there.
  __device__ __forceinline__ void start_other() {
    named_sync(1 + (1 - group), 256);
    const float at[2] = {load_float(shared_row(at_maxima, 1 - group, 0)),
                         load_float(shared_row(at_maxima, 1 - group, 1))};
    anchor(at);
    wait(bars.full(1 - group, other), other_phase);
    const u64 half = static_cast<u64>(group * half_panels) * (panel_bytes >> 4);
    const u64 a = swizzled_operand(tile(1 - group) + last_panel, 0);
    const u64 b = swizzled_operand(tile(1 - group), panel_bytes) + half;
    pin(out);
    product_fence();
#pragma unroll
    for (u32 k = 0; k < 4; ++k) mixed_product<T, 256>::run(out, a + k * 2, b + k * (16 * 128 >> 4), true);
    product_commit();
  }

  /// Lets the other's block be overwritten, where at most `Pending` products were started since.
  template <int Pending>
  __device__ __forceinline__ void finish_other() {
    product_wait<Pending>();
    pin(out);
    leave(1 - group, other);
    other_phase ^= 1;
  }

  /// Takes in this warpgroup's block of a pair, which may lie behind the sequence; before it the other's
  /// last, unless it is the first of all.
  template <bool First>
  __device__ __forceinline__ void take(i32 pair, i32 in_use) {
    const i32 first = (2 * pair + group) * keys;
    float scores[32];
    if constexpr (!First) start_other();
    multiply_keys(scores);
    if constexpr (!First) finish_other<2>();
    product_wait<0>();
    pin(scores);
    if (in_use - first < keys) clear_behind(max(in_use - first, 0));
    finish_scores(scores, first, in_use);
    float most[2] = {scores[0], scores[2]};
#pragma unroll
    for (int i = 1; i < 32; ++i) most[i / 2 % 2] = fmaxf(most[i / 2 % 2], scores[i]);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      most[r] = fmaxf(most[r], __shfl_xor_sync(~0U, most[r], 1));
      most[r] = fmaxf(most[r], __shfl_xor_sync(~0U, most[r], 2));
      // Weights may exceed 1 a little: the anchor moves only to a score that is 2^8 above it.
      if (!(most[r] > largest[r] + 8.0F)) most[r] = largest[r];
      if (lane % 4 == 0) store_float(shared_row(at_maxima, group, r), most[r]);
    }
    const float shift[2] = {most[0] == -infinity ? 0.0F : most[0], most[1] == -infinity ? 0.0F : most[1]};
    named_sync(4 + group, 128);  // all have multiplied the panel that the weights replace
    anchor(most);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      scores[i] = exp2_approximate(scores[i] - shift[i / 2 % 2]);
      sum[i / 2 % 2] += scores[i];
    }
    u32 weights[4][4];
#pragma unroll
    for (int i = 0; i < 16; ++i) weights[i / 4][i % 4] = pack<T>(scores[2 * i], scores[2 * i + 1]);
    const int row = warp * 16 + lane / 8 % 2 * 8 + lane % 8;
    const u32 to = tile(group) + last_panel + static_cast<u32>(row) * 128;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      store_matrices(to + static_cast<u32>(((2 * k + lane / 16) ^ row % 8) * 16), weights[k]);
    fence_async_proxy();
    named_arrive(1 + group, 256);

    const u64 half = static_cast<u64>(group * half_panels) * (panel_bytes >> 4);
    const u64 b = swizzled_operand(tile(group), panel_bytes) + half;
#pragma unroll
    for (int k = 0; k < 4; ++k) pin(weights[k]);
    pin(out);
    product_fence();
#pragma unroll
    for (u32 k = 0; k < 4; ++k) register_product<T, 256>::run(out, weights[k], b + k * (16 * 128 >> 4));
    product_commit();
    product_wait<0>();
    pin(out);
    leave(group, own);
    phase ^= 1;
  }

  /// Writes what the block has of a sequence, or the whole.
  __device__ __forceinline__ void finish(const share& work, bool last) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] += __shfl_xor_sync(~0U, sum[r], 1);
      sum[r] += __shfl_xor_sync(~0U, sum[r], 2);
      if (lane % 4 == 0) store_float(shared_row(at_sums, group, r), sum[r]);
    }
    meet(3);
#pragma unroll
    for (int r = 0; r < 2; ++r) sum[r] += load_float(shared_row(at_sums, 1 - group, r));
    if (!work.whole()) {
      const i64 slot = (static_cast<i64>(blockIdx.y) * c.blocks + blockIdx.x) * 2 + (last ? 1 : 0);
      if (c.seqlen_q * c.heads - first_row <= warp * 16) return;  // none of the warp's rows exist
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (group == 0 && lane % 4 == 0) {
          *reinterpret_cast<float2*>(c.partial_state + 2 * (slot * rows + mine() + 8 * r)) =
              make_float2(largest[r], sum[r]);
        }
      }
      float4* const to =
          reinterpret_cast<float4*>(c.partial + slot * rows * columns) + fragment_of(group, warp, 0, lane);
#pragma unroll
      for (int j = 0; j < 32; ++j)
        to[32 * j] = make_float4(out[4 * j], out[4 * j + 1], out[4 * j + 2], out[4 * j + 3]);
      return;
    }
    const float v_scale = c.v_scale != nullptr ? __ldg(c.v_scale) : 1.0F;
    float by[2];
    T* to[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      by[r] = sum[r] == 0.0F ? 0.0F : v_scale / sum[r];
      to[r] = static_cast<T*>(c.out) + work.b * c.out_stride_batch + head[r] * c.out_stride_head +
              query[r] * c.out_stride_token + group * (columns / 2);
      if (c.lse != nullptr && live[r] && group == 0 && lane % 4 == 0) {
        c.lse[work.b * c.lse_stride_batch + head[r] * c.lse_stride_head + query[r]] =
            sum[r] == 0.0F ? -infinity : (largest[r] + log2f(sum[r])) * ln_2;
      }
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        u32 word[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int i = 16 * j + 4 * k + 2 * r;
          word[k] = pack<T>(out[i] * by[r], out[i + 1] * by[r]);
        }
        transpose_words(word, lane % 4);
        if (live[r])
          *reinterpret_cast<uint4*>(to[r] + 32 * j + 8 * (lane % 4)) =
              make_uint4(word[0], word[1], word[2], word[3]);
      }
    }
  }

  __device__ __forceinline__ void run() {
    const deal dealt{c};
    for (share work{dealt, static_cast<i32>(blockIdx.x)}; work.left(); work.advance(dealt)) {
      load_queries(work.b);
      meet(3);
#pragma unroll
      for (int i = 0; i < 128; ++i) out[i] = 0.0F;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        largest[r] = -infinity;
        sum[r] = 0.0F;
      }
      i32 pair = work.begin;
      if constexpr (group == 0) take<true>(pair++, work.keys);
#pragma unroll 1
      for (; pair < work.end; ++pair) take<false>(pair, work.keys);
      if constexpr (group == 0) {
        start_other();
        finish_other<0>();
      }
      finish(work, work.done != 0);
    }
  }
};

/// The grid is [blocks, row tiles].
template <class T>
__device__ __forceinline__ void decode(const tensor_map& map, const call& c) {
  extern __shared__ __align__(1024) char memory[];
  const u32 shared = shared_address(memory);
  const barriers bars{shared + at_barriers};
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (threadIdx.x == 0) {
    prefetch(map);
#pragma unroll
    for (int block = 0; block < 2; ++block) {
#pragma unroll
      for (int part = own; part <= other; ++part) {
        init_barrier(bars.full(block, part), 1);
        init_barrier(bars.empty(block, part), 4);
      }
    }
    fence_barrier_init();
  }
  __syncthreads();
  sy::ptx::wait_for_previous_launch();
#ifndef LATENT_TRIGGER_LATE
  sy::ptx::allow_next_launch();
#endif
  if (warpgroup == 2) {
    give_registers<40>();
    produce<T>(map, c, bars, shared, static_cast<int>(threadIdx.x) / 32 - 8);
  } else if (warpgroup == 0) {
    take_registers<232>();
    consumer<T, 0>{c, bars, shared}.run();
  } else {
    take_registers<232>();
    consumer<T, 1>{c, bars, shared}.run();
  }
#ifdef LATENT_TRIGGER_LATE
  sy::ptx::allow_next_launch();
#endif
}

}  // namespace latent

}  // namespace hopper

#define LATENT_DECODE(name, T)                                                                               \
  extern "C" __global__ void __launch_bounds__(384, 1)                                                       \
      name(const __grid_constant__ hopper::tensor_map map, const __grid_constant__ hopper::latent::call c) { \
    hopper::latent::decode<T>(map, c);                                                                       \
  }
