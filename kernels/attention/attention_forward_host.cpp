// SPDX-License-Identifier: MIT
// Attention forward on the CPU, in the manner of FlashAttention: keys are taken a tile at a time, with an
// online softmax, and no matrix of all scores exists.
//
//   attention_tile       for prompts: K and V tiles are packed for matrix products with many query rows
//   attention_blocks     for block masks: the same for the blocks that a head's rows see
//   attention_rows       for decoding: a few query rows, K and V read once, in place
//   attention_split      the same over a part of the keys, into a workspace
//   attention_combine    merges the parts
//   attention_reference  in double, a query row a block
//
// Compiled once for each instruction set.
#include <algorithm>
#include <array>
#include <cstdint>

#include <switchyard/devices/host/kernel.hpp>

#include "attention_reference_host.hpp"
#include "attention_rows_host.hpp"

namespace {

[[nodiscard]] kv_scales scales_of(const attention_arguments& a) {
  return {a.k_scale, a.v_scale, a.k_scale_stride, a.v_scale_stride};
}

// ---- prompts

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
template <class Element, class Kv>
[[nodiscard]] row_scratch<Kv> begin_rows(arena& memory, const attention_arguments& a, const row_range& rows,
                                         std::int32_t block_n) {
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
  pack_queries<Element>(rows, out.padded, a.head_dim, out.queries);
  std::fill_n(out.values, out.padded * out.out_stride, 0.0F);
  std::fill_n(out.rescales, out.padded, 1.0F);
  for (std::int64_t r = 0; r < out.count; ++r) out.states[r] = softmax_state::of_row(a, rows.head(r));
  return out;
}

/// Scratch, with m = round_up(block_m, 12) and w = round_up(head_dim_v, 32):
/// 4 * (m * (head_dim + block_n + w + 8) + block_n * (head_dim + w + 4)) + 1024 bytes. block_n is a
/// multiple of 32.
template <class Element, class Kv>
void attention_tile(const block& this_block, attention_arguments a, std::int32_t block_m,
                    std::int32_t block_n) {
  const kv_scales scales = scales_of(a);
  a.scale *= scales.of_k(this_block.index.y % a.heads_kv);
  // The last tiles first: under a causal mask they are the longest.
  const row_range rows{a, this_block.index.y, std::int64_t{this_block.grid.x} - 1 - this_block.index.x,
                       block_m};
  if (rows.count() <= 0) return;
  constexpr auto step = static_cast<std::int64_t>(tile_rows);
  arena memory{this_block.scratch};
  const row_scratch<Kv> own = begin_rows<Element, Kv>(memory, a, rows, block_n);
  auto* seen = memory.take<key_range>(own.padded / step);
  for (std::int64_t r = 0; r < own.padded; r += step) {
    seen[r / step] = {rows.s.visible(a, rows.query(r)).begin,
                      rows.s.visible(a, rows.query(std::min(r + step, own.count) - 1)).end};
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
    key_rows(a, rows.s, rows.head_kv, tile, own.k_rows, own.v_rows);

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

/// Under a block mask: rows of one head, of one block of queries. block_m and block_n divide 128; scratch as
/// in attention_tile. The grid is [tiles of rows, batch * heads].
template <class Element>
void attention_blocks(const block& this_block, attention_arguments a, std::int32_t block_m,
                      std::int32_t block_n) {
  const std::int64_t head = this_block.index.y % a.heads;
  const row_range rows =
      row_range::of_head(a, this_block.index.y / a.heads, head,
                         std::int64_t{this_block.grid.x} - 1 - this_block.index.x, block_m);
  if (rows.count() <= 0) return;
  constexpr auto step = static_cast<std::int64_t>(tile_rows);
  arena memory{this_block.scratch};
  const row_scratch<Element> own = begin_rows<Element, Element>(memory, a, rows, block_n);

  const block_lists lists{a, rows.s.batch, head};
  lists.visit_keys(rows.begin / a.mask_block_q, block_n, [&](key_range tile, const key_bits& bits) {
    const std::int64_t keys = tile.end - tile.begin;
    key_rows(a, rows.s, rows.head_kv, tile, own.k_rows, own.v_rows);
    pack_keys(own.k_rows, keys, a.head_dim, own.packed);
    for (std::int64_t n = 0; n < keys; n += panel) {
      for (std::int64_t r = 0; r < own.padded; r += step) {
        multiply<into::set>(own.queries + r * a.head_dim, a.head_dim, own.packed + n * a.head_dim, a.head_dim,
                            own.scores + r * block_n + n, block_n, nullptr);
      }
    }
    for (std::int64_t r = 0; r < own.count; ++r) {
      bits.hide(rows.query(r) % a.mask_block_q, keys, own.scores + r * block_n);
      own.rescales[r] = weigh<Element>(a, rows.s, head, rows.query(r), tile, round_up(keys, width),
                                       own.scores + r * block_n, own.states[r]);
    }
    pack_values(own.v_rows, keys, a.head_dim_v, own.packed);
    for (std::int64_t d = 0; d < a.head_dim_v; d += panel) {
      for (std::int64_t r = 0; r < own.padded; r += step) {
        multiply<into::rescaled>(own.scores + r * block_n, block_n, own.packed + d * keys, keys,
                                 own.values + r * own.out_stride + d, own.out_stride, own.rescales + r);
      }
    }
  });
  for (std::int64_t r = 0; r < own.count; ++r)
    write_row<Element>(a, rows.s, head, rows.query(r), own.values + r * own.out_stride, own.states[r]);
}

// ---- decoding

template <class Element, class Kv>
void attention_rows(const block& this_block, attention_arguments a, std::int32_t block_m,
                    std::int32_t block_n) {
  attend_rows<Element, Kv>(this_block, a, block_m, block_n, scales_of(a));
}

template <class Element, class Kv>
void attention_split(const block& this_block, attention_arguments a, std::int32_t block_m,
                     std::int32_t block_n, float* partial, float* partial_state) {
  attend_part<Element, Kv>(this_block, a, block_m, block_n, scales_of(a), partial, partial_state);
}

template <class Element>
void attention_combine(const block& this_block, attention_arguments a, std::int32_t splits,
                       const float* partial, const float* partial_state) {
  const std::int64_t head_kv = this_block.index.y / (a.heads / a.heads_kv);
  combine_parts<Element>(this_block, a, splits, scales_of(a).of_v(head_kv), partial, partial_state);
}

// ---- in double

template <class Element, class Kv>
void attention_reference(const block& this_block, attention_arguments a) {
  attend_in_double<Element, Kv>(this_block, a, scales_of(a));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
using switchyard::host::kernel;
using switchyard::host::make_kernel;

extern const kernel attention_tile_f32_f32, attention_tile_f16_f16, attention_tile_bf16_bf16,
    attention_tile_f16_f8_e4m3, attention_tile_bf16_f8_e4m3;
extern const kernel attention_rows_f32_f32, attention_rows_f16_f16, attention_rows_bf16_bf16,
    attention_rows_f16_f8_e4m3, attention_rows_bf16_f8_e4m3;
extern const kernel attention_split_f32_f32, attention_split_f16_f16, attention_split_bf16_bf16,
    attention_split_f16_f8_e4m3, attention_split_bf16_f8_e4m3;
extern const kernel attention_reference_f32_f32, attention_reference_f16_f16, attention_reference_bf16_bf16,
    attention_reference_f16_f8_e4m3, attention_reference_bf16_f8_e4m3;
extern const kernel attention_combine_f32, attention_combine_f16, attention_combine_bf16;
extern const kernel attention_blocks_f32, attention_blocks_f16, attention_blocks_bf16;

const kernel attention_tile_f32_f32 = make_kernel<&attention_tile<float, float>>();
const kernel attention_tile_f16_f16 = make_kernel<&attention_tile<half, half>>();
const kernel attention_tile_bf16_bf16 = make_kernel<&attention_tile<bfloat, bfloat>>();
const kernel attention_tile_f16_f8_e4m3 = make_kernel<&attention_tile<half, float8>>();
const kernel attention_tile_bf16_f8_e4m3 = make_kernel<&attention_tile<bfloat, float8>>();
const kernel attention_blocks_f32 = make_kernel<&attention_blocks<float>>();
const kernel attention_blocks_f16 = make_kernel<&attention_blocks<half>>();
const kernel attention_blocks_bf16 = make_kernel<&attention_blocks<bfloat>>();
const kernel attention_rows_f32_f32 = make_kernel<&attention_rows<float, float>>();
const kernel attention_rows_f16_f16 = make_kernel<&attention_rows<half, half>>();
const kernel attention_rows_bf16_bf16 = make_kernel<&attention_rows<bfloat, bfloat>>();
const kernel attention_rows_f16_f8_e4m3 = make_kernel<&attention_rows<half, float8>>();
const kernel attention_rows_bf16_f8_e4m3 = make_kernel<&attention_rows<bfloat, float8>>();
const kernel attention_split_f32_f32 = make_kernel<&attention_split<float, float>>();
const kernel attention_split_f16_f16 = make_kernel<&attention_split<half, half>>();
const kernel attention_split_bf16_bf16 = make_kernel<&attention_split<bfloat, bfloat>>();
const kernel attention_split_f16_f8_e4m3 = make_kernel<&attention_split<half, float8>>();
const kernel attention_split_bf16_f8_e4m3 = make_kernel<&attention_split<bfloat, float8>>();
const kernel attention_reference_f32_f32 = make_kernel<&attention_reference<float, float>>();
const kernel attention_reference_f16_f16 = make_kernel<&attention_reference<half, half>>();
const kernel attention_reference_bf16_bf16 = make_kernel<&attention_reference<bfloat, bfloat>>();
const kernel attention_reference_f16_f8_e4m3 = make_kernel<&attention_reference<half, float8>>();
const kernel attention_reference_bf16_f8_e4m3 = make_kernel<&attention_reference<bfloat, float8>>();
const kernel attention_combine_f32 = make_kernel<&attention_combine<float>>();
const kernel attention_combine_f16 = make_kernel<&attention_combine<half>>();
const kernel attention_combine_bf16 = make_kernel<&attention_combine<bfloat>>();
}
#pragma GCC visibility pop
