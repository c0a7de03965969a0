// SPDX-License-Identifier: MIT
// What the attention operators share: masks, how keys lie in memory, and what makes a call legal.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/attention_block_mask.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

/// Which keys a query may see. Row i of a sequence with n queries and m keys sees key j when
/// j <= i (causal_top_left) or j <= i + m - n (causal_bottom_right).
enum class attention_mask : std::int32_t { none = 0, causal_top_left = 1, causal_bottom_right = 2 };

/// How keys and values lie in memory.
enum class attention_kv : std::int32_t {
  dense = 0,   ///< [batch, seqlen_k, heads_kv, dim]
  packed = 1,  ///< [tokens, heads_kv, dim] with cu_seqlens_k
  paged = 2,   ///< [pages, page_size, heads_kv, dim] with block_table; the batch stride is a page's
};

/// Bytes, 1 to 16, that divide the tensors' addresses and every stride; 0 when a tensor is null, or a stride
/// or the scale is not set. `strides` are the strides in elements, or-ed together; `others` those that need
/// no alignment.
template <class... Tensors>
[[nodiscard, gnu::always_inline]] inline std::int64_t attention_alignment(
    dtype type, std::int64_t strides, std::int64_t others, float scale, const Tensors*... tensors) noexcept {
  if (mark_unless_finite(scale) < 0) [[unlikely]]  // or not set
    return 0;
  return alignment_of_strided(type, strides, others, tensors...);
}

/// The strides of keys and values, or-ed together, in bytes and as an address: what divides them all divides
/// it, also where their type is not that of the queries.
[[nodiscard, gnu::always_inline]] inline const void* strides_as_address(std::int64_t strides,
                                                                        dtype type) noexcept {
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(strides) *
                                       static_cast<std::uintptr_t>(detail::size_of_legal(type)));
}

/// Not 0 where a call has a window.
template <class Arguments>
[[nodiscard, gnu::always_inline]] inline truth windowed(const Arguments& a) noexcept {
  std::uint32_t left = 0;
  __builtin_memcpy(&left, &a.window_left, sizeof left);
  if constexpr (requires { a.window_right; }) {
    return {~(std::uint64_t{left} | std::uint64_t{static_cast<std::uint32_t>(a.window_right)} << 32U)};
  } else {
    return {std::uint64_t{~left}};
  }
}

/// The strides of a call's scales, or-ed together; 0 where the operator has none.
template <class Arguments>
[[nodiscard, gnu::always_inline]] inline std::int64_t scale_strides(const Arguments& a) noexcept {
  std::int64_t out = 0;
  if constexpr (requires { a.k_scale; }) out |= a.k_scale_stride | a.v_scale_stride;
  if constexpr (requires { a.q_scale; }) out |= a.q_scale_stride;
  return out;
}

/// Not 0 where a call has a window, a soft cap, dropout, any other value that may be illegal, or any of the
/// tensors: one branch for all that mark_attention looks at.
template <class Operator, class... Tensors>
[[nodiscard, gnu::always_inline]] inline std::uint64_t attention_options(
    const typename Operator::arguments& a, const Tensors*... tensors) noexcept {
  using arguments = typename Operator::arguments;
  std::uint32_t cap = 0;
  __builtin_memcpy(&cap, &a.soft_cap, sizeof cap);
  std::uint64_t values = cap;
  if constexpr (requires { a.dropout_p; }) {
    std::uint32_t dropped = 0;
    __builtin_memcpy(&dropped, &a.dropout_p, sizeof dropped);
    values |= std::uint64_t{dropped} << 32U;
  }
  asm("" : "+r"(values));  // NOLINT(hicpp-no-assembler): else GCC does not join the loads
  if constexpr (requires { a.dropout_p; }) {
    values |= Operator::described.template changed<&arguments::soft_cap, &arguments::dropout_p,
                                                   &arguments::window_left, &arguments::window_right>(a);
  } else {
    values |= Operator::described.template changed<&arguments::soft_cap, &arguments::window_left>(a);
  }
  values |= static_cast<std::uint64_t>(scale_strides(a));
  if constexpr (requires { a.kv_num_blocks; }) values |= block_mask_bits(a);
  return (reinterpret_cast<std::uintptr_t>(tensors) | ... | (values | windowed(a).bits));
}

/// Negative where check_attention_values refuses a call, but for what it says of lse: or-ed with `others` of
/// attention_alignment, it makes the call's problem one that was never met, so that check() sees it. Asked
/// only where attention_options are not 0.
template <class Operator>
[[nodiscard, gnu::always_inline]] inline std::int64_t mark_attention_inline(
    const typename Operator::arguments& a) noexcept {
  std::uintptr_t words = address_bits(a.alibi_slopes, a.seqused_k);  // of 4 bytes
  if constexpr (requires { a.dropout_p; }) words |= address_bits(a.cu_seqlens_q, a.cu_seqlens_k, a.seqused_q);
  if constexpr (requires { a.k_scale; }) words |= address_bits(a.sinks, a.block_table, a.k_scale, a.v_scale);
  if constexpr (requires { a.q_scale; }) words |= address_bits(a.q_scale);
  asm("" : "+r"(words));  // NOLINT(hicpp-no-assembler): now, not behind branches with each in a register
  std::int64_t out = Operator::described.mark(a);
  if constexpr (requires { a.dropout_p; }) {
    if (is_nonzero(a.dropout_p)) out |= mark_misaligned<8>(a.dropout_state);
  }
  out |= mark_scale_strides(scale_strides(a));
  if constexpr (requires { a.kv_num_blocks; }) {
    if (block_mask_bits(a) != 0) out |= mark_block_mask(a);
  }
  return out | mark_misaligned<4>(words);
}
/// The same out of line, since most calls have no options. With rotary columns apart it is negative: the
/// operator looks at them itself.
template <class Operator>
[[nodiscard, gnu::noinline]] std::int64_t mark_attention(const typename Operator::arguments& a) noexcept {
  if constexpr (requires { a.k_rotary; }) {
    if (a.k_rotary != nullptr) return -1;
  }
  return mark_attention_inline<Operator>(a);
}

/// What is wrong with the values and addresses that no axis holds; empty when nothing is.
template <class Operator>
[[nodiscard]] std::string check_attention_values(const typename Operator::arguments& a) {
  using arguments = typename Operator::arguments;
  if (std::string wrong = Operator::described.wrong(a); !wrong.empty()) return wrong;
  if (std::string wrong =
          wrong_addresses<&arguments::lse, &arguments::alibi_slopes, &arguments::seqused_k>(a);
      !wrong.empty())
    return wrong;
  if constexpr (requires { a.sinks; }) {
    if (std::string wrong = wrong_addresses<&arguments::sinks, &arguments::block_table, &arguments::k_scale,
                                            &arguments::v_scale>(a);
        !wrong.empty())
      return wrong;
  }
  if constexpr (requires { a.q_scale; }) {
    if (std::string wrong = wrong_addresses<&arguments::q_scale>(a); !wrong.empty()) return wrong;
  }
  if constexpr (requires { a.dropout_p; }) {
    std::string wrong =
        wrong_addresses<&arguments::cu_seqlens_q, &arguments::cu_seqlens_k, &arguments::seqused_q>(a);
    if (wrong.empty() && is_nonzero(a.dropout_p)) wrong = wrong_addresses<&arguments::dropout_state>(a);
    return wrong;
  }
  return {};
}

/// The longest sequence: kernels compute positions in 32 bits, with room for the difference of two and for a
/// tile.
inline constexpr std::int64_t max_sequence = std::int64_t{1} << 29U;

/// What is wrong with the longest sequences; empty when nothing is.
template <class Arguments>
[[nodiscard]] std::string check_sequences(const Arguments& a) {
  if (a.seqlen_q <= max_sequence && a.seqlen_k <= max_sequence) return {};
  return "seqlen_q is " + std::to_string(a.seqlen_q) + " and seqlen_k " + std::to_string(a.seqlen_k) +
         ": a sequence has at most " + std::to_string(max_sequence) + " tokens";
}

/// What is wrong with the sizes that all attention operators have; empty when nothing is.
template <class Operator>
[[nodiscard]] std::string check_attention_sizes(const typename Operator::arguments& a) {
  if (a.batch < 0 || a.heads < 0 || a.heads_kv < 0 || a.seqlen_q < 0 || a.seqlen_k < 0) {
    return "batch, heads, heads_kv, seqlen_q and seqlen_k must not be negative";
  }
  if (std::string wrong = check_sequences(a); !wrong.empty()) return wrong;
  if (a.head_dim < 1 || a.head_dim_v < 1) return "head_dim and head_dim_v must be positive";
  if (a.heads > 0 && (a.heads_kv == 0 || a.heads % a.heads_kv != 0))
    return "heads must be a multiple of heads_kv";
  return check_attention_values<Operator>(a);
}

/// A call with 0 for strides that are not set and do not matter, because no two elements lie that far apart:
/// of a batch of one, of packed sequences, of one head, of a single query of decode.
template <class Arguments>
[[nodiscard, gnu::cold, gnu::noinline]] Arguments without_unused_strides(Arguments a) noexcept {
  bool one_query = false;
  bool batched_q = a.batch > 1;
  bool batched_k = a.batch > 1;
  if constexpr (requires { a.cu_seqlens_q; }) {
    batched_q = batched_q && a.cu_seqlens_q == nullptr;
    batched_k = batched_k && a.cu_seqlens_k == nullptr;
  } else {
    one_query = a.seqlen_q <= 1;
  }
  if constexpr (requires { a.block_table; }) batched_k = batched_k || a.block_table != nullptr;
  ignore_unless(batched_q, a.q_stride_batch, a.out_stride_batch, a.lse_stride_batch);
  ignore_unless(batched_k, a.k_stride_batch, a.v_stride_batch);
  ignore_unless(a.heads > 1, a.q_stride_head, a.out_stride_head, a.lse_stride_head);
  ignore_unless(a.heads_kv > 1, a.k_stride_head, a.v_stride_head);
  ignore_unless(!one_query, a.q_stride_token, a.out_stride_token);
  if constexpr (requires { a.k_rotary; })
    ignore_unless(batched_k, a.k_rotary_stride_batch, a.k_scale_stride_batch);
  if constexpr (requires { a.bias; }) {
    ignore_unless(a.batch > 1, a.bias_stride_batch);
    ignore_unless(a.heads > 1, a.bias_stride_head);
    ignore_unless(a.seqlen_q > 1, a.bias_stride_row);
  }
  if constexpr (requires { a.dout; }) {
    ignore_unless(batched_q, a.dout_stride_batch, a.dq_stride_batch, a.dlse_stride_batch);
    ignore_unless(batched_k, a.dk_stride_batch, a.dv_stride_batch);
    ignore_unless(a.heads > 1, a.dout_stride_head, a.dq_stride_head, a.dlse_stride_head);
    ignore_unless(a.heads_kv > 1, a.dk_stride_head, a.dv_stride_head);
    ignore_unless(a.batch > 1, a.dbias_stride_batch);
    ignore_unless(a.heads > 1, a.dbias_stride_head);
    ignore_unless(a.seqlen_q > 1, a.dbias_stride_row);
  }
  return a;
}

/// Names a stride or the scale where it is not set but matters; empty where all are. `lse`, `dlse`, `bias`,
/// `dbias`, rotary columns apart and pages have strides only where they are given.
template <class Arguments>
[[nodiscard]] std::string check_attention_strides(const Arguments& call) {
  using arguments = Arguments;
  const Arguments a = without_unused_strides(call);
  std::string wrong =
      wrong_strides<&arguments::q_stride_batch, &arguments::q_stride_head, &arguments::q_stride_token,
                    &arguments::k_stride_batch, &arguments::k_stride_head, &arguments::k_stride_token,
                    &arguments::v_stride_batch, &arguments::v_stride_head, &arguments::v_stride_token,
                    &arguments::out_stride_batch, &arguments::out_stride_head, &arguments::out_stride_token>(
          a);
  if (wrong.empty() && a.lse != nullptr)
    wrong = wrong_strides<&arguments::lse_stride_batch, &arguments::lse_stride_head>(a);
  if constexpr (requires { a.k_rotary; }) {
    if (wrong.empty() && a.k_rotary != nullptr)
      wrong = wrong_strides<&arguments::k_rotary_stride_batch, &arguments::k_rotary_stride_token,
                            &arguments::k_scale_stride_batch, &arguments::k_scale_stride_token>(a);
  }
  if constexpr (requires { a.bias; }) {
    if (wrong.empty() && a.bias != nullptr)
      wrong = wrong_strides<&arguments::bias_stride_batch, &arguments::bias_stride_head,
                            &arguments::bias_stride_row>(a);
  }
  if constexpr (requires { a.block_table; }) {
    if (wrong.empty() && a.block_table != nullptr) wrong = wrong_strides<&arguments::block_table_stride>(a);
  }
  if constexpr (requires { a.dout; }) {
    if (wrong.empty())
      wrong =
          wrong_strides<&arguments::dout_stride_batch, &arguments::dout_stride_head,
                        &arguments::dout_stride_token, &arguments::dq_stride_batch,
                        &arguments::dq_stride_head, &arguments::dq_stride_token, &arguments::dk_stride_batch,
                        &arguments::dk_stride_head, &arguments::dk_stride_token, &arguments::dv_stride_batch,
                        &arguments::dv_stride_head, &arguments::dv_stride_token>(a);
    if (wrong.empty() && a.dlse != nullptr)
      wrong = wrong_strides<&arguments::dlse_stride_batch, &arguments::dlse_stride_head>(a);
    if (wrong.empty() && a.dbias != nullptr)
      wrong = wrong_strides<&arguments::dbias_stride_batch, &arguments::dbias_stride_head,
                            &arguments::dbias_stride_row>(a);
  }
  if (wrong.empty() && is_unset(a.scale)) return "scale is not set";
  if (wrong.empty() && mark_unless_finite(a.scale) < 0) return "scale must be finite";
  return wrong;
}

/// What is wrong with the pages of keys and values; empty when nothing is.
template <class Arguments>
[[nodiscard]] std::string check_attention_pages(const Arguments& a) {
  if (a.block_table != nullptr && a.page_size < 1) return "page_size must be positive with a block_table";
  if (a.block_table != nullptr && a.seqused_k == nullptr) return "seqused_k must be given with a block_table";
  return {};
}

/// What is wrong with how scales of e4m3 lie in memory; empty when nothing is.
template <class Arguments>
[[nodiscard]] std::string check_scale_strides(const Arguments& a) {
  if (a.k_scale_stride < 0 || a.k_scale_stride > 1 || a.v_scale_stride < 0 || a.v_scale_stride > 1)
    return "k_scale_stride and v_scale_stride must be 0 or 1";
  if constexpr (requires { a.q_scale; }) {
    if (a.q_scale_stride < 0 || a.q_scale_stride > 1) return "q_scale_stride must be 0 or 1";
  }
  return {};
}

/// What is wrong with the types of queries, keys and values, which may be e4m3, and with their scales; empty
/// when nothing is.
template <class Arguments>
[[nodiscard]] std::string check_narrow_types(const Arguments& a) {
  const bool is_narrow = a.kv_dtype == dtype::f8_e4m3;
  if (is_narrow && a.dtype == dtype::f32) return "kv_dtype f8_e4m3 goes with the dtypes f16 and bf16";
  if (!is_narrow && a.type_of_kv() != a.dtype) return "kv_dtype must be dtype or f8_e4m3";
  const bool is_narrow_q = a.q_dtype == dtype::f8_e4m3;
  if (!is_narrow_q && a.type_of_q() != a.dtype) return "q_dtype must be dtype or f8_e4m3";
  if (is_narrow_q && !is_narrow) return "q_dtype f8_e4m3 goes with the kv_dtype f8_e4m3";
  if (!is_narrow_q && a.q_scale != nullptr) {
    return "q_scale is for queries in f8_e4m3, not in " + std::string{name_of(a.dtype)} +
           ": fold it into scale";
  }
  if (!is_narrow && any_given(a.k_scale, a.v_scale))
    return "k_scale and v_scale are for keys and values in f8_e4m3, not in " + std::string{name_of(a.dtype)} +
           ": fold them into scale and into what reads out";
  return check_scale_strides(a);
}

/// What is wrong with the addresses and the alignment of a forward call, whose queries are of `type_q` and
/// whose keys and values of `type_kv`; empty when nothing is. Null `bias`: none.
template <class Arguments>
[[nodiscard]] std::string check_attention_alignment(const Arguments& a, dtype type_q, dtype type_kv,
                                                    const void* bias) {
  const Arguments set = without_unused_strides(a);
  const std::int64_t strides_q = set.q_stride_batch | set.q_stride_head | set.q_stride_token;
  const std::int64_t strides = set.out_stride_batch | set.out_stride_head | set.out_stride_token;
  const std::int64_t aligned = a.alignment();
  const bool is_misaligned =
      (mark_misaligned_for(a.dtype, a.out, bias) | mark_misaligned_for(type_q, a.q)) < 0;
  if (aligned == 0 && !is_misaligned) return "q, k, v and out must not be null";
  if (!is_misaligned && aligned >= size_of(type_kv) &&
      alignment_of_strided(type_q, strides_q, 0, a.q) >= size_of(type_q) &&
      alignment_of_strided(a.dtype, strides, 0, a.out, optional_tensors(bias)) >= size_of(a.dtype))
    return {};
  constexpr bool may_have_bias = requires {
    a.bias;
  };
  return std::string{may_have_bias ? "q, k, v, out and the bias" : "q, k, v and out"} +
         " must be aligned to their element size";
}

/// What is wrong with the arguments that forward and backward have; empty when nothing is.
template <class Operator>
[[nodiscard]] std::string check_attention(const typename Operator::arguments& a) {
  if (std::string wrong = check_attention_sizes<Operator>(a); !wrong.empty()) return wrong;
  if (a.dtype != dtype::f32 && a.dtype != dtype::f16 && a.dtype != dtype::bf16) {
    return "dtype must be f32, f16 or bf16";
  }
  return wrong_block_mask(a);
}

}  // namespace operators

template <>
inline constexpr std::array<std::string_view, 3> enumerator_names<operators::attention_mask>{
    "none", "causal_top_left", "causal_bottom_right"};
template <>
inline constexpr std::array<std::string_view, 3> enumerator_names<operators::attention_kv>{"dense", "packed",
                                                                                           "paged"};

}  // namespace v0
}  // namespace switchyard
