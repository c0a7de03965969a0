// SPDX-License-Identifier: MIT
// Attention of few queries on NVIDIA GPUs. Semantics: few_queries.hpp.
//
// What counts is that keys and values arrive at the speed of the memory. A block takes a part of the keys of
// one KV head and `8 * Tiles` rows of queries, which are the tokens' heads that share it. Each warp is a
// pipeline of its own over every `Warps`-th tile of 16 keys, in a ring of `Stages` buffers, without a barrier
// in the loop. The products are transposed, S^T = K Q^T and O^T = V^T P^T, so that the rows of queries are
// the narrow side of an m16n8k16, and a row's factors lie in the threads that hold its scores and its sums
// alike. A second kernel joins the parts.
#include "../../../kernels/gpu/portable.hpp"

namespace sy {

using u8 = unsigned char;

struct attention_call {
  const u8* q;
  const u8* k;
  const u8* v;
  const u8* mask;
  const float* sinks;
  void* out;
  float* partial;  ///< [batch, heads, tokens, parts, head_dim]
  float* state;    ///< [batch, heads, tokens, parts, 2]: largest score, by log2, and sum
  i64 q_stride[3], k_stride[3], v_stride[3], mask_stride[3];
  i32 batch, heads, heads_kv, tokens, keys, parts;
  float scale, soft_cap, max_bias;
  i32 out_dtype;  ///< as base/dtype.hpp counts them
};

/// Writes an element of the result.
__device__ __forceinline__ void put_result(const attention_call& of, i64 place, float value) {
  if (of.out_dtype == 0) {
    from_float(value, static_cast<f16*>(of.out)[place]);
  } else if (of.out_dtype == 1) {
    from_float(value, static_cast<bf16*>(of.out)[place]);
  } else {
    static_cast<float*>(of.out)[place] = value;
  }
}

constexpr float log2_e = 1.44269504088896340736F;
constexpr int tile_keys = 16;
constexpr float no_score = -__builtin_huge_valf();
constexpr u16 hidden = 0xFC00;  ///< minus infinity, of a key that a query does not see

template <class T>
struct number_of;
template <>
struct number_of<f16> {
  using type = __half;
};
template <>
struct number_of<bf16> {
  using type = __nv_bfloat16;
};

/// ALiBi's slope of a head; 1 without a largest bias.
__device__ __forceinline__ float slope_of(const attention_call& of, int head) {
  if (of.max_bias <= 0.0F) return 1.0F;
  int power = 1;
  while (power * 2 <= of.heads) power *= 2;
  const float step = of.max_bias / static_cast<float>(power);
  return head < power ? exp2f(-step * static_cast<float>(head + 1))
                      : exp2f(-step * 0.5F * static_cast<float>(2 * (head - power) + 1));
}

/// A row of queries: token `token` of head `head`.
struct query_row {
  int token;
  int head;
  bool exists;

  __device__ __forceinline__ query_row(const attention_call& of, int kv_head, int row) {
    const int group = of.heads / of.heads_kv;
    exists = row < of.tokens * group;
    token = exists ? row / group : 0;
    head = kv_head * group + (exists ? row % group : 0);
  }
};

/// The sink of a head by log2; no_score without.
__device__ __forceinline__ float sink_of(const attention_call& of, int head) {
  return of.sinks != nullptr ? of.sinks[head] * log2_e : no_score;
}

/// 2^(a - b) where a is at most b, and 0 where there is no score yet.
__device__ __forceinline__ float share(float a, float b) {
  return a == no_score ? 0.0F : exp2_approximate(a - b);
}

template <class T, int Dim, int Tiles, int Warps, int Stages>
class key_walk {
 public:
  using number = typename number_of<T>::type;
  static constexpr int rows = 8 * Tiles;
  static constexpr int steps = Dim / 16;
  static constexpr int row_quads = Dim / 8;
  static constexpr int pitch = row_quads + 1;  ///< odd: eight rows lie in different banks
  static constexpr int mask_quads = rows * tile_keys * 2 / 16;
  static constexpr int stage_quads = 2 * tile_keys * pitch + mask_quads;  ///< keys, values, the tokens' masks

  __device__ __forceinline__ key_walk(const attention_call& of, quad* ring, int kv_head, int batch,
                                      int first_row)
      : of_{of}, lane_{thread_index() % 32}, ring_{ring} {
    k_ = of.k + kv_head * of.k_stride[1] + batch * of.k_stride[2];
    v_ = of.v + kv_head * of.v_stride[1] + batch * of.v_stride[2];
    const int group = of.heads / of.heads_kv;
    is_staged_ = of.mask != nullptr && of.mask_stride[1] == 0;
    mask_ = of.mask != nullptr ? of.mask + batch * of.mask_stride[2] : nullptr;
    first_token_ = first_row / group;
    const int last = min(first_row + rows, of.tokens * group) - 1;
    tokens_ = last / group - first_token_ + 1;
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
      const query_row row{of, kv_head, first_row + n * 8 + lane_ / 4};
      const auto* from = reinterpret_cast<const float*>(of.q + row.token * of.q_stride[0] +
                                                        row.head * of.q_stride[1] + batch * of.q_stride[2]);
#pragma unroll
      for (int c = 0; c < steps; ++c) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int d = c * 16 + half * 8 + lane_ % 4 * 2;
          q_[n][c][half] = row.exists ? ptx::pack<number>(from[d], from[d + 1]) : 0U;
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const query_row mine{of, kv_head, first_row + n * 8 + lane_ % 4 * 2 + i};
        exists_[n][i] = mine.exists;
        row_token_[n][i] = mine.token - first_token_;
        slope_[n][i] = slope_of(of, mine.head) * log2_e;
        row_mask_[n][i] = mask_ != nullptr
                              ? mask_ + mine.token * of.mask_stride[0] + mine.head * of.mask_stride[1]
                              : nullptr;
        largest_[n][i] = no_score;
        sum_[n][i] = 0.0F;
      }
#pragma unroll
      for (int c = 0; c < steps; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out_[n][c][e] = 0.0F;
      }
    }
  }

  /// Tiles first, first + Warps ... below end.
  __device__ __forceinline__ void walk(int first, int end) {
    load_mask(first, end);
    int coming = first;
#pragma unroll
    for (int s = 0; s < Stages - 1; ++s) {
      start(coming, end, s);
      coming += Warps;
    }
    int stage = 0;
    for (int tile = first; tile < end; tile += Warps) {
      start(coming, end, stage == 0 ? Stages - 1 : stage - 1);
      coming += Warps;
      ptx::wait_for_copies<Stages - 1>();
      __syncwarp();
      if ((visible_ >> stage & 1U) != 0U) take(tile, stage);
      __syncwarp();
      stage = stage + 1 == Stages ? 0 : stage + 1;
    }
    ptx::wait_for_copies<0>();
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int mask = 4; mask < 32; mask *= 2) sum_[n][i] += shuffle_xor(sum_[n][i], mask);
      }
    }
  }

  /// Puts the warp's results, [rows, Dim], and each row's largest score and sum, [rows, 2], into shared
  /// memory.
  __device__ __forceinline__ void put(float* results, float* state) const {
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = n * 8 + lane_ % 4 * 2 + i;
        if (lane_ < 4) {
          state[row * 2] = largest_[n][i];
          state[row * 2 + 1] = sum_[n][i];
        }
#pragma unroll
        for (int c = 0; c < steps; ++c) {
          results[row * Dim + c * 16 + lane_ / 4] = out_[n][c][i];
          results[row * Dim + c * 16 + 8 + lane_ / 4] = out_[n][c][2 + i];
        }
      }
    }
  }

 private:
  /// Loads the masks of a tile's keys, which start() will look at. Lanes of each half of the warp take every
  /// second token. Masks that differ by head are read where they are needed.
  __device__ __forceinline__ void load_mask(int tile, int end) {
    if (!is_staged_) return;
    const int key = tile * tile_keys + lane_ % tile_keys;
#pragma unroll
    for (int i = 0; i < rows / 2; ++i) {
      const int t = 2 * i + lane_ / tile_keys;
      coming_mask_[i].bits = hidden;
      if (t < tokens_ && tile < end && key < of_.keys)
        coming_mask_[i] =
            *reinterpret_cast<const f16*>(mask_ + (first_token_ + t) * of_.mask_stride[0] + key * 2);
    }
  }

  /// Whether a query of the block sees a key of the tile whose masks were loaded, which are put into shared
  /// memory.
  [[nodiscard]] __device__ __forceinline__ bool sees(f16* to) {
    if (!is_staged_) return true;
    bool any = false;
#pragma unroll
    for (int i = 0; i < rows / 2; ++i) {
      const int t = 2 * i + lane_ / tile_keys;
      if (t >= tokens_) break;
      any = any || coming_mask_[i].bits != hidden;
      to[t * tile_keys + lane_ % tile_keys] = coming_mask_[i];
    }
    return __any_sync(0xFFFFFFFFU, any) != 0;
  }

  /// Starts the copies of a tile, where there is one that is seen. Keys behind the last are copies of it.
  __device__ __forceinline__ void start(int tile, int end, int stage) {
    quad* to = ring_ + stage * stage_quads;
    const bool is_seen = tile < end && sees(reinterpret_cast<f16*>(to + 2 * tile_keys * pitch));
    visible_ = (visible_ & ~(1U << stage)) | (is_seen ? 1U << stage : 0U);
    if (is_seen) {
#pragma unroll
      for (int j = 0; j < (tile_keys * row_quads + 31) / 32; ++j) {
        const int i = j * 32 + lane_;
        if (tile_keys * row_quads % 32 != 0 && i >= tile_keys * row_quads) break;
        const int row = i / row_quads;
        const int column = i % row_quads;
        const int key = min(tile * tile_keys + row, of_.keys - 1);
        copy_async(to + row * pitch + column, k_ + key * of_.k_stride[0] + column * 16);
        copy_async(to + (tile_keys + row) * pitch + column, v_ + key * of_.v_stride[0] + column * 16);
      }
    }
    commit_copies();
    load_mask(tile + Warps, end);
  }

  /// A score by log2, with its mask.
  [[nodiscard]] __device__ __forceinline__ float scored(float product, int n, int i, int key,
                                                        const f16* staged) const {
    if (key >= of_.keys || !exists_[n][i]) return no_score;
    float score = product * of_.scale;
    if (of_.soft_cap != 0.0F) score = of_.soft_cap * tanhf(score / of_.soft_cap);
    score *= log2_e;
    if (mask_ == nullptr) return score;
    const f16 bias = is_staged_ ? staged[row_token_[n][i] * tile_keys + key % tile_keys]
                                : *reinterpret_cast<const f16*>(row_mask_[n][i] + key * 2);
    return score + slope_[n][i] * to_float(bias);
  }

  __device__ __forceinline__ void take(int tile, int stage) {
    const quad* keys = ring_ + stage * stage_quads;
    const quad* values = keys + tile_keys * pitch;
    const auto* staged = reinterpret_cast<const f16*>(values + tile_keys * pitch);
    float scores[Tiles][4] = {};
    const u32 key_place = ptx::shared_address(keys + lane_ % 16 * pitch + lane_ / 16);
#pragma unroll
    for (int c = 0; c < steps; ++c) {
      u32 a[4];
      ptx::load_matrices(a, key_place + static_cast<u32>(c * 32));
#pragma unroll
      for (int n = 0; n < Tiles; ++n) ptx::multiply<number>(scores[n], a, q_[n][c][0], q_[n][c][1]);
    }
    u32 shares[Tiles][2];
    const int first_key = tile * tile_keys + lane_ / 4;
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
      float p[4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        p[i] = scored(scores[n][i], n, i, first_key, staged);
        p[2 + i] = scored(scores[n][2 + i], n, i, first_key + 8, staged);
        float top = maximum(p[i], p[2 + i]);
#pragma unroll
        for (int mask = 4; mask < 32; mask *= 2) top = maximum(top, shuffle_xor(top, mask));
        top = maximum(top, largest_[n][i]);
        const float factor = share(largest_[n][i], top);
        largest_[n][i] = top;
        p[i] = share(p[i], top);
        p[2 + i] = share(p[2 + i], top);
        sum_[n][i] = sum_[n][i] * factor + p[i] + p[2 + i];
#pragma unroll
        for (int c = 0; c < steps; ++c) {
          out_[n][c][i] *= factor;
          out_[n][c][2 + i] *= factor;
        }
      }
      shares[n][0] = ptx::transposed(ptx::pack<number>(p[0], p[1]));
      shares[n][1] = ptx::transposed(ptx::pack<number>(p[2], p[3]));
    }
    const u32 value_place =
        ptx::shared_address(values + (lane_ % 8 + lane_ / 16 * 8) * pitch + lane_ / 8 % 2);
#pragma unroll
    for (int c = 0; c < steps; ++c) {
      u32 a[4];
      ptx::load_transposed(a, value_place + static_cast<u32>(c * 32));
#pragma unroll
      for (int n = 0; n < Tiles; ++n) ptx::multiply<number>(out_[n][c], a, shares[n][0], shares[n][1]);
    }
  }

  const attention_call& of_;
  int lane_;
  quad* ring_;
  const u8* k_;
  const u8* v_;
  const u8* mask_;
  int first_token_;
  int tokens_;
  bool is_staged_;  ///< whether masks go through shared memory
  f16 coming_mask_[rows / 2];
  u32 visible_ = 0;  ///< stages whose tile is there
  u32 q_[Tiles][steps][2];
  bool exists_[Tiles][2];
  int row_token_[Tiles][2];  ///< counted from the first of the block
  float slope_[Tiles][2];
  const u8* row_mask_[Tiles][2];
  float largest_[Tiles][2];
  float sum_[Tiles][2];
  float out_[Tiles][steps][4];
};

/// A row's whole softmax sum, with its sink, as the factor of its result.
__device__ __forceinline__ float row_factor(float largest, float sum, float sink) {
  const float top = maximum(largest, sink);
  const float whole = sum * share(largest, top) + share(sink, top);
  return whole > 0.0F ? share(largest, top) / whole : 0.0F;
}

template <class T, int Dim, int Tiles, int Warps, int Stages>
__device__ __forceinline__ void attend(const attention_call& of, quad* memory) {
  begin_kernel();
  using walker = key_walk<T, Dim, Tiles, Warps, Stages>;
  const int group = of.heads / of.heads_kv;
  const int row_tiles = (of.tokens * group + walker::rows - 1) / walker::rows;
  const int kv_head = block_index_y() / row_tiles;
  const int first_row = block_index_y() % row_tiles * walker::rows;
  const auto batch = static_cast<int>(blockIdx.z);
  const int warp = thread_index() / 32;
  const int tiles = (of.keys + tile_keys - 1) / tile_keys;
  const int begin = static_cast<int>(static_cast<i64>(tiles) * block_index() / of.parts);
  const int end = static_cast<int>(static_cast<i64>(tiles) * (block_index() + 1) / of.parts);
  walker walk{of, memory + warp * (Stages * walker::stage_quads), kv_head, batch, first_row};
  walk.walk(begin + warp, end);
  block_barrier();  // the rings are free
  float* results = reinterpret_cast<float*>(memory);
  float* state = results + Warps * walker::rows * Dim;
  walk.put(results + warp * walker::rows * Dim, state + warp * walker::rows * 2);
  block_barrier();
  for (int i = thread_index(); i < walker::rows * Dim; i += Warps * 32) {
    const int r = i / Dim;
    const query_row row{of, kv_head, first_row + r};
    if (!row.exists) continue;
    float largest = no_score;
#pragma unroll
    for (int w = 0; w < Warps; ++w) largest = maximum(largest, state[(w * walker::rows + r) * 2]);
    float sum = 0.0F;
    float result = 0.0F;
#pragma unroll
    for (int w = 0; w < Warps; ++w) {
      const float part = share(state[(w * walker::rows + r) * 2], largest);
      sum += part * state[(w * walker::rows + r) * 2 + 1];
      result += part * results[w * walker::rows * Dim + i];
    }
    const i64 number = (static_cast<i64>(batch) * of.heads + row.head) * of.tokens + row.token;
    if (of.parts == 1) {
      const i64 place = ((static_cast<i64>(batch) * of.tokens + row.token) * of.heads + row.head) * Dim;
      put_result(of, place + i % Dim, result * row_factor(largest, sum, sink_of(of, row.head)));
    } else {
      const i64 part = number * of.parts + block_index();
      of.partial[part * Dim + i % Dim] = result;
      if (i % Dim == 0) {
        of.state[part * 2] = largest;
        of.state[part * 2 + 1] = sum;
      }
    }
  }
}

/// A block joins the parts of one row.
template <int Dim>
__device__ __forceinline__ void join(const attention_call& of) {
  begin_kernel();
  const i64 number = block_index();
  const auto token = static_cast<int>(number % of.tokens);
  const auto head = static_cast<int>(number / of.tokens % of.heads);
  const i64 batch = number / of.tokens / of.heads;
  const float* state = of.state + number * of.parts * 2;
  float largest = no_score;
  for (int p = 0; p < of.parts; ++p) largest = maximum(largest, state[p * 2]);
  float sum = 0.0F;
  float result = 0.0F;
  const float* from = of.partial + number * of.parts * Dim + thread_index();
#pragma unroll 8
  for (int p = 0; p < of.parts; ++p) {
    const float part = share(state[p * 2], largest);
    sum += part * state[p * 2 + 1];
    if (part != 0.0F) result += part * from[p * Dim];
  }
  put_result(of, ((batch * of.tokens + token) * of.heads + head) * Dim + thread_index(),
             result * row_factor(largest, sum, sink_of(of, head)));
}

}  // namespace sy

#define SY_GGML_ATTEND(name, T, dim, tiles, warps, stages)              \
  extern "C" SY_KERNEL(warps * 32, 1) name(sy::attention_call call) {   \
    extern __shared__ sy::quad dynamic_shared[];                        \
    sy::attend<sy::T, dim, tiles, warps, stages>(call, dynamic_shared); \
  }

#define SY_GGML_JOIN(name, dim)                                \
  extern "C" SY_KERNEL(dim, 1) name(sy::attention_call call) { \
    sy::join<dim>(call);                                       \
  }
