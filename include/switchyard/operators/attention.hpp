// What the attention operators share: masks, how keys lie in memory, and what makes a call legal.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>

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

/// Bytes, 1 to 16, that divide the tensors' addresses and every stride; 0 when a tensor is null. `strides`
/// are the strides in elements, or-ed together.
template <class... Tensors>
[[nodiscard]] inline std::int64_t attention_alignment(dtype type, std::int64_t strides,
                                                      const Tensors*... tensors) noexcept {
  return alignment_of(tensors...,
                      reinterpret_cast<const void*>((strides * detail::size_of_legal(type)) | 16));
}

/// What is wrong with the sizes that all attention operators have; empty when nothing is.
template <class Arguments>
[[nodiscard]] std::string check_attention_sizes(const Arguments& a) {
  if (a.batch < 0 || a.heads < 0 || a.heads_kv < 0 || a.seqlen_q < 0 || a.seqlen_k < 0) {
    return "batch, heads, heads_kv, seqlen_q and seqlen_k must not be negative";
  }
  if (a.head_dim < 1 || a.head_dim_v < 1) return "head_dim and head_dim_v must be positive";
  if (a.heads > 0 && (a.heads_kv == 0 || a.heads % a.heads_kv != 0))
    return "heads must be a multiple of heads_kv";
  if (!(a.soft_cap >= 0.0F)) return "soft_cap must not be negative";
  return {};
}

/// What is wrong with the pages of keys and values; empty when nothing is.
template <class Arguments>
[[nodiscard]] std::string check_attention_pages(const Arguments& a) {
  if (a.block_table != nullptr && a.page_size < 1) return "page_size must be positive with a block_table";
  if (a.block_table != nullptr && a.seqused_k == nullptr) return "seqused_k must be given with a block_table";
  return {};
}

/// What is wrong with the arguments that forward and backward have; empty when nothing is.
template <class Arguments>
[[nodiscard]] std::string check_attention(const Arguments& a) {
  if (std::string wrong = check_attention_sizes(a); !wrong.empty()) return wrong;
  if (a.dtype != dtype::f32 && a.dtype != dtype::f16 && a.dtype != dtype::bf16) {
    return "dtype must be f32, f16 or bf16";
  }
  if (!(a.dropout_p >= 0.0F && a.dropout_p < 1.0F)) return "dropout_p must be at least 0 and below 1";
  if (a.window_left < -1 || a.window_right < -1) return "window_left and window_right must be -1 or more";
  return {};
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
