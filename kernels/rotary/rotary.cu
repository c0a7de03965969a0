// SPDX-License-Identifier: MIT
// Rotary position embedding of q and k in one launch. Semantics: operators/rotary.hpp.
//
// A block takes `Tokens` tokens. A thread owns one chunk of a head, `Width` pairs wide in the half style and
// Width / 2 in the interleaved one, and walks over the heads of one token with it, so that cosine and sine
// are read or computed once for all of them. `Heads` heads are loaded before the first is used.
#include "../gpu/portable.hpp"

namespace sy {

struct computed;  ///< in place of a table's element type: angles from the base

struct rotary_call {
  const void* q;
  const void* k;
  void* q_out;
  void* k_out;
  const void* cos;
  const void* sin;
  const i64* positions;
  const i32* cu_seqlens;
  const i32* sequence_offsets;
  i64 offset;
  i32 seqlen;
  i32 heads;
  i32 heads_kv;
  i32 head_dim;
  i32 rotary_dim;
  i32 inverse;
  i64 q_stride_batch, q_stride_token, q_stride_head;
  i64 k_stride_batch, k_stride_token, k_stride_head;
  i64 q_out_stride_batch, q_out_stride_token, q_out_stride_head;
  i64 k_out_stride_batch, k_out_stride_token, k_out_stride_head;
  i64 table_stride;
  float base;
  float scaling;
};

/// A token of the call: where it lies and its position.
struct rotary_token {
  i64 index;  ///< in its batch entry, or among all tokens with cu_seqlens
  i64 batch;  ///< factor of stride_batch
  i64 position;
  bool exists;

  __device__ __forceinline__ rotary_token(const rotary_call& call, i32 sequence, i32 in_sequence) {
    exists = in_sequence < call.seqlen;
    index = in_sequence;
    batch = sequence;
    i64 global = static_cast<i64>(sequence) * call.seqlen + in_sequence;
    if (call.cu_seqlens != nullptr) {
      const i32 begin = call.cu_seqlens[sequence];
      exists = exists && in_sequence < call.cu_seqlens[sequence + 1] - begin;
      index = static_cast<i64>(begin) + in_sequence;
      batch = 0;
      global = index;
    }
    position = call.offset + in_sequence;
    if (call.sequence_offsets != nullptr) {
      position = static_cast<i64>(call.sequence_offsets[sequence]) + in_sequence;
    }
    if (call.positions != nullptr && exists) position = call.positions[global];
  }
};

/// Cosine and sine of `Count` neighbouring pairs.
template <class Table, int Count>
__device__ __forceinline__ void rotary_angles(const rotary_call& call, i64 position, i32 first_pair,
                                              float (&cosine)[Count], float (&sine)[Count]) {
  if constexpr (!__is_same(Table, computed)) {
    const Table* cos = static_cast<const Table*>(call.cos) + position * call.table_stride + first_pair;
    const Table* sin = static_cast<const Table*>(call.sin) + position * call.table_stride + first_pair;
    constexpr int in_eight = 8 / static_cast<int>(sizeof(Table));
    bool wide = false;
    if constexpr (Count % in_eight == 0) {
      struct alignas(8) eight_bytes {
        Table element[in_eight];
      };
      wide = ((reinterpret_cast<size_t>(cos) | reinterpret_cast<size_t>(sin)) & 7U) == 0;
      if (wide) {
#pragma unroll
        for (int i = 0; i < Count / in_eight; ++i) {
          const eight_bytes cosines = reinterpret_cast<const eight_bytes*>(cos)[i];
          const eight_bytes sines = reinterpret_cast<const eight_bytes*>(sin)[i];
#pragma unroll
          for (int e = 0; e < in_eight; ++e) {
            cosine[i * in_eight + e] = to_float(cosines.element[e]);
            sine[i * in_eight + e] = to_float(sines.element[e]);
          }
        }
      }
    }
    if (!wide) {
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        cosine[i] = to_float(cos[i]);
        sine[i] = to_float(sin[i]);
      }
    }
  } else {
#if !defined(SWITCHYARD_HIP_DEVICE)
    // In double: a float angle of position 100,000 is off by several thousandths of a radian.
    const double step = -2.0 * log2(static_cast<double>(call.base)) / call.rotary_dim;
    const double ratio = exp2(step);
    double turns =
        static_cast<double>(position) * call.scaling * exp2(step * first_pair) * 0.15915494309189535;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const double fraction = turns - rint(turns);
      sincospif(2.0F * static_cast<float>(fraction), &sine[i], &cosine[i]);
      turns *= ratio;
    }
#endif
  }
  if (call.inverse != 0) {
#pragma unroll
    for (int i = 0; i < Count; ++i) sine[i] = -sine[i];
  }
}

/// `Width` neighbouring elements.
template <class T, int Width>
struct rotary_chunk {
  quad packed;
  __device__ __forceinline__ void load(const T* from) { packed = load_streaming(from); }
  __device__ __forceinline__ void get(float (&values)[Width]) const { unpack<T>(packed, values); }
  __device__ __forceinline__ void set(const float (&values)[Width]) { packed = pack<T>(values); }
  __device__ __forceinline__ void store(T* to) const { store_streaming(to, packed); }
};
/// One element, or one pair, at any alignment of elements.
template <class T, int Width>
requires(Width <= 2) struct rotary_chunk<T, Width> {
  T elements[Width];
  __device__ __forceinline__ void load(const T* from) {
#pragma unroll
    for (int e = 0; e < Width; ++e) elements[e] = from[e];
  }
  __device__ __forceinline__ void get(float (&values)[Width]) const {
#pragma unroll
    for (int e = 0; e < Width; ++e) values[e] = to_float(elements[e]);
  }
  __device__ __forceinline__ void set(const float (&values)[Width]) {
#pragma unroll
    for (int e = 0; e < Width; ++e) from_float(values[e], elements[e]);
  }
  __device__ __forceinline__ void store(T* to) const {
#pragma unroll
    for (int e = 0; e < Width; ++e) to[e] = elements[e];
  }
};

/// `RestWidth`: how many of the elements behind the rotation are copied at once; it divides their number.
/// `FoldsSequences`: the grid's first dimension counts the tiles of all sequences, since its second holds at
/// most 65,535 of them.
template <class T, class Table, bool Interleaved, int Width, int RestWidth, int Threads, int Tokens,
          int Heads, bool FoldsSequences>
__device__ __forceinline__ void rotate(const rotary_call& call) {
  begin_kernel();
  constexpr int pairs = Interleaved ? Width / 2 : Width;
  constexpr int parts = Interleaved ? 1 : 2;  // chunks that a thread turns together
  const i32 half = call.rotary_dim / 2;
  const i32 chunks = half / pairs;
  const i32 slots = Threads / chunks / Tokens;  // threads that share a token and a chunk
  const i32 chunk = thread_index() % chunks;
  const i32 rest = thread_index() / chunks;
  const i32 slot = rest % slots;
  const i32 token_in_block = rest / slots;
  if (token_in_block >= Tokens) return;
  i32 sequence = block_index_y();
  i32 tile = block_index();
  if constexpr (FoldsSequences) {
    const i32 tiles = (call.seqlen - 1) / Tokens + 1;  // no block runs where seqlen is 0
    sequence = tile / tiles;
    tile -= sequence * tiles;
  }
  const rotary_token token{call, sequence, tile * Tokens + token_in_block};
  if (!token.exists) return;

  const i32 all_heads = call.heads + call.heads_kv;
  const T* q =
      static_cast<const T*>(call.q) + token.batch * call.q_stride_batch + token.index * call.q_stride_token;
  const T* k =
      static_cast<const T*>(call.k) + token.batch * call.k_stride_batch + token.index * call.k_stride_token;
  T* q_out = static_cast<T*>(call.q_out) + token.batch * call.q_out_stride_batch +
             token.index * call.q_out_stride_token;
  T* k_out = static_cast<T*>(call.k_out) + token.batch * call.k_out_stride_batch +
             token.index * call.k_out_stride_token;
  const auto source = [&](i32 head) {
    return head < call.heads ? q + head * call.q_stride_head : k + (head - call.heads) * call.k_stride_head;
  };
  const auto target = [&](i32 head) {
    return head < call.heads ? q_out + head * call.q_out_stride_head
                             : k_out + (head - call.heads) * call.k_out_stride_head;
  };

  const i32 at[2] = {chunk * Width, half + chunk * Width};
  rotary_chunk<T, Width> loaded[Heads][parts];
  const auto load = [&](i32 first) {
#pragma unroll
    for (int n = 0; n < Heads; ++n) {
      const i32 head = first + n * slots;
      if (head < all_heads) {
        const T* from = source(head);
#pragma unroll
        for (int p = 0; p < parts; ++p) loaded[n][p].load(from + at[p]);
      }
    }
  };
  load(slot);
  float cosine[pairs];
  float sine[pairs];
  rotary_angles<Table, pairs>(call, token.position, chunk * pairs, cosine, sine);

  for (i32 first = slot; first < all_heads; first += Heads * slots) {
    if (first != slot) load(first);
#pragma unroll
    for (int n = 0; n < Heads; ++n) {
      const i32 head = first + n * slots;
      if (head >= all_heads) break;
      T* to = target(head);
      float x[parts][Width];
#pragma unroll
      for (int p = 0; p < parts; ++p) loaded[n][p].get(x[p]);
#pragma unroll
      for (int i = 0; i < pairs; ++i) {
        float& x0 = Interleaved ? x[0][2 * i] : x[0][i];
        float& x1 = Interleaved ? x[0][2 * i + 1] : x[parts - 1][i];
        const float turned = x0 * cosine[i] - x1 * sine[i];
        x1 = x0 * sine[i] + x1 * cosine[i];
        x0 = turned;
      }
#pragma unroll
      for (int p = 0; p < parts; ++p) {
        loaded[n][p].set(x[p]);
        loaded[n][p].store(to + at[p]);
      }
      const T* from = source(head);
      if (from != to) {
        for (i32 e = call.rotary_dim + chunk * RestWidth; e < call.head_dim; e += chunks * RestWidth) {
          rotary_chunk<T, RestWidth> rest_of_head;
          rest_of_head.load(from + e);
          rest_of_head.store(to + e);
        }
      }
    }
  }
}

}  // namespace sy

#define SY_ROTARY(name, T, Table, interleaved, width, rest, threads, tokens, heads_per_thread, blocks,   \
                  folds)                                                                                 \
  extern "C" SY_KERNEL(threads, blocks)                                                                  \
      name(const void* q, const void* k, void* q_out, void* k_out, const void* cos, const void* sin,     \
           const sy::i64* positions, const sy::i32* cu_seqlens, const sy::i32* sequence_offsets,         \
           sy::i64 offset, sy::i32 seqlen, sy::i32 heads, sy::i32 heads_kv, sy::i32 head_dim,            \
           sy::i32 rotary_dim, sy::i32 inverse, sy::i64 q_stride_batch, sy::i64 q_stride_token,          \
           sy::i64 q_stride_head, sy::i64 k_stride_batch, sy::i64 k_stride_token, sy::i64 k_stride_head, \
           sy::i64 q_out_stride_batch, sy::i64 q_out_stride_token, sy::i64 q_out_stride_head,            \
           sy::i64 k_out_stride_batch, sy::i64 k_out_stride_token, sy::i64 k_out_stride_head,            \
           sy::i64 table_stride, float base, float scaling) {                                            \
    sy::rotate<sy::T, sy::Table, interleaved, width, rest, threads, tokens, heads_per_thread, folds>(    \
        sy::rotary_call{q,                                                                               \
                        k,                                                                               \
                        q_out,                                                                           \
                        k_out,                                                                           \
                        cos,                                                                             \
                        sin,                                                                             \
                        positions,                                                                       \
                        cu_seqlens,                                                                      \
                        sequence_offsets,                                                                \
                        offset,                                                                          \
                        seqlen,                                                                          \
                        heads,                                                                           \
                        heads_kv,                                                                        \
                        head_dim,                                                                        \
                        rotary_dim,                                                                      \
                        inverse,                                                                         \
                        q_stride_batch,                                                                  \
                        q_stride_token,                                                                  \
                        q_stride_head,                                                                   \
                        k_stride_batch,                                                                  \
                        k_stride_token,                                                                  \
                        k_stride_head,                                                                   \
                        q_out_stride_batch,                                                              \
                        q_out_stride_token,                                                              \
                        q_out_stride_head,                                                               \
                        k_out_stride_batch,                                                              \
                        k_out_stride_token,                                                              \
                        k_out_stride_head,                                                               \
                        table_stride,                                                                    \
                        base,                                                                            \
                        scaling});                                                                       \
  }
