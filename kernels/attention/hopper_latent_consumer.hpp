// SPDX-License-Identifier: MIT
// The warpgroups of hopper_latent that multiply, and their barriers with the warps that copy keys.
#pragma once

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
  float factor;  ///< of scores, to base 2

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

  /// Copies the queries of a sequence, zeros for rows that do not exist. Eight threads copy a panel of a row.
  __device__ __forceinline__ void load_queries(i32 b) {
    const u64 policy = sy::ptx::evict_first_policy();
    const T* const q = static_cast<const T*>(c.q) + b * c.q_stride_batch;
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
    constexpr u32 first = group * half_panels;
    constexpr u32 second = (1 - group) * half_panels;
    const auto panel = [&](u32 at, bool keep) {
#pragma unroll
      for (u32 k = 0; k < 4; ++k)
        shared_product<T, 64>::run(scores, a + at * (panel_bytes >> 4) + k * 2,
                                   b + at * (panel_bytes >> 4) + k * 2, keep || k > 0);
    };
    wait(bars.full(group, own), phase);
    product_fence();
#pragma unroll
    for (u32 p = 0; p < half_panels; ++p) panel(first + p, p > 0);
    product_commit();
    wait(bars.full(group, other), phase);
    product_fence();
#pragma unroll
    for (u32 p = 0; p < half_panels; ++p) panel(second + p, true);
    panel(panels - 1, true);
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

  /// The anchors of the rows' weights, which the other takes up as well.
  __device__ __forceinline__ void find_largest(const float (&scores)[32], float (&most)[2]) {
    most[0] = scores[0];
    most[1] = scores[2];
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
    float most[2];
    finish_scores(scores, first, in_use);
    find_largest(scores, most);
    named_sync(4 + group, 128);  // all have multiplied the panel that the weights replace
    anchor(most);
    const float shift[2] = {most[0] == -infinity ? 0.0F : most[0], most[1] == -infinity ? 0.0F : most[1]};
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
      if (lane % 4 == 0) store_float(shared_row(at_maxima, 1 - group, r), sum[r]);
    }
    meet(3);
#pragma unroll
    for (int r = 0; r < 2; ++r) sum[r] += load_float(shared_row(at_maxima, group, r));
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

}  // namespace latent

}  // namespace hopper
