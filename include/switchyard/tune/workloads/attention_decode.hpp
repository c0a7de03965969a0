// Calls of the attention decode operator for measuring.
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
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/attention_decode.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/attention.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::attention_decode> {
  /// A cache of [batch, seqlen_k, heads_kv, dim], or of shuffled pages of [page_size, heads_kv, dim], all of
  /// it in use; e4m3 with a scale for each KV head. A window is a quarter of the keys.
  [[nodiscard]] static prepared_call<operators::attention_decode> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    prepared_call<operators::attention_decode> out{{}, {driver, seed}};
    auto& a = out.arguments;
    a.dtype = want.as("dtype", dtype::bf16);
    a.kv_dtype = want.as("kv_dtype", a.dtype);
    a.mask = want.as("mask", operators::attention_mask::causal_bottom_right);
    a.batch = want.get("batch", 1);
    a.heads = want.get("heads", 32);
    a.heads_kv = want.get("heads_kv", 8);
    a.seqlen_q = want.get("seqlen_q", 1);
    a.seqlen_k = want.get("seqlen_k", 4096);
    a.head_dim = want.get("head_dim", 128);
    a.head_dim_v = want.get("head_dim_v", a.head_dim);
    for (const std::int64_t dim : {a.head_dim, a.head_dim_v}) {
      out.memory.require_room(a.dtype, {a.batch, a.seqlen_q, a.heads, dim});
      out.memory.require_room(a.kv_dtype, {a.batch, a.seqlen_k, a.heads_kv, dim});
    }
    out.memory.require_room(a.kv_dtype, {a.batch, want.get("page_size", 0), a.heads_kv, a.head_dim});
    a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
    a.q_stride_head = a.k_stride_head = a.head_dim;
    a.v_stride_head = a.out_stride_head = a.head_dim_v;
    a.q_stride_token = a.heads * a.head_dim;
    a.k_stride_token = a.heads_kv * a.head_dim;
    a.v_stride_token = a.heads_kv * a.head_dim_v;
    a.out_stride_token = a.heads * a.head_dim_v;
    a.q_stride_batch = a.seqlen_q * a.q_stride_token;
    a.out_stride_batch = a.seqlen_q * a.out_stride_token;
    std::int64_t entries = a.batch;
    std::int64_t entry_tokens = a.seqlen_k;
    const bool paged = want.as("kv", operators::attention_kv::dense) == operators::attention_kv::paged;
    if (paged) {
      a.page_size = want.get("page_size", 16);
      a.block_table_stride = (a.seqlen_k + a.page_size - 1) / a.page_size;
      entries = a.batch * a.block_table_stride;
      entry_tokens = a.page_size;
      std::vector<std::int32_t> pages(static_cast<std::size_t>(entries));
      std::iota(pages.begin(), pages.end(), 0);
      std::shuffle(pages.begin(), pages.end(), std::mt19937_64{seed});
      a.block_table = out.memory.copy(pages);
    }
    if (paged || want.flag("seqused")) {
      a.seqused_k = out.memory.copy(std::vector<std::int32_t>(static_cast<std::size_t>(a.batch),
                                                              static_cast<std::int32_t>(a.seqlen_k)));
    }
    a.k_stride_batch = entry_tokens * a.k_stride_token;
    a.v_stride_batch = entry_tokens * a.v_stride_token;
    a.q = out.memory.random(a.dtype, a.batch * a.q_stride_batch);
    a.k = out.memory.random(a.kv_dtype, entries * a.k_stride_batch);
    a.v = out.memory.random(a.kv_dtype, entries * a.v_stride_batch);
    a.out = out.memory.poisoned(a.dtype, a.batch * a.out_stride_batch);
    if (a.kv_dtype == dtype::f8_e4m3) {
      a.k_scale = static_cast<float*>(out.memory.random(dtype::f32, a.heads_kv));
      a.v_scale = static_cast<float*>(out.memory.random(dtype::f32, a.heads_kv));
      a.k_scale_stride = a.v_scale_stride = 1;
    }
    if (want.flag("with_lse")) {
      a.lse = static_cast<float*>(out.memory.poisoned(dtype::f32, a.batch * a.heads * a.seqlen_q));
      a.lse_stride_batch = a.heads * a.seqlen_q;
      a.lse_stride_head = a.seqlen_q;
    }
    if (want.flag("alibi")) a.alibi_slopes = static_cast<float*>(out.memory.random(dtype::f32, a.heads));
    if (want.flag("sink")) a.sinks = static_cast<float*>(out.memory.random(dtype::f32, a.heads));
    if (want.flag("soft_capped")) a.soft_cap = 30.0F;
    if (want.flag("window"))
      a.window_left = static_cast<std::int32_t>(want.get("window_left", a.seqlen_k / 4));
    const std::int64_t queries = a.batch * a.seqlen_q * a.heads;
    const std::int64_t keys = a.batch * a.seqlen_k * a.heads_kv;
    const std::int64_t dims = a.head_dim + a.head_dim_v;
    out.flops =
        2 * static_cast<double>(queries) * static_cast<double>(a.seqlen_k) * static_cast<double>(dims);
    out.bytes = static_cast<double>((queries * size_of(a.dtype) + keys * size_of(a.kv_dtype)) * dims);
    return out;
  }

  /// A row is a query of one head.
  [[nodiscard]] static std::int64_t rows(const operators::attention_decode::arguments& a) {
    return a.batch * a.heads * a.seqlen_q;
  }
  [[nodiscard]] static double row_work(const operators::attention_decode::arguments& a) {
    return 8 * static_cast<double>(a.seqlen_k * (a.head_dim + a.head_dim_v));
  }

  /// Half a unit for the weights, which are rounded as the output is, and eight units of f32.
  static void expect(const operators::attention_decode::arguments& a, const row_sample& sample,
                     expectation& out) {
    const double unit = unit_of(a.dtype) / 2;
    expect_attention(a, sample, out, 0x1p-20 + unit / 2, unit, [](auto real, const auto&... call) {
      reference::attention_decode<decltype(real)>(call...);
    });
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
