// Calls of the attention backward operator for measuring.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include <switchyard/devices/driver.hpp>
#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/attention.hpp>
#include <switchyard/tune/reference/attention_backward.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/attention.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::attention_backward> {
  /// [batch, seqlen, heads, dim] tensors; packed ones hold sequences of one length. A window is a quarter of
  /// the keys. Where the reference can do it (see row_work), out and the LSE are the forward's; else they are
  /// made up, of a usual size, which is enough for timing.
  [[nodiscard]] static prepared_call<operators::attention_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    prepared_call<operators::attention_backward> out{{}, {driver, seed}};
    auto& a = out.arguments;
    a.dtype = want.as("dtype", dtype::bf16);
    a.mask = want.as("mask", operators::attention_mask::causal_bottom_right);
    a.deterministic = want.flag("deterministic");
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
    if (want.flag("biased")) out.memory.require_room(a.dtype, {a.heads, a.seqlen_q, a.seqlen_k});
    a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
    a.q_stride_head = a.k_stride_head = a.dq_stride_head = a.dk_stride_head = a.head_dim;
    a.v_stride_head = a.dv_stride_head = a.out_stride_head = a.dout_stride_head = a.head_dim_v;
    a.q_stride_token = a.dq_stride_token = a.heads * a.head_dim;
    a.k_stride_token = a.dk_stride_token = a.heads_kv * a.head_dim;
    a.v_stride_token = a.dv_stride_token = a.heads_kv * a.head_dim_v;
    a.out_stride_token = a.dout_stride_token = a.heads * a.head_dim_v;
    a.q_stride_batch = a.dq_stride_batch = a.seqlen_q * a.q_stride_token;
    a.k_stride_batch = a.dk_stride_batch = a.seqlen_k * a.k_stride_token;
    a.v_stride_batch = a.dv_stride_batch = a.seqlen_k * a.v_stride_token;
    a.out_stride_batch = a.dout_stride_batch = a.seqlen_q * a.out_stride_token;
    a.lse_stride_batch = a.heads * a.seqlen_q;
    a.lse_stride_head = want.flag("packed_q") ? a.batch * a.seqlen_q : a.seqlen_q;
    a.q = out.memory.random(a.dtype, a.batch * a.q_stride_batch);
    a.k = out.memory.random(a.dtype, a.batch * a.k_stride_batch);
    a.v = out.memory.random(a.dtype, a.batch * a.v_stride_batch);
    a.dout = out.memory.random(a.dtype, a.batch * a.out_stride_batch);
    a.dq = out.memory.poisoned(a.dtype, a.batch * a.q_stride_batch);
    a.dk = out.memory.poisoned(a.dtype, a.batch * a.k_stride_batch);
    a.dv = out.memory.poisoned(a.dtype, a.batch * a.v_stride_batch);
    if (want.flag("packed_q")) a.cu_seqlens_q = out.memory.copy(attention_starts(a.batch, a.seqlen_q));
    if (want.flag("packed_k")) a.cu_seqlens_k = out.memory.copy(attention_starts(a.batch, a.seqlen_k));
    if (want.flag("seqused")) {
      a.seqused_k = out.memory.copy(std::vector<std::int32_t>(static_cast<std::size_t>(a.batch),
                                                              static_cast<std::int32_t>(a.seqlen_k)));
    }
    if (want.flag("biased") || want.flag("with_dbias")) {
      a.bias_stride_row = a.dbias_stride_row = a.seqlen_k;
      a.bias_stride_head = a.dbias_stride_head = a.seqlen_q * a.seqlen_k;
      a.bias_stride_batch = a.dbias_stride_batch = 0;
      a.bias = out.memory.random(a.dtype, a.heads * a.bias_stride_head);
      if (want.flag("with_dbias")) a.dbias = out.memory.poisoned(a.dtype, a.heads * a.bias_stride_head);
    }
    if (want.flag("alibi")) a.alibi_slopes = static_cast<float*>(out.memory.random(dtype::f32, a.heads));
    if (want.flag("soft_capped")) a.soft_cap = 30.0F;
    if (want.flag("window")) {
      a.window_left = static_cast<std::int32_t>(want.get("window_left", a.seqlen_k / 4));
      a.window_right = static_cast<std::int32_t>(want.get("window_right", -1));
    }
    if (want.flag("dropout")) {
      a.dropout_p = 0.1F;
      a.dropout_seed = seed;
    }
    add_forward_results(out);
    // Two products of the value's dim (dv, dP), three of the key's (S, dq, dk).
    out.flops = 2 * static_cast<double>(a.batch * a.heads) * attention_pairs(a) *
                static_cast<double>(3 * a.head_dim + 2 * a.head_dim_v);
    const std::int64_t queries = a.batch * a.seqlen_q * a.heads;
    const std::int64_t keys = a.batch * a.seqlen_k * a.heads_kv;
    out.bytes = static_cast<double>((queries + keys) * 2 * (a.head_dim + a.head_dim_v) * size_of(a.dtype));
    return out;
  }

  /// The gradients of keys need every query, so the result is one part.
  [[nodiscard]] static std::int64_t rows(const operators::attention_backward::arguments& /*a*/) { return 1; }
  [[nodiscard]] static double row_work(const operators::attention_backward::arguments& a) {
    return 10 * static_cast<double>(a.batch * a.heads) * static_cast<double>(a.seqlen_q) *
           static_cast<double>(a.seqlen_k) * static_cast<double>(a.head_dim + a.head_dim_v);
  }

  /// A problem that the reference can do, with several tiles and the remainders of the one asked for: few
  /// sequences and KV heads, at most 257 to 384 queries and keys.
  static void shrink(const operators::attention_backward::arguments& a, request& want) {
    const std::int64_t group = a.heads / std::max<std::int64_t>(a.heads_kv, 1);
    const std::int64_t heads_kv = std::min<std::int64_t>(a.heads_kv, group > 1 ? 1 : 2);
    const auto length = [](std::int64_t n) { return n <= 384 ? n : 256 + (n - 1) % 128 + 1; };
    want.set("batch", 1);
    want.set("heads_kv", heads_kv);
    want.set("heads", heads_kv * group);
    want.set("seqlen_q", length(a.seqlen_q));
    want.set("seqlen_k", length(a.seqlen_k));
  }

  /// Four times the errors of the formulas carried out plainly in f32 and rounded once; for what is rounded
  /// in between in low precision two units at the gradients' size; four times what is left where dP and delta
  /// cancel, an eighth of that for the weights of dv, which are rounded once; and units of f32 at the size of
  /// the scores and of the LSE.
  static void expect(const operators::attention_backward::arguments& a, const row_sample& /*sample*/,
                     expectation& out) {
    const auto exact = gradients<double>(a);
    const auto plain = gradients<float>(a);
    const double score = std::abs(static_cast<double>(a.scale)) * std::sqrt(static_cast<double>(a.head_dim));
    double size_lse = 0;
    for (std::int64_t i = 0; i < a.batch * a.heads * a.seqlen_q; ++i) {
      if (std::isfinite(a.lse[i])) size_lse = std::max(size_lse, static_cast<double>(std::abs(a.lse[i])));
    }
    const double unit = a.dtype == dtype::f32 ? 0x1p-19 : unit_of(a.dtype);
    const double work = a.dtype == dtype::f32 ? 0x1p-21 : unit;
    const auto want = [&](const char* name, const void* address, const std::vector<double>& wanted,
                          const std::vector<float>& rough, double noise) {
      auto& values = out.of(name, address, a.dtype);
      double error = 0;
      double size = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (std::isnan(wanted[i])) continue;
        values.want(static_cast<std::int64_t>(i), wanted[i], 0);
        size = std::max(size, std::abs(wanted[i]));
        error =
            std::max(error, std::abs(wanted[i] - reference::rounded(a.dtype, static_cast<double>(rough[i]))));
      }
      for (expectation::value& each : values.values) {
        each.allowed = 4 * error + 2 * unit * size + 4 * work * noise +
                       (0x1p-19 * score + 0x1p-23 * size_lse) * size + unit * 0x1p-6;
      }
    };
    want("dq", a.dq, exact.dq, plain.dq, exact.noise_dq);
    want("dk", a.dk, exact.dk, plain.dk, exact.noise_dk);
    want("dv", a.dv, exact.dv, plain.dv, exact.noise_dv / 8);
    if (a.dbias != nullptr) want("dbias", a.dbias, exact.dbias, plain.dbias, exact.noise_dbias);
  }

 private:
  /// As much as a check may cost.
  static constexpr double most_work = 1.5e9;

  template <class Real>
  [[nodiscard]] static reference::attention_gradients<Real> gradients(
      const operators::attention_backward::arguments& a) {
    const auto fresh = [](std::int64_t count) {
      return std::vector<Real>(static_cast<std::size_t>(count), std::numeric_limits<Real>::quiet_NaN());
    };
    reference::attention_gradients<Real> out{
        fresh(a.batch * a.dq_stride_batch), fresh(a.batch * a.dk_stride_batch),
        fresh(a.batch * a.dv_stride_batch), fresh(a.dbias != nullptr ? a.heads * a.dbias_stride_head : 0)};
    reference::attention_backward<Real>(a, out);
    return out;
  }

  static void add_forward_results(prepared_call<operators::attention_backward>& call) {
    auto& a = call.arguments;
    const std::int64_t elements = a.batch * a.out_stride_batch;
    const auto logs = static_cast<std::size_t>(a.batch * a.heads * a.seqlen_q);
    if (row_work(a) > most_work) {
      a.out = call.memory.random(a.dtype, elements);
      a.lse = call.memory.copy(
          std::vector<float>(logs, std::log(static_cast<float>(std::max<std::int64_t>(a.seqlen_k, 1)))));
      return;
    }
    const host_copies copies{call.memory};
    const auto on_host = copies.translated<operators::attention_backward>(a);
    operators::attention_forward::arguments forward;
    forward.q = on_host.q;
    forward.k = on_host.k;
    forward.v = on_host.v;
    forward.bias = on_host.bias;
    forward.alibi_slopes = on_host.alibi_slopes;
    forward.cu_seqlens_q = on_host.cu_seqlens_q;
    forward.cu_seqlens_k = on_host.cu_seqlens_k;
    forward.seqused_q = on_host.seqused_q;
    forward.seqused_k = on_host.seqused_k;
    forward.batch = a.batch;
    forward.heads = a.heads;
    forward.heads_kv = a.heads_kv;
    forward.seqlen_q = a.seqlen_q;
    forward.seqlen_k = a.seqlen_k;
    forward.head_dim = a.head_dim;
    forward.head_dim_v = a.head_dim_v;
    forward.q_stride_batch = a.q_stride_batch;
    forward.q_stride_head = a.q_stride_head;
    forward.q_stride_token = a.q_stride_token;
    forward.k_stride_batch = a.k_stride_batch;
    forward.k_stride_head = a.k_stride_head;
    forward.k_stride_token = a.k_stride_token;
    forward.v_stride_batch = a.v_stride_batch;
    forward.v_stride_head = a.v_stride_head;
    forward.v_stride_token = a.v_stride_token;
    forward.out_stride_batch = a.out_stride_batch;
    forward.out_stride_head = a.out_stride_head;
    forward.out_stride_token = a.out_stride_token;
    forward.bias_stride_batch = a.bias_stride_batch;
    forward.bias_stride_head = a.bias_stride_head;
    forward.bias_stride_row = a.bias_stride_row;
    forward.lse_stride_batch = a.lse_stride_batch;
    forward.lse_stride_head = a.lse_stride_head;
    forward.scale = a.scale;
    forward.soft_cap = a.soft_cap;
    forward.dropout_p = a.dropout_p;
    forward.window_left = a.window_left;
    forward.window_right = a.window_right;
    forward.dropout_seed = a.dropout_seed;
    forward.dropout_offset = a.dropout_offset;
    forward.dtype = a.dtype;
    forward.mask = a.mask;
    std::vector<double> values(static_cast<std::size_t>(elements));
    std::vector<float> lse(logs);
    reference::attention_forward<double>(
        forward, [&](std::int64_t at, std::int64_t lse_at, std::span<const double> row, double log) {
          std::copy(row.begin(), row.end(), values.begin() + at);
          lse[static_cast<std::size_t>(lse_at)] = static_cast<float>(log);
        });
    a.out = call.memory.copy(a.dtype, values);
    a.lse = call.memory.copy(lse);
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
