// SPDX-License-Identifier: MIT
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
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/attention.hpp>
#include <switchyard/tune/reference/attention_backward.hpp>
#include <switchyard/tune/workload.hpp>
#include <switchyard/tune/workloads/attention.hpp>
#include <switchyard/tune/workloads/block_mask.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

template <>
struct workload<operators::attention_backward> : attention_variations {
  /// [batch, seqlen, heads, dim] tensors; packed ones hold sequences of one length. A window is a quarter of
  /// the keys. Where the reference can do it (see row_work), out and the LSE are the forward's; else they are
  /// made up, of a usual size, which is enough for timing.
  [[nodiscard]] static prepared_call<operators::attention_backward> make(
      const std::shared_ptr<device_driver>& driver, const request& want, std::uint64_t seed) {
    prepared_call<operators::attention_backward> out{{}, {driver, seed, want.varied()}};
    using op = operators::attention_backward;
    const dtype type = want.as("dtype", dtype::bf16);
    const attention_sizes sizes{want, 0, 512, 0};
    attention_memory memory{out.memory, sizes, type, type, want};
    op::options with{.mask = attention_mask_of(want),
                     .scale = memory.scale(),
                     .deterministic = want.flag("deterministic")};
    if (want.flag("packed_q")) {
      with.cu_seqlens_q = memory.pack_queries();
      with.longest_q = sizes.seqlen_q;
    }
    if (want.flag("packed_k")) {
      with.cu_seqlens_k = memory.pack_keys();
      with.longest_k = sizes.seqlen_k;
    }
    op::tensors of;
    of.q = memory.query_input(sizes.head_dim);
    of.k = memory.key_input(sizes.head_dim);
    of.v = memory.usual_key_input(sizes.head_dim_v);
    of.dout = memory.usual_query_input(sizes.head_dim_v);
    of.dq = memory.query_output(sizes.head_dim);
    of.dk = memory.key_output(sizes.head_dim);
    of.dv = memory.key_output(sizes.head_dim_v);
    if (want.flag("seqused")) with.seqused_k = memory.used();
    set_options(with, memory, sizes, want, seed);
    const double masked_pairs = add_block_mask(want, sizes.seqlen_q, sizes.seqlen_k, out.memory, with);
    add_forward_results(out.memory, memory, sizes, of, with);
    if (want.flag("with_dlse")) with.dlse = memory.lse_input();
    out.arguments = op::call(of, with);
    // Two products of the value's dim (dv, dP), three of the key's (S, dq, dk).
    const double pairs = masked_pairs >= 0 ? masked_pairs : attention_pairs(out.arguments);
    out.flops = 2 * static_cast<double>(sizes.batch * sizes.heads) * pairs *
                static_cast<double>(3 * sizes.head_dim + 2 * sizes.head_dim_v);
    out.bytes = static_cast<double>((sizes.queries() + sizes.keys()) * 2 *
                                    (sizes.head_dim + sizes.head_dim_v) * size_of(type));
    return out;
  }

  /// The gradients of keys need every query, so the result is one part.
  [[nodiscard]] static std::int64_t rows(const operators::attention_backward::arguments& /*a*/) { return 1; }
  [[nodiscard]] static double row_work(const operators::attention_backward::arguments& a) {
    return work_of(a);
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
  /// cancel, an eighth of that for the weights of dv, which are rounded once; units of f32 at the size of the
  /// scores and of the LSE; and what a soft cap's scores may be off by.
  static void expect(const operators::attention_backward::arguments& a, const row_sample& /*sample*/,
                     expectation& out) {
    const auto exact = gradients<double>(a);
    const auto plain = gradients<float>(a);
    double size_lse = 0;
    for (std::int64_t i = 0; i < a.batch * a.heads * a.seqlen_q; ++i) {
      if (std::isfinite(a.lse[i])) size_lse = std::max(size_lse, static_cast<double>(std::abs(a.lse[i])));
    }
    const double score = std::max(
        std::abs(static_cast<double>(a.scale)) * std::sqrt(static_cast<double>(a.head_dim)), size_lse / 8);
    const double unit = a.dtype == dtype::f32 ? 0x1p-19 : unit_of(a.dtype);
    const double work = a.dtype == dtype::f32 ? 0x1p-21 : unit;
    const double of_cap = reference::error_of_cap(a, 8 * score);
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
      for (expectation::value& value : values.values) {
        value.allowed = 4 * error + 2 * unit * size + 4 * work * noise +
                        (0x1p-19 * score + 0x1p-23 * size_lse + of_cap) * size + unit * 0x1p-6;
      }
    };
    want("dq", a.dq, exact.dq, plain.dq, exact.noise_dq);
    want("dk", a.dk, exact.dk, plain.dk, exact.noise_dk);
    want("dv", a.dv, exact.dv, plain.dv, exact.noise_dv / 8);
    if (a.dbias != nullptr) want("dbias", a.dbias, exact.dbias, plain.dbias, exact.noise_dbias);
  }

 private:
  /// As much as a check may cost.
  static constexpr double max_work = 1.5e9;

  template <class Real>
  [[nodiscard]] static reference::attention_gradients<Real> gradients(
      const operators::attention_backward::arguments& a) {
    const auto fresh = [](std::int64_t count) {
      return std::vector<Real>(static_cast<std::size_t>(count), std::numeric_limits<Real>::quiet_NaN());
    };
    // The memory of a tensor, gaps and all: packed ones have as many tokens as sequences of the longest.
    const auto span = [&](std::int64_t seqlen, std::int64_t token) { return a.batch * seqlen * token; };
    reference::attention_gradients<Real> out{
        fresh(span(a.seqlen_q, a.dq_stride_token)), fresh(span(a.seqlen_k, a.dk_stride_token)),
        fresh(span(a.seqlen_k, a.dv_stride_token)),
        fresh(a.dbias != nullptr ? a.heads * a.seqlen_q * a.seqlen_k : 0)};
    reference::attention_backward<Real>(a, out);
    return out;
  }

  template <class Sizes>
  [[nodiscard]] static double work_of(const Sizes& of) {
    return 10 * static_cast<double>(of.batch * of.heads) * static_cast<double>(of.seqlen_q) *
           static_cast<double>(of.seqlen_k) * static_cast<double>(of.head_dim + of.head_dim_v);
  }

  static void add_forward_results(tune::tensors& memory, const attention_memory& layout,
                                  const attention_sizes& sizes, operators::attention_backward::tensors& of,
                                  const operators::attention_backward::options& with) {
    const dtype type = of.q.dtype();
    const std::int64_t elements = layout.query_elements(sizes.head_dim_v);
    std::vector<float> lse(static_cast<std::size_t>(sizes.queries()));
    if (work_of(sizes) > max_work) {
      of.out = layout.query_view(memory.random(type, elements, 1), sizes.head_dim_v);
      const auto keys = static_cast<float>(std::max<std::int64_t>(sizes.seqlen_k, 1));
      std::fill(lse.begin(), lse.end(), std::log(keys));
    } else {
      std::vector<double> values(static_cast<std::size_t>(elements));
      // The reference says where a result belongs, and writes none itself.
      const auto forward =
          operators::attention_forward::call(of.q, of.k, of.v, layout.query_view(nullptr, sizes.head_dim_v),
                                             {.mask = with.mask,
                                              .scale = with.scale,
                                              .soft_cap = with.soft_cap,
                                              .window_left = with.window_left,
                                              .window_right = with.window_right,
                                              .lse = layout.lse_view(lse.data()),
                                              .bias = with.bias,
                                              .alibi_slopes = with.alibi_slopes,
                                              .cu_seqlens_q = with.cu_seqlens_q,
                                              .cu_seqlens_k = with.cu_seqlens_k,
                                              .longest_q = with.longest_q,
                                              .longest_k = with.longest_k,
                                              .seqused_q = with.seqused_q,
                                              .seqused_k = with.seqused_k,
                                              .dropout_p = with.dropout_p,
                                              .dropout_seed = with.dropout_seed,
                                              .dropout_offset = with.dropout_offset,
                                              .kv_num_blocks = with.kv_num_blocks,
                                              .kv_indices = with.kv_indices,
                                              .kv_bits = with.kv_bits,
                                              .full_kv_num_blocks = with.full_kv_num_blocks,
                                              .full_kv_indices = with.full_kv_indices,
                                              .mask_bits = with.mask_bits});
      const host_copies copies{memory};
      reference::attention_forward<double>(
          copies.translated<operators::attention_forward>(forward),
          [&](std::int64_t at, std::int64_t lse_at, std::span<const double> row, double log) {
            std::copy(row.begin(), row.end(), values.begin() + at);
            lse[static_cast<std::size_t>(lse_at)] = static_cast<float>(log);
          });
      of.out = layout.query_view(memory.copy(type, values), sizes.head_dim_v);
    }
    of.lse = layout.lse_view(memory.copy(lse));
  }
};

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
