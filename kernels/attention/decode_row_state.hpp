// SPDX-License-Identifier: MIT
// What a warp computes: scores, softmax and sums of values of a tile of query rows.
//
// The products are transposed, S^T = K Q^T and O^T = V^T P^T, so that the query rows are the narrow side of
// an m16n8k16 and the softmax's factors of a row lie in the threads that hold its scores and its sums alike.
//
// e4m3 keys and values become f16, exactly; queries in bf16 then become f16 after their row has been divided
// by a power of two, so that their products are in f16 too.
//
// The softmax is that of Milakov and Gimelshein (arXiv:1805.02867).
#pragma once

#include <type_traits>

#include "../gpu/ptx.hpp"
#include "decode_call.hpp"
#include "decode_ring.hpp"

namespace sy {

using f16 = __half;
using bf16 = __nv_bfloat16;

using ptx::exp2_approximate;
using ptx::load_matrices;
using ptx::load_transposed;
using ptx::multiply;
using ptx::pack;
using ptx::transposed;
using ptx::wait_for_copies;

/// Two e4m3 numbers, bytes `Low` and `High` of `bytes`, as f16.
template <int Low, int High>
__device__ __forceinline__ u32 widened(u32 bytes) {
#if __CUDA_ARCH__ >= 890
  const u32 pair = Low == 0 && High == 1 ? bytes : __byte_perm(bytes, 0, Low | High << 4 | 0x4400);
  u32 result;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(result) : "h"(static_cast<unsigned short>(pair)));
  return result;
#else
  // Shifted into place the number is 2^-8 of its value, subnormals included; the largest pattern is NaN.
  const u32 spread = __byte_perm(bytes, 0, 4 | Low << 4 | 4 << 8 | High << 12);
  const u32 magnitude = (spread & 0x7F007F00U) >> 1;
  const u32 value = magnitude | (spread & 0x80008000U);
  const __half2 scaled = __hmul2(*reinterpret_cast<const __half2*>(&value), __float2half2_rn(256.0F));
  const u32 nan = ((magnitude + 0x00800080U) & 0x40004000U) >> 14;  // bit 14 by the carry of 0x3F80
  return *reinterpret_cast<const u32*>(&scaled) | nan * 0x7E00U;
#endif
}

/// A tile of query rows in a warp: queries, and the softmax so far of the keys that the warp has seen.
template <class Shape>
struct row_state {
  static constexpr int Tiles = Shape::Tiles;
  static constexpr int steps = Shape::steps;
  static constexpr int Keys = Shape::Keys;

  u32 queries[Tiles][steps]
             [2];          ///< as the B operand of K Q^T: of 16 dims, a thread has two pairs of its row's
  float factor[Tiles][2];  ///< of the scores of the rows that are this thread's columns
  float slope[Tiles][2];
  float values[Tiles][steps][4];
  float largest[Tiles][2];
  float total[Tiles][2];

  __device__ __forceinline__ void start(const decode_call& call, const decode_rows& rows, int b, int head_kv,
                                        int lane) {
    const float scale =
        call.scale * (call.k_scale != nullptr ? call.k_scale[head_kv * call.k_scale_stride] : 1.0F);
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      const int r = tile * 8 + lane / 4;
      const char* from =
          static_cast<const char*>(call.q) +
          2 * (b * call.q_stride_batch + (head_kv * rows.group + rows.head(r)) * call.q_stride_head +
               rows.query(r) * call.q_stride_token);
#pragma unroll
      for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int d = step * 16 + (Shape::Narrow ? lane % 4 * 4 + half * 2 : lane % 4 * 2 + half * 8);
          queries[tile][step][half] = 0;
          if (r < rows.count && d < call.head_dim) {
            queries[tile][step][half] = *reinterpret_cast<const u32*>(from + 2 * d);
          }
          values[tile][step][half] = values[tile][step][2 + half] = 0.0F;
        }
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int column = min(tile * 8 + lane % 4 * 2 + j, rows.count - 1);
        factor[tile][j] = scale;
        slope[tile][j] =
            call.alibi_slopes != nullptr ? call.alibi_slopes[head_kv * rows.group + rows.head(column)] : 0.0F;
        largest[tile][j] = -INFINITY;
        total[tile][j] = 0.0F;
      }
      if constexpr (!std::is_same_v<typename Shape::Element, typename Shape::Number>)
        narrow_queries(tile, lane);
    }
  }

  /// bf16 to f16, over the power of two below the row's largest.
  __device__ __forceinline__ void narrow_queries(int tile, int lane) {
    float most = 0.0F;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 pair = queries[tile][step][half];
        most = fmaxf(most,
                     fmaxf(fabsf(__uint_as_float(pair << 16)), fabsf(__uint_as_float(pair & 0xFFFF0000U))));
      }
    }
    most = fmaxf(most, __shfl_xor_sync(~0U, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0U, most, 2));
    const u32 exponent =
        max(min(__float_as_uint(most) >> 23, 253U), 1U);  // the inverse is to be a float as well
    const float unit = __uint_as_float(exponent << 23);
    const float inverse = __uint_as_float((254U - exponent) << 23);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const u32 pair = queries[tile][step][half];
        queries[tile][step][half] = pack<__half>(__uint_as_float(pair << 16) * inverse,
                                                 __uint_as_float(pair & 0xFFFF0000U) * inverse);
      }
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) factor[tile][j] *= __shfl_sync(~0U, unit, (lane % 4 * 2 + j) * 4);
  }

  /// Takes in the keys [key, key + Keys), which lie in shared memory, or will when the copies are waited for.
  /// Calls keys_done and values_done when they may be overwritten; each commits one group of copies. In a
  /// team, values_done is called at the start, for the values of the tile before: where all meet anyway.
  template <class KeysDone, class ValuesDone>
  __device__ __forceinline__ void take(const decode_call& call, const decode_rows& rows,
                                       const decode_span<Keys>& span, u32 k_tile, u32 v_tile, int key,
                                       int team, int lane, KeysDone&& keys_done, ValuesDone&& values_done) {
    constexpr bool alone = Shape::Team == 1;
    constexpr int pending =
        2 * Shape::Stages - (alone ? 1 : 2);  // keys and values of a tile are groups of their own
    wait_for_copies<pending>();
    meet_team<Shape>(team);
    if constexpr (!alone) values_done();
    float scores[Keys / 16][Tiles][4] = {};
#pragma unroll
    for (int m = 0; m < Keys / 16; ++m) multiply_keys(scores[m], k_tile, m * 16 + lane % 16, lane);
    if constexpr (alone) {
      __syncwarp();
      keys_done();
    }

    const bool terms = call.soft_cap != 0.0F || call.alibi_slopes != nullptr;
    const bool masked = key < span.open_begin || key + Keys > span.open_end;
    const int right = call.window_right < 0 ? 1 << 29 : call.window_right;
    const int left = call.window_left < 0 ? 1 << 30 : call.window_left;
    if constexpr (Shape::Lean) {
      finish_scores(call, rows, span, scores, key, lane, terms, masked, left, right);
    }
    u32 weights[Keys / 16][Tiles][2];
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      float now[2] = {largest[tile][0], largest[tile][1]};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int centre = rows.query(tile * 8 + lane % 4 * 2 + j) + span.diagonal;
#pragma unroll
        for (int m = 0; m < Keys / 16; ++m) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            float& score = scores[m][tile][2 * half + j];
            const int at = key + m * 16 + half * 8 + lane / 4;
            if constexpr (Shape::Lean) {
              now[j] = fmaxf(now[j], score);
              continue;
            }
            if (terms) {
              score *= factor[tile][j];
              if (call.soft_cap != 0.0F) score = call.soft_cap * tanhf(score / call.soft_cap);
              score -= slope[tile][j] * static_cast<float>(abs(centre - at));
              score *= log2e;
            } else {
              score *= factor[tile][j] * log2e;
            }
            if (masked && (at >= span.end || at > centre + right || at < centre - left)) score = -INFINITY;
            now[j] = fmaxf(now[j], score);
          }
        }
      }
#pragma unroll
      for (int step = 4; step < 32; step *= 2) {
        now[0] = fmaxf(now[0], __shfl_xor_sync(~0U, now[0], step));
        now[1] = fmaxf(now[1], __shfl_xor_sync(~0U, now[1], step));
      }
      float shift[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) shift[j] = now[j] == -INFINITY ? 0.0F : now[j];
      if (__any_sync(~0U, now[0] != largest[tile][0] || now[1] != largest[tile][1])) {
        const float rescale[2] = {exp2_approximate(largest[tile][0] - shift[0]),
                                  exp2_approximate(largest[tile][1] - shift[1])};
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          total[tile][j] *= rescale[j];
          largest[tile][j] = now[j];
#pragma unroll
          for (int step = 0; step < steps; ++step) {
            values[tile][step][j] *= rescale[j];
            values[tile][step][2 + j] *= rescale[j];
          }
        }
      }
#pragma unroll
      for (int m = 0; m < Keys / 16; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float low = exp2_approximate(scores[m][tile][2 * half] - shift[0]);
          const float high = exp2_approximate(scores[m][tile][2 * half + 1] - shift[1]);
          total[tile][0] += low;
          total[tile][1] += high;
          weights[m][tile][half] = transposed(pack<typename Shape::Number>(low, high));
        }
      }
    }
    wait_for_copies<pending>();
    meet_team<Shape>(team);
    if constexpr (!alone) keys_done();
#pragma unroll
    for (int m = 0; m < Keys / 16; ++m) multiply_values(weights[m], v_tile, m * 16, lane);
    if constexpr (alone) {
      __syncwarp();
      values_done();
    }
  }

  /// Products to scores in units of the binary logarithm; what a tile does not need is not asked for each.
  __device__ __forceinline__ void finish_scores(const decode_call& call, const decode_rows& rows,
                                                const decode_span<Keys>& span,
                                                float (&scores)[Keys / 16][Tiles][4], int key, int lane,
                                                bool terms, bool masked, int left, int right) const {
    const auto each = [&](auto&& change) {
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
#pragma unroll
          for (int n = 0; n < Keys / 8; ++n) {
            change(scores[n / 2][tile][n % 2 * 2 + j], tile, j, key + n * 8 + lane / 4);
          }
        }
      }
    };
    const auto centre = [&](int tile, int j) {
      return rows.query(tile * 8 + lane % 4 * 2 + j) + span.diagonal;
    };
    if (terms) {
      each([&](float& score, int tile, int j, int at) {
        score *= factor[tile][j];
        if (call.soft_cap != 0.0F) score = call.soft_cap * tanhf(score / call.soft_cap);
        score -= slope[tile][j] * static_cast<float>(abs(centre(tile, j) - at));
        score *= log2e;
      });
    } else {
      each([&](float& score, int tile, int j, int) { score *= factor[tile][j] * log2e; });
    }
    if (masked) {
      each([&](float& score, int tile, int j, int at) {
        const int middle = centre(tile, j);
        if (at >= span.end || at > middle + right || at < middle - left) score = -INFINITY;
      });
    }
  }

  /// Scores of 16 keys; `row` is the one whose address this thread gives.
  __device__ __forceinline__ void multiply_keys(float (&scores)[Tiles][4], u32 k_tile, int row,
                                                int lane) const {
    if constexpr (Shape::Narrow) {
#pragma unroll
      for (int step = 0; step < steps; step += 2) {
        u32 packed[4];
        load_matrices(packed, k_tile + Shape::place(row, step + lane / 16));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const u32 a[4] = {widened<0, 1>(packed[2 * i]), widened<0, 1>(packed[2 * i + 1]),
                            widened<2, 3>(packed[2 * i]), widened<2, 3>(packed[2 * i + 1])};
#pragma unroll
          for (int tile = 0; tile < Tiles; ++tile) {
            multiply<typename Shape::Number>(scores[tile], a, queries[tile][step + i][0],
                                             queries[tile][step + i][1]);
          }
        }
      }
    } else {
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        u32 a[4];
        load_matrices(a, k_tile + Shape::place(row, 2 * step + lane / 16));
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile) {
          multiply<typename Shape::Number>(scores[tile], a, queries[tile][step][0], queries[tile][step][1]);
        }
      }
    }
  }

  /// Adds the weighted values of 16 keys. Of e4m3, a matrix element of two bytes holds two dims of a key,
  /// which become rows r and r + 8 of the product: dims 2r and 2r + 1.
  __device__ __forceinline__ void multiply_values(const u32 (&weights)[Tiles][2], u32 v_tile, int first,
                                                  int lane) {
    if constexpr (Shape::Narrow) {
#pragma unroll
      for (int step = 0; step < steps; step += 2) {
        u32 packed[4];
        load_transposed(packed, v_tile + Shape::place(first + lane % 16, step + lane / 16));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const u32 a[4] = {widened<0, 2>(packed[2 * i]), widened<1, 3>(packed[2 * i]),
                            widened<0, 2>(packed[2 * i + 1]), widened<1, 3>(packed[2 * i + 1])};
#pragma unroll
          for (int tile = 0; tile < Tiles; ++tile) {
            multiply<typename Shape::Number>(values[tile][step + i], a, weights[tile][0], weights[tile][1]);
          }
        }
      }
    } else {
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        u32 a[4];
        load_transposed(a, v_tile + Shape::place(first + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile) {
          multiply<typename Shape::Number>(values[tile][step], a, weights[tile][0], weights[tile][1]);
        }
      }
    }
  }
};

}  // namespace sy
