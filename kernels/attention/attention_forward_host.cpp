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
#include "attention_tile_host.hpp"

namespace {

[[nodiscard]] kv_scales scales_of(const attention_arguments& a) {
  return {a.k_scale, a.v_scale, a.k_scale_stride, a.v_scale_stride};
}

// ---- prompts

template <class Element, class Kv, class Query = Element>
void attention_tile(const block& this_block, attention_arguments a, std::int32_t block_m,
                    std::int32_t block_n) {
  attend_tile<Element, Kv, Query>(this_block, a, block_m, block_n, scales_of(a));
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

template <class Element, class Kv, class Query = Element>
void attention_reference(const block& this_block, attention_arguments a) {
  attend_in_double<Element, Kv, Query>(this_block, a, scales_of(a));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
using switchyard::host::kernel;
using switchyard::host::make_kernel;

extern const kernel attention_tile_f32_f32, attention_tile_f16_f16, attention_tile_bf16_bf16,
    attention_tile_f16_f8_e4m3, attention_tile_bf16_f8_e4m3, attention_tile_f16_all_f8_e4m3,
    attention_tile_bf16_all_f8_e4m3;
extern const kernel attention_rows_f32_f32, attention_rows_f16_f16, attention_rows_bf16_bf16,
    attention_rows_f16_f8_e4m3, attention_rows_bf16_f8_e4m3;
extern const kernel attention_split_f32_f32, attention_split_f16_f16, attention_split_bf16_bf16,
    attention_split_f16_f8_e4m3, attention_split_bf16_f8_e4m3;
extern const kernel attention_reference_f32_f32, attention_reference_f16_f16, attention_reference_bf16_bf16,
    attention_reference_f16_f8_e4m3, attention_reference_bf16_f8_e4m3, attention_reference_f16_all_f8_e4m3,
    attention_reference_bf16_all_f8_e4m3;
extern const kernel attention_combine_f32, attention_combine_f16, attention_combine_bf16;
extern const kernel attention_blocks_f32, attention_blocks_f16, attention_blocks_bf16;

const kernel attention_tile_f32_f32 = make_kernel<&attention_tile<float, float>>();
const kernel attention_tile_f16_f16 = make_kernel<&attention_tile<half, half>>();
const kernel attention_tile_bf16_bf16 = make_kernel<&attention_tile<bfloat, bfloat>>();
const kernel attention_tile_f16_f8_e4m3 = make_kernel<&attention_tile<half, float8>>();
const kernel attention_tile_bf16_f8_e4m3 = make_kernel<&attention_tile<bfloat, float8>>();
const kernel attention_tile_f16_all_f8_e4m3 = make_kernel<&attention_tile<half, float8, float8>>();
const kernel attention_tile_bf16_all_f8_e4m3 = make_kernel<&attention_tile<bfloat, float8, float8>>();
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
const kernel attention_reference_f16_all_f8_e4m3 = make_kernel<&attention_reference<half, float8, float8>>();
const kernel attention_reference_bf16_all_f8_e4m3 =
    make_kernel<&attention_reference<bfloat, float8, float8>>();
const kernel attention_combine_f32 = make_kernel<&attention_combine<float>>();
const kernel attention_combine_f16 = make_kernel<&attention_combine<half>>();
const kernel attention_combine_bf16 = make_kernel<&attention_combine<bfloat>>();
}
#pragma GCC visibility pop
