// The tensors of attention calls, and which arguments they decide: shared by the attention operators' `call`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/error.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

/// Keys and values in pages, in place of k and v.
struct paged {
  const_tensor k{};            ///< [pages, page_size, heads_kv, head_dim]
  const_tensor v{};            ///< [pages, page_size, heads_kv, head_dim_v]
  const_tensor block_table{};  ///< i32 [batch, entries]: page numbers, rows with any stride
  const_tensor used{};         ///< i32 [batch]: keys in use of each sequence
  std::int64_t longest = -1;   ///< the most keys in use; -1: as many as entries pages hold
};

namespace attention {

inline constexpr dim_form broadcast{.factor = 1, .more = 0, .may_be_one = true};
inline constexpr dim_form one_more{.factor = 1, .more = 1, .may_be_one = false};

/// [batch, seqlen, heads, dim]
template <auto Tensor, auto Type, auto Batch, auto Seqlen, auto Heads, auto Dim, auto StrideBatch,
          auto StrideToken, auto StrideHead>
using dense_view =
    view<Tensor, Type, dim<Batch, StrideBatch>, dim<Seqlen, StrideToken>, dim<Heads, StrideHead>, dim<Dim>>;

/// [tokens, heads, dim]
template <auto Tensor, auto Type, auto Tokens, auto Heads, auto Dim, auto StrideToken, auto StrideHead>
using packed_view = view<Tensor, Type, dim<Tokens, StrideToken>, dim<Heads, StrideHead>, dim<Dim>>;

template <class A, bool Packed>
struct query_views;
template <class A>
struct query_views<A, false> {
  template <auto Tensor, auto Dim, auto StrideBatch, auto StrideToken, auto StrideHead>
  using like_q = dense_view<Tensor, &A::dtype, &A::batch, &A::seqlen_q, &A::heads, Dim, StrideBatch,
                            StrideToken, StrideHead>;
};
template <class A>
struct query_views<A, true> {
  template <auto Tensor, auto Dim, auto StrideBatch, auto StrideToken, auto StrideHead>
  using like_q = packed_view<Tensor, &A::dtype, &A::tokens_q, &A::heads, Dim, StrideToken, StrideHead>;
};

template <class A, auto Type, bool Packed>
struct key_views;
template <class A, auto Type>
struct key_views<A, Type, false> {
  template <auto Tensor, auto Dim, auto StrideBatch, auto StrideToken, auto StrideHead>
  using like_k = dense_view<Tensor, Type, &A::batch, &A::seqlen_k, &A::heads_kv, Dim, StrideBatch,
                            StrideToken, StrideHead>;
};
template <class A, auto Type>
struct key_views<A, Type, true> {
  template <auto Tensor, auto Dim, auto StrideBatch, auto StrideToken, auto StrideHead>
  using like_k = packed_view<Tensor, Type, &A::tokens_k, &A::heads_kv, Dim, StrideToken, StrideHead>;
};

/// q as the forward operators have it.
template <class A, bool Packed>
using q_view = typename query_views<A, Packed>::template like_q<&A::q, &A::head_dim, &A::q_stride_batch,
                                                                &A::q_stride_token, &A::q_stride_head>;
template <class A, bool Packed>
using out_view =
    typename query_views<A, Packed>::template like_q<&A::out, &A::head_dim_v, &A::out_stride_batch,
                                                     &A::out_stride_token, &A::out_stride_head>;
template <class A, auto Type, bool Packed>
using k_view = typename key_views<A, Type, Packed>::template like_k<&A::k, &A::head_dim, &A::k_stride_batch,
                                                                    &A::k_stride_token, &A::k_stride_head>;
template <class A, auto Type, bool Packed>
using v_view = typename key_views<A, Type, Packed>::template like_k<&A::v, &A::head_dim_v, &A::v_stride_batch,
                                                                    &A::v_stride_token, &A::v_stride_head>;

/// k, v, block_table and seqused_k of paged keys.
template <class A, auto Type>
using paged_views =
    views<dense_view<&A::k, Type, &A::pages, &A::page_size, &A::heads_kv, &A::head_dim, &A::k_stride_batch,
                     &A::k_stride_token, &A::k_stride_head>,
          dense_view<&A::v, Type, &A::pages, &A::page_size, &A::heads_kv, &A::head_dim_v, &A::v_stride_batch,
                     &A::v_stride_token, &A::v_stride_head>,
          view<&A::block_table, dtype::i32, dim<&A::batch, &A::block_table_stride>, dim<named("entries")>>,
          view<&A::seqused_k, dtype::i32, dim<&A::batch>>>;

/// lse as [batch, heads, seqlen_q] or, packed, [heads, tokens].
template <class A, bool Packed>
struct lse_views;
template <class A>
struct lse_views<A, false> {
  using optional = optional_view<&A::lse, dtype::f32, dim<&A::batch, &A::lse_stride_batch>,
                                 dim<&A::heads, &A::lse_stride_head>, dim<&A::seqlen_q>>;
  using required = view<&A::lse, dtype::f32, dim<&A::batch, &A::lse_stride_batch>,
                        dim<&A::heads, &A::lse_stride_head>, dim<&A::seqlen_q>>;
};
template <class A>
struct lse_views<A, true> {
  using optional = optional_view<&A::lse, dtype::f32, dim<&A::heads, &A::lse_stride_head>, dim<&A::tokens_q>>;
  using required = view<&A::lse, dtype::f32, dim<&A::heads, &A::lse_stride_head>, dim<&A::tokens_q>>;
};

/// [batch, heads, seqlen_q, seqlen_k]; an extent of 1 is shared by all but in the last.
template <class A, auto Tensor, auto StrideBatch, auto StrideHead, auto StrideRow>
using score_view = optional_view<Tensor, &A::dtype, dim<&A::batch, StrideBatch, broadcast>,
                                 dim<&A::heads, StrideHead, broadcast>,
                                 dim<&A::seqlen_q, StrideRow, broadcast>, dim<&A::seqlen_k>>;

/// Scales of e4m3: one, or one a KV head.
template <class A, auto Tensor, auto Stride>
using scale_view = optional_view<Tensor, dtype::f32, dim<&A::heads_kv, Stride, broadcast>>;

template <auto Tensor, auto Batch>
using cu_seqlens_view = view<Tensor, dtype::i32, dim<Batch, dense_stride{}, one_more>>;
template <auto Tensor, auto Extent, auto Type>
using vector_view = optional_view<Tensor, Type, dim<Extent>>;

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_longest(std::string_view name,
                                                                std::string_view option,
                                                                std::string_view given) {
  throw call_error{error_code::invalid_argument, std::string{name} + ": " + std::string{option} +
                                                     ", the length of the longest sequence, must be given "
                                                     "with " +
                                                     std::string{given}};
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_seqused(std::string_view name) {
  throw call_error{
      error_code::invalid_argument,
      std::string{name} + ": the option seqused_k is given with pages, whose `used` are the keys in use"};
}

/// Pages have the keys in use themselves.
template <class Options>
[[gnu::always_inline]] inline void require_no_seqused(std::string_view name, const Options& with) {
  if (with.seqused_k) [[unlikely]]
    fail_seqused(name);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_pages(std::string_view name) {
  throw call_error{error_code::invalid_argument,
                   std::string{name} + ": block_table has entries but its data is null: give its address"};
}
/// Without its address, a call would read pages as dense keys.
[[gnu::always_inline]] inline void require_pages(std::string_view name, const paged& cache) {
  if (!cache.block_table && cache.block_table.extent(0) > 0 && cache.block_table.extent(1) > 0) [[unlikely]]
    fail_pages(name);
}

/// The most keys of a sequence in pages.
[[nodiscard, gnu::always_inline]] inline std::int64_t longest_of(const paged& cache) noexcept {
  return cache.longest >= 0 ? cache.longest
                            : detail::checked_product(cache.block_table.extent(1), cache.k.extent(1));
}

/// The longest of packed sequences, which may be a bound; of none, which no tensor need hold, 0. A bias is as
/// wide as was said.
template <class Options>
[[nodiscard, gnu::always_inline]] inline std::int64_t packed_longest(const Options& with,
                                                                     std::int64_t longest,
                                                                     std::int64_t tokens) noexcept {
  return tokens == 0 && !with.bias ? 0 : longest;
}

/// 1 / sqrt(head_dim), where no scale was given.
[[nodiscard, gnu::always_inline]] inline float scale_or_default(float given, std::int64_t head_dim) noexcept {
  return !__builtin_isnan(given) ? given : 1.0F / __builtin_sqrtf(static_cast<float>(head_dim));
}

}  // namespace attention

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
