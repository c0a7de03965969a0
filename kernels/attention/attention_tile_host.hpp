// SPDX-License-Identifier: MIT
// Many query rows at a time, with packed tiles of keys and values, on the CPU: prompts, and decoding where it
// is to give what prompts give.
//
// Private to kernels/attention; unnamed namespace for the reason given in simd.hpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>

#include "attention_products.hpp"

namespace {

using switchyard::host::block;

/// The scratch of a tile of query rows: `padded` is its rows, rounded up to whole steps.
template <class Kv>
struct row_scratch {
  std::int64_t count, padded, out_stride;
  float* queries;
  float* scores;
  float* values;
  softmax_state* states;
  float* rescales;
  float* packed;  ///< a tile of keys, then of values
  const Kv** k_rows;
  const Kv** v_rows;
};

/// Takes it, with the queries packed and nothing seen.
template <class Query, class Kv>
[[nodiscard]] row_scratch<Kv> begin_rows(arena& memory, const attention_arguments& a, const row_range& rows,
                                         std::int64_t block_n) {
  row_scratch<Kv> out{};
  out.count = rows.count();
  out.padded = round_up(out.count, static_cast<std::int64_t>(tile_rows));
  out.out_stride = round_up(a.head_dim_v, panel);
  out.queries = memory.take<float>(out.padded * a.head_dim);
  out.scores = memory.take<float>(out.padded * block_n);
  out.values = memory.take<float>(out.padded * out.out_stride);
  out.states = memory.take<softmax_state>(out.padded);
  out.rescales = memory.take<float>(out.padded);
  out.packed = memory.take<float>(block_n * std::max(a.head_dim, out.out_stride));
  out.k_rows = memory.take<const Kv*>(block_n);
  out.v_rows = memory.take<const Kv*>(block_n);
  pack_queries<Query>(rows, out.padded, a.head_dim, out.queries);
  std::fill_n(out.values, out.padded * out.out_stride, 0.0F);
  std::fill_n(out.rescales, out.padded, 1.0F);
  for (std::int64_t r = 0; r < out.count; ++r) out.states[r] = softmax_state::of_row(a, rows.head(r));
  return out;
}

/// Many query rows against the keys that they see. Tiles of keys begin at multiples of block_n, so that what
/// a row gives does not depend on the others. Scratch, with m = round_up(block_m, 12) and w =
/// round_up(head_dim_v, 32): 4 * (m * (head_dim + block_n + w + 8) + block_n * (head_dim + w + 4)) + 1024
/// bytes. block_n is a multiple of 32.
template <class Element, class Kv, class Query = Element>
void attend_tile(const block& this_block, attention_arguments a, std::int64_t block_m, std::int64_t block_n,
                 const kv_scales& scales) {
  a.scale *= scales.of_k(this_block.index.y % a.heads_kv);
  // The last tiles first: under a causal mask they are the longest.
  const row_range rows{a, this_block.index.y, std::int64_t{this_block.grid.x} - 1 - this_block.index.x,
                       block_m};
  if (rows.count() <= 0) return;
  constexpr auto step = static_cast<std::int64_t>(tile_rows);
  arena memory{this_block.scratch};
  const row_scratch<Kv> own = begin_rows<Query, Kv>(memory, a, rows, block_n);
  auto* seen = memory.take<key_range>(own.padded / step);
  for (std::int64_t r = 0; r < own.padded; r += step) {
    seen[r / step] = {rows.s.visible(a, rows.query(r)).begin,
                      rows.s.visible(a, rows.query(std::min(r + step, own.count) - 1)).end};
  }

  const key_range all = rows.visible();
  const std::int64_t first = all.begin < all.end ? all.begin / block_n * block_n : all.end;
  for (std::int64_t j = first; j < all.end; j += block_n) {
    const key_range tile{j, std::min(j + block_n, all.end)};
    const std::int64_t keys = tile.end - tile.begin;
    // The tile's keys that some of a step's rows see: the rest is left out of both products.
    const auto seen_here = [&](std::int64_t r) {
      return key_range{std::clamp<std::int64_t>(seen[r / step].begin - j, 0, keys),
                       std::clamp<std::int64_t>(seen[r / step].end - j, 0, keys)};
    };
    // In place of keys that no row sees, which need not exist, the first that is seen.
    const std::int64_t unseen = std::max(all.begin - j, std::int64_t{0});
    key_rows(a, rows.s, rows.head_kv, {j + unseen, tile.end}, own.k_rows + unseen, own.v_rows + unseen);
    std::fill_n(own.k_rows, unseen, own.k_rows[unseen]);
    std::fill_n(own.v_rows, unseen, own.v_rows[unseen]);

    pack_keys(own.k_rows, keys, a.head_dim, own.packed);
    for (std::int64_t n = 0; n < keys; n += panel) {
      for (std::int64_t r = 0; r < own.padded; r += step) {
        const key_range part = seen_here(r);
        if (n >= part.end || n + panel <= part.begin) continue;
        multiply<into::set>(own.queries + r * a.head_dim, a.head_dim, own.packed + n * a.head_dim, a.head_dim,
                            own.scores + r * block_n + n, block_n, nullptr);
      }
    }
    for (std::int64_t r = 0; r < own.count; ++r) {
      const key_range part = seen_here(r);
      if (part.begin >= part.end) continue;
      own.rescales[r] = weigh<Element>(a, rows.s, rows.head(r), rows.query(r), tile, round_up(keys, width),
                                       own.scores + r * block_n, own.states[r]);
    }
    pack_values(own.v_rows, keys, a.head_dim_v, own.packed);
    for (std::int64_t d = 0; d < a.head_dim_v; d += panel) {
      for (std::int64_t r = 0; r < own.padded; r += step) {
        const key_range part = seen_here(r);
        if (part.begin >= part.end) continue;
        multiply<into::rescaled>(own.scores + r * block_n + part.begin, block_n,
                                 own.packed + d * keys + part.begin * panel, part.end - part.begin,
                                 own.values + r * own.out_stride + d, own.out_stride, own.rescales + r);
      }
    }
  }
  const float factor = scales.of_v(rows.head_kv);
  for (std::int64_t r = 0; r < own.count; ++r) {
    write_row<Element>(a, rows.s, rows.head(r), rows.query(r), own.values + r * own.out_stride, own.states[r],
                       factor);
  }
}

}  // namespace
