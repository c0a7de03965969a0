// SPDX-License-Identifier: MIT
// Checks the memory that a rotary call points to: how far its strides reach, and the numbers in cu_seqlens,
// positions and sequence_offsets, which kernels trust. Calls on the CPU are always checked, calls on a GPU in
// checked mode.
#pragma once

#include <cstdint>
#include <string>

#include <switchyard/base/alignment.hpp>
#include <switchyard/base/checked_product.hpp>
#include <switchyard/index_tensors.hpp>
#include <switchyard/operators/index_data.hpp>
#include <switchyard/operators/reach.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

/// How many positions are read, once cu_seqlens can be.
template <class Arguments>
[[nodiscard]] std::int64_t count_positions(const Arguments& a) noexcept {
  if (a.cu_seqlens == nullptr) return detail::checked_product(a.batch, a.seqlen);
  return a.batch > 0 ? std::int64_t{a.cu_seqlens[a.batch]} : 0;
}

/// What is wrong with cu_seqlens; empty when nothing is.
template <class Arguments>
[[nodiscard]] std::string wrong_rotary_lengths(const Arguments& a) {
  if (std::string wrong = indices::wrong_count("tokens", a.tokens); !wrong.empty()) return wrong;
  if (a.cu_seqlens == nullptr) return {};
  return indices::wrong_cu_seqlens("cu_seqlens", a.cu_seqlens, a.batch, {"seqlen", a.seqlen},
                                   {"q", a.tokens});
}

/// Of an operator's index_tensors.
template <class Arguments>
inline constexpr auto rotary_index_tensors = switchyard::index_tensors(
    switchyard::index_tensor<&Arguments::cu_seqlens>([](const Arguments& a) {
      return indices::count_cu_seqlens(a.batch);
    }),
    switchyard::index_tensor<&Arguments::positions>([](const Arguments& a) {
      return a.cos != nullptr && wrong_rotary_lengths(a).empty() ? count_positions(a) : 0;
    }),
    switchyard::index_tensor<&Arguments::sequence_offsets>([](const Arguments& a) { return a.batch; }));

/// What is wrong with the numbers in cu_seqlens, positions and sequence_offsets; empty when nothing is.
template <class Arguments>
[[nodiscard]] std::string wrong_rotary_indices(const Arguments& a) {
  const bool has_table = a.cos != nullptr;
  if (a.cu_seqlens == nullptr && (!has_table || !any_given(a.positions, a.sequence_offsets))) return {};
  if (a.alignment() == 0) return {};  // check() says why
  if (std::string wrong = wrong_rotary_lengths(a); !wrong.empty()) return wrong;
  if (!has_table) return {};
  const indices::bound rows = indices::known_or_far({"positions in cos and sin", a.table_rows},
                                                    "positions that any memory holds", a.table_stride);
  if (a.positions != nullptr)
    return indices::wrong_numbers("positions", a.positions, count_positions(a), rows);
  for (std::int64_t b = 0; b < a.batch; ++b) {
    const std::int64_t length =
        a.cu_seqlens != nullptr ? std::int64_t{a.cu_seqlens[b + 1]} - a.cu_seqlens[b] : a.seqlen;
    if (length <= 0) continue;
    const std::int64_t first = a.sequence_offsets != nullptr ? a.sequence_offsets[b] : a.offset;
    if (first >= 0 && first < rows.count && length <= rows.count - first) continue;
    return (a.sequence_offsets != nullptr ? indices::entry("sequence_offsets", b, first)
                                          : "offset is " + std::to_string(first)) +
           ", and the sequence has " + std::to_string(length) + " tokens: positions must be at least 0" +
           indices::below(rows);
  }
  return {};
}

/// What is wrong with how far a call's strides lead; empty when nothing is.
template <class Arguments>
[[nodiscard, gnu::cold]] std::string wrong_rotary_reach(const Arguments& call) {
  const Arguments a = without_unused_strides(call);
  const bool is_dense = a.cu_seqlens == nullptr;
  const bool has_q = a.heads > 0;
  const bool has_k = a.heads_kv > 0;
  const std::int64_t tokens = is_dense || a.tokens < 0 ? a.seqlen : a.tokens;
  std::int64_t end = 0;
  if (!any_given(a.positions, a.sequence_offsets) && __builtin_add_overflow(a.offset, a.seqlen, &end))
    end = INT64_MAX;
  return reach::wrong_dimension(
      {{"batch", a.batch},
       {"heads", a.heads},
       {"heads_kv", a.heads_kv},
       {"head_dim", a.head_dim},
       {"batch", a.batch, "q_stride_batch", a.q_stride_batch, has_q && is_dense},
       {"batch", a.batch, "q_out_stride_batch", a.q_out_stride_batch, has_q && is_dense},
       {"batch", a.batch, "k_stride_batch", a.k_stride_batch, has_k && is_dense},
       {"batch", a.batch, "k_out_stride_batch", a.k_out_stride_batch, has_k && is_dense},
       {"seqlen", tokens, "q_stride_token", a.q_stride_token, has_q},
       {"seqlen", tokens, "q_out_stride_token", a.q_out_stride_token, has_q},
       {"seqlen", tokens, "k_stride_token", a.k_stride_token, has_k},
       {"seqlen", tokens, "k_out_stride_token", a.k_out_stride_token, has_k},
       {"heads", a.heads, "q_stride_head", a.q_stride_head},
       {"heads", a.heads, "q_out_stride_head", a.q_out_stride_head},
       {"heads_kv", a.heads_kv, "k_stride_head", a.k_stride_head},
       {"heads_kv", a.heads_kv, "k_out_stride_head", a.k_out_stride_head},
       {"the number of positions", call.table_rows, "table_stride", a.table_stride, a.cos != nullptr},
       {"offset + seqlen", end},
       {"offset + seqlen", end, "table_stride", a.table_stride, a.cos != nullptr},
       {"batch", a.batch, "seqlen", a.seqlen, a.positions != nullptr && is_dense}});
}

/// Both.
template <class Arguments, class Fields>
[[nodiscard]] std::string check_rotary_memory(const Arguments& a, Fields fields) {
  if (!reach::is_near(a, fields)) {
    if (std::string wrong = wrong_rotary_reach(a); !wrong.empty()) return wrong;
  }
  return wrong_rotary_indices(a);
}

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
