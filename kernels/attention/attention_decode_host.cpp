// SPDX-License-Identifier: MIT
// Decoding on the CPU. Semantics: operators/attention_decode.hpp.
//
//   decode_rows       the rows of a KV head against all keys, K and V read once, in place
//   decode_tile       the same by packed tiles, which gives the bits that prompts give
//   decode_split      the same over a part of the keys, into a workspace
//   decode_combine    merges the parts
//   decode_reference  in double, a query row a block
//
// A call becomes one of attention_forward's, whose parts do the rest. With keys of `apart`, their rotary
// columns lie apart. Compiled once for each instruction set.
#include <cstdint>
#include <type_traits>

#include <switchyard/devices/host/kernel.hpp>
#include <switchyard/operators/attention_decode.hpp>

#include "attention_latent_host.hpp"
#include "attention_reference_host.hpp"
#include "attention_rows_host.hpp"
#include "attention_tile_host.hpp"

namespace {

using decode_arguments = switchyard::operators::attention_decode::arguments;

[[nodiscard]] attention_arguments forward_of(const decode_arguments& a) {
  attention_arguments f;
  f.q = a.q, f.k = a.k, f.v = a.v, f.out = a.out, f.lse = a.lse;
  f.alibi_slopes = a.alibi_slopes, f.sinks = a.sinks;
  f.seqused_k = a.seqused_k, f.block_table = a.block_table;
  f.batch = a.batch, f.heads = a.heads, f.heads_kv = a.heads_kv;
  f.seqlen_q = a.seqlen_q, f.seqlen_k = a.seqlen_k;
  f.head_dim = a.head_dim, f.head_dim_v = a.head_dim_v;
  f.page_size = a.page_size, f.block_table_stride = a.block_table_stride;
  f.q_stride_batch = a.q_stride_batch, f.q_stride_head = a.q_stride_head;
  f.q_stride_token = a.q_stride_token;
  f.k_stride_batch = a.k_stride_batch, f.k_stride_head = a.k_stride_head;
  f.k_stride_token = a.k_stride_token;
  f.v_stride_batch = a.v_stride_batch, f.v_stride_head = a.v_stride_head;
  f.v_stride_token = a.v_stride_token;
  f.out_stride_batch = a.out_stride_batch, f.out_stride_head = a.out_stride_head;
  f.out_stride_token = a.out_stride_token;
  f.lse_stride_batch = a.lse_stride_batch, f.lse_stride_head = a.lse_stride_head;
  f.scale = a.scale, f.soft_cap = a.soft_cap;
  f.window_left = a.window_left, f.dtype = a.dtype, f.mask = a.mask;
  return f;
}

[[nodiscard]] kv_scales scales_of(const decode_arguments& a) {
  return {a.k_scale, a.v_scale, a.k_scale_stride, a.v_scale_stride};
}

/// In place of a type of keys.
struct apart {};

template <class Element, class Kv>
void decode_rows(const block& this_block, decode_arguments a, std::int32_t block_m, std::int32_t block_n) {
  if constexpr (std::is_same_v<Kv, apart>) {
    attend_rows<Element, float>(this_block, forward_of(a), block_m, block_n, {}, rows_widened<Element>{a});
  } else {
    attend_rows<Element, Kv>(this_block, forward_of(a), block_m, block_n, scales_of(a));
  }
}

template <class Element, class Kv>
void decode_tile(const block& this_block, decode_arguments a, std::int32_t block_m, std::int32_t block_n) {
  attend_tile<Element, Kv>(this_block, forward_of(a), block_m, block_n, scales_of(a));
}

template <class Element, class Kv>
void decode_split(const block& this_block, decode_arguments a, std::int32_t block_m, std::int32_t block_n,
                  float* partial, float* partial_state) {
  if constexpr (std::is_same_v<Kv, apart>) {
    attend_part<Element, float>(this_block, forward_of(a), block_m, block_n, {}, partial, partial_state,
                                rows_widened<Element>{a});
  } else {
    attend_part<Element, Kv>(this_block, forward_of(a), block_m, block_n, scales_of(a), partial,
                             partial_state);
  }
}

template <class Element>
void decode_combine(const block& this_block, decode_arguments a, std::int32_t splits, const float* partial,
                    const float* partial_state) {
  const std::int64_t head_kv = this_block.index.y / (a.heads / a.heads_kv);
  combine_parts<Element>(this_block, forward_of(a), splits, scales_of(a).of_v(head_kv), partial,
                         partial_state);
}

template <class Element, class Kv>
void decode_reference(const block& this_block, decode_arguments a) {
  if constexpr (std::is_same_v<Kv, apart>) {
    attend_in_double<Element, float, Element>(this_block, forward_of(a), {}, rows_widened<Element>{a});
  } else {
    attend_in_double<Element, Kv>(this_block, forward_of(a), scales_of(a));
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
using switchyard::host::kernel;
using switchyard::host::make_kernel;

extern const kernel decode_rows_f16_f16, decode_rows_bf16_bf16, decode_rows_f16_f8_e4m3;
extern const kernel decode_rows_bf16_f8_e4m3;
extern const kernel decode_tile_f16_f16, decode_tile_bf16_bf16, decode_tile_f16_f8_e4m3;
extern const kernel decode_tile_bf16_f8_e4m3;
extern const kernel decode_split_f16_f16, decode_split_bf16_bf16, decode_split_f16_f8_e4m3;
extern const kernel decode_split_bf16_f8_e4m3;
extern const kernel decode_combine_f16, decode_combine_bf16;
extern const kernel decode_reference_f16_f16, decode_reference_bf16_bf16, decode_reference_f16_f8_e4m3;
extern const kernel decode_reference_bf16_f8_e4m3;
extern const kernel decode_rows_f16_apart, decode_rows_bf16_apart;
extern const kernel decode_split_f16_apart, decode_split_bf16_apart;
extern const kernel decode_reference_f16_apart, decode_reference_bf16_apart;

const kernel decode_rows_f16_f16 = make_kernel<&decode_rows<half, half>>();
const kernel decode_rows_bf16_bf16 = make_kernel<&decode_rows<bfloat, bfloat>>();
const kernel decode_rows_f16_f8_e4m3 = make_kernel<&decode_rows<half, float8>>();
const kernel decode_rows_bf16_f8_e4m3 = make_kernel<&decode_rows<bfloat, float8>>();
const kernel decode_tile_f16_f16 = make_kernel<&decode_tile<half, half>>();
const kernel decode_tile_bf16_bf16 = make_kernel<&decode_tile<bfloat, bfloat>>();
const kernel decode_tile_f16_f8_e4m3 = make_kernel<&decode_tile<half, float8>>();
const kernel decode_tile_bf16_f8_e4m3 = make_kernel<&decode_tile<bfloat, float8>>();
const kernel decode_split_f16_f16 = make_kernel<&decode_split<half, half>>();
const kernel decode_split_bf16_bf16 = make_kernel<&decode_split<bfloat, bfloat>>();
const kernel decode_split_f16_f8_e4m3 = make_kernel<&decode_split<half, float8>>();
const kernel decode_split_bf16_f8_e4m3 = make_kernel<&decode_split<bfloat, float8>>();
const kernel decode_combine_f16 = make_kernel<&decode_combine<half>>();
const kernel decode_combine_bf16 = make_kernel<&decode_combine<bfloat>>();
const kernel decode_reference_f16_f16 = make_kernel<&decode_reference<half, half>>();
const kernel decode_reference_bf16_bf16 = make_kernel<&decode_reference<bfloat, bfloat>>();
const kernel decode_reference_f16_f8_e4m3 = make_kernel<&decode_reference<half, float8>>();
const kernel decode_reference_bf16_f8_e4m3 = make_kernel<&decode_reference<bfloat, float8>>();
const kernel decode_rows_f16_apart = make_kernel<&decode_rows<half, apart>>();
const kernel decode_rows_bf16_apart = make_kernel<&decode_rows<bfloat, apart>>();
const kernel decode_split_f16_apart = make_kernel<&decode_split<half, apart>>();
const kernel decode_split_bf16_apart = make_kernel<&decode_split<bfloat, apart>>();
const kernel decode_reference_f16_apart = make_kernel<&decode_reference<half, apart>>();
const kernel decode_reference_bf16_apart = make_kernel<&decode_reference<bfloat, apart>>();
}
#pragma GCC visibility pop
