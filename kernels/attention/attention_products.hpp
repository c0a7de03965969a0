// SPDX-License-Identifier: MIT
// The CPU's attention kernels for many query rows: rows of the heads that share a KV head, and matrix
// products of packed tiles.
//
// Private to kernels/attention; unnamed namespace for the reason given in simd.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "attention_host.hpp"

namespace {

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
        end{std::min(begin + rows, s.queries * group)},
        first_head_{head_kv * group} {}

  /// Rows of one query head alone.
  static row_range of_head(const attention_arguments& arguments, std::int64_t batch, std::int64_t head,
                           std::int64_t tile, std::int64_t rows) {
    const std::int64_t group = arguments.heads / arguments.heads_kv;
    row_range result{arguments, batch * arguments.heads_kv + head / group, tile, rows};
    result.group = 1;
    result.end = std::min(result.begin + rows, result.s.queries);
    result.first_head_ = head;
    return result;
  }

  /// Some rows of a query head.
  static row_range of_rows(const attention_arguments& arguments, std::int64_t batch, std::int64_t head,
                           key_range queries) {
    row_range result = of_head(arguments, batch, head, 0, queries.end);
    result.begin = queries.begin;
    return result;
  }

  [[nodiscard]] std::int64_t count() const { return end - begin; }
  [[nodiscard]] std::int64_t query(std::int64_t r) const { return (begin + r) / group; }
  [[nodiscard]] std::int64_t head(std::int64_t r) const { return first_head_ + (begin + r) % group; }
  /// All keys that one of the rows sees.
  [[nodiscard]] key_range visible() const {
    return {s.visible(a, query(0)).begin, s.visible(a, query(count() - 1)).end};
  }

 private:
  std::int64_t first_head_;
};

/// Copies the queries of the rows, scaled, as floats; columns and rows up to the padding are zero.
template <class Element>
void pack_queries(const row_range& rows, std::int64_t padded_rows, std::int64_t stride, float* to) {
  const attention_arguments& a = rows.a;
  std::fill_n(to, padded_rows * stride, 0.0F);
  for (std::int64_t r = 0; r < rows.count(); ++r, to += stride) {
    const float scale = query_scale(a) * scale_of_queries(a, rows.head(r));
    const Element* from = query_row<Element>(a, rows.s, rows.head(r), rows.query(r));
    std::int64_t d = 0;
    for (; d + width <= a.head_dim; d += width) store(to + d, load(from + d) * scale);
    for (; d < a.head_dim; ++d) to[d] = to_float(from[d]) * scale;
  }
}

// The register tile: 24 accumulators where there are 32 registers, 12 where there are 16.
constexpr std::size_t tile_rows = many_registers ? 12 : 6;
constexpr std::int64_t panel = 2 * width;

/// What a product does with what was there: c = a b, c += a b, or c = rescale c + a b.
enum class into { set, added, rescaled };

/// The product of tile_rows rows of a, `depth` long, with a panel of b that holds, for each step of the
/// depth, one panel's columns. With Transposed, a is given as its transpose.
template <into How, bool Transposed = false>
void multiply(const float* a, std::int64_t stride_a, const float* b, std::int64_t depth, float* c,
              std::int64_t stride_c, const float* rescale) {
  std::array<std::array<floats, 2>, tile_rows> sum{};
  for (std::int64_t k = 0; k < depth; ++k, b += panel) {
    const floats b0 = load(b);
    const floats b1 = load(b + width);
    unroll<tile_rows>([&](auto r) __attribute__((always_inline)) {
      const floats x = splat(a[Transposed ? k * stride_a + static_cast<std::int64_t>(r)
                                          : static_cast<std::int64_t>(r) * stride_a + k]);
      sum[r][0] = x * b0 + sum[r][0];
      sum[r][1] = x * b1 + sum[r][1];
    });
  }
  unroll<tile_rows>([&](auto r) __attribute__((always_inline)) {
    float* to = c + static_cast<std::int64_t>(r) * stride_c;
    if constexpr (How == into::added) {
      sum[r][0] += load(to);
      sum[r][1] += load(to + width);
    } else if constexpr (How == into::rescaled) {
      sum[r][0] += load(to) * rescale[r];
      sum[r][1] += load(to + width) * rescale[r];
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

}  // namespace
