// Attention forward on the CPU, in the manner of FlashAttention: keys are taken a tile at a time, with an
// online softmax, and no matrix of all scores exists.
//
//   attention_tile       for prompts: K and V tiles are packed for matrix products with many query rows
//   attention_rows       for decoding: a few query rows, K and V read once, in place
//   attention_split      the same over a part of the keys, into a workspace
//   attention_combine    merges the parts
//   attention_reference  in double, a query row a block
//
// Query rows of the heads that share a KV head are taken together: row r of a KV head is query r / group of
// head r % group, where group = heads / heads_kv. Compiled once for each instruction set.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <switchyard/host/kernel.hpp>

#include "attention_host.hpp"

namespace {

using switchyard::host::block;

constexpr std::int64_t width = lanes;

/// Rows [begin, end) of those that share a KV head.
struct row_range {
  const attention_arguments& a;
  sequence s;
  std::int64_t head_kv;
  std::int64_t group;
  std::int64_t begin;
  std::int64_t end;

  row_range(const attention_arguments& arguments, std::int64_t batch_and_head, std::int64_t tile,
            std::int64_t rows)
      : a{arguments},
        s{arguments, batch_and_head / arguments.heads_kv},
        head_kv{batch_and_head % arguments.heads_kv},
        group{arguments.heads / arguments.heads_kv},
        begin{tile * rows},
        end{std::min(begin + rows, s.queries * group)} {}

  [[nodiscard]] std::int64_t count() const { return end - begin; }
  [[nodiscard]] std::int64_t query(std::int64_t r) const { return (begin + r) / group; }
  [[nodiscard]] std::int64_t head(std::int64_t r) const { return head_kv * group + (begin + r) % group; }
  /// All keys that one of the rows sees.
  [[nodiscard]] key_range visible() const {
    return {s.visible(a, query(0)).begin, s.visible(a, query(count() - 1)).end};
  }
};

/// Copies the queries of the rows, scaled, as floats; columns and rows up to the padding are zero.
template <class Element>
void pack_queries(const row_range& rows, std::int64_t padded_rows, std::int64_t stride, float* to) {
  const attention_arguments& a = rows.a;
  const float scale = query_scale(a);
  std::fill_n(to, padded_rows * stride, 0.0F);
  for (std::int64_t r = 0; r < rows.count(); ++r, to += stride) {
    const Element* from = query_row<Element>(a, rows.s, rows.head(r), rows.query(r));
    std::int64_t d = 0;
    for (; d + width <= a.head_dim; d += width) store(to + d, load(from + d) * scale);
    for (; d < a.head_dim; ++d) to[d] = to_float(from[d]) * scale;
  }
}

// ---- prompts

// The register tile: 24 accumulators where there are 32 registers, 12 where there are 16.
constexpr std::size_t tile_rows = many_registers ? 12 : 6;
constexpr std::int64_t panel = 2 * width;

/// c = a b, or c = fade c + a b: tile_rows rows of a, `depth` long, with a panel of b that holds, for each
/// step of the depth, one panel's columns.
template <bool Accumulate>
void multiply(const float* a, std::int64_t stride_a, const float* b, std::int64_t depth, float* c,
              std::int64_t stride_c, const float* fade) {
  std::array<std::array<floats, 2>, tile_rows> sum{};
  for (std::int64_t k = 0; k < depth; ++k, b += panel) {
    const floats b0 = load(b);
    const floats b1 = load(b + width);
    unroll<tile_rows>([&](auto r) __attribute__((always_inline)) {
      const floats x = splat(a[static_cast<std::int64_t>(r) * stride_a + k]);
      sum[r][0] = x * b0 + sum[r][0];
      sum[r][1] = x * b1 + sum[r][1];
    });
  }
  unroll<tile_rows>([&](auto r) __attribute__((always_inline)) {
    float* to = c + static_cast<std::int64_t>(r) * stride_c;
    if constexpr (Accumulate) {
      sum[r][0] += load(to) * fade[r];
      sum[r][1] += load(to + width) * fade[r];
    }
    store(to, sum[r][0]);
    store(to + width, sum[r][1]);
  });
}

/// Keys as columns of panels. Columns behind the last key are zero.
template <class Element>
void pack_keys(const Element* const* rows, std::int64_t count, std::int64_t dim, float* to) {
  for (std::int64_t n = 0; n < round_up(count, panel); n += width) {
    float* column = to + n / panel * panel * dim + n % panel;
    const auto present = static_cast<std::size_t>(std::clamp<std::int64_t>(count - n, 0, width));
    for (std::int64_t d = 0; d < dim; d += width) {
      const auto deep = static_cast<std::size_t>(std::min(dim - d, width));
      square corner{};
      if (present == lanes && deep == lanes) {
        unroll<lanes>([&](auto i) __attribute__((always_inline)) {
          corner[i] = load(rows[n + static_cast<std::int64_t>(i)] + d);
        });
      } else {
        for (std::size_t i = 0; i < present; ++i) {
          corner[i] = load_first(rows[n + static_cast<std::int64_t>(i)] + d, deep);
        }
      }
      transpose(corner);
      for (std::size_t i = 0; i < deep; ++i) {
        store(column + (d + static_cast<std::int64_t>(i)) * panel, corner[i]);
      }
    }
  }
}

/// Values as rows of panels. Columns behind the last one are zero.
template <class Element>
void pack_values(const Element* const* rows, std::int64_t count, std::int64_t dim, float* to) {
  for (std::int64_t n = 0; n < count; ++n) {
    float* row = to + n * panel;
    for (std::int64_t d = 0; d < round_up(dim, panel); d += width) {
      const std::int64_t rest = dim - d;
      const floats value =
          rest >= width ? load(rows[n] + d)
                        : load_first(rows[n] + d, static_cast<std::size_t>(std::max<std::int64_t>(rest, 0)));
      store(row + d / panel * panel * count + d % panel, value);
    }
  }
}

/// Scratch, with m = round_up(block_m, 12) and w = round_up(head_dim_v, 32):
/// 4 * (m * (head_dim + block_n + w + 8) + block_n * (head_dim + w + 4)) + 1024 bytes. block_n is a
/// multiple of 32.
template <class Element>
void attention_tile(const block& where, attention_arguments a, std::int32_t block_m, std::int32_t block_n) {
  // The last tiles first: under a causal mask they are the longest.
  const row_range rows{a, where.index.y, std::int64_t{where.grid.x} - 1 - where.index.x, block_m};
  if (rows.count() <= 0) return;
  const std::int64_t count = rows.count();
  const auto step = static_cast<std::int64_t>(tile_rows);
  const std::int64_t padded = round_up(count, step);
  const std::int64_t out_stride = round_up(a.head_dim_v, panel);

  arena memory{where.scratch};
  auto* queries = memory.take<float>(padded * a.head_dim);
  auto* scores = memory.take<float>(padded * block_n);
  auto* values = memory.take<float>(padded * out_stride);
  auto* states = memory.take<softmax_state>(padded);
  auto* fades = memory.take<float>(padded);
  auto* packed = memory.take<float>(block_n * std::max(a.head_dim, out_stride));
  auto* k_rows = memory.take<const Element*>(block_n);
  auto* v_rows = memory.take<const Element*>(block_n);
  auto* seen = memory.take<key_range>(padded / step);

  pack_queries<Element>(rows, padded, a.head_dim, queries);
  std::fill_n(values, padded * out_stride, 0.0F);
  std::fill_n(fades, padded, 1.0F);
  for (std::int64_t r = 0; r < count; ++r) states[r] = softmax_state::of_row(a, rows.head(r));
  for (std::int64_t r = 0; r < padded; r += step) {
    seen[r / step] = {rows.s.visible(a, rows.query(r)).begin,
                      rows.s.visible(a, rows.query(std::min(r + step, count) - 1)).end};
  }

  const key_range all = rows.visible();
  for (std::int64_t j = all.begin; j < all.end; j += block_n) {
    const key_range tile{j, std::min(j + block_n, all.end)};
    const std::int64_t keys = tile.end - tile.begin;
    // The tile's keys that some of a step's rows see: the rest is left out of both products.
    const auto seen_here = [&](std::int64_t r) {
      return key_range{std::clamp<std::int64_t>(seen[r / step].begin - j, 0, keys),
                       std::clamp<std::int64_t>(seen[r / step].end - j, 0, keys)};
    };
    key_rows(a, rows.s, rows.head_kv, tile, k_rows, v_rows);

    pack_keys(k_rows, keys, a.head_dim, packed);
    for (std::int64_t n = 0; n < keys; n += panel) {
      for (std::int64_t r = 0; r < padded; r += step) {
        const key_range part = seen_here(r);
        if (n >= part.end || n + panel <= part.begin) continue;
        multiply<false>(queries + r * a.head_dim, a.head_dim, packed + n * a.head_dim, a.head_dim,
                        scores + r * block_n + n, block_n, nullptr);
      }
    }
    for (std::int64_t r = 0; r < count; ++r) {
      const key_range part = seen_here(r);
      if (part.begin >= part.end) continue;
      fades[r] = weigh<Element>(a, rows.s, rows.head(r), rows.query(r), tile, round_up(keys, width),
                                scores + r * block_n, states[r]);
    }
    pack_values(v_rows, keys, a.head_dim_v, packed);
    for (std::int64_t d = 0; d < a.head_dim_v; d += panel) {
      for (std::int64_t r = 0; r < padded; r += step) {
        const key_range part = seen_here(r);
        if (part.begin >= part.end) continue;
        multiply<true>(scores + r * block_n + part.begin, block_n, packed + d * keys + part.begin * panel,
                       part.end - part.begin, values + r * out_stride + d, out_stride, fades + r);
      }
    }
  }
  for (std::int64_t r = 0; r < count; ++r) {
    write_row<Element>(a, rows.s, rows.head(r), rows.query(r), values + r * out_stride, states[r]);
  }
}

// ---- decoding

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

/// values = fade values + weights V for Rows query rows and Vectors vectors of columns. `read` loads a vector
/// of a V row.
template <std::size_t Rows, std::size_t Vectors, class Element, class Read>
SWITCHYARD_INLINE void gather_columns(const float* weights, std::int64_t stride_weights,
                                      const Element* const* v_rows, std::int64_t count, std::int64_t d,
                                      float* values, std::int64_t stride, const float* fades, Read read) {
  std::array<std::array<floats, Vectors>, Rows> sum;
  unroll<Rows>([&](auto r) __attribute__((always_inline)) {
    unroll<Vectors>([&](auto v) __attribute__((always_inline)) {
      sum[r][v] =
          load(values + static_cast<std::int64_t>(r) * stride + d + static_cast<std::int64_t>(v) * width) *
          fades[r];
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
            std::int64_t count, std::int64_t dim, float* values, std::int64_t stride, const float* fades) {
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
    const float* fade = n == 0 ? fades : ones.data();
    const auto whole = [](const Element* from) __attribute__((always_inline)) {
      return load(from);
    };
    std::int64_t d = 0;
    for (; d + chunk <= dim; d += chunk) {
      gather_columns<Rows, vectors>(weights + n, stride_weights, v_rows + n, part, d, values, stride, fade,
                                    whole);
    }
    for (; d + width <= dim; d += width) {
      gather_columns<Rows, 1>(weights + n, stride_weights, v_rows + n, part, d, values, stride, fade, whole);
    }
    if (d < dim) {
      const auto rest = static_cast<std::size_t>(dim - d);
      gather_columns<Rows, 1>(
          weights + n, stride_weights, v_rows + n, part, d, values, stride,
          fade, [rest](const Element* from) __attribute__((always_inline)) {
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
/// 4 * (block_m * (u + w + block_n + 4) + 4 * block_n) + 512 bytes. block_n is a multiple of 32.
template <class Element>
class few_rows {
 public:
  few_rows(const block& where, const row_range& rows, std::int64_t block_n)
      : rows_{rows},
        block_n_{block_n},
        query_stride_{round_up(rows.a.head_dim, width)},
        value_stride_{round_up(rows.a.head_dim_v, width)} {
    arena memory{where.scratch};
    queries_ = memory.take<float>(rows.count() * query_stride_);
    scores_ = memory.take<float>(rows.count() * block_n);
    values_ = memory.take<float>(rows.count() * value_stride_);
    states_ = memory.take<softmax_state>(rows.count());
    fades_ = memory.take<float>(rows.count());
    k_rows_ = memory.take<const Element*>(block_n);
    v_rows_ = memory.take<const Element*>(block_n);
    pack_queries<Element>(rows, rows.count(), query_stride_, queries_);
    std::fill_n(values_, rows.count() * value_stride_, 0.0F);
  }

  [[nodiscard]] softmax_state& state(std::int64_t r) { return states_[r]; }
  [[nodiscard]] const float* values(std::int64_t r) const { return values_ + r * value_stride_; }

  /// Takes in the keys of a range. The states must have been set.
  void attend(key_range range) {
    const attention_arguments& a = rows_.a;
    for (std::int64_t j = range.begin; j < range.end; j += block_n_) {
      const key_range tile{j, std::min(j + block_n_, range.end)};
      const std::int64_t keys = tile.end - tile.begin;
      key_rows(a, rows_.s, rows_.head_kv, tile, k_rows_, v_rows_);
      for_rows(rows_.count(), [&]<std::size_t Rows>(std::int64_t r) {
        score<Rows>(queries_ + r * query_stride_, query_stride_, k_rows_, keys, a.head_dim,
                    scores_ + r * block_n_, block_n_);
      });
      for (std::int64_t r = 0; r < rows_.count(); ++r) {
        fades_[r] = weigh<Element>(a, rows_.s, rows_.head(r), rows_.query(r), tile, round_up(keys, width),
                                   scores_ + r * block_n_, states_[r]);
      }
      for_rows(rows_.count(), [&]<std::size_t Rows>(std::int64_t r) {
        gather<Rows>(scores_ + r * block_n_, block_n_, v_rows_, keys, a.head_dim_v,
                     values_ + r * value_stride_, value_stride_, fades_ + r);
      });
    }
  }

 private:
  const row_range& rows_;
  std::int64_t block_n_;
  std::int64_t query_stride_;
  std::int64_t value_stride_;
  float* queries_ = nullptr;
  float* scores_ = nullptr;
  float* values_ = nullptr;
  softmax_state* states_ = nullptr;
  float* fades_ = nullptr;
  const Element** k_rows_ = nullptr;
  const Element** v_rows_ = nullptr;
};

template <class Element>
void attention_rows(const block& where, attention_arguments a, std::int32_t block_m, std::int32_t block_n) {
  const row_range rows{a, where.index.y, std::int64_t{where.grid.x} - 1 - where.index.x, block_m};
  if (rows.count() <= 0) return;
  few_rows<Element> work{where, rows, block_n};
  for (std::int64_t r = 0; r < rows.count(); ++r) work.state(r) = softmax_state::of_row(a, rows.head(r));
  work.attend(rows.visible());
  for (std::int64_t r = 0; r < rows.count(); ++r) {
    write_row<Element>(a, rows.s, rows.head(r), rows.query(r), work.values(r), work.state(r));
  }
}

/// Index of a query row in the workspace of parts: [split, batch, heads, seqlen_q].
[[nodiscard]] std::int64_t part_index(const attention_arguments& a, std::int64_t split, std::int64_t batch,
                                      std::int64_t h, std::int64_t i) {
  return ((split * a.batch + batch) * a.heads + h) * a.seqlen_q + i;
}

/// Split grid.x of the keys that the rows see. Writes values, relative to the part's largest score, to
/// `partial` [.., head_dim_v], and largest score and sum to `partial_state` [.., 2].
template <class Element>
void attention_split(const block& where, attention_arguments a, std::int32_t block_m, std::int32_t block_n,
                     float* partial, float* partial_state) {
  const row_range rows{a, where.index.z, where.index.y, block_m};
  if (rows.count() <= 0) return;
  const std::int64_t split = where.index.x;
  const std::int64_t splits = where.grid.x;
  const key_range all = rows.visible();
  // Parts of equal length; whole tiles where there are more tiles than splits.
  std::int64_t length = std::max((all.end - all.begin + splits - 1) / splits, std::int64_t{1});
  if (length > block_n) length = round_up(length, block_n);
  const key_range part{std::min(all.begin + split * length, all.end),
                       std::min(all.begin + (split + 1) * length, all.end)};

  few_rows<Element> work{where, rows, block_n};
  for (std::int64_t r = 0; r < rows.count(); ++r) work.state(r) = {};
  work.attend(part);
  for (std::int64_t r = 0; r < rows.count(); ++r) {
    const std::int64_t at = part_index(a, split, rows.s.batch, rows.head(r), rows.query(r));
    std::copy_n(work.values(r), a.head_dim_v, partial + at * a.head_dim_v);
    partial_state[2 * at] = work.state(r).largest;
    partial_state[2 * at + 1] = work.state(r).sum;
  }
}

/// Scratch: 4 * round_up(head_dim_v, 32) + 64 bytes. The grid is [queries, heads, batch].
template <class Element>
void attention_combine(const block& where, attention_arguments a, std::int32_t splits, const float* partial,
                       const float* partial_state) {
  const sequence s{a, where.index.z};
  const std::int64_t i = where.index.x;
  const std::int64_t h = where.index.y;
  if (i >= s.queries) return;
  softmax_state total = softmax_state::of_row(a, h);
  for (std::int64_t split = 0; split < splits; ++split) {
    const float largest = partial_state[2 * part_index(a, split, s.batch, h, i)];
    if (largest > total.largest) {
      total = {largest, total.sum * exp2_of(total.largest - largest)};
    }
  }
  arena memory{where.scratch};
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
  write_row<Element>(a, s, h, i, values, total);
}

// ---- in double

/// Scratch: 8 * head_dim_v + 64 bytes. The grid is [queries, heads, batch].
template <class Element>
void attention_reference(const block& where, attention_arguments a) {
  const sequence s{a, where.index.z};
  const std::int64_t i = where.index.x;
  const std::int64_t h = where.index.y;
  if (i >= s.queries) return;
  const std::int64_t head_kv = h / (a.heads / a.heads_kv);
  const Element* q = query_row<Element>(a, s, h, i);
  arena memory{where.scratch};
  auto* values = memory.take<double>(a.head_dim_v);
  std::fill_n(values, a.head_dim_v, 0.0);

  constexpr double none = -std::numeric_limits<double>::infinity();
  double largest = a.sinks != nullptr ? static_cast<double>(a.sinks[h]) : none;
  double sum = largest != none ? 1.0 : 0.0;
  const key_range seen = s.visible(a, i);
  for (std::int64_t j = seen.begin; j < seen.end; ++j) {
    const Element* k = nullptr;
    const Element* v = nullptr;
    key_rows(a, s, head_kv, {j, j + 1}, &k, &v);
    double x = 0.0;
    for (std::int64_t d = 0; d < a.head_dim; ++d) {
      x += static_cast<double>(to_float(q[d])) * static_cast<double>(to_float(k[d]));
    }
    x *= static_cast<double>(a.scale);
    if (a.soft_cap != 0.0F) {
      x = static_cast<double>(a.soft_cap) * std::tanh(x / static_cast<double>(a.soft_cap));
    }
    if (a.bias != nullptr) {
      x += static_cast<double>(to_float(static_cast<const Element*>(
          a.bias)[s.batch * a.bias_stride_batch + h * a.bias_stride_head + i * a.bias_stride_row + j]));
    }
    if (a.alibi_slopes != nullptr) {
      x -= static_cast<double>(a.alibi_slopes[h]) * std::abs(static_cast<double>(i + s.keys - s.queries - j));
    }
    if (x == none) continue;
    if (x > largest) {
      const double fade = std::exp(largest - x);
      sum *= fade;
      for (std::int64_t d = 0; d < a.head_dim_v; ++d) values[d] *= fade;
      largest = x;
    }
    const double weight = std::exp(x - largest);
    sum += weight;
    float kept = 1.0F;
    if (a.dropout_p != 0.0F) drop(a, s.batch * a.heads + h, i, {j, j + 1}, &kept);
    if (kept == 0.0F) continue;
    for (std::int64_t d = 0; d < a.head_dim_v; ++d) {
      values[d] += weight * static_cast<double>(to_float(v[d]));
    }
  }
  const double factor = sum == 0.0 ? 0.0 : 1.0 / (sum * (1.0 - static_cast<double>(a.dropout_p)));
  Element* out = out_row<Element>(a, s, h, i);
  for (std::int64_t d = 0; d < a.head_dim_v; ++d) out[d] = from_double<Element>(values[d] * factor);
  write_lse(a, s, h, i, sum == 0.0 ? -infinity : static_cast<float>(largest + std::log(sum)));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
using switchyard::host::kernel;
using switchyard::host::make_kernel;

extern const kernel attention_tile_f32, attention_tile_f16, attention_tile_bf16;
extern const kernel attention_rows_f32, attention_rows_f16, attention_rows_bf16;
extern const kernel attention_split_f32, attention_split_f16, attention_split_bf16;
extern const kernel attention_combine_f32, attention_combine_f16, attention_combine_bf16;
extern const kernel attention_reference_f32, attention_reference_f16, attention_reference_bf16;

const kernel attention_tile_f32 = make_kernel<&attention_tile<float>>();
const kernel attention_tile_f16 = make_kernel<&attention_tile<half>>();
const kernel attention_tile_bf16 = make_kernel<&attention_tile<bfloat>>();
const kernel attention_rows_f32 = make_kernel<&attention_rows<float>>();
const kernel attention_rows_f16 = make_kernel<&attention_rows<half>>();
const kernel attention_rows_bf16 = make_kernel<&attention_rows<bfloat>>();
const kernel attention_split_f32 = make_kernel<&attention_split<float>>();
const kernel attention_split_f16 = make_kernel<&attention_split<half>>();
const kernel attention_split_bf16 = make_kernel<&attention_split<bfloat>>();
const kernel attention_combine_f32 = make_kernel<&attention_combine<float>>();
const kernel attention_combine_f16 = make_kernel<&attention_combine<half>>();
const kernel attention_combine_bf16 = make_kernel<&attention_combine<bfloat>>();
const kernel attention_reference_f32 = make_kernel<&attention_reference<float>>();
const kernel attention_reference_f16 = make_kernel<&attention_reference<half>>();
const kernel attention_reference_bf16 = make_kernel<&attention_reference<bfloat>>();
}
#pragma GCC visibility pop
