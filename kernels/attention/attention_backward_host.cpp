// SPDX-License-Identifier: MIT
// Attention backward on the CPU, in the manner of FlashAttention-2: weights are computed again, a tile at a
// time, and no matrix of all scores exists.
//
//   attention_backward_sums     delta, the sum of dout * out less dlse, of each query row
//   attention_backward_keys     dk and dv of a tile of keys, which meets all rows that see it
//   attention_backward_queries  dq of a tile of rows, which meets its keys
//   attention_backward_block_keys, attention_backward_block_queries
//                               the same under a block mask
//   attention_backward_bias     a tile of dbias, which meets all that is broadcast to it
//
// Nothing is added up from several blocks, so results are the same in every run. Compiled once for each
// instruction set.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/operators/attention_backward.hpp>

#include "attention_products.hpp"

namespace {

using switchyard::host::block;
using backward_arguments = switchyard::operators::attention_backward::arguments;

/// The forward call, as far as scores depend on it.
[[nodiscard]] attention_arguments forward_of(const backward_arguments& a) {
  attention_arguments f;
  f.q = a.q;
  f.k = a.k;
  f.v = a.v;
  f.bias = a.bias;
  f.alibi_slopes = a.alibi_slopes;
  f.cu_seqlens_q = a.cu_seqlens_q;
  f.cu_seqlens_k = a.cu_seqlens_k;
  f.seqused_q = a.seqused_q;
  f.seqused_k = a.seqused_k;
  f.dropout_state = a.dropout_state;
  f.batch = a.batch;
  f.heads = a.heads;
  f.heads_kv = a.heads_kv;
  f.seqlen_q = a.seqlen_q;
  f.seqlen_k = a.seqlen_k;
  f.head_dim = a.head_dim;
  f.head_dim_v = a.head_dim_v;
  f.q_stride_batch = a.q_stride_batch;
  f.q_stride_head = a.q_stride_head;
  f.q_stride_token = a.q_stride_token;
  f.k_stride_batch = a.k_stride_batch;
  f.k_stride_head = a.k_stride_head;
  f.k_stride_token = a.k_stride_token;
  f.v_stride_batch = a.v_stride_batch;
  f.v_stride_head = a.v_stride_head;
  f.v_stride_token = a.v_stride_token;
  f.bias_stride_batch = a.bias_stride_batch;
  f.bias_stride_head = a.bias_stride_head;
  f.bias_stride_row = a.bias_stride_row;
  f.scale = a.scale;
  f.soft_cap = a.soft_cap;
  f.dropout_p = a.dropout_p;
  f.window_left = a.window_left;
  f.window_right = a.window_right;
  f.dropout_seed = a.dropout_seed;
  f.dropout_offset = a.dropout_offset;
  f.mask = a.mask;
  return f;
}

/// A row of a tensor that is laid out as queries are.
template <class Element>
[[nodiscard]] Element* row_of(Element* tensor, bool packed, const sequence& s, std::int64_t h, std::int64_t i,
                              std::int64_t batch, std::int64_t head, std::int64_t token) {
  return tensor + (packed ? 0 : s.batch * batch) + h * head + (s.first_query + i) * token;
}

template <class Element>
[[nodiscard]] const Element* dout_row(const backward_arguments& a, const sequence& s, std::int64_t h,
                                      std::int64_t i) {
  return row_of(static_cast<const Element*>(a.dout), a.cu_seqlens_q != nullptr, s, h, i, a.dout_stride_batch,
                a.dout_stride_head, a.dout_stride_token);
}

template <class Element>
[[nodiscard]] const Element* out_row(const backward_arguments& a, const sequence& s, std::int64_t h,
                                     std::int64_t i) {
  return row_of(static_cast<const Element*>(a.out), a.cu_seqlens_q != nullptr, s, h, i, a.out_stride_batch,
                a.out_stride_head, a.out_stride_token);
}

/// The place of a row in lse and dlse, behind its batch entry and head.
[[nodiscard]] std::int64_t lse_row(const backward_arguments& a, const sequence& s, std::int64_t i,
                                   std::int64_t stride_batch) {
  return (a.cu_seqlens_q != nullptr ? s.first_query : s.batch * stride_batch) + i;
}

/// The gradient of a row's LSE; 0 for a row without keys, whose number may be NaN.
[[nodiscard]] float dlse_of(const backward_arguments& a, const sequence& s, std::int64_t h, std::int64_t i) {
  if (a.dlse == nullptr) return 0.0F;
  const float lse = a.lse[lse_row(a, s, i, a.lse_stride_batch) + h * a.lse_stride_head];
  return lse == -infinity ? 0.0F : a.dlse[lse_row(a, s, i, a.dlse_stride_batch) + h * a.dlse_stride_head];
}

/// LSE of a row in units of log2; infinite, so that weights are 0, for a row without keys.
[[nodiscard]] float base2_lse(const backward_arguments& a, const sequence& s, std::int64_t h,
                              std::int64_t i) {
  const float value = a.lse[lse_row(a, s, i, a.lse_stride_batch) + h * a.lse_stride_head];
  return value == -infinity ? infinity : value * log2e;
}

/// Writes a row of floats, padded to whole vectors, as elements.
template <class Element>
void write_floats(const float* from, std::int64_t count, float factor, Element* to) {
  std::int64_t d = 0;
  for (; d + width <= count; d += width) store(to + d, load(from + d) * factor);
  if (d < count) store_first(to + d, load(from + d) * factor, static_cast<std::size_t>(count - d));
}

/// Copies rows as floats; columns and rows up to the padding are zero.
template <class Element>
void copy_rows(const Element* const* rows, std::int64_t count, std::int64_t padded_rows, std::int64_t dim,
               float* to) {
  for (std::int64_t r = 0; r < count; ++r, to += dim) {
    std::int64_t d = 0;
    for (; d + width <= dim; d += width) store(to + d, load(rows[r] + d));
    for (; d < dim; ++d) to[d] = to_float(rows[r][d]);
  }
  std::fill_n(to, (padded_rows - count) * dim, 0.0F);
}

/// A product of `rows` rows (padded to whole steps) with all panels of b: c[rows][columns].
template <into How, bool Transposed = false>
void multiply_all(const float* a, std::int64_t stride_a, std::int64_t rows, const float* b,
                  std::int64_t depth, std::int64_t columns, float* c, std::int64_t stride_c) {
  const auto step = static_cast<std::int64_t>(tile_rows);
  for (std::int64_t n = 0; n < columns; n += panel) {
    for (std::int64_t r = 0; r < rows; r += step) {
      multiply<How, Transposed>(a + (Transposed ? r : r * stride_a), stride_a, b + n * depth, depth,
                                c + r * stride_c + n, stride_c, nullptr);
    }
  }
}

/// Rows of queries: what a tile of them needs for meeting keys.
template <class Element>
struct row_tile {
  const Element** q_rows;
  const Element** dout_rows;
  float* queries;  ///< scaled for scores
  float* douts;
  float* lse;
  float* delta;

  row_tile(arena& memory, const attention_arguments& a, std::int64_t block_m)
      : q_rows{memory.take<const Element*>(block_m)},
        dout_rows{memory.take<const Element*>(block_m)},
        queries{memory.take<float>(padded(block_m) * a.head_dim)},
        douts{memory.take<float>(padded(block_m) * a.head_dim_v)},
        lse{memory.take<float>(block_m)},
        delta{memory.take<float>(block_m)} {}

  void read(const backward_arguments& a, const row_range& rows, const float* deltas) {
    const std::int64_t count = rows.count();
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t h = rows.head(r);
      const std::int64_t i = rows.query(r);
      q_rows[r] = query_row<Element>(rows.a, rows.s, h, i);
      dout_rows[r] = dout_row<Element>(a, rows.s, h, i);
      lse[r] = base2_lse(a, rows.s, h, i);
      delta[r] = deltas[(rows.s.batch * a.heads + h) * a.seqlen_q + i];
    }
    pack_queries<Element>(rows, padded(count), a.head_dim, queries);
    copy_rows(dout_rows, count, padded(count), a.head_dim_v, douts);
  }

  [[nodiscard]] static std::int64_t padded(std::int64_t count) {
    return round_up(count, static_cast<std::int64_t>(tile_rows));
  }
};

/// Weights and slopes of a tile of rows and a tile of keys, [rows][block_n].
struct score_tile {
  std::int64_t stride;
  float* weights;  ///< of values: with dropout
  float* slopes;   ///< of scores before their cap, or of the bias
  float* flats;    ///< by how much the cap flattens a row's scores
  float* kept;     ///< 1 / (1 - dropout_p) or 0, of a row

  score_tile(arena& memory, std::int64_t block_m, std::int64_t block_n)
      : stride{block_n},
        weights{memory.take<float>(round_up(block_m, 12) * block_n + panel)},
        slopes{memory.take<float>(round_up(block_m, 12) * block_n + panel)},
        flats{memory.take<float>(block_n)},
        kept{memory.take<float>(block_n)} {}

  /// Products along queries read whole steps of keys.
  void clear(std::int64_t block_m) {
    std::fill_n(weights, round_up(block_m, 12) * stride + panel, 0.0F);
    std::fill_n(slopes, round_up(block_m, 12) * stride + panel, 0.0F);
  }

  /// `keys` and `values` are the tile's, packed as columns. `bits` are those of a block mask, of the block
  /// whose first query is given.
  template <class Element>
  void compute(const row_range& rows, const row_tile<Element>& from, key_range tile, const float* keys,
               const float* values, bool of_bias, const key_bits& bits = {}, std::int64_t first_query = 0) {
    const attention_arguments& a = rows.a;
    const std::int64_t count = tile.end - tile.begin;
    const std::int64_t whole = round_up(count, width);
    const std::int64_t padded = row_tile<Element>::padded(rows.count());
    multiply_all<into::set>(from.queries, a.head_dim, padded, keys, a.head_dim, count, weights, stride);
    multiply_all<into::set>(from.douts, a.head_dim_v, padded, values, a.head_dim_v, count, slopes, stride);
    for (std::int64_t r = 0; r < rows.count(); ++r) {
      float* const weight = weights + r * stride;
      float* const slope = slopes + r * stride;
      const std::int64_t h = rows.head(r);
      const std::int64_t i = rows.query(r);
      if (a.soft_cap != 0.0F && !of_bias) {
        for (std::int64_t n = 0; n < whole; n += width) {
          const floats bent = tanh(load(weight + n));
          store(flats + n, splat(1.0F) - bent * bent);
        }
      }
      if (has_score_terms(a)) add_score_terms<Element>(a, rows.s, h, i, tile, weight);
      hide(rows.s.visible(a, i), tile, weight);
      bits.hide(i - first_query, count, weight);
      if (a.dropout_p != 0.0F) {
        std::fill_n(kept, whole, 1.0F / (1.0F - a.dropout_p));
        drop(a, rows.s.batch * a.heads + h, i, tile, kept);
      }
      const floats lse = splat(from.lse[r]);
      const floats delta = splat(from.delta[r]);
      for (std::int64_t n = 0; n < whole; n += width) {
        floats value = exp2(load(weight + n) - lse);
        floats gradient = load(slope + n);
        floats dropped = value;
        if (a.dropout_p != 0.0F) {
          gradient *= load(kept + n);
          dropped *= load(kept + n);
        }
        gradient = value * (gradient - delta);
        if (a.soft_cap != 0.0F && !of_bias) gradient *= load(flats + n);
        store(weight + n, dropped);
        store(slope + n, gradient);
      }
    }
    // Rows that only pad: a transposed product reads them not, but one along keys may.
    for (std::int64_t r = rows.count(); r < padded; ++r) {
      std::fill_n(weights + r * stride, whole, 0.0F);
      std::fill_n(slopes + r * stride, whole, 0.0F);
    }
  }

 private:
  /// Scores of keys that are not seen, up to whole vectors, become -infinity.
  static void hide(key_range seen, key_range tile, float* scores) {
    const std::int64_t count = tile.end - tile.begin;
    const std::int64_t begin = std::clamp<std::int64_t>(seen.begin - tile.begin, 0, count);
    const std::int64_t end = std::clamp<std::int64_t>(seen.end - tile.begin, begin, count);
    std::fill_n(scores, begin, -infinity);
    std::fill(scores + end, scores + round_up(count, width), -infinity);
  }
};

/// A tile of keys and values as columns, for products with rows.
template <class Element>
struct key_tile {
  const Element** k_rows;
  const Element** v_rows;
  float* keys;
  float* values;

  key_tile(arena& memory, const attention_arguments& a, std::int64_t block_n)
      : k_rows{memory.take<const Element*>(block_n)},
        v_rows{memory.take<const Element*>(block_n)},
        keys{memory.take<float>(block_n * a.head_dim)},
        values{memory.take<float>(block_n * a.head_dim_v)} {}

  void read(const attention_arguments& a, const sequence& s, std::int64_t head_kv, key_range tile) {
    key_rows(a, s, head_kv, tile, k_rows, v_rows);
    pack_keys(k_rows, tile.end - tile.begin, a.head_dim, keys);
    pack_keys(v_rows, tile.end - tile.begin, a.head_dim_v, values);
  }
};

template <class Element>
void attention_backward_sums(const block& this_block, backward_arguments a, std::int32_t block_m,
                             float* delta) {
  const attention_arguments f = forward_of(a);
  const std::int64_t head = this_block.index.y % a.heads;
  const sequence s{f, this_block.index.y / a.heads};
  const std::int64_t begin = std::int64_t{this_block.index.x} * block_m;
  for (std::int64_t i = begin; i < std::min(begin + block_m, s.queries); ++i) {
    const Element* out = out_row<Element>(a, s, head, i);
    const Element* dout = dout_row<Element>(a, s, head, i);
    floats sum{};
    std::int64_t d = 0;
    for (; d + width <= a.head_dim_v; d += width) sum += load(out + d) * load(dout + d);
    if (d < a.head_dim_v) {
      const auto rest = static_cast<std::size_t>(a.head_dim_v - d);
      sum += load_first(out + d, rest) * load_first(dout + d, rest);
    }
    delta[(s.batch * a.heads + head) * a.seqlen_q + i] = sum_of(sum) - dlse_of(a, s, head, i);
  }
}

/// What a tile of keys adds up.
template <class Element>
struct key_sums {
  const backward_arguments& a;
  std::int64_t count;
  std::int64_t stride_k;
  std::int64_t stride_v;
  float* packed;
  float* dk;
  float* dv;

  key_sums(arena& memory, const backward_arguments& arguments, std::int64_t keys, std::int64_t block_m,
           std::int64_t block_n)
      : a{arguments},
        count{keys},
        stride_k{round_up(a.head_dim, panel)},
        stride_v{round_up(a.head_dim_v, panel)},
        packed{memory.take<float>(block_m * std::max(stride_k, stride_v))},
        dk{memory.take<float>(steps(block_n) * stride_k)},
        dv{memory.take<float>(steps(block_n) * stride_v)} {
    std::fill_n(dk, steps(count) * stride_k, 0.0F);
    std::fill_n(dv, steps(count) * stride_v, 0.0F);
  }

  /// Adds a tile of rows, whose weights and slopes have been computed.
  void add(const row_range& rows, const row_tile<Element>& from, const score_tile& scores) {
    pack_values(from.dout_rows, rows.count(), a.head_dim_v, packed);
    multiply_all<into::added, true>(scores.weights, scores.stride, steps(count), packed, rows.count(),
                                    a.head_dim_v, dv, stride_v);
    pack_values(from.q_rows, rows.count(), a.head_dim, packed);
    multiply_all<into::added, true>(scores.slopes, scores.stride, steps(count), packed, rows.count(),
                                    a.head_dim, dk, stride_k);
  }

  void write(const sequence& s, std::int64_t head_kv, std::int64_t first) const {
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t token = s.first_key + first + n;
      const std::int64_t entry = a.cu_seqlens_k != nullptr ? 0 : s.batch;
      write_floats(dk + n * stride_k, a.head_dim, a.scale,
                   static_cast<Element*>(a.dk) + entry * a.dk_stride_batch + head_kv * a.dk_stride_head +
                       token * a.dk_stride_token);
      write_floats(dv + n * stride_v, a.head_dim_v, 1.0F,
                   static_cast<Element*>(a.dv) + entry * a.dv_stride_batch + head_kv * a.dv_stride_head +
                       token * a.dv_stride_token);
    }
  }

 private:
  [[nodiscard]] static std::int64_t steps(std::int64_t rows) {
    return round_up(rows, static_cast<std::int64_t>(tile_rows));
  }
};

/// dk and dv of a tile of keys. `visit` is given the tile, and what adds rows that see some of it; under a
/// block mask with the bits of their block and its first query.
template <class Element, class Visit>
void sum_keys(const block& this_block, const backward_arguments& a, std::int32_t block_m,
              std::int32_t block_n, const float* delta, const Visit& visit) {
  const attention_arguments f = forward_of(a);
  const sequence s{f, this_block.index.y / a.heads_kv};
  const std::int64_t head_kv = this_block.index.y % a.heads_kv;
  const std::int64_t begin = std::int64_t{this_block.index.x} * block_n;
  const key_range tile{begin, std::min(begin + block_n, s.keys)};
  if (tile.begin >= tile.end) return;

  arena memory{this_block.scratch};
  key_tile<Element> keys{memory, f, block_n};
  row_tile<Element> tile_of_rows{memory, f, block_m};
  score_tile scores{memory, block_m, block_n};
  key_sums<Element> sums{memory, a, tile.end - tile.begin, block_m, block_n};
  scores.clear(block_m);

  keys.read(f, s, head_kv, tile);
  visit(f, s, head_kv, tile,
        [&](const row_range& rows, const key_bits& bits = {}, std::int64_t first_query = 0) {
          tile_of_rows.read(a, rows, delta);
          scores.compute(rows, tile_of_rows, tile, keys.keys, keys.values, false, bits, first_query);
          sums.add(rows, tile_of_rows, scores);
        });
  sums.write(s, head_kv, tile.begin);
}

template <class Element>
void attention_backward_keys(const block& this_block, backward_arguments a, std::int32_t block_m,
                             std::int32_t block_n, const float* delta) {
  sum_keys<Element>(this_block, a, block_m, block_n, delta,
                    [&](const attention_arguments& f, const sequence& s, std::int64_t /*head_kv*/,
                        key_range tile, const auto& add) {
                      const std::int64_t all = s.queries * (a.heads / a.heads_kv);
                      for (std::int64_t n = 0; n * block_m < all; ++n) {
                        const row_range rows{f, this_block.index.y, n, block_m};
                        const key_range seen = rows.visible();
                        if (seen.end > tile.begin && seen.begin < tile.end) add(rows);
                      }
                    });
}

/// The same under a block mask. block_m and block_n divide 128.
template <class Element>
void attention_backward_block_keys(const block& this_block, backward_arguments a, std::int32_t block_m,
                                   std::int32_t block_n, const float* delta) {
  sum_keys<Element>(
      this_block, a, block_m, block_n, delta,
      [&](const attention_arguments& f, const sequence& s, std::int64_t head_kv, key_range tile,
          const auto& add) {
        const std::int64_t group = a.heads / a.heads_kv;
        const std::int64_t block_k = 32 * a.mask_words;
        for (std::int64_t h = head_kv * group; h < (head_kv + 1) * group; ++h) {
          const block_lists lists{a, s.batch, h};
          lists.visit_queries(tile.begin / block_k, block_m, [&](key_range queries, const key_bits& of_rows) {
            add(row_range::of_rows(f, s.batch, h, queries),
                key_bits{of_rows.words, of_rows.stride, tile.begin % block_k}, queries.begin - of_rows.first);
          });
        }
      });
}

/// dq of rows. `visit` is given what adds a tile of keys; under a block mask with its bits.
template <class Element, class Visit>
void sum_queries(const block& this_block, const backward_arguments& a, const row_range& rows,
                 std::int32_t block_m, std::int32_t block_n, const float* delta, const Visit& visit) {
  if (rows.count() <= 0) return;
  const attention_arguments& f = rows.a;
  const std::int64_t stride = round_up(a.head_dim, panel);
  const std::int64_t padded = row_tile<Element>::padded(rows.count());

  arena memory{this_block.scratch};
  key_tile<Element> keys{memory, f, block_n};
  row_tile<Element> tile_of_rows{memory, f, block_m};
  score_tile scores{memory, block_m, block_n};
  auto* packed = memory.take<float>(block_n * stride);
  auto* dq = memory.take<float>(row_tile<Element>::padded(block_m) * stride);
  std::fill_n(dq, padded * stride, 0.0F);

  tile_of_rows.read(a, rows, delta);
  visit([&](key_range tile, const key_bits& bits = {}, std::int64_t first_query = 0) {
    keys.read(f, rows.s, rows.head_kv, tile);
    scores.compute(rows, tile_of_rows, tile, keys.keys, keys.values, false, bits, first_query);
    pack_values(keys.k_rows, tile.end - tile.begin, a.head_dim, packed);
    multiply_all<into::added>(scores.slopes, block_n, padded, packed, tile.end - tile.begin, a.head_dim, dq,
                              stride);
  });
  for (std::int64_t r = 0; r < rows.count(); ++r) {
    write_floats(dq + r * stride, a.head_dim, a.scale,
                 row_of(static_cast<Element*>(a.dq), a.cu_seqlens_q != nullptr, rows.s, rows.head(r),
                        rows.query(r), a.dq_stride_batch, a.dq_stride_head, a.dq_stride_token));
  }
}

template <class Element>
void attention_backward_queries(const block& this_block, backward_arguments a, std::int32_t block_m,
                                std::int32_t block_n, const float* delta) {
  const attention_arguments f = forward_of(a);
  // The last tiles first: under a causal mask they are the longest.
  const row_range rows{f, this_block.index.y, std::int64_t{this_block.grid.x} - 1 - this_block.index.x,
                       block_m};
  sum_queries<Element>(this_block, a, rows, block_m, block_n, delta, [&](const auto& add) {
    const key_range all = rows.visible();
    for (std::int64_t j = all.begin; j < all.end; j += block_n)
      add(key_range{j, std::min(j + block_n, all.end)});
  });
}

/// The same under a block mask: rows of one head. The grid is [tiles of rows, batch * heads]; block_m and
/// block_n divide 128.
template <class Element>
void attention_backward_block_queries(const block& this_block, backward_arguments a, std::int32_t block_m,
                                      std::int32_t block_n, const float* delta) {
  const attention_arguments f = forward_of(a);
  const std::int64_t head = this_block.index.y % a.heads;
  const row_range rows =
      row_range::of_head(f, this_block.index.y / a.heads, head,
                         std::int64_t{this_block.grid.x} - 1 - this_block.index.x, block_m);
  sum_queries<Element>(this_block, a, rows, block_m, block_n, delta, [&](const auto& add) {
    const std::int64_t query_block = rows.begin / a.mask_block_q;
    const block_lists lists{a, rows.s.batch, head};
    lists.visit_keys(query_block, block_n, [&](key_range tile, const key_bits& bits) {
      add(tile, bits, query_block * a.mask_block_q);
    });
  });
}

/// Blocks: keys, fastest, times rows or 1; heads or 1; batch entries or 1.
template <class Element>
void attention_backward_bias(const block& this_block, backward_arguments a, std::int32_t block_m,
                             std::int32_t block_n, const float* delta) {
  const attention_arguments f = forward_of(a);
  const std::int64_t tiles_n = (a.seqlen_k + block_n - 1) / block_n;
  const std::int64_t tiles_m = (a.seqlen_q + block_m - 1) / block_m;
  const bool all_rows = a.dbias_stride_row == 0;
  const std::int64_t own_tile = this_block.index.x / tiles_n;
  const std::int64_t begin = this_block.index.x % tiles_n * block_n;
  const std::int64_t count = std::min<std::int64_t>(block_n, a.seqlen_k - begin);
  const std::int64_t first_head = a.dbias_stride_head == 0 ? 0 : this_block.index.y;
  const std::int64_t last_head = a.dbias_stride_head == 0 ? a.heads : this_block.index.y + 1;
  const std::int64_t first_entry = a.dbias_stride_batch == 0 ? 0 : this_block.index.z;
  const std::int64_t last_entry = a.dbias_stride_batch == 0 ? a.batch : this_block.index.z + 1;

  arena memory{this_block.scratch};
  key_tile<Element> keys{memory, f, block_n};
  row_tile<Element> tile_of_rows{memory, f, block_m};
  score_tile scores{memory, block_m, block_n};
  const std::int64_t out_rows =
      all_rows ? 1 : std::min<std::int64_t>(block_m, a.seqlen_q - own_tile * block_m);
  auto* sums = memory.take<float>(block_m * block_n);
  std::fill_n(sums, out_rows * block_n, 0.0F);

  for (std::int64_t b = first_entry; b < last_entry; ++b) {
    for (std::int64_t h = first_head; h < last_head; ++h) {
      const sequence s{f, b};
      const key_range tile{begin, std::min(begin + block_n, s.keys)};
      if (tile.begin >= tile.end) continue;
      keys.read(f, s, h / (a.heads / a.heads_kv), tile);
      for (std::int64_t n = all_rows ? 0 : own_tile; n < (all_rows ? tiles_m : own_tile + 1); ++n) {
        const row_range rows = row_range::of_head(f, b, h, n, block_m);
        if (rows.count() <= 0) continue;
        const key_range seen = rows.visible();
        if (seen.end <= tile.begin || seen.begin >= tile.end) continue;
        tile_of_rows.read(a, rows, delta);
        scores.compute(rows, tile_of_rows, tile, keys.keys, keys.values, true);
        for (std::int64_t r = 0; r < rows.count(); ++r) {
          float* to = sums + (all_rows ? 0 : r * block_n);
          const float* from = scores.slopes + r * block_n;
          for (std::int64_t c = 0; c < tile.end - tile.begin; c += width)
            store(to + c, load(to + c) + load(from + c));
        }
      }
    }
  }
  auto* to = static_cast<Element*>(a.dbias) + first_entry * a.dbias_stride_batch +
             first_head * a.dbias_stride_head + begin;
  for (std::int64_t r = 0; r < out_rows; ++r) {
    write_floats(sums + r * block_n, count, 1.0F, to + (own_tile * block_m + r) * a.dbias_stride_row);
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
using switchyard::host::kernel;
using switchyard::host::make_kernel;

extern const kernel attention_backward_sums_f32, attention_backward_sums_f16, attention_backward_sums_bf16;
extern const kernel attention_backward_keys_f32, attention_backward_keys_f16, attention_backward_keys_bf16;
extern const kernel attention_backward_queries_f32, attention_backward_queries_f16,
    attention_backward_queries_bf16;
extern const kernel attention_backward_block_keys_f32, attention_backward_block_keys_f16,
    attention_backward_block_keys_bf16;
extern const kernel attention_backward_block_queries_f32, attention_backward_block_queries_f16,
    attention_backward_block_queries_bf16;
extern const kernel attention_backward_bias_f32, attention_backward_bias_f16, attention_backward_bias_bf16;

const kernel attention_backward_block_keys_f32 = make_kernel<&attention_backward_block_keys<float>>();
const kernel attention_backward_block_keys_f16 = make_kernel<&attention_backward_block_keys<half>>();
const kernel attention_backward_block_keys_bf16 = make_kernel<&attention_backward_block_keys<bfloat>>();
const kernel attention_backward_block_queries_f32 = make_kernel<&attention_backward_block_queries<float>>();
const kernel attention_backward_block_queries_f16 = make_kernel<&attention_backward_block_queries<half>>();
const kernel attention_backward_block_queries_bf16 = make_kernel<&attention_backward_block_queries<bfloat>>();
const kernel attention_backward_sums_f32 = make_kernel<&attention_backward_sums<float>>();
const kernel attention_backward_sums_f16 = make_kernel<&attention_backward_sums<half>>();
const kernel attention_backward_sums_bf16 = make_kernel<&attention_backward_sums<bfloat>>();
const kernel attention_backward_keys_f32 = make_kernel<&attention_backward_keys<float>>();
const kernel attention_backward_keys_f16 = make_kernel<&attention_backward_keys<half>>();
const kernel attention_backward_keys_bf16 = make_kernel<&attention_backward_keys<bfloat>>();
const kernel attention_backward_queries_f32 = make_kernel<&attention_backward_queries<float>>();
const kernel attention_backward_queries_f16 = make_kernel<&attention_backward_queries<half>>();
const kernel attention_backward_queries_bf16 = make_kernel<&attention_backward_queries<bfloat>>();
const kernel attention_backward_bias_f32 = make_kernel<&attention_backward_bias<float>>();
const kernel attention_backward_bias_f16 = make_kernel<&attention_backward_bias<half>>();
const kernel attention_backward_bias_bf16 = make_kernel<&attention_backward_bias<bfloat>>();
}
#pragma GCC visibility pop
