// SPDX-License-Identifier: MIT
// A few query rows against keys and values in place, on the CPU: what prompts' last rows and decoding share.
//
// Query rows of the heads that share a KV head are taken together: row r of a KV head is query r / group of
// head r % group, where group = heads / heads_kv. Private to kernels/attention; unnamed namespace for the
// reason given in simd.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <switchyard/devices/host/kernel.hpp>

#include "attention_products.hpp"

namespace {

using switchyard::host::block;

constexpr std::size_t accumulators = many_registers ? 16 : 8;

/// Products of Rows query rows with every key.
template <std::size_t Rows, class Element>
void score(const float* queries, std::int64_t stride, const Element* const* k_rows, std::int64_t count,
           std::int64_t dim, float* scores, std::int64_t stride_scores) {
  constexpr std::size_t keys = accumulators / Rows;
  for (std::int64_t n = 0; n < count; n += static_cast<std::int64_t>(keys)) {
    std::array<const Element*, keys> k;
    for (std::size_t i = 0; i < keys; ++i) {
      k[i] = k_rows[std::min(n + static_cast<std::int64_t>(i), count - 1)];
    }
    std::array<floats, accumulators> sum{};
    const auto add = [&](std::int64_t d, auto read) __attribute__((always_inline)) {
      std::array<floats, Rows> q;
      unroll<Rows>([&](auto r) __attribute__((always_inline)) {
        q[r] = load(queries + static_cast<std::int64_t>(r) * stride + d);
      });
      unroll<keys>([&](auto i) __attribute__((always_inline)) {
        const floats x = read(k[i] + d);
        unroll<Rows>([&](auto r) __attribute__((always_inline)) {
          sum[r * keys + i] = x * q[r] + sum[r * keys + i];
        });
      });
    };
    std::int64_t d = 0;
    for (; d + width <= dim; d += width) {
      add(
          d, [](const Element* from) __attribute__((always_inline)) { return load(from); });
    }
    if (d < dim) {
      const auto rest = static_cast<std::size_t>(dim - d);
      add(
          d, [rest](const Element* from) __attribute__((always_inline)) { return load_first(from, rest); });
    }
    std::array<float, accumulators> products;
    unroll<accumulators / lanes>([&](auto part) __attribute__((always_inline)) {
      square of_part;
      unroll<lanes>([&](auto i) __attribute__((always_inline)) { of_part[i] = sum[part * lanes + i]; });
      store(products.data() + part * lanes, sums(of_part));
    });
    unroll<Rows>([&](auto r) __attribute__((always_inline)) {
      std::memcpy(scores + static_cast<std::int64_t>(r) * stride_scores + n, products.data() + r * keys,
                  keys * sizeof(float));
    });
  }
}

/// values = rescale values + weights V for Rows query rows and Vectors vectors of columns. `read` loads a
/// vector of a V row.
template <std::size_t Rows, std::size_t Vectors, class Element, class Read>
SWITCHYARD_INLINE void gather_columns(const float* weights, std::int64_t stride_weights,
                                      const Element* const* v_rows, std::int64_t count, std::int64_t d,
                                      float* values, std::int64_t stride, const float* rescales, Read read) {
  std::array<std::array<floats, Vectors>, Rows> sum;
  unroll<Rows>([&](auto r) __attribute__((always_inline)) {
    unroll<Vectors>([&](auto v) __attribute__((always_inline)) {
      sum[r][v] =
          load(values + static_cast<std::int64_t>(r) * stride + d + static_cast<std::int64_t>(v) * width) *
          rescales[r];
    });
  });
  for (std::int64_t n = 0; n < count; ++n) {
    const Element* from = v_rows[n] + d;
    std::array<floats, Rows> weight;
    unroll<Rows>([&](auto r) __attribute__((always_inline)) {
      weight[r] = splat(weights[static_cast<std::int64_t>(r) * stride_weights + n]);
    });
    unroll<Vectors>([&](auto v) __attribute__((always_inline)) {
      const floats x = read(from + static_cast<std::int64_t>(v) * width);
      unroll<Rows>([&](auto r) __attribute__((always_inline)) { sum[r][v] = weight[r] * x + sum[r][v]; });
    });
  }
  unroll<Rows>([&](auto r) __attribute__((always_inline)) {
    unroll<Vectors>([&](auto v) __attribute__((always_inline)) {
      store(values + static_cast<std::int64_t>(r) * stride + d + static_cast<std::int64_t>(v) * width,
            sum[r][v]);
    });
  });
}

template <std::size_t Rows, class Element>
void gather(const float* weights, std::int64_t stride_weights, const Element* const* v_rows,
            std::int64_t count, std::int64_t dim, float* values, std::int64_t stride, const float* rescales) {
  constexpr std::size_t vectors = std::min(accumulators / Rows, std::size_t{8});
  constexpr auto chunk = static_cast<std::int64_t>(vectors) * width;
  constexpr std::array<float, Rows> ones = [] {
    std::array<float, Rows> result{};
    result.fill(1.0F);
    return result;
  }();
  // Few keys at a time, so that their rows stay in the first cache from one chunk of columns to the next.
  for (std::int64_t n = 0; n < count; n += 32) {
    const std::int64_t part = std::min(count - n, std::int64_t{32});
    const float* rescale = n == 0 ? rescales : ones.data();
    const auto whole = [](const Element* from) __attribute__((always_inline)) {
      return load(from);
    };
    std::int64_t d = 0;
    for (; d + chunk <= dim; d += chunk) {
      gather_columns<Rows, vectors>(weights + n, stride_weights, v_rows + n, part, d, values, stride, rescale,
                                    whole);
    }
    for (; d + width <= dim; d += width) {
      gather_columns<Rows, 1>(weights + n, stride_weights, v_rows + n, part, d, values, stride, rescale,
                              whole);
    }
    if (d < dim) {
      const auto rest = static_cast<std::size_t>(dim - d);
      gather_columns<Rows, 1>(
          weights + n, stride_weights, v_rows + n, part, d, values, stride,
          rescale, [rest](const Element* from) __attribute__((always_inline)) {
            return load_first(from, rest);
          });
    }
  }
}

/// Calls f<4>, f<2> and f<1> so that they cover `count` rows.
template <class Function>
SWITCHYARD_INLINE void for_rows(std::int64_t count, Function f) {
  std::int64_t r = 0;
  for (; r + 4 <= count; r += 4) f.template operator()<4>(r);
  if (r + 2 <= count) {
    f.template operator()<2>(r);
    r += 2;
  }
  if (r < count) f.template operator()<1>(r);
}

/// Values and softmax of a few query rows over a range of keys, in a block's scratch. With
/// w = round_up(head_dim_v, 32) and u = round_up(head_dim, 32) it takes
/// 4 * (block_m * (u + w + block_n + 4) + 4 * block_n) + 512 bytes, and what the source of keys takes.
/// block_n is a multiple of 32.
template <class Element, class Source>
class few_rows {
 public:
  using key = typename Source::element;

  few_rows(const block& this_block, const row_range& rows, std::int64_t block_n, const Source& source)
      : rows_{rows},
        source_{source},
        block_n_{block_n},
        query_stride_{round_up(rows.a.head_dim, width)},
        value_stride_{round_up(rows.a.head_dim_v, width)} {
    arena memory{this_block.scratch};
    queries_ = memory.take<float>(rows.count() * query_stride_);
    scores_ = memory.take<float>(rows.count() * block_n);
    values_ = memory.take<float>(rows.count() * value_stride_);
    states_ = memory.take<softmax_state>(rows.count());
    rescales_ = memory.take<float>(rows.count());
    k_rows_ = memory.take<const key*>(block_n);
    v_rows_ = memory.take<const key*>(block_n);
    source_.take(memory, block_n);
    pack_queries<Element>(rows, rows.count(), query_stride_, queries_);
    std::fill_n(values_, rows.count() * value_stride_, 0.0F);
  }

  [[nodiscard]] softmax_state& state(std::int64_t r) { return states_[r]; }
  [[nodiscard]] const float* values(std::int64_t r) const { return values_ + r * value_stride_; }

  /// Takes in the keys of a range, in tiles from `first` on; no row sees keys of the first tile that are
  /// before the range. The states must have been set.
  void attend(key_range range, std::int64_t first) {
    constexpr auto step = static_cast<std::int64_t>(accumulators);
    const attention_arguments& a = rows_.a;
    if (range.begin >= range.end) return;
    for (std::int64_t j = first; j < range.end; j += block_n_) {
      const key_range tile{j, std::min(j + block_n_, range.end)};
      // Whole steps of products are left out where no row sees them; the rest of one takes the first key that
      // is seen, as others need not exist.
      const std::int64_t unseen = std::max(range.begin - j, std::int64_t{0});
      const std::int64_t before = unseen / step * step;
      const std::int64_t keys = tile.end - tile.begin - before;
      source_.find(a, rows_.s, rows_.head_kv, {j + unseen, tile.end}, k_rows_ + unseen - before,
                   v_rows_ + unseen - before);
      std::fill_n(k_rows_, unseen - before, k_rows_[unseen - before]);
      std::fill_n(v_rows_, unseen - before, v_rows_[unseen - before]);
      for_rows(rows_.count(), [&]<std::size_t Rows>(std::int64_t r) {
        score<Rows>(queries_ + r * query_stride_, query_stride_, k_rows_, keys, a.head_dim,
                    scores_ + r * block_n_ + before, block_n_);
      });
      for (std::int64_t r = 0; r < rows_.count(); ++r) {
        rescales_[r] = weigh<Element>(a, rows_.s, rows_.head(r), rows_.query(r), tile,
                                      round_up(before + keys, width), scores_ + r * block_n_, states_[r]);
      }
      for_rows(rows_.count(), [&]<std::size_t Rows>(std::int64_t r) {
        gather<Rows>(scores_ + r * block_n_ + before, block_n_, v_rows_, keys, a.head_dim_v,
                     values_ + r * value_stride_, value_stride_, rescales_ + r);
      });
    }
  }

 private:
  const row_range& rows_;
  Source source_;
  std::int64_t block_n_;
  std::int64_t query_stride_;
  std::int64_t value_stride_;
  float* queries_ = nullptr;
  float* scores_ = nullptr;
  float* values_ = nullptr;
  softmax_state* states_ = nullptr;
  float* rescales_ = nullptr;
  const key** k_rows_ = nullptr;
  const key** v_rows_ = nullptr;
};

/// Index of a query row in the workspace of parts: [split, batch, heads, seqlen_q].
[[nodiscard]] inline std::int64_t part_index(const attention_arguments& a, std::int64_t split,
                                             std::int64_t batch, std::int64_t h, std::int64_t i) {
  return ((split * a.batch + batch) * a.heads + h) * a.seqlen_q + i;
}

/// Rows of a KV head against all keys they see. The grid is [tiles of rows, batch * heads_kv].
template <class Element, class Kv, class Source = rows_in_place<Kv>>
void attend_rows(const block& this_block, attention_arguments a, std::int64_t block_m, std::int64_t block_n,
                 const kv_scales& scales, const Source& source = {}) {
  a.scale *= scales.of_k(this_block.index.y % a.heads_kv);
  const row_range rows{a, this_block.index.y, std::int64_t{this_block.grid.x} - 1 - this_block.index.x,
                       block_m};
  if (rows.count() <= 0) return;
  const float factor = scales.of_v(rows.head_kv);
  few_rows<Element, Source> work{this_block, rows, block_n, source};
  for (std::int64_t r = 0; r < rows.count(); ++r) work.state(r) = softmax_state::of_row(a, rows.head(r));
  // Tiles begin at multiples of their length, so that what a row gives does not depend on the other rows.
  const key_range all = rows.visible();
  work.attend(all, all.begin / block_n * block_n);
  for (std::int64_t r = 0; r < rows.count(); ++r) {
    write_row<Element>(a, rows.s, rows.head(r), rows.query(r), work.values(r), work.state(r), factor);
  }
}

/// Split grid.x of the keys that the rows see. Writes values, relative to the part's largest score, to
/// `partial` [.., head_dim_v], and largest score and sum to `partial_state` [.., 2].
template <class Element, class Kv, class Source = rows_in_place<Kv>>
void attend_part(const block& this_block, attention_arguments a, std::int64_t block_m, std::int64_t block_n,
                 const kv_scales& scales, float* partial, float* partial_state, const Source& source = {}) {
  a.scale *= scales.of_k(this_block.index.z % a.heads_kv);
  const row_range rows{a, this_block.index.z, this_block.index.y, block_m};
  if (rows.count() <= 0) return;
  const std::int64_t split = this_block.index.x;
  const std::int64_t splits = this_block.grid.x;
  const key_range all = rows.visible();
  // Parts of equal length; whole tiles where there are more tiles than splits.
  std::int64_t length = std::max((all.end - all.begin + splits - 1) / splits, std::int64_t{1});
  if (length > block_n) length = round_up(length, block_n);
  const key_range part{std::min(all.begin + split * length, all.end),
                       std::min(all.begin + (split + 1) * length, all.end)};

  few_rows<Element, Source> work{this_block, rows, block_n, source};
  for (std::int64_t r = 0; r < rows.count(); ++r) work.state(r) = {};
  work.attend(part, part.begin);
  for (std::int64_t r = 0; r < rows.count(); ++r) {
    const std::int64_t at = part_index(a, split, rows.s.batch, rows.head(r), rows.query(r));
    std::copy_n(work.values(r), a.head_dim_v, partial + at * a.head_dim_v);
    partial_state[2 * at] = work.state(r).largest;
    partial_state[2 * at + 1] = work.state(r).sum;
  }
}

/// Joins what attend_part left of a row; values are multiplied with `factor`. Scratch:
/// 4 * round_up(head_dim_v, 32) + 64 bytes. The grid is [queries, heads, batch].
template <class Element>
void combine_parts(const block& this_block, const attention_arguments& a, std::int64_t splits, float factor,
                   const float* partial, const float* partial_state) {
  const sequence s{a, this_block.index.z};
  const std::int64_t i = this_block.index.x;
  const std::int64_t h = this_block.index.y;
  if (i >= s.queries) return;
  softmax_state total = softmax_state::of_row(a, h);
  for (std::int64_t split = 0; split < splits; ++split) {
    const float largest = partial_state[2 * part_index(a, split, s.batch, h, i)];
    if (largest > total.largest) {
      total = {largest, total.sum * exp2_of(total.largest - largest)};
    }
  }
  arena memory{this_block.scratch};
  auto* values = memory.take<float>(round_up(a.head_dim_v, width));
  std::fill_n(values, round_up(a.head_dim_v, width), 0.0F);
  for (std::int64_t split = 0; split < splits; ++split) {
    const std::int64_t at = part_index(a, split, s.batch, h, i);
    // A part that saw no key has a sum of 0; a NaN must go on.
    if (partial_state[2 * at + 1] == 0.0F) continue;
    const float weight = exp2_of(partial_state[2 * at] - total.largest);
    total.sum += partial_state[2 * at + 1] * weight;
    const float* from = partial + at * a.head_dim_v;
    for (std::int64_t d = 0; d < a.head_dim_v; ++d) values[d] += weight * from[d];
  }
  write_row<Element>(a, s, h, i, values, total, factor);
}

}  // namespace
