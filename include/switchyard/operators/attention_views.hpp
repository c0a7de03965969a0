// SPDX-License-Identifier: MIT
// The tensors of attention calls, and the arguments that follow from them, for the attention operators'
// `call`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <switchyard/base/dtype.hpp>
#include <switchyard/call_options.hpp>
#include <switchyard/error.hpp>
#include <switchyard/named_call.hpp>
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

template <class A, bool Packed, auto Type = &A::dtype>
struct query_views;
template <class A, auto Type>
struct query_views<A, false, Type> {
  template <auto Tensor, auto Dim, auto StrideBatch, auto StrideToken, auto StrideHead>
  using like_q =
      dense_view<Tensor, Type, &A::batch, &A::seqlen_q, &A::heads, Dim, StrideBatch, StrideToken, StrideHead>;
};
template <class A, auto Type>
struct query_views<A, true, Type> {
  template <auto Tensor, auto Dim, auto StrideBatch, auto StrideToken, auto StrideHead>
  using like_q = packed_view<Tensor, Type, &A::tokens_q, &A::heads, Dim, StrideToken, StrideHead>;
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
template <class A, bool Packed, auto Type = &A::dtype>
using q_view = typename query_views<A, Packed, Type>::template like_q<&A::q, &A::head_dim, &A::q_stride_batch,
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

/// block_table and seqused_k of paged keys.
template <class A>
using table_views =
    views<view<&A::block_table, dtype::i32, dim<&A::batch, &A::block_table_stride>, dim<named("entries")>>,
          view<&A::seqused_k, dtype::i32, dim<&A::batch>>>;

/// The same behind k and v.
template <class A, auto Type>
using paged_views =
    decltype(views<dense_view<&A::k, Type, &A::pages, &A::page_size, &A::heads_kv, &A::head_dim,
                              &A::k_stride_batch, &A::k_stride_token, &A::k_stride_head>,
                   dense_view<&A::v, Type, &A::pages, &A::page_size, &A::heads_kv, &A::head_dim_v,
                              &A::v_stride_batch, &A::v_stride_token, &A::v_stride_head>>{} +
             table_views<A>{});

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

/// dlse, as lse.
template <class A, bool Packed>
using dlse_view = std::conditional_t<
    Packed, optional_view<&A::dlse, dtype::f32, dim<&A::heads, &A::dlse_stride_head>, dim<&A::tokens_q>>,
    optional_view<&A::dlse, dtype::f32, dim<&A::batch, &A::dlse_stride_batch>,
                  dim<&A::heads, &A::dlse_stride_head>, dim<&A::seqlen_q>>>;

/// [batch, heads, seqlen_q, seqlen_k]; an extent of 1 is shared by all but in the last.
template <class A, auto Tensor, auto StrideBatch, auto StrideHead, auto StrideRow>
using score_view = optional_view<Tensor, &A::dtype, dim<&A::batch, StrideBatch, broadcast>,
                                 dim<&A::heads, StrideHead, broadcast>,
                                 dim<&A::seqlen_q, StrideRow, broadcast>, dim<&A::seqlen_k>>;

/// Scales of e4m3: one, or one a head of `Heads`.
template <class A, auto Tensor, auto Stride, auto Heads = &A::heads_kv>
using scale_view = optional_view<Tensor, dtype::f32, dim<Heads, Stride, broadcast>>;

template <auto Tensor, auto Batch>
using cu_seqlens_view = view<Tensor, dtype::i32, dim<Batch, dense_stride{}, one_more>>;
template <auto Tensor, auto Extent, auto Type>
using vector_view = optional_view<Tensor, Type, dim<Extent>>;

// The options that attention operators share, of their structs O into their arguments A.

template <class O, class A>
inline constexpr auto alibi_option =
    describe_options(tensor_option<&O::alibi_slopes, vector_view<&A::alibi_slopes, &A::heads, dtype::f32>>{
        "adds -slope * the distance from the diagonal to the scores of a head"});

template <class O, class A>
inline constexpr auto bias_option = describe_options(
    tensor_option<&O::bias,
                  score_view<A, &A::bias, &A::bias_stride_batch, &A::bias_stride_head, &A::bias_stride_row>>{
        "added to the scaled scores; extents of 1 but the last are shared"});

template <class O, class A>
inline constexpr auto sinks_option =
    describe_options(tensor_option<&O::sinks, vector_view<&A::sinks, &A::heads, dtype::f32>>{
        "a logit of each head that joins the softmax's sum and has no value"});

template <class O, class A>
inline constexpr auto q_scale_option =
    describe_options(tensor_option<&O::q_scale, scale_view<A, &A::q_scale, &A::q_scale_stride, &A::heads>>{
        "multiplies queries in f8_e4m3: one for all heads, or one a head"});

template <class O, class A>
inline constexpr auto scales_options = describe_options(
    tensor_option<&O::k_scale, scale_view<A, &A::k_scale, &A::k_scale_stride>>{
        "multiplies keys in f8_e4m3: one for all heads, or one a KV head"},
    tensor_option<&O::v_scale, scale_view<A, &A::v_scale, &A::v_scale_stride>>{
        "multiplies values in f8_e4m3, as k_scale"});

template <class O, class A>
inline constexpr auto lse_option =
    describe_options(tensor_option<&O::lse, typename lse_views<A, false>::optional, false>{
        "written: the natural logarithm of the softmax's sums; packed, [heads, tokens]"});

template <class O, class A, bool IsBound>
inline constexpr auto seqused_k_option =
    describe_options(tensor_option<&O::seqused_k, vector_view<&A::seqused_k, &A::batch, dtype::i32>, IsBound>{
        "keys in use of each sequence; all without it"});

template <class O, class A, bool IsBound>
inline constexpr auto length_options =
    describe_options(
        tensor_option<&O::cu_seqlens_q, cu_seqlens_view<&A::cu_seqlens_q, &A::batch>, false>{
            "where sequences begin: the queries' tensors are packed, [tokens, heads, dim]"},
        tensor_option<&O::cu_seqlens_k, cu_seqlens_view<&A::cu_seqlens_k, &A::batch>, false>{
            "where sequences begin: the keys' tensors are packed, [tokens, heads_kv, dim]"},
        tensor_option<&O::seqused_q, vector_view<&A::seqused_q, &A::batch, dtype::i32>>{
            "queries in use of each sequence; all without it"}) +
    seqused_k_option<O, A, IsBound> +
    describe_options(option<&O::longest_q>{"tokens of the longest sequence, with cu_seqlens_q"},
                     option<&O::longest_k>{"tokens of the longest sequence, with cu_seqlens_k"});

template <class O, class A>
inline constexpr auto mask_options =
    describe_options(option<&O::mask, &A::mask>{"which keys a query sees"},
                     option<&O::window_left, &A::window_left, legal_values::count_or_all>{
                         "keys before the diagonal that a query sees; -1: all"});

template <class O, class A>
inline constexpr auto window_right_option =
    describe_options(option<&O::window_right, &A::window_right, legal_values::count_or_all>{
        "keys after the diagonal that a query sees; -1: all"});

template <class O, class A>
inline constexpr auto scale_options =
    describe_options(option<&O::scale>{"multiplies the scores; not set: 1 / sqrt(head_dim)"},
                     option<&O::soft_cap, &A::soft_cap, legal_values::magnitude>{
                         "scores s become soft_cap * tanh(s / soft_cap); 0: as they are"});

template <class O, class A>
inline constexpr auto dropout_options = describe_options(
    option<&O::dropout_p, &A::dropout_p, legal_values::share>{"the share of weights that is dropped"},
    option<&O::dropout_seed, &A::dropout_seed>{"of the random numbers, without dropout_state"},
    option<&O::dropout_offset, &A::dropout_offset>{"of the random numbers, without dropout_state"},
    option<&O::dropout_state, &A::dropout_state>{"where the device finds seed and offset, u64 [2]"});

/// The lists of a block mask: how many blocks each block has, and which.
template <class A, auto Tensor, auto Blocks>
using block_counts_view =
    optional_view<Tensor, dtype::i32, dim<&A::mask_batch>, dim<&A::mask_heads>, dim<Blocks>>;
template <class A, auto Tensor, auto Blocks, auto Others>
using block_list_view =
    optional_view<Tensor, dtype::i32, dim<&A::mask_batch>, dim<&A::mask_heads>, dim<Blocks>, dim<Others>>;

template <class O, class A>
struct block_mask {
  template <auto Tensor>
  using key_counts = block_counts_view<A, Tensor, &A::mask_query_blocks>;
  template <auto Tensor>
  using key_list = block_list_view<A, Tensor, &A::mask_query_blocks, &A::mask_key_blocks>;
  template <auto Tensor>
  using query_counts = block_counts_view<A, Tensor, &A::mask_key_blocks>;
  template <auto Tensor>
  using query_list = block_list_view<A, Tensor, &A::mask_key_blocks, &A::mask_query_blocks>;
  using bits = optional_view<&A::mask_bits, dtype::i32, dim<&A::mask_tiles>, dim<&A::mask_block_q>,
                             dim<&A::mask_words>>;

  static constexpr auto options = describe_options(
      tensor_option<&O::kv_num_blocks, key_counts<&A::kv_num_blocks>, false>{
          "block mask: how many key blocks each query block sees a part of"},
      tensor_option<&O::kv_indices, key_list<&A::kv_indices>, false>{"block mask: which"},
      tensor_option<&O::kv_bits, key_list<&A::kv_bits>, false>{
          "block mask: which entry of mask_bits tells the part"},
      tensor_option<&O::full_kv_num_blocks, key_counts<&A::full_kv_num_blocks>, false>{
          "block mask: how many key blocks each query block sees all of; none without it"},
      tensor_option<&O::full_kv_indices, key_list<&A::full_kv_indices>, false>{"block mask: which"},
      tensor_option<&O::mask_bits, bits, false>{
          "block mask: bits of 32 keys a word, [entries, block_q, block_k / 32]"});
  static constexpr auto transposed = [] {
    if constexpr (requires(O o) { o.q_num_blocks; }) {
      return describe_options(
          tensor_option<&O::q_num_blocks, query_counts<&A::q_num_blocks>, false>{
              "block mask: how many query blocks see a part of each key block"},
          tensor_option<&O::q_indices, query_list<&A::q_indices>, false>{"block mask: which"},
          tensor_option<&O::q_bits, query_list<&A::q_bits>, false>{
              "block mask: which entry of mask_bits tells the part"},
          tensor_option<&O::full_q_num_blocks, query_counts<&A::full_q_num_blocks>, false>{
              "block mask: how many query blocks see all of each key block; none without it"},
          tensor_option<&O::full_q_indices, query_list<&A::full_q_indices>, false>{"block mask: which"});
    } else {
      return describe_options();
    }
  }();

  /// Whether any tensor of one is given.
  [[nodiscard, gnu::always_inline]] inline static bool is_given(const O& with) noexcept {
    std::uintptr_t bits =
        address_bits(with.kv_num_blocks.data(), with.kv_indices.data(), with.kv_bits.data(),
                     with.full_kv_num_blocks.data(), with.full_kv_indices.data(), with.mask_bits.data());
    if constexpr (requires { with.q_num_blocks; }) {
      bits |= address_bits(with.q_num_blocks.data(), with.q_indices.data(), with.q_bits.data(),
                           with.full_q_num_blocks.data(), with.full_q_indices.data());
    }
    return bits != 0;
  }

  /// Extents are those of kv_indices and mask_bits, with which the others must agree.
  [[gnu::cold, gnu::noinline]] static void bind(std::string_view name, A& a, const O& with) {
    const auto small = [](std::int64_t extent) {  // what is larger agrees with nothing
      return static_cast<std::int32_t>(extent < INT32_MAX ? extent : -1);
    };
    a.mask_batch = small(with.kv_indices.extent(0));
    a.mask_heads = small(with.kv_indices.extent(1));
    a.mask_query_blocks = small(with.kv_indices.extent(2));
    a.mask_key_blocks = small(with.kv_indices.extent(3));
    a.mask_tiles = small(with.mask_bits.extent(0));
    a.mask_block_q = small(with.mask_bits.extent(1));
    a.mask_words = small(with.mask_bits.extent(2));
    bind_views(views<key_counts<&A::kv_num_blocks>, key_list<&A::kv_indices>, key_list<&A::kv_bits>,
                     key_counts<&A::full_kv_num_blocks>, key_list<&A::full_kv_indices>, bits>{},
               name, a, true, with.kv_num_blocks, with.kv_indices, with.kv_bits, with.full_kv_num_blocks,
               with.full_kv_indices, with.mask_bits);
    if constexpr (requires { with.q_num_blocks; }) {
      bind_views(views<query_counts<&A::q_num_blocks>, query_list<&A::q_indices>, query_list<&A::q_bits>,
                       query_counts<&A::full_q_num_blocks>, query_list<&A::full_q_indices>>{},
                 name, a, true, with.q_num_blocks, with.q_indices, with.q_bits, with.full_q_num_blocks,
                 with.full_q_indices);
    }
  }
};

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

/// Refuses the option seqused_k beside pages, which have `used`.
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

/// A binding's call of a forward operator: with block_table, k and v are pages, seqused_k their keys in use
/// and longest_k the most of these.
template <class Operator, class Reader>
[[nodiscard]] typename Operator::arguments call_named(Reader& in) {
  if (!in.has("block_table")) return detail::call_operands<Operator>(in, Operator::operands);
  auto with = read_options(Operator::described, in);
  const paged cache{in.tensor("k"), in.tensor("v"), in.tensor("block_table"), with.seqused_k,
                    in.value("longest_k", unset)};
  with.seqused_k = {};
  return Operator::call(in.tensor("q"), cache, in.tensor("out"), with);
}

/// The arguments of a call as far as no tensor decides them.
template <class Operator>
[[nodiscard, gnu::always_inline]] inline typename Operator::arguments begin(
    const typename Operator::options& with) {
  auto a = default_arguments<typename Operator::arguments>(Operator::fields);
  Operator::described.set(a, with);
  if constexpr (requires { with.kv_num_blocks; }) {
    using masks = block_mask<typename Operator::options, typename Operator::arguments>;
    if (masks::is_given(with)) [[unlikely]]
      masks::bind(Operator::name, a, with);
  }
  return a;
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
