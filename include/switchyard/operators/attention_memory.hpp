// SPDX-License-Identifier: MIT
// Checks the memory that an attention call points to: how far its strides reach, and the numbers in
// cu_seqlens, seqused, block_table and block masks, which kernels trust. Calls on the CPU are always checked,
// calls on a GPU in checked mode.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/index_tensors.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/attention.hpp>
#include <switchyard/operators/index_data.hpp>
#include <switchyard/operators/reach.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

/// The keys that queries of a sequence see between them: those of the first to the last one.
struct keys_seen {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
template <class Arguments>
[[nodiscard]] keys_seen seen_by_all(const Arguments& a, std::int64_t queries, std::int64_t keys) noexcept {
  if (queries <= 0 || keys <= 0) return {};
  constexpr std::int64_t most = std::int64_t{1} << 40;  // beyond the 32 bits of a window
  const auto clamped = [keys](std::int64_t key) { return key < 0 ? 0 : key > keys ? keys : key; };
  const bool is_top_left = a.mask == attention_mask::causal_top_left;
  const std::int64_t n = queries < most ? queries : most;
  const std::int64_t first = is_top_left ? 0 : keys - n;
  const std::int64_t last = is_top_left ? n - 1 : keys - 1;
  keys_seen out{0, keys};
  if (a.window_left >= 0) out.begin = clamped(first - a.window_left);
  if (a.mask != attention_mask::none) out.end = clamped(last + 1);
  if constexpr (requires { a.window_right; }) {
    if (a.window_right >= 0 && clamped(last + a.window_right + 1) < out.end)
      out.end = clamped(last + a.window_right + 1);
  }
  return out;
}

/// What is wrong with the pages of one sequence: those that hold keys that a query sees.
template <class Arguments>
[[nodiscard]] std::string wrong_pages(const Arguments& a, std::int64_t b, std::int64_t queries,
                                      std::int64_t keys) {
  const keys_seen seen = seen_by_all(a, queries, keys);
  if (seen.begin >= seen.end) return {};
  const std::int64_t last = (seen.end - 1) / a.page_size;
  if (a.block_table_entries >= 0 && last >= a.block_table_entries) {
    return indices::entry("seqused_k", b, keys) + ", but block_table has " +
           std::to_string(a.block_table_entries) + " entries for each sequence: pages of " +
           std::to_string(a.page_size) + " keys";
  }
  std::int64_t stride = a.k_stride_batch > a.v_stride_batch ? a.k_stride_batch : a.v_stride_batch;
  if constexpr (requires { a.k_rotary; }) {
    for (const std::int64_t one : {a.k_rotary_stride_batch, a.k_scale_stride_batch})
      if (a.k_rotary != nullptr && one > stride) stride = one;
  }
  const indices::bound pages =
      indices::known_or_far({"pages of k and v", a.pages}, "pages that any memory holds", stride);
  const std::int32_t* const row = a.block_table + b * a.block_table_stride;
  for (std::int64_t i = seen.begin / a.page_size; i <= last; ++i) {
    if (row[i] >= 0 && row[i] < pages.count) continue;
    return indices::entry("block_table[" + std::to_string(b) + "]", i, row[i]) + ": it must be at least 0" +
           indices::below(pages);
  }
  return {};
}

/// The numbers from the first to the last that are read of a block table, once seqused_k can be.
template <class Arguments>
[[nodiscard]] std::int64_t count_pages(const Arguments& a) noexcept {
  if (a.batch < 1 || a.page_size < 1 || a.seqused_k == nullptr || a.block_table_stride < 0) return 0;
  std::int64_t entries = a.block_table_entries;
  if (entries < 0) {
    std::int64_t most = 0;
    for (std::int64_t b = 0; b < a.batch; ++b) {
      const std::int64_t keys = a.seqused_k[b];
      if (keys > most && keys <= a.seqlen_k) most = keys;  // others are refused
    }
    entries = most > 0 ? (most - 1) / a.page_size + 1 : 0;
  }
  std::int64_t before = 0;
  std::int64_t out = 0;
  const bool is_far = __builtin_mul_overflow(a.batch - 1, a.block_table_stride, &before) ||
                      __builtin_add_overflow(before, entries, &out);
  if (entries == 0) return 0;
  return is_far ? INT64_MAX : out;
}

// Parts of the operators' index_tensors.

template <class Arguments>
inline constexpr auto packed_index_tensors = switchyard::index_tensors(
    switchyard::index_tensor<&Arguments::cu_seqlens_q>([](const Arguments& a) {
      return indices::count_cu_seqlens(a.batch);
    }),
    switchyard::index_tensor<&Arguments::cu_seqlens_k>([](const Arguments& a) {
      return indices::count_cu_seqlens(a.batch);
    }),
    switchyard::index_tensor<&Arguments::seqused_q>([](const Arguments& a) { return a.batch; }));

template <class Arguments>
inline constexpr auto used_index_tensors = switchyard::index_tensors(
    switchyard::index_tensor<&Arguments::seqused_k>([](const Arguments& a) { return a.batch; }));

template <class Arguments>
inline constexpr auto paged_index_tensors = switchyard::index_tensors(
    switchyard::index_tensor<&Arguments::block_table>([](const Arguments& a) { return count_pages(a); }));

/// What is wrong with how far a call's strides lead; empty when nothing is.
template <class Arguments>
[[nodiscard, gnu::cold, gnu::noinline]] std::string wrong_attention_reach(const Arguments& call) {
  const Arguments a = without_unused_strides(call);
  std::int64_t queries = a.seqlen_q;
  std::int64_t keys = a.seqlen_k;
  bool is_dense_q = true;
  bool is_dense_k = true;
  std::int64_t entries = a.batch;
  if constexpr (requires { a.cu_seqlens_q; }) {
    is_dense_q = a.cu_seqlens_q == nullptr;
    is_dense_k = a.cu_seqlens_k == nullptr;
    if (!is_dense_q && a.tokens_q > 0) queries = a.tokens_q;
    if (!is_dense_k && a.tokens_k > 0) keys = a.tokens_k;
  }
  std::string_view pages = "batch";
  if constexpr (requires { a.block_table; }) {
    if (a.block_table != nullptr) {
      pages = "pages";
      entries = a.pages;
      keys = a.page_size;
    }
  }
  std::string wrong = reach::wrong_dimension(
      {{"batch", a.batch},
       {"heads", a.heads},
       {"head_dim", a.head_dim},
       {"head_dim_v", a.head_dim_v},
       {"batch", a.batch, "q_stride_batch", a.q_stride_batch, is_dense_q},
       {"seqlen_q", queries, "q_stride_token", a.q_stride_token},
       {"heads", a.heads, "q_stride_head", a.q_stride_head},
       {pages, entries, "k_stride_batch", a.k_stride_batch, is_dense_k},
       {"seqlen_k", keys, "k_stride_token", a.k_stride_token},
       {"heads_kv", a.heads_kv, "k_stride_head", a.k_stride_head},
       {pages, entries, "v_stride_batch", a.v_stride_batch, is_dense_k},
       {"seqlen_k", keys, "v_stride_token", a.v_stride_token},
       {"heads_kv", a.heads_kv, "v_stride_head", a.v_stride_head},
       {"batch", a.batch, "out_stride_batch", a.out_stride_batch, is_dense_q},
       {"seqlen_q", queries, "out_stride_token", a.out_stride_token},
       {"heads", a.heads, "out_stride_head", a.out_stride_head},
       {"batch", a.batch, "lse_stride_batch", a.lse_stride_batch, a.lse != nullptr && is_dense_q},
       {"heads", a.heads, "lse_stride_head", a.lse_stride_head, a.lse != nullptr},
       {"seqlen_q", queries, {}, 1, a.lse != nullptr}});
  if constexpr (requires { a.block_table; }) {
    if (wrong.empty())
      wrong = reach::wrong_dimension(
          {{"batch", a.batch, "block_table_stride", a.block_table_stride, a.block_table != nullptr}});
  }
  if constexpr (requires { a.k_rotary; }) {
    if (wrong.empty() && a.k_rotary != nullptr) {
      wrong = reach::wrong_dimension({{pages, entries, "k_rotary_stride_batch", a.k_rotary_stride_batch},
                                      {"seqlen_k", keys, "k_rotary_stride_token", a.k_rotary_stride_token},
                                      {pages, entries, "k_scale_stride_batch", a.k_scale_stride_batch},
                                      {"seqlen_k", keys, "k_scale_stride_token", a.k_scale_stride_token}});
    }
  }
  if constexpr (requires { a.bias; }) {
    if (wrong.empty()) {
      wrong = reach::wrong_dimension(
          {{"batch", a.batch, "bias_stride_batch", a.bias_stride_batch, a.bias != nullptr},
           {"heads", a.heads, "bias_stride_head", a.bias_stride_head, a.bias != nullptr},
           {"seqlen_q", a.seqlen_q, "bias_stride_row", a.bias_stride_row, a.bias != nullptr},
           {"seqlen_k", a.seqlen_k, {}, 1, a.bias != nullptr}});
    }
  }
  if constexpr (requires { a.dout; }) {
    if (wrong.empty()) {
      wrong = reach::wrong_dimension(
          {{"batch", a.batch, "dout_stride_batch", a.dout_stride_batch, is_dense_q},
           {"seqlen_q", queries, "dout_stride_token", a.dout_stride_token},
           {"heads", a.heads, "dout_stride_head", a.dout_stride_head},
           {"batch", a.batch, "dq_stride_batch", a.dq_stride_batch, is_dense_q},
           {"seqlen_q", queries, "dq_stride_token", a.dq_stride_token},
           {"heads", a.heads, "dq_stride_head", a.dq_stride_head},
           {"batch", a.batch, "dk_stride_batch", a.dk_stride_batch, is_dense_k},
           {"seqlen_k", keys, "dk_stride_token", a.dk_stride_token},
           {"heads_kv", a.heads_kv, "dk_stride_head", a.dk_stride_head},
           {"batch", a.batch, "dv_stride_batch", a.dv_stride_batch, is_dense_k},
           {"seqlen_k", keys, "dv_stride_token", a.dv_stride_token},
           {"heads_kv", a.heads_kv, "dv_stride_head", a.dv_stride_head},
           {"batch", a.batch, "dbias_stride_batch", a.dbias_stride_batch, a.dbias != nullptr},
           {"heads", a.heads, "dbias_stride_head", a.dbias_stride_head, a.dbias != nullptr},
           {"seqlen_q", a.seqlen_q, "dbias_stride_row", a.dbias_stride_row, a.dbias != nullptr},
           {"batch", a.batch, "dlse_stride_batch", a.dlse_stride_batch, a.dlse != nullptr && is_dense_q},
           {"heads", a.heads, "dlse_stride_head", a.dlse_stride_head, a.dlse != nullptr}});
    }
  }
  return wrong;
}

/// What is wrong with the numbers in cu_seqlens, seqused and block_table; empty when nothing is.
template <class Arguments>
[[nodiscard]] std::string wrong_attention_indices(const Arguments& a) {
  const std::int32_t* cu_q = nullptr;
  const std::int32_t* cu_k = nullptr;
  const std::int32_t* used_q = nullptr;
  const std::int32_t* table = nullptr;
  indices::bound tokens_q{"q"};
  indices::bound tokens_k{"k"};
  if constexpr (requires { a.cu_seqlens_q; }) {
    cu_q = a.cu_seqlens_q, cu_k = a.cu_seqlens_k, used_q = a.seqused_q;
    if (a.tokens_q > 0) tokens_q.count = a.tokens_q;
    if (a.tokens_k > 0) tokens_k.count = a.tokens_k;
  }
  if constexpr (requires { a.block_table; }) table = a.block_table;
  if (!any_given(cu_q, cu_k, used_q, a.seqused_k, table)) return {};
  // What check() refuses.
  if (a.alignment() == 0) return {};
  if constexpr (requires { a.block_table; }) {
    if (table != nullptr) {
      std::string wrong = indices::wrong_count("pages", a.pages);
      if (wrong.empty()) wrong = indices::wrong_count("block_table_entries", a.block_table_entries);
      if (!wrong.empty()) return wrong;
    }
    if (table != nullptr && (a.page_size < 1 || a.seqused_k == nullptr || cu_k != nullptr)) return {};
  }
  const auto check_packed = [&a](std::string_view name, const std::int32_t* data,
                                 const indices::bound& longest, const indices::bound& tokens) {
    return data == nullptr ? std::string{} : indices::wrong_cu_seqlens(name, data, a.batch, longest, tokens);
  };
  const indices::bound longest_q{"seqlen_q", a.seqlen_q};
  const indices::bound longest_k{"seqlen_k", a.seqlen_k};
  std::string wrong = check_packed("cu_seqlens_q", cu_q, longest_q, tokens_q);
  if (wrong.empty()) wrong = check_packed("cu_seqlens_k", cu_k, longest_k, tokens_k);
  if (!any_given(used_q, a.seqused_k)) return wrong;
  for (std::int64_t b = 0; b < a.batch && wrong.empty(); ++b) {
    const auto length = [b](const std::int32_t* cu, const indices::bound& longest) {
      return cu == nullptr ? longest
                           : indices::bound{"the length of its sequence", std::int64_t{cu[b + 1]} - cu[b]};
    };
    indices::bound queries = length(cu_q, longest_q);
    indices::bound keys = length(cu_k, longest_k);
    if (used_q != nullptr) {
      wrong = indices::wrong_used("seqused_q", b, used_q[b], queries);
      queries.count = used_q[b];
    }
    if (a.seqused_k != nullptr && wrong.empty()) {
      wrong = indices::wrong_used("seqused_k", b, a.seqused_k[b], keys);
      keys.count = a.seqused_k[b];
    }
    if constexpr (requires { a.block_table; }) {
      if (table != nullptr && wrong.empty()) wrong = wrong_pages(a, b, queries.count, keys.count);
    }
  }
  return wrong;
}

/// What is wrong with how far a call reaches, and with the numbers in cu_seqlens, seqused and block_table;
/// empty when nothing is.
template <class Arguments, class Fields>
[[nodiscard]] std::string check_attention_memory(const Arguments& a, Fields fields) {
  if (!reach::is_near(a, fields)) {
    if (std::string wrong = wrong_attention_reach(a); !wrong.empty()) return wrong;
  }
  if constexpr (requires { a.kv_num_blocks; }) {
    if (a.kv_num_blocks != nullptr) return wrong_block_numbers(a);  // which excludes the others
  }
  return wrong_attention_indices(a);
}

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
