// SPDX-License-Identifier: MIT
// Queries turned in place, keys turned and written to a paged cache with the values, in one launch.
// Semantics: operators/rotary_cache.hpp.
//
// `Lanes` neighbouring lanes take a head: a query's, a key's or a value's. A lane takes a unit of it, `Width`
// pairs: two runs of Width elements that are turned with each other, of which half style has the second half
// a rotation away, and interleaved style and what is not turned have it next to the first. With Width 1 lanes
// take units in turn, and heads may be of any size. Lanes take `Heads` heads of one token, loaded before the
// first is used, so that cosines and sines are read once for all of them.
#include "../gpu/float8.hpp"
#include "../gpu/split_index.hpp"

namespace sy {

struct rotary_cache_call {
  void* q;
  const void* k;
  const void* v;
  void* k_cache;
  void* v_cache;
  const float* cos;
  const float* sin;
  const i64* positions;
  const i64* slots;
  const float* q_gamma;
  const float* k_gamma;
  const float* k_scale;
  const float* v_scale;
  i64 tokens, heads, heads_kv, head_dim, rotary_dim, page_size;
  i64 q_stride_token, q_stride_head;
  i64 k_stride_token, k_stride_head;
  i64 v_stride_token, v_stride_head;
  i64 k_cache_stride_page, k_cache_stride_token, k_cache_stride_head;
  i64 v_cache_stride_page, v_cache_stride_token, v_cache_stride_head;
  i64 table_stride;
  i64 k_scale_stride, v_scale_stride;
  float epsilon;
};

/// Neighbouring floats, which may lie at a multiple of 16 bytes.
template <int Count>
__device__ __forceinline__ void load_floats(const float* from, float (&values)[Count]) {
  if constexpr (Count % 4 == 0) {
    if (reinterpret_cast<size_t>(from) % 16 == 0) {
#pragma unroll
      for (int i = 0; i < Count; i += 4) {
        const quad some = load_quad(from + i);
#pragma unroll
        for (int e = 0; e < 4; ++e) values[i + e] = as_float(some.word[e]);
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < Count; ++i) values[i] = from[i];
}

template <int Words>
struct alignas(4 * Words) word_run {
  u32 word[Words];
};

/// `Width` neighbouring elements rounded and stored at a multiple of their size together.
template <class T, int Width>
__device__ __forceinline__ void store_run(T* to, const float (&values)[Width]) {
  if constexpr (Width == 1) {
    from_float(values[0], *to);
  } else if constexpr (width_of<T> == Width) {
    store_quad(to, pack<T>(values));
  } else {
    constexpr int in_word = 4 / static_cast<int>(sizeof(T));
    word_run<Width / in_word> packed;
#pragma unroll
    for (int i = 0; i < Width / in_word; ++i) {
      packed.word[i] = 0;
#pragma unroll
      for (int e = 0; e < in_word; ++e) {
        T element;
        from_float(values[i * in_word + e], element);
        packed.word[i] |= static_cast<u32>(element.bits) << (8 * static_cast<int>(sizeof(T)) * e);
      }
    }
    *reinterpret_cast<word_run<Width / in_word>*>(to) = packed;
  }
}

/// Two runs of a head; the second may lie behind the head's end, and is 0 then.
template <class T, int Width>
struct rotary_unit {
  quad packed[2];
  static __device__ __forceinline__ quad run(const T* from) { return load_quad(from); }
  static __device__ __forceinline__ void floats(const quad& packed, float (&values)[Width]) {
    unpack<T>(packed, values);
  }
};
template <class T>
struct rotary_unit<T, 1> {
  T packed[2];
  static __device__ __forceinline__ T run(const T* from) { return *from; }
  static __device__ __forceinline__ void floats(const T& packed, float (&values)[1]) {
    values[0] = to_float(packed);
  }
};

/// Where the runs of a unit are. Of a value's head nothing is turned.
struct unit_place {
  i32 first;
  i32 second;
  bool is_turned;

  template <bool Interleaved, int Width>
  static __device__ __forceinline__ unit_place of(i32 unit, i32 half) {
    const bool is_turned = unit < half / Width;
    if (!Interleaved && is_turned) return {unit * Width, half + unit * Width, true};
    return {2 * unit * Width, 2 * unit * Width + Width, is_turned};
  }
};

/// A head: what it is, where it comes from, and where it goes.
template <class T, class Cached>
struct rotary_head {
  const T* from;
  T* to;              ///< of a query
  Cached* to_cached;  ///< of a key or a value
  const float* gamma;
  float scale;
  bool is_turned;
  bool exists;

  /// The token's head `index` of its queries, then its keys, then its values.
  __device__ __forceinline__ rotary_head(const rotary_cache_call& call, i64 token, i64 index, i64 page,
                                         i64 within, bool is_cached) {
    from = nullptr;
    to = nullptr;
    to_cached = nullptr;
    gamma = nullptr;
    scale = 1.0F;
    is_turned = true;
    exists = true;
    if (index < call.heads) {
      to = static_cast<T*>(call.q) + token * call.q_stride_token + index * call.q_stride_head;
      from = to;
      gamma = call.q_gamma;
    } else if (index < call.heads + call.heads_kv) {
      const i64 head = index - call.heads;
      from = static_cast<const T*>(call.k) + token * call.k_stride_token + head * call.k_stride_head;
      to_cached = static_cast<Cached*>(call.k_cache) + page * call.k_cache_stride_page +
                  within * call.k_cache_stride_token + head * call.k_cache_stride_head;
      gamma = call.k_gamma;
      if (call.k_scale != nullptr && is_cached) scale = 1.0F / call.k_scale[head * call.k_scale_stride];
      exists = is_cached;
    } else if (index < call.heads + 2 * call.heads_kv) {
      const i64 head = index - call.heads - call.heads_kv;
      from = static_cast<const T*>(call.v) + token * call.v_stride_token + head * call.v_stride_head;
      to_cached = static_cast<Cached*>(call.v_cache) + page * call.v_cache_stride_page +
                  within * call.v_cache_stride_token + head * call.v_cache_stride_head;
      if (call.v_scale != nullptr && is_cached) scale = 1.0F / call.v_scale[head * call.v_scale_stride];
      is_turned = false;
      exists = is_cached;
    } else {
      exists = false;
    }
  }
};

template <class T, class Cached, bool Interleaved, int Width, int Lanes, int Heads, int Threads>
__device__ __forceinline__ void place(const rotary_cache_call& call) {
  static_assert(Width > 1 || Heads == 1, "the angles of further units take the place of the first's");
  begin_kernel();
  using unit_type = rotary_unit<T, Width>;
  const i64 all_heads = call.heads + 2 * call.heads_kv;
  const i64 groups = (all_heads + Heads - 1) / Heads;  // of the heads of a token
  const i64 group = static_cast<i64>(block_index()) * (Threads / Lanes) + thread_index() / Lanes;
  const i32 lane = thread_index() % Lanes;
  const split_index at{group, groups};
  const i64 token = at.quotient;
  const bool is_token = token < call.tokens;
  // Lanes without a head go along: those of their warp exchange sums with them.
  const i64 position = is_token ? call.positions[token] : 0;
  const i64 slot = is_token ? call.slots[token] : -1;
  const split_index paged{slot < 0 ? 0 : slot, call.page_size};
  const i32 head_dim = static_cast<i32>(call.head_dim);
  const i32 units = (head_dim + 2 * Width - 1) / (2 * Width);
  const bool is_normalised = call.q_gamma != nullptr || call.k_gamma != nullptr;

  const auto place_of = [&](i32 unit, bool is_turned) {
    return unit_place::of<Interleaved, Width>(unit, is_turned ? static_cast<i32>(call.rotary_dim / 2) : 0);
  };
  const auto load = [&](unit_type& to, const T* from, const unit_place& where) {
    to.packed[0] = unit_type::run(from + where.first);
    to.packed[1] = {};
    if (where.second < head_dim) to.packed[1] = unit_type::run(from + where.second);
  };

  unit_type loaded[Heads];
#pragma unroll
  for (int n = 0; n < Heads; ++n) {
    const rotary_head<T, Cached> head{call,           token,      at.rest * Heads + n,
                                      paged.quotient, paged.rest, slot >= 0};
    if (is_token && head.exists && lane < units) load(loaded[n], head.from, place_of(lane, head.is_turned));
  }

  float cosine[Width];
  float sine[Width];
  const auto load_angles = [&](i32 unit) {
    if (is_token && unit * Width < static_cast<i32>(call.rotary_dim / 2)) {
      load_floats(call.cos + position * call.table_stride + unit * Width, cosine);
      load_floats(call.sin + position * call.table_stride + unit * Width, sine);
    }
  };
  load_angles(lane);

#pragma unroll
  for (int n = 0; n < Heads; ++n) {
    const rotary_head<T, Cached> head{call,           token,      at.rest * Heads + n,
                                      paged.quotient, paged.rest, slot >= 0};
    const bool is_served = is_token && head.exists;
    float factor = 1.0F;
    if (is_normalised) {
      float squares = 0.0F;
      if (is_served && head.gamma != nullptr) {
        for (i32 unit = lane; unit < units; unit += Lanes) {
          unit_type here = loaded[n];
          if (unit != lane) load(here, head.from, place_of(unit, head.is_turned));
#pragma unroll
          for (int part = 0; part < 2; ++part) {
            float values[Width];
            unit_type::floats(here.packed[part], values);
#pragma unroll
            for (int e = 0; e < Width; ++e) squares += values[e] * values[e];
          }
          if constexpr (Width > 1) break;
        }
      }
#pragma unroll
      for (int mask = Lanes / 2; mask > 0; mask /= 2) squares += shuffle_xor(squares, mask);
      factor = reciprocal_square_root(squares / static_cast<float>(head_dim) + call.epsilon);
    }
    if (!is_served) continue;
    for (i32 unit = lane; unit < units; unit += Lanes) {
      const unit_place where = place_of(unit, head.is_turned);
      if (unit != lane) {
        load(loaded[n], head.from, where);
        load_angles(unit);
      }
      const bool has_second = where.second < head_dim;
      float x[2][Width];
#pragma unroll
      for (int part = 0; part < 2; ++part) unit_type::floats(loaded[n].packed[part], x[part]);
      if (head.gamma != nullptr) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          if (part == 1 && !has_second) break;
          float gamma[Width];
          load_floats(head.gamma + (part == 0 ? where.first : where.second), gamma);
#pragma unroll
          for (int e = 0; e < Width; ++e) x[part][e] *= factor * gamma[e];
        }
      }
      if (where.is_turned) {
#pragma unroll
        for (int i = 0; i < Width; ++i) {
          float& x0 = Interleaved ? x[2 * i / Width][2 * i % Width] : x[0][i];
          float& x1 = Interleaved ? x[(2 * i + 1) / Width][(2 * i + 1) % Width] : x[1][i];
          const float turned = x0 * cosine[i] - x1 * sine[i];
          x1 = x0 * sine[i] + x1 * cosine[i];
          x0 = turned;
        }
      }
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        if (part == 1 && !has_second) break;
        const i32 offset = part == 0 ? where.first : where.second;
        if (head.to != nullptr) {
          store_run(head.to + offset, x[part]);
        } else {
#pragma unroll
          for (int e = 0; e < Width; ++e) x[part][e] *= head.scale;
          store_run(head.to_cached + offset, x[part]);
        }
      }
      if constexpr (Width > 1) break;
    }
  }
}

}  // namespace sy

#define SY_ROTARY_CACHE(name, T, Cached, interleaved, width, lanes, heads_per_thread, threads) \
  extern "C" SY_KERNEL(threads, 1) name(sy::rotary_cache_call call) {                          \
    sy::place<sy::T, sy::Cached, interleaved, width, lanes, heads_per_thread, threads>(call);  \
  }
