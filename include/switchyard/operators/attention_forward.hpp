// SPDX-License-Identifier: MIT
// Scaled dot-product attention, forward:
//
//   out = softmax(mask(cap(scale * q k^T) + bias + alibi)) v,   cap(s) = soft_cap * tanh(s / soft_cap)
//
// Keys and values in f8_e4m3, the OCP format on every device (float8.hpp), are multiplied by k_scale and
// v_scale first, and so are queries by q_scale. Where all three are in f8_e4m3, a kernel may round the
// softmax's weights to it: to 2^-4 of a weight, and to 2^-15 of the largest of its row. A NaN among the keys
// or values in use gives NaN in every row that sees it, and may in rows that a mask or a bias hides it from.
// In f16 and bf16 a kernel may use the device's own tanh, whose relative error is up to 2^-11.
//
// A query row that sees no key gives zeros, and an LSE, the log of the softmax's whole sum, of -infinity or
// of its sink. Scores below -2.3e38 count as -infinity. Windows are around the diagonal: key i of query i
// with causal_top_left, key i + m - n otherwise. Nothing is written for tokens behind the last sequence.
//
// A block mask takes the place of masks and windows: attention_block_mask.hpp.
//
// With dropout, weights are dropped after the softmax has been normalised and the rest are divided by 1 - p;
// the LSE is not affected. Element (query i, key j) of head h of batch entry b, i and j counted within the
// sequence, is decided by word j % 4 of Philox4x32-10 with
//   counter {j / 4, i, b * heads + h, low half of offset},
//   key     {low half of seed, high half of seed xor high half of offset}:
// it is kept when the word is at least floor(p * 2^32). See philox.hpp.
//
// Sources: Dao et al., FlashAttention, arXiv:2205.14135; Press et al., ALiBi, arXiv:2108.12409; Kwon et al.,
// PagedAttention, arXiv:2309.06180; Salmon et al., Parallel Random Numbers, SC 2011.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/attention.hpp>
#include <switchyard/operators/attention_memory.hpp>
#include <switchyard/operators/attention_views.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

struct attention_forward {
  static constexpr std::string_view name = "attention_forward";

  /// Strides are in elements; the innermost dimension is contiguous. The usual order is
  /// [batch, seqlen, heads, dim], others follow from the strides.
  struct arguments {
    const void* q = nullptr;  ///< of q_dtype
    const void* k = nullptr;  ///< of kv_dtype, as v is
    const void* v = nullptr;
    void* out = nullptr;
    float* lse = nullptr;  ///< [batch, heads, seqlen_q], or [heads, tokens] with cu_seqlens_q; natural log;
                           ///< null: not wanted
    const float* q_scale = nullptr;  ///< of head h at q_scale[h * q_scale_stride]; null: 1
    const float* k_scale = nullptr;  ///< of KV head h at k_scale[h * k_scale_stride]; null: 1
    const float* v_scale = nullptr;
    const void* bias = nullptr;  ///< of q's dtype, strides of 0 repeat it, inner stride 1; null: none
    const float* alibi_slopes = nullptr;  ///< [heads]: adds -slope * |i + m - n - j|; null: none
    const float* sinks = nullptr;  ///< [heads]: a logit in the softmax's sum without a value; null: none
    const std::int32_t* cu_seqlens_q = nullptr;  ///< [batch + 1]: q, out and lse are packed; null: dense
    const std::int32_t* cu_seqlens_k = nullptr;  ///< [batch + 1]: k and v are packed; null: dense or paged
    const std::int32_t* seqused_q = nullptr;    ///< [batch] queries in use; other rows of out stay; null: all
    const std::int32_t* seqused_k = nullptr;    ///< [batch] keys in use; null: all
    const std::int32_t* block_table = nullptr;  ///< [batch, block_table_stride] page numbers; null: not paged
    const std::uint64_t* dropout_state = nullptr;  ///< device pointer to {seed, offset}; null: the two below

    std::int64_t batch = 0;
    std::int64_t heads = 0;
    std::int64_t heads_kv = 0;  ///< divides heads: query head h reads KV head h / (heads / heads_kv)
    std::int64_t seqlen_q = 0;  ///< the longest, with cu_seqlens_q
    std::int64_t seqlen_k = 0;  ///< the longest, with cu_seqlens_k or block_table
    std::int64_t head_dim = 0;
    std::int64_t head_dim_v = 0;
    std::int64_t page_size = 0;
    std::int64_t block_table_stride = unset;
    std::int64_t tokens_q = 0;  ///< of all sequences, with cu_seqlens_q; 0: not known
    std::int64_t tokens_k = 0;  ///< of all sequences, with cu_seqlens_k; 0: not known

    std::int64_t q_stride_batch = unset, q_stride_head = unset, q_stride_token = unset;
    std::int64_t k_stride_batch = unset, k_stride_head = unset, k_stride_token = unset;
    std::int64_t v_stride_batch = unset, v_stride_head = unset, v_stride_token = unset;
    std::int64_t out_stride_batch = unset, out_stride_head = unset, out_stride_token = unset;
    std::int64_t bias_stride_batch = unset, bias_stride_head = unset, bias_stride_row = unset;
    std::int64_t lse_stride_batch = unset, lse_stride_head = unset;  ///< its inner stride is 1
    std::int64_t q_scale_stride = 0;                      ///< 0: one scale for all heads; 1: one a head
    std::int64_t k_scale_stride = 0, v_scale_stride = 0;  ///< 0: one scale for all heads; 1: one a KV head

    float scale = unset_scale;  ///< usually 1 / sqrt(head_dim)
    float soft_cap = 0.0F;      ///< 0: none
    float dropout_p = 0.0F;
    std::int32_t window_left = -1;   ///< keys before the diagonal that are seen; -1: all
    std::int32_t window_right = -1;  ///< keys after the diagonal that are seen; -1: all
    std::uint64_t dropout_seed = 0;
    std::uint64_t dropout_offset = 0;
    switchyard::dtype dtype = switchyard::dtype::f32;  ///< of out and the bias, and of q, k and v unless
    switchyard::dtype q_dtype = unset_dtype;   ///< of q: f8_e4m3, as k and v are then; or not set: dtype
    switchyard::dtype kv_dtype = unset_dtype;  ///< of k and v: dtype, as where it is not set, or f8_e4m3
    attention_mask mask = attention_mask::none;

    std::int64_t pages = unset;                ///< of k and v, with block_table; unset: not known
    std::int64_t block_table_entries = unset;  ///< of each row of block_table; unset: not known

    // A block mask, see attention_block_mask.hpp; null: none.
    const std::int32_t* kv_num_blocks = nullptr;  ///< [mask_batch, mask_heads, mask_query_blocks]
    const std::int32_t* kv_indices = nullptr;     ///< [.., mask_query_blocks, mask_key_blocks]
    const std::int32_t* kv_bits = nullptr;
    const std::int32_t* full_kv_num_blocks = nullptr;
    const std::int32_t* full_kv_indices = nullptr;
    const std::uint32_t* mask_bits = nullptr;  ///< [mask_tiles, mask_block_q, mask_words]
    std::int32_t mask_batch = 0;               ///< 1 or batch
    std::int32_t mask_heads = 0;               ///< 1 or heads
    std::int32_t mask_query_blocks = 0;
    std::int32_t mask_key_blocks = 0;
    std::int32_t mask_tiles = 0;
    std::int32_t mask_block_q = 0;
    std::int32_t mask_words = 0;  ///< of 32 keys, in a row of a block

    /// The element type of q.
    [[nodiscard, gnu::always_inline]] inline switchyard::dtype type_of_q() const noexcept {
      return q_dtype == unset_dtype ? dtype : q_dtype;
    }

    /// The element type of k and v.
    [[nodiscard, gnu::always_inline]] inline switchyard::dtype type_of_kv() const noexcept {
      return kv_dtype == unset_dtype ? dtype : kv_dtype;
    }

    /// Bytes, 1 to 16, that divide q, k, v, out, every stride of theirs, and the bias if there is one; 0 when
    /// one of the first four is null, a stride that matters or the scale is not set, or q_scale, k_scale or
    /// v_scale is given of a tensor that is not in e4m3.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t aligned = alignment_as_set();
      return aligned != 0 ? aligned : alignment_without_unused(*this);
    }

    /// The same where every stride counts.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment_as_set() const noexcept {
      if (kv_dtype == switchyard::dtype::f8_e4m3 ||
          attention_options<attention_forward>(*this, bias, q_scale, k_scale, v_scale, alibi_slopes, sinks,
                                               cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k,
                                               block_table) != 0) [[unlikely]]
        return alignment_with_others();
      return alignment_of(strides_q() | strides_out() | strides_kv(), 0, q, k, v, out);
    }

    /// Of a call with options, or keys and values in another type.
    [[nodiscard, gnu::noinline]] std::int64_t alignment_with_others() const noexcept {
      const bool is_narrow = kv_dtype == switchyard::dtype::f8_e4m3;
      if (!is_narrow && any_given(k_scale, v_scale)) return 0;
      const bool is_narrow_q = q_dtype == switchyard::dtype::f8_e4m3;
      if (!is_narrow_q && q_scale != nullptr) return 0;
      std::int64_t others = mark_attention_inline<attention_forward>(*this);
      if (block_table != nullptr) others |= block_table_stride | count_null(seqused_k);
      if (bias != nullptr) others |= bias_stride_batch | bias_stride_head | bias_stride_row;
      if (is_narrow) others |= mark_misaligned_for(dtype, out, bias, is_narrow_q ? nullptr : q);
      const std::int64_t strides = strides_kv();
      const void* const cached = strides_as_address(strides, type_of_kv());
      if (!is_narrow_q) {
        return alignment_of(strides_q() | strides_out(), strides | others | count_null(k, v), q, out,
                            optional_tensors(k, v, cached, bias));
      }
      return alignment_of(strides_out(), strides | strides_q() | others | count_null(q, k, v), out,
                          optional_tensors(q, k, v, cached, strides_as_address(strides_q(), q_dtype), bias));
    }

   private:
    [[nodiscard, gnu::always_inline]] inline std::int64_t strides_q() const noexcept {
      return q_stride_batch | q_stride_head | q_stride_token;
    }
    [[nodiscard, gnu::always_inline]] inline std::int64_t strides_out() const noexcept {
      return out_stride_batch | out_stride_head | out_stride_token;
    }
    [[nodiscard, gnu::always_inline]] inline std::int64_t strides_kv() const noexcept {
      return k_stride_batch | k_stride_head | k_stride_token | v_stride_batch | v_stride_head |
             v_stride_token;
    }

    /// `others`: strides that need no alignment and marks, or-ed together.
    template <class... Tensors>
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment_of(
        std::int64_t strides, std::int64_t others, const Tensors*... tensors) const noexcept {
      if (lse != nullptr) {
        if (mark_misaligned<4>(lse) < 0) [[unlikely]]
          return 0;
        others |= lse_stride_batch | lse_stride_head;
      }
      return attention_alignment(dtype, strides, others, scale, tensors...);
    }
  };

  static constexpr auto fields = switchyard::fields<
      &arguments::q, &arguments::k, &arguments::v, &arguments::out, &arguments::lse, &arguments::q_scale,
      &arguments::k_scale, &arguments::v_scale, &arguments::bias, &arguments::alibi_slopes, &arguments::sinks,
      &arguments::cu_seqlens_q, &arguments::cu_seqlens_k, &arguments::seqused_q, &arguments::seqused_k,
      &arguments::block_table, &arguments::dropout_state, &arguments::batch, &arguments::heads,
      &arguments::heads_kv, &arguments::seqlen_q, &arguments::seqlen_k, &arguments::head_dim,
      &arguments::head_dim_v, &arguments::page_size, &arguments::block_table_stride, &arguments::tokens_q,
      &arguments::tokens_k, &arguments::q_stride_batch, &arguments::q_stride_head, &arguments::q_stride_token,
      &arguments::k_stride_batch, &arguments::k_stride_head, &arguments::k_stride_token,
      &arguments::v_stride_batch, &arguments::v_stride_head, &arguments::v_stride_token,
      &arguments::out_stride_batch, &arguments::out_stride_head, &arguments::out_stride_token,
      &arguments::bias_stride_batch, &arguments::bias_stride_head, &arguments::bias_stride_row,
      &arguments::lse_stride_batch, &arguments::lse_stride_head, &arguments::q_scale_stride,
      &arguments::k_scale_stride, &arguments::v_scale_stride, &arguments::scale, &arguments::soft_cap,
      &arguments::dropout_p, &arguments::window_left, &arguments::window_right, &arguments::dropout_seed,
      &arguments::dropout_offset, &arguments::dtype, &arguments::q_dtype, &arguments::kv_dtype,
      &arguments::mask, &arguments::pages, &arguments::block_table_entries, &arguments::kv_num_blocks,
      &arguments::kv_indices, &arguments::kv_bits, &arguments::full_kv_num_blocks,
      &arguments::full_kv_indices, &arguments::mask_bits, &arguments::mask_batch, &arguments::mask_heads,
      &arguments::mask_query_blocks, &arguments::mask_key_blocks, &arguments::mask_tiles,
      &arguments::mask_block_q, &arguments::mask_words>;

  static constexpr auto operands =
      switchyard::fields<&arguments::q, &arguments::k, &arguments::v, &arguments::out>;

  static constexpr auto axes = switchyard::axes(
      type_axis<&arguments::dtype>(),
      type_axis("q_dtype", [](const arguments& a) noexcept { return a.type_of_q(); }),
      type_axis("kv_dtype", [](const arguments& a) noexcept { return a.type_of_kv(); }),
      type_axis<&arguments::head_dim>(), type_axis<&arguments::head_dim_v>(), type_axis<&arguments::mask>(),
      type_axis("window", [](const arguments& a) noexcept { return windowed(a); }),
      flag_axis<&arguments::soft_cap>("soft_capped"), flag_axis<&arguments::bias>("biased"),
      flag_axis<&arguments::alibi_slopes>("alibi"), flag_axis<&arguments::sinks>("sink"),
      flag_axis<&arguments::dropout_p>("dropout"), flag_axis<&arguments::lse>("with_lse"),
      flag_axis<&arguments::cu_seqlens_q>("packed_q"),
      type_axis("kv",
                [](const arguments& a) noexcept {
                  if (a.block_table != nullptr) return attention_kv::paged;
                  return a.cu_seqlens_k != nullptr ? attention_kv::packed : attention_kv::dense;
                }),
      flag_axis<&arguments::seqused_q, &arguments::seqused_k>("seqused"), type_axis<&arguments::page_size>(),
      flag_axis<&arguments::kv_num_blocks>("block_masked"), type_axis<&arguments::alignment>(),
      size_axis<&arguments::batch>(), size_axis<&arguments::heads>(), size_axis<&arguments::heads_kv>(),
      size_axis<&arguments::seqlen_q>(), size_axis<&arguments::seqlen_k>());

  /// Files whose `type` does not name q_dtype or kv_dtype hold for queries or keys of `dtype`; kernels that
  /// do not know of block masks are not to ignore them.
  static constexpr std::array implied{implied_axis{"q_dtype", "dtype"}, implied_axis{"kv_dtype", "dtype"},
                                      implied_axis{"block_masked", implied_axis::no}};

  static constexpr std::array axis_defaults{
      axis_default{"q_dtype", "=dtype"}, axis_default{"kv_dtype", "=dtype"},
      axis_default{"head_dim_v", "=head_dim"}, axis_default{"heads_kv", "=heads"},
      axis_default{"page_size", "0"}};

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    if (std::string wrong = check_attention<attention_forward>(a); !wrong.empty()) return wrong;
    if (std::string wrong = check_narrow_types(a); !wrong.empty()) return wrong;
    if (a.block_table != nullptr && a.cu_seqlens_k != nullptr)
      return "block_table and cu_seqlens_k exclude each other";
    if (std::string wrong = check_attention_pages(a); !wrong.empty()) return wrong;
    if (std::string wrong = check_attention_strides(a); !wrong.empty()) return wrong;
    return check_attention_alignment(a, a.type_of_q(), a.type_of_kv(), a.bias);
  }

  /// What is wrong with how far a call reaches, and with the numbers in cu_seqlens, seqused, block_table and
  /// a block mask; empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    return check_attention_memory(a, fields);
  }
  static constexpr auto index_tensors =
      packed_index_tensors<arguments> + used_index_tensors<arguments> + paged_index_tensors<arguments>;

  /// What a call may have besides q, k, v and out.
  struct options {
    attention_mask mask = attention_mask::none;
    float scale = unset_scale;
    float soft_cap = 0.0F;
    std::int32_t window_left = -1;
    std::int32_t window_right = -1;
    tensor lse{};
    const_tensor q_scale{};
    const_tensor k_scale{};
    const_tensor v_scale{};
    const_tensor bias{};
    const_tensor alibi_slopes{};
    const_tensor sinks{};
    const_tensor cu_seqlens_q{};
    const_tensor cu_seqlens_k{};
    std::int64_t longest_q = -1;
    std::int64_t longest_k = -1;
    const_tensor seqused_q{};
    const_tensor seqused_k{};
    float dropout_p = 0.0F;
    std::uint64_t dropout_seed = 0;
    std::uint64_t dropout_offset = 0;
    const std::uint64_t* dropout_state = nullptr;
    const_tensor kv_num_blocks{};
    const_tensor kv_indices{};
    const_tensor kv_bits{};
    const_tensor full_kv_num_blocks{};
    const_tensor full_kv_indices{};
    const_tensor mask_bits{};
  };
  static constexpr auto described =
      attention::bias_option<options, arguments> + attention::alibi_option<options, arguments> +
      attention::sinks_option<options, arguments> + attention::length_options<options, arguments, false> +
      attention::mask_options<options, arguments> + attention::window_right_option<options, arguments> +
      attention::scale_options<options, arguments> + attention::dropout_options<options, arguments> +
      attention::lse_option<options, arguments> + attention::scales_options<options, arguments> +
      attention::q_scale_option<options, arguments> + attention::block_mask<options, arguments>::options;

  /// The arguments of a call. Tensors are [batch, seqlen, heads, dim], or packed, see options; any strides
  /// but the innermost. Throws call_error where they disagree.
  template <class Options = options>
  [[nodiscard, gnu::always_inline]] inline static arguments call(
      const const_tensor& q, const const_tensor& k, const const_tensor& v, const tensor& out,
      const std::type_identity_t<Options>& with = Options{}) {
    arguments a = attention::begin<attention_forward>(with);
    if (with.cu_seqlens_k) {
      using keys =
          views<attention::k_view<arguments, &arguments::kv_dtype, true>,
                attention::v_view<arguments, &arguments::kv_dtype, true>,
                attention::cu_seqlens_view<&arguments::cu_seqlens_k, &arguments::batch>, seqused_k_view>;
      if (with.longest_k < 0) attention::fail_longest(name, "longest_k", "cu_seqlens_k");
      a.seqlen_k = attention::packed_longest(with, with.longest_k, k.extent(0));
      a.k_stride_batch = a.v_stride_batch = 0;
      bind(keys{}, a, with, q, out, k, v, with.cu_seqlens_k, with.seqused_k);
    } else {
      using keys = views<attention::k_view<arguments, &arguments::kv_dtype, false>,
                         attention::v_view<arguments, &arguments::kv_dtype, false>, seqused_k_view>;
      bind(keys{}, a, with, q, out, k, v, with.seqused_k);
    }
    return a;
  }

  /// The same with keys and values in pages.
  template <class Options = options>
  [[nodiscard, gnu::always_inline]] inline static arguments call(
      const const_tensor& q, const paged& cache, const tensor& out,
      const std::type_identity_t<Options>& with = Options{}) {
    attention::require_no_seqused(name, with);
    arguments a = attention::begin<attention_forward>(with);
    attention::require_pages(name, cache);
    a.seqlen_k = attention::longest_of(cache);
    a.block_table_entries = cache.block_table.extent(1);
    a.cu_seqlens_k = static_cast<const std::int32_t*>(with.cu_seqlens_k.data());  // which check() refuses
    bind(attention::paged_views<arguments, &arguments::kv_dtype>{}, a, with, q, out, cache.k, cache.v,
         cache.block_table, cache.used);
    return a;
  }

  /// A binding's call.
  template <class Reader>
  [[nodiscard]] static arguments call_named(Reader& in) {
    return attention::call_named<attention_forward>(in);
  }

  /// The tensors that a call writes: see tensors/result_tensor.hpp.
  template <class Visitor>
  static void visit_results(const arguments& a, Visitor& visit) {
    if (a.cu_seqlens_q == nullptr) {
      visit.template operator()<attention::out_view<arguments, false>>();
      visit.template operator()<typename attention::lse_views<arguments, false>::optional>();
    } else if (a.tokens_q > 0) {
      visit.template operator()<attention::out_view<arguments, true>>();
      visit.template operator()<typename attention::lse_views<arguments, true>::optional>();
    }
  }

 private:
  using seqused_k_view = attention::vector_view<&arguments::seqused_k, &arguments::batch, dtype::i32>;

  /// The tensors of the queries, those of the keys, and those of the scores.
  template <class Keys, class... Tensors>
  [[gnu::always_inline]] inline static void bind(Keys keys, arguments& a, const options& with,
                                                 const const_tensor& q, const tensor& out,
                                                 const Tensors&... others) {
    if (with.cu_seqlens_q) {
      using queries =
          views<attention::cu_seqlens_view<&arguments::cu_seqlens_q, &arguments::batch>,
                attention::q_view<arguments, true, &arguments::q_dtype>, attention::out_view<arguments, true>,
                attention::lse_views<arguments, true>::optional>;
      if (with.longest_q < 0) attention::fail_longest(name, "longest_q", "cu_seqlens_q");
      a.seqlen_q = attention::packed_longest(with, with.longest_q, q.extent(0));
      a.q_stride_batch = a.out_stride_batch = a.lse_stride_batch = 0;
      described.bind(queries{} + keys, name, a, true, with, with.cu_seqlens_q, q, out, with.lse, others...);
    } else {
      using queries =
          views<attention::q_view<arguments, false, &arguments::q_dtype>,
                attention::out_view<arguments, false>, attention::lse_views<arguments, false>::optional>;
      described.bind(queries{} + keys, name, a, true, with, q, out, with.lse, others...);
    }
    a.scale = attention::scale_or_default(with.scale, a.head_dim);
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
