// SPDX-License-Identifier: MIT
// What the CPU's attention kernels share: where rows lie, which keys a query sees, and the online softmax.
//
// Private to kernels/attention; unnamed namespace for the reason given in simd.hpp. Scores and weights are
// kept in units of log2, so that every exponential is an exp2.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include <switchyard/base/philox.hpp>
#include <switchyard/operators/attention_forward.hpp>

#include "../host/simd.hpp"

namespace {

using attention_arguments = switchyard::operators::attention_forward::arguments;
using switchyard::operators::attention_mask;

/// What the numbers of a KV head are multiplied with, beside a call's scale.
struct kv_scales {
  const float* k = nullptr;  ///< [heads_kv]; null: 1
  const float* v = nullptr;
  std::int64_t k_stride = 0;
  std::int64_t v_stride = 0;

  [[nodiscard]] float of_k(std::int64_t head) const { return k != nullptr ? k[head * k_stride] : 1.0F; }
  [[nodiscard]] float of_v(std::int64_t head) const { return v != nullptr ? v[head * v_stride] : 1.0F; }
};

/// Keys [begin, end).
struct key_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// One batch entry: its lengths, and where it begins in packed tensors.
struct sequence {
  std::int64_t batch = 0;
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;

  sequence(const attention_arguments& a, std::int64_t b)
      : batch{b},
        first_query{a.cu_seqlens_q != nullptr ? a.cu_seqlens_q[b] : 0},
        first_key{a.cu_seqlens_k != nullptr ? a.cu_seqlens_k[b] : 0},
        queries{a.cu_seqlens_q != nullptr ? a.cu_seqlens_q[b + 1] - first_query : a.seqlen_q},
        keys{a.cu_seqlens_k != nullptr ? a.cu_seqlens_k[b + 1] - first_key : a.seqlen_k} {
    if (a.seqused_q != nullptr) queries = a.seqused_q[b];
    if (a.seqused_k != nullptr) keys = a.seqused_k[b];
  }

  /// The keys that query i sees. Both ends rise with i.
  [[nodiscard]] key_range visible(const attention_arguments& a, std::int64_t i) const {
    const std::int64_t diagonal = a.mask == attention_mask::causal_top_left ? i : i + keys - queries;
    key_range range{0, keys};
    if (a.window_left >= 0) range.begin = std::clamp<std::int64_t>(diagonal - a.window_left, 0, keys);
    if (a.mask != attention_mask::none) range.end = std::clamp<std::int64_t>(diagonal + 1, 0, keys);
    if (a.window_right >= 0) {
      range.end = std::min(range.end, std::clamp<std::int64_t>(diagonal + a.window_right + 1, 0, keys));
    }
    range.begin = std::min(range.begin, range.end);
    return range;
  }
};

/// What a row of queries sees of a tile of keys, all of which lie in one block of a block mask.
struct key_bits {
  const std::uint32_t* words = nullptr;  ///< of the block's first query; null: all keys
  std::int64_t stride = 0;               ///< words of a query
  std::int64_t first = 0;                ///< the tile's first key in the block

  /// Scores of the keys that a query of the block does not see become -infinity.
  void hide(std::int64_t query, std::int64_t count, float* scores) const {
    if (words == nullptr) return;
    const std::uint32_t* const row = words + query * stride;
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t key = first + n;
      if ((row[key / 32] >> (key % 32) & 1U) == 0) scores[n] = -infinity;
    }
  }
};

/// A block mask of a call, forward or backward, for one head of a batch entry.
template <class Arguments>
class block_lists {
 public:
  block_lists(const Arguments& a, std::int64_t batch, std::int64_t head)
      : a_{a}, entry_{(a.mask_batch > 1 ? batch : 0) * a.mask_heads + (a.mask_heads > 1 ? head : 0)} {}

  /// Calls visit(keys, bits) for the tiles of at most `block_n` keys that a block of queries sees.
  template <class Visit>
  void visit_keys(std::int64_t query_block, std::int64_t block_n, const Visit& visit) const {
    const std::int64_t row = entry_ * a_.mask_query_blocks + query_block;
    visit_list(a_.full_kv_num_blocks, a_.full_kv_indices, nullptr, row, a_.mask_key_blocks,
               32 * a_.mask_words, block_n, a_.seqlen_k, visit);
    visit_list(a_.kv_num_blocks, a_.kv_indices, a_.kv_bits, row, a_.mask_key_blocks, 32 * a_.mask_words,
               block_n, a_.seqlen_k, visit);
  }
  /// Calls visit(queries, bits) for the tiles of at most `block_m` queries that see a block of keys.
  template <class Visit>
  void visit_queries(std::int64_t key_block, std::int64_t block_m, const Visit& visit) const {
    const std::int64_t row = entry_ * a_.mask_key_blocks + key_block;
    visit_list(a_.full_q_num_blocks, a_.full_q_indices, nullptr, row, a_.mask_query_blocks, a_.mask_block_q,
               block_m, a_.seqlen_q, visit);
    visit_list(a_.q_num_blocks, a_.q_indices, a_.q_bits, row, a_.mask_query_blocks, a_.mask_block_q, block_m,
               a_.seqlen_q, visit);
  }

 private:
  template <class Visit>
  void visit_list(const std::int32_t* counts, const std::int32_t* indices, const std::int32_t* bits,
                  std::int64_t row, std::int64_t columns, std::int64_t block, std::int64_t step,
                  std::int64_t length, const Visit& visit) const {
    if (counts == nullptr) return;
    for (std::int64_t n = row * columns; n < row * columns + counts[row]; ++n) {
      const std::int64_t begin = indices[n] * block;
      const std::int64_t end = std::min(begin + block, length);
      const std::uint32_t* const words =
          bits == nullptr ? nullptr : a_.mask_bits + std::int64_t{bits[n]} * a_.mask_block_q * a_.mask_words;
      for (std::int64_t at = begin; at < end; at += step)
        visit(key_range{at, std::min(at + step, end)}, key_bits{words, a_.mask_words, at - begin});
    }
  }

  const Arguments& a_;
  std::int64_t entry_;
};

/// Whether query i of a head sees key j under a block mask, if there is one.
[[nodiscard]] inline bool sees_in_blocks(const attention_arguments& a, std::int64_t batch, std::int64_t head,
                                         std::int64_t i, std::int64_t j) {
  if (a.kv_num_blocks == nullptr) return true;
  bool seen = false;
  block_lists{a, batch, head}.visit_keys(
      i / a.mask_block_q, 32 * a.mask_words, [&](key_range keys, const key_bits& bits) {
        if (j < keys.begin || j >= keys.end) return;
        float score = 0.0F;
        const std::int64_t key = j - keys.begin;
        key_bits{bits.words, bits.stride, bits.first + key}.hide(i % a.mask_block_q, 1, &score);
        seen = score == 0.0F;
      });
  return seen;
}

/// What multiplies a head's queries.
[[nodiscard]] inline float scale_of_queries(const attention_arguments& a, std::int64_t head) {
  return a.q_scale != nullptr ? a.q_scale[head * a.q_scale_stride] : 1.0F;
}

template <class Element>
[[nodiscard]] inline const Element* query_row(const attention_arguments& a, const sequence& s, std::int64_t h,
                                              std::int64_t i) {
  return static_cast<const Element*>(a.q) + (a.cu_seqlens_q != nullptr ? 0 : s.batch * a.q_stride_batch) +
         h * a.q_stride_head + (s.first_query + i) * a.q_stride_token;
}

template <class Element>
[[nodiscard]] inline Element* out_row(const attention_arguments& a, const sequence& s, std::int64_t h,
                                      std::int64_t i) {
  return static_cast<Element*>(a.out) + (a.cu_seqlens_q != nullptr ? 0 : s.batch * a.out_stride_batch) +
         h * a.out_stride_head + (s.first_query + i) * a.out_stride_token;
}

inline void write_lse(const attention_arguments& a, const sequence& s, std::int64_t h, std::int64_t i,
                      float value) {
  if (a.lse == nullptr) return;
  a.lse[(a.cu_seqlens_q != nullptr ? s.first_query : s.batch * a.lse_stride_batch) + h * a.lse_stride_head +
        i] = value;
}

/// Where the rows of keys `begin` to `end` of a KV head lie, paged or not.
template <class Element>
inline void key_rows(const attention_arguments& a, const sequence& s, std::int64_t head_kv, key_range range,
                     const Element** k_rows, const Element** v_rows) {
  const Element* k = static_cast<const Element*>(a.k) + head_kv * a.k_stride_head;
  const Element* v = static_cast<const Element*>(a.v) + head_kv * a.v_stride_head;
  if (a.block_table != nullptr) {
    const std::int32_t* pages = a.block_table + s.batch * a.block_table_stride;
    std::int64_t page = range.begin / a.page_size;
    std::int64_t slot = range.begin % a.page_size;
    for (std::int64_t j = range.begin; j < range.end; ++j) {
      *k_rows++ = k + pages[page] * a.k_stride_batch + slot * a.k_stride_token;
      *v_rows++ = v + pages[page] * a.v_stride_batch + slot * a.v_stride_token;
      if (++slot == a.page_size) {
        slot = 0;
        ++page;
      }
    }
    return;
  }
  if (a.cu_seqlens_k == nullptr) {
    k += s.batch * a.k_stride_batch;
    v += s.batch * a.v_stride_batch;
  }
  for (std::int64_t j = range.begin; j < range.end; ++j) {
    *k_rows++ = k + (s.first_key + j) * a.k_stride_token;
    *v_rows++ = v + (s.first_key + j) * a.v_stride_token;
  }
}

/// The keys and values of a call where they lie.
template <class Kv>
struct rows_in_place {
  using element = Kv;

  template <class Arena>
  void take(Arena& /*memory*/, std::int64_t /*block_n*/) const {}
  void find(const attention_arguments& a, const sequence& s, std::int64_t head_kv, key_range range,
            const Kv** k_rows, const Kv** v_rows) const {
    key_rows(a, s, head_kv, range, k_rows, v_rows);
  }
};

/// Whether scores need more than scaling, so that the scale cannot be put into the queries.
[[nodiscard]] inline bool has_score_terms(const attention_arguments& a) {
  return a.soft_cap != 0.0F || a.bias != nullptr || a.alibi_slopes != nullptr;
}

/// What queries are multiplied with before their products with keys.
[[nodiscard]] inline float query_scale(const attention_arguments& a) {
  if (a.soft_cap != 0.0F) return a.scale / a.soft_cap;
  return has_score_terms(a) ? a.scale : a.scale * log2e;
}

/// Softmax of a row so far: the largest score, and the sum of exp2(score - largest).
struct softmax_state {
  float largest = -infinity;
  float sum = 0.0F;

  static softmax_state of_row(const attention_arguments& a, std::int64_t h) {
    if (a.sinks == nullptr || a.sinks[h] == -infinity) return {};
    return {a.sinks[h] * log2e, 1.0F};
  }
  [[nodiscard]] float lse() const { return sum == 0.0F ? -infinity : (largest + std::log2(sum)) * ln2; }
  /// What accumulated values are multiplied with in the end.
  [[nodiscard]] float normaliser(const attention_arguments& a) const {
    return sum == 0.0F ? 0.0F : 1.0F / (sum * (1.0F - a.dropout_p));
  }
};

[[nodiscard]] inline float exp2_of(float x) {
  return exp2(splat(x))[0];
}

/// Scores of one query row, in natural units, become scores in log2 units with cap, bias and ALiBi.
template <class Element>
inline void add_score_terms(const attention_arguments& a, const sequence& s, std::int64_t h, std::int64_t i,
                            key_range tile, float* scores) {
  const Element* bias = a.bias == nullptr
                            ? nullptr
                            : static_cast<const Element*>(a.bias) + s.batch * a.bias_stride_batch +
                                  h * a.bias_stride_head + i * a.bias_stride_row + tile.begin;
  const float slope = a.alibi_slopes == nullptr ? 0.0F : a.alibi_slopes[h];
  const std::int64_t centre = i + s.keys - s.queries - tile.begin;
  floats distance;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    distance[lane] = static_cast<float>(centre - static_cast<std::int64_t>(lane));
  }
  const auto width = static_cast<std::int64_t>(lanes);
  for (std::int64_t n = 0; n < tile.end - tile.begin; n += width) {
    floats x = load(scores + n);
    if (a.soft_cap != 0.0F) x = tanh(x) * a.soft_cap;
    if (bias != nullptr) {
      const std::int64_t rest = tile.end - tile.begin - n;
      x += rest >= width ? load(bias + n) : load_first(bias + n, static_cast<std::size_t>(rest));
    }
    if (a.alibi_slopes != nullptr) {
      x -= slope * bits_of<floats>(bits_of<words>(distance) & 0x7FFF'FFFFU);
      distance -= static_cast<float>(lanes);
    }
    store(scores + n, x * log2e);
  }
}

/// Drops weights of one query row. The rest are scaled at the end, by the normaliser.
inline void drop(const attention_arguments& a, std::int64_t head, std::int64_t i, key_range tile,
                 float* weights) {
  const std::uint64_t seed = a.dropout_state != nullptr ? a.dropout_state[0] : a.dropout_seed;
  const std::uint64_t offset = a.dropout_state != nullptr ? a.dropout_state[1] : a.dropout_offset;
  const std::uint32_t threshold = switchyard::dropout_threshold(a.dropout_p);
  for (std::int64_t j = tile.begin; j < tile.end;) {
    const auto random =
        switchyard::dropout_words(seed, offset, static_cast<std::uint32_t>(head),
                                  static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j / 4));
    for (std::int64_t end = std::min(tile.end, (j / 4 + 1) * 4); j < end; ++j) {
      if (random[static_cast<std::size_t>(j % 4)] < threshold) weights[j - tile.begin] = 0.0F;
    }
  }
}

/// One query row against the keys of a tile: scores become weights exp2(score - largest), and the state takes
/// them in. `padded` is the tile's length rounded up to whole vectors; the weights behind its end become 0.
/// Returns what the row's earlier accumulated values are multiplied with.
template <class Element>
inline float weigh(const attention_arguments& a, const sequence& s, std::int64_t h, std::int64_t i,
                   key_range tile, std::int64_t padded, float* scores, softmax_state& state) {
  if (has_score_terms(a)) add_score_terms<Element>(a, s, h, i, tile, scores);
  const key_range seen = s.visible(a, i);
  if (seen.begin > tile.begin) {
    std::fill_n(scores, std::min(seen.begin, tile.end) - tile.begin, -infinity);
  }
  const std::int64_t end = std::max(std::min(seen.end, tile.end) - tile.begin, std::int64_t{0});
  if (end < padded) std::fill(scores + end, scores + padded, -infinity);

  const auto width = static_cast<std::int64_t>(lanes);
  floats most = load(scores);
  for (std::int64_t n = width; n < padded; n += width) most = larger(load(scores + n), most);
  const float largest = std::max(state.largest, largest_of(most));
  const float shift = largest == -infinity ? 0.0F : largest;
  const float rescale = exp2_of(state.largest - shift);
  floats total{};
  for (std::int64_t n = 0; n < padded; n += width) {
    const floats weights = exp2(load(scores + n) - shift);
    total += weights;
    store(scores + n, weights);
  }
  state.largest = largest;
  state.sum = state.sum * rescale + sum_of(total);
  if (a.dropout_p != 0.0F) drop(a, s.batch * a.heads + h, i, tile, scores);
  return rescale;
}

/// Normalises accumulated values, multiplies them, and writes them as a row of the output.
template <class Element>
inline void write_row(const attention_arguments& a, const sequence& s, std::int64_t h, std::int64_t i,
                      const float* values, const softmax_state& state, float multiplier = 1.0F) {
  const float factor = state.normaliser(a) * multiplier;
  Element* out = out_row<Element>(a, s, h, i);
  const auto width = static_cast<std::int64_t>(lanes);
  std::int64_t d = 0;
  for (; d + width <= a.head_dim_v; d += width) store(out + d, load(values + d) * factor);
  if (d < a.head_dim_v) {
    // Rows of values are padded to whole vectors.
    store_first(out + d, load(values + d) * factor, static_cast<std::size_t>(a.head_dim_v - d));
  }
  write_lse(a, s, h, i, state.lse());
}

/// Hands out pieces of a block's scratch, 64-byte aligned.
class arena {
 public:
  explicit arena(std::span<std::byte> memory) : next_{memory.data()} {}

  template <class Value>
  [[nodiscard]] Value* take(std::int64_t count) {
    auto* result = reinterpret_cast<Value*>(next_);
    next_ += (count * static_cast<std::int64_t>(sizeof(Value)) + 63) / 64 * 64;
    return result;
  }

 private:
  std::byte* next_;
};

[[nodiscard]] constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace
