// Calls of the attention forward operator for measuring.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/attention.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/attention.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::attention_forward> {
  /// [batch, seqlen, heads, dim] tensors; packed ones hold sequences of one length, pages are shuffled. A
  /// window is a quarter of the keys.
  [[nodiscard]] static prepared_call<operators::attention_forward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    prepared_call<operators::attention_forward> out{{}, {driver, seed}};
    auto& a = out.arguments;
    a.dtype = want.as("dtype", dtype::bf16);
    a.mask = want.as("mask", operators::attention_mask::causal_bottom_right);
    a.batch = want.get("batch", 1);
    a.heads = want.get("heads", 32);
    a.heads_kv = want.get("heads_kv", a.heads);
    a.seqlen_q = want.get("seqlen_q", 512);
    a.seqlen_k = want.get("seqlen_k", a.seqlen_q);
    a.head_dim = want.get("head_dim", 128);
    a.head_dim_v = want.get("head_dim_v", a.head_dim);
    for (const std::int64_t dim : {a.head_dim, a.head_dim_v}) {
      out.memory.require_room(a.dtype, {a.batch, a.seqlen_q, a.heads, dim});
      out.memory.require_room(a.dtype, {a.batch, a.seqlen_k, a.heads_kv, dim});
    }
    out.memory.require_room(a.dtype, {a.batch, want.get("page_size", 0), a.heads_kv, a.head_dim});
    if (want.flag("biased")) out.memory.require_room(a.dtype, {a.heads, a.seqlen_q, a.seqlen_k});
    a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
    a.q_stride_head = a.k_stride_head = a.head_dim;
    a.v_stride_head = a.out_stride_head = a.head_dim_v;
    a.q_stride_token = a.heads * a.head_dim;
    a.k_stride_token = a.heads_kv * a.head_dim;
    a.v_stride_token = a.heads_kv * a.head_dim_v;
    a.out_stride_token = a.heads * a.head_dim_v;
    a.q_stride_batch = a.seqlen_q * a.q_stride_token;
    a.out_stride_batch = a.seqlen_q * a.out_stride_token;
    const auto layout = want.as("kv", operators::attention_kv::dense);
    std::int64_t key_rows = a.batch * a.seqlen_k;
    std::int64_t batch_rows = a.seqlen_k;
    if (layout == operators::attention_kv::paged) {
      a.page_size = want.get("page_size", 16);
      a.block_table_stride = (a.seqlen_k + a.page_size - 1) / a.page_size;
      std::vector<std::int32_t> pages(static_cast<std::size_t>(a.batch * a.block_table_stride));
      std::iota(pages.begin(), pages.end(), 0);
      std::shuffle(pages.begin(), pages.end(), std::mt19937_64{seed});
      a.block_table = out.memory.copy(pages);
      key_rows = a.batch * a.block_table_stride * a.page_size;
      batch_rows = a.page_size;
    } else if (layout == operators::attention_kv::packed) {
      a.cu_seqlens_k = out.memory.copy(attention_starts(a.batch, a.seqlen_k));
    }
    if (want.flag("packed_q")) a.cu_seqlens_q = out.memory.copy(attention_starts(a.batch, a.seqlen_q));
    if (want.flag("seqused") || layout == operators::attention_kv::paged) {
      a.seqused_k = out.memory.copy(std::vector<std::int32_t>(static_cast<std::size_t>(a.batch),
                                                              static_cast<std::int32_t>(a.seqlen_k)));
    }
    a.k_stride_batch = batch_rows * a.k_stride_token;
    a.v_stride_batch = batch_rows * a.v_stride_token;
    a.q = out.memory.random(a.dtype, a.batch * a.q_stride_batch);
    a.k = out.memory.random(a.dtype, key_rows * a.k_stride_token);
    a.v = out.memory.random(a.dtype, key_rows * a.v_stride_token);
    a.out = out.memory.poisoned(a.dtype, a.batch * a.out_stride_batch);
    if (want.flag("with_lse")) {
      a.lse = static_cast<float*>(out.memory.poisoned(dtype::f32, a.batch * a.heads * a.seqlen_q));
      a.lse_stride_batch = a.heads * a.seqlen_q;
      a.lse_stride_head = a.cu_seqlens_q != nullptr ? a.batch * a.seqlen_q : a.seqlen_q;
    }
    if (want.flag("biased")) {
      a.bias = out.memory.random(a.dtype, a.heads * a.seqlen_q * a.seqlen_k);
      a.bias_stride_row = a.seqlen_k;
      a.bias_stride_head = a.seqlen_q * a.seqlen_k;
      a.bias_stride_batch = 0;
    }
    if (want.flag("alibi")) a.alibi_slopes = static_cast<float*>(out.memory.random(dtype::f32, a.heads));
    if (want.flag("sink")) a.sinks = static_cast<float*>(out.memory.random(dtype::f32, a.heads));
    if (want.flag("soft_capped")) a.soft_cap = 30.0F;
    if (want.flag("window")) {
      a.window_left = static_cast<std::int32_t>(want.get("window_left", a.seqlen_k / 4));
      a.window_right = static_cast<std::int32_t>(want.get("window_right", -1));
    }
    if (want.flag("dropout")) {
      a.dropout_p = 0.1F;
      a.dropout_seed = seed;
    }
    out.flops = 2 * static_cast<double>(a.batch * a.heads) * attention_pairs(a) *
                static_cast<double>(a.head_dim + a.head_dim_v);
    const std::int64_t queries = a.batch * a.seqlen_q * a.heads;
    const std::int64_t keys = a.batch * a.seqlen_k * a.heads_kv;
    out.bytes = static_cast<double>((queries + keys) * (a.head_dim + a.head_dim_v) * size_of(a.dtype));
    return out;
  }

  /// A row is a query of one head.
  [[nodiscard]] static std::int64_t rows(const operators::attention_forward::arguments& a) {
    return a.batch * a.heads * a.seqlen_q;
  }
  [[nodiscard]] static double row_work(const operators::attention_forward::arguments& a) {
    return 8 * static_cast<double>(a.seqlen_k * (a.head_dim + a.head_dim_v));
  }

  /// Half a unit for the weights, which are rounded as the output is; for f32 eight units of it instead.
  static void expect(const operators::attention_forward::arguments& a, const row_sample& sample,
                     expectation& out) {
    const double unit = a.dtype == dtype::f32 ? 0x1p-22 : unit_of(a.dtype) / 2;
    expect_attention(
        a, sample, out, a.dtype == dtype::f32 ? 0x1p-20 : unit / 2, unit,
        [](auto real, const auto&... call) { reference::attention_forward<decltype(real)>(call...); });
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
