// SPDX-License-Identifier: MIT
// What the workloads of the attention operators share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <switchyard/base/dtype.hpp>
#include <switchyard/error.hpp>
#include <switchyard/operators/attention.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tune/check.hpp>
#include <switchyard/tune/reference/element.hpp>
#include <switchyard/tune/workload.hpp>

namespace switchyard {
inline namespace v0 {
namespace tune {

/// The sizes that a request asks for, or else usual ones; 0: as many KV heads as heads, as many keys as
/// queries.
struct attention_sizes {
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t heads_kv;
  std::int64_t seqlen_q;
  std::int64_t seqlen_k;
  std::int64_t head_dim;
  std::int64_t head_dim_v;

  attention_sizes(const request& want, std::int64_t usual_heads_kv, std::int64_t usual_q,
                  std::int64_t usual_k)
      : batch{want.get("batch", 1)},
        heads{want.get("heads", 32)},
        heads_kv{want.get("heads_kv", usual_heads_kv > 0 ? usual_heads_kv : heads)},
        seqlen_q{want.get("seqlen_q", usual_q)},
        seqlen_k{want.get("seqlen_k", usual_k > 0 ? usual_k : seqlen_q)},
        head_dim{want.get("head_dim", 128)},
        head_dim_v{want.get("head_dim_v", head_dim)} {}

  [[nodiscard]] std::int64_t queries() const noexcept { return batch * seqlen_q * heads; }
  [[nodiscard]] std::int64_t keys() const noexcept { return batch * seqlen_k * heads_kv; }
};

/// What a request's `length_kind` is: how many keys of a cache each sequence has in use.
enum class cache_lengths : std::int64_t {
  equal = 0,     ///< all
  spread = 1,    ///< from 1/batch of them to all, evenly
  one_long = 2,  ///< the first sequence all, the others 1/64
};

[[nodiscard]] inline cache_lengths cache_lengths_of(const request& want) {
  const std::int64_t kind = want.get("length_kind", 0);
  if (kind < 0 || kind > 2) {
    throw call_error{error_code::invalid_argument, "length_kind is " + std::to_string(kind) +
                                                       ": there are 0 (equal), 1 (spread) and 2 (one long)"};
  }
  return static_cast<cache_lengths>(kind);
}

[[nodiscard]] inline std::int64_t keys_in_use(cache_lengths kind, const attention_sizes& sizes,
                                              std::int64_t b) {
  if (kind == cache_lengths::spread) return (sizes.seqlen_k * (b + 1) + sizes.batch - 1) / sizes.batch;
  if (kind == cache_lengths::one_long && b > 0) return std::max<std::int64_t>(sizes.seqlen_k / 64, 1);
  return sizes.seqlen_k;
}

/// What the winners of attention are judged by too: scores of some hundreds, whose exponentials overflow, and
/// tokens apart.
struct attention_variations {
  static constexpr variation variations[] = {  // NOLINT(modernize-avoid-c-arrays)
      {24, 64, true},
      {1, 1, true, true}};
};

/// Makes the tensors of a call: [batch, seqlen, heads, dim], or packed, of sequences of one length; where
/// options vary, each sequence but the first is shorter than the longest.
class attention_memory {
 public:
  attention_memory(tensors& memory, const attention_sizes& sizes, dtype type, dtype kv_type,
                   const request& want)
      : memory_{memory},
        sizes_{sizes},
        varied_{want.varied()},
        type_{type},
        q_type_{want.as("q_dtype", type)},
        kv_type_{kv_type} {
    for (const std::int64_t dim : {sizes.head_dim, sizes.head_dim_v}) {
      memory.require_room(type, {sizes.batch, sizes.seqlen_q, sizes.heads, dim});
      memory.require_room(kv_type, {sizes.batch, sizes.seqlen_k, sizes.heads_kv, dim});
    }
    memory.require_room(kv_type, {sizes.batch, want.get("page_size", 0), sizes.heads_kv, sizes.head_dim});
    if (want.flag("biased") || want.flag("with_dbias"))
      memory.require_room(type, {sizes.heads, sizes.seqlen_q, sizes.seqlen_k});
  }

  /// cu_seqlens: tensors made from now on are packed.
  [[nodiscard]] tensor pack_queries() {
    packed_q_ = true;
    return starts(sizes_.seqlen_q);
  }
  [[nodiscard]] tensor pack_keys() {
    packed_k_ = true;
    return starts(sizes_.seqlen_k);
  }
  /// The keys in use are those of `kind`, or fewer and fewer where options vary.
  [[nodiscard]] tensor used(cache_lengths kind = cache_lengths::equal) {
    std::vector<std::int32_t> all;
    for (std::int64_t b = 0; b < sizes_.batch; ++b) {
      all.push_back(static_cast<std::int32_t>(varied_.options ? length_of(b + 1, sizes_.seqlen_k)
                                                              : keys_in_use(kind, sizes_, b)));
    }
    return memory_.copied(all, {sizes_.batch});
  }
  /// 1 / sqrt(head_dim), or another one where options vary.
  [[nodiscard]] float scale() const {
    return (varied_.options ? 0.7F : 1.0F) / std::sqrt(static_cast<float>(sizes_.head_dim));
  }
  [[nodiscard]] float soft_cap() const { return varied_.options ? 12.5F : 30.0F; }
  [[nodiscard]] float dropout_p() const { return varied_.options ? 0.35F : 0.1F; }
  [[nodiscard]] std::uint64_t dropout_offset() const { return varied_.options ? 12'345 : 0; }
  /// A block table of shuffled pages, as many as the keys need.
  [[nodiscard]] tensor block_table(std::int64_t page_size, std::uint64_t seed) {
    const std::int64_t entries = (sizes_.seqlen_k + page_size - 1) / page_size;
    std::vector<std::int32_t> pages(static_cast<std::size_t>(sizes_.batch * entries));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), std::mt19937_64{seed});
    return memory_.copied(pages, {sizes_.batch, entries});
  }

  [[nodiscard]] tensor query_input(std::int64_t dim) {
    return view(memory_.random(q_type_, query_elements(dim)), q_type_, packed_q_, sizes_.seqlen_q,
                sizes_.heads, dim);
  }
  /// One whose values do not grow: a gradient.
  [[nodiscard]] tensor usual_query_input(std::int64_t dim) {
    return query_view(memory_.random(type_, query_elements(dim), 1), dim);
  }
  [[nodiscard]] tensor query_output(std::int64_t dim) {
    return query_view(memory_.poisoned(type_, query_elements(dim)), dim);
  }
  [[nodiscard]] tensor key_input(std::int64_t dim) { return key_input(dim, varied_.spread); }
  [[nodiscard]] tensor usual_key_input(std::int64_t dim) { return key_input(dim, 1); }
  [[nodiscard]] tensor key_output(std::int64_t dim) {
    return key_view(memory_.poisoned(kv_type_, key_elements(dim)), dim);
  }
  [[nodiscard]] tensor page_input(const tensor& table, std::int64_t page_size, std::int64_t dim) {
    const std::int64_t token = sizes_.heads_kv * dim + varied_.apart;
    const tensor whole = memory_.input(kv_type_, {table.count(), page_size, token});
    return {whole.data(),
            kv_type_,
            {table.count(), page_size, sizes_.heads_kv, dim},
            {page_size * token, token, dim, 1}};
  }
  /// [entries, tokens, columns]: what keys of one KV head have besides their columns.
  [[nodiscard]] tensor token_input(dtype type, std::int64_t entries, std::int64_t tokens,
                                   std::int64_t columns, float spread) {
    const std::int64_t token = columns + varied_.apart;
    return {memory_.random(type, entries * tokens * token, spread),
            type,
            {entries, tokens, columns},
            {tokens * token, token, 1}};
  }
  [[nodiscard]] tensor lse_output() {
    return lse_view(memory_.poisoned(dtype::f32, sizes_.batch * sizes_.heads * sizes_.seqlen_q));
  }
  /// A gradient of the LSE.
  [[nodiscard]] tensor lse_input() {
    return lse_view(memory_.random(dtype::f32, sizes_.batch * sizes_.heads * sizes_.seqlen_q, 1));
  }
  /// Of all sequences.
  [[nodiscard]] tensor bias_input() {
    return memory_.input(type_, {1, sizes_.heads, sizes_.seqlen_q, sizes_.seqlen_k}, 1);
  }
  [[nodiscard]] tensor bias_output() {
    return memory_.output(type_, {1, sizes_.heads, sizes_.seqlen_q, sizes_.seqlen_k});
  }
  [[nodiscard]] tensor head_input() { return memory_.input(dtype::f32, {sizes_.heads}, 1); }
  [[nodiscard]] tensor scale_input() { return memory_.input(dtype::f32, {sizes_.heads_kv}, 1); }

  [[nodiscard]] dtype q_type() const noexcept { return q_type_; }
  [[nodiscard]] dtype kv_type() const noexcept { return kv_type_; }

  [[nodiscard]] std::int64_t query_elements(std::int64_t dim) const {
    return sizes_.batch * sizes_.seqlen_q * (sizes_.heads * dim + varied_.apart);
  }

  /// Memory of a query tensor, and of an LSE.
  [[nodiscard]] tensor query_view(void* of, std::int64_t dim) const {
    return view(of, type_, packed_q_, sizes_.seqlen_q, sizes_.heads, dim);
  }
  [[nodiscard]] tensor lse_view(void* of) const {
    if (packed_q_) return {of, dtype::f32, {sizes_.heads, sizes_.batch * sizes_.seqlen_q}};
    return {of, dtype::f32, {sizes_.batch, sizes_.heads, sizes_.seqlen_q}};
  }

 private:
  [[nodiscard]] tensor key_view(void* of, std::int64_t dim) const {
    return view(of, kv_type_, packed_k_, sizes_.seqlen_k, sizes_.heads_kv, dim);
  }
  [[nodiscard]] tensor view(void* of, dtype type, bool packed, std::int64_t seqlen, std::int64_t heads,
                            std::int64_t dim) const {
    const std::int64_t token = heads * dim + varied_.apart;
    if (packed) return {of, type, {sizes_.batch * seqlen, heads, dim}, {token, dim, 1}};
    return {of, type, {sizes_.batch, seqlen, heads, dim}, {seqlen * token, token, dim, 1}};
  }
  [[nodiscard]] std::int64_t key_elements(std::int64_t dim) const {
    return sizes_.batch * sizes_.seqlen_k * (sizes_.heads_kv * dim + varied_.apart);
  }
  [[nodiscard]] tensor key_input(std::int64_t dim, float spread) {
    return key_view(memory_.random(kv_type_, key_elements(dim), spread), dim);
  }
  /// Of a sequence; that of the first is `longest`.
  [[nodiscard]] std::int64_t length_of(std::int64_t sequence, std::int64_t longest) const {
    return varied_.options
               ? std::max<std::int64_t>(longest - 3 * sequence, std::min<std::int64_t>(longest, 1))
               : longest;
  }
  [[nodiscard]] tensor starts(std::int64_t longest) {
    std::vector<std::int32_t> out{0};
    for (std::int64_t b = 0; b < sizes_.batch; ++b)
      out.push_back(out.back() + static_cast<std::int32_t>(length_of(b, longest)));
    return memory_.copied(out, {sizes_.batch + 1});
  }

  tensors& memory_;
  attention_sizes sizes_;
  variation varied_;
  dtype type_;
  dtype q_type_;
  dtype kv_type_;
  bool packed_q_ = false;
  bool packed_k_ = false;
};

/// The mask that a request asks for; causal unless it says otherwise, or asks for a block mask.
[[nodiscard]] inline operators::attention_mask attention_mask_of(const request& want) {
  using operators::attention_mask;
  return want.as("mask",
                 want.flag("block_masked") ? attention_mask::none : attention_mask::causal_bottom_right);
}

/// Keys that a row sees under the mask, summed over the rows of one head.
template <class Arguments>
[[nodiscard]] double attention_pairs(const Arguments& a) {
  if (a.mask == operators::attention_mask::none) {
    return static_cast<double>(a.seqlen_q) * static_cast<double>(a.seqlen_k);
  }
  const std::int64_t shift =
      a.mask == operators::attention_mask::causal_bottom_right ? a.seqlen_k - a.seqlen_q : 0;
  double pairs = 0;
  for (std::int64_t i = 0; i < a.seqlen_q; ++i) {
    pairs += static_cast<double>(std::clamp<std::int64_t>(i + 1 + shift, 0, a.seqlen_k));
  }
  return pairs;
}

/// Sets the options that the type of call asks for. The order is that in which their tensors are filled.
template <class Options>
void set_options(Options& with, attention_memory& memory, const attention_sizes& sizes, const request& want,
                 std::uint64_t seed) {
  if constexpr (requires { with.q_scale; }) {
    if (memory.q_type() == dtype::f8_e4m3) with.q_scale = memory.head_input();
  }
  if constexpr (requires { with.k_scale; }) {
    if (memory.kv_type() == dtype::f8_e4m3 && !want.flag("rotary_apart")) {
      with.k_scale = memory.scale_input();
      with.v_scale = memory.scale_input();
    }
    if (want.flag("with_lse")) with.lse = memory.lse_output();
  }
  if constexpr (requires { with.dbias; }) {
    if (want.flag("biased") || want.flag("with_dbias")) with.bias = memory.bias_input();
    if (want.flag("with_dbias")) with.dbias = memory.bias_output();
  } else if constexpr (requires { with.bias; }) {
    if (want.flag("biased")) with.bias = memory.bias_input();
  }
  if (want.flag("alibi")) with.alibi_slopes = memory.head_input();
  if constexpr (requires { with.sinks; }) {
    if (want.flag("sink")) with.sinks = memory.head_input();
  }
  if (want.flag("soft_capped")) with.soft_cap = memory.soft_cap();
  if (want.flag("window")) {
    with.window_left = static_cast<std::int32_t>(want.get("window_left", sizes.seqlen_k / 4));
    if constexpr (requires { with.window_right; })
      with.window_right = static_cast<std::int32_t>(want.get("window_right", -1));
  }
  if constexpr (requires { with.dropout_p; }) {
    if (want.flag("dropout")) {
      with.dropout_p = memory.dropout_p();
      with.dropout_seed = seed;
      with.dropout_offset = memory.dropout_offset();
    }
  }
}

/// A row is a query of one head.
struct attention_rows {
  template <class Arguments>
  [[nodiscard]] static std::int64_t rows(const Arguments& a) {
    return a.batch * a.heads * a.seqlen_q;
  }
  template <class Arguments>
  [[nodiscard]] static double row_work(const Arguments& a) {
    return 8 * static_cast<double>(a.seqlen_k * (a.head_dim + a.head_dim_v));
  }
};

/// What out and lse have to be, at the sampled rows; a row is a query of one head. `compute` is called with a
/// float and with a double, the arguments, a visitor and a predicate, and is the operator's reference in that
/// type. Allowed are four times the error of the formula carried out plainly in f32 and rounded once; `share`
/// of the output's size for what is rounded on the way; and, because the largest of few errors is small by
/// luck at times, `unit * 2^-8`. For lse eight units of f32 at its size take the place of the latter two.
template <class Arguments, class Compute>
void expect_attention(const Arguments& a, const row_sample& sample, expectation& out, double share,
                      double unit, Compute&& compute) {
  const auto wants = [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    return sample.has((b * a.heads + h) * a.seqlen_q + i);
  };
  std::vector<double> rough;
  std::vector<double> rough_lse;
  compute(
      float{}, a,
      [&](std::int64_t, std::int64_t, std::span<const float> row, float lse) {
        for (const float value : row)
          rough.push_back(reference::rounded(a.dtype, static_cast<double>(value)));
        rough_lse.push_back(static_cast<double>(lse));
      },
      wants);
  auto& values = out.of("out", a.out, a.dtype);
  auto& logs = a.lse != nullptr ? out.of("lse", a.lse, dtype::f32) : values;
  double error = 0;
  double size = 0;
  double error_lse = 0;
  double size_lse = 1;
  std::size_t next = 0;
  std::size_t next_lse = 0;
  compute(
      double{}, a,
      [&](std::int64_t at, std::int64_t lse_at, std::span<const double> row, double lse) {
        for (std::size_t d = 0; d < row.size(); ++d) {
          values.want(at + static_cast<std::int64_t>(d), row[d], 0);
          size = std::max(size, std::abs(row[d]));
          error = std::max(error, std::abs(row[d] - rough[next++]));
        }
        if (std::isfinite(lse)) {
          size_lse = std::max(size_lse, std::abs(lse));
          error_lse = std::max(error_lse, std::abs(lse - rough_lse[next_lse]));
        }
        ++next_lse;
        if (a.lse != nullptr) logs.want(lse_at, lse, 0);
      },
      wants);
  // Scores of some hundreds are off by their last places, and the weights by as large a share.
  const double large_scores = 0x1p-21 * std::max(0.0, size_lse - 16);
  const double allowed = 4 * error + (share + large_scores) * size + unit * 0x1p-8 + 0x1p-24;
  for (expectation::value& expected : values.values) expected.allowed = allowed;
  if (a.lse == nullptr) return;
  for (expectation::value& expected : logs.values) expected.allowed = 4 * error_lse + 0x1p-20 * size_lse;
}

}  // namespace tune
}  // namespace v0
}  // namespace switchyard
