// SPDX-License-Identifier: MIT
// Gradients of attention_forward with respect to q, k, v and bias. attention_forward.hpp defines q, k, v,
// bias, alibi_slopes, lengths, windows, mask, dropout and layouts; a call takes the forward call's values and
// its results.
//
//   P = exp(scores - lse), dP = dout v^T, delta = rowsum(dout * out) - dlse, dS = P * (dP - delta),
//   dv = P^T dout, dq = scale * dS k, dk = scale * dS^T q
//
// Dropout applies to P in dv and to dP as it did in the forward call. A soft cap multiplies dS by
// 1 - (s / soft_cap)^2, where s is the capped score. Keys that no query sees have zero gradients. Sinks are
// in lse already. The gradient of the bias is dS without the factor of the soft cap, summed over the
// dimensions in which dbias has stride 0.
//
// dlse is the gradient of lse, for losses that depend on it, such as those of partial results merged by their
// LSE. In rows that see no key it is ignored, and may be NaN.
//
// A variant may add up dq in any order, so that its last bits differ from run to run, unless the call is
// deterministic.
//
// Source: Dao, FlashAttention-2, arXiv:2307.08691.
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

struct attention_backward {
  static constexpr std::string_view name = "attention_backward";

  /// Strides are in elements; the innermost dimension is contiguous. out, dout and dq are laid out as q, dk
  /// and dv as k and v, each with strides of its own.
  struct arguments {
    const void* q = nullptr;
    const void* k = nullptr;
    const void* v = nullptr;
    const void* out = nullptr;
    const void* dout = nullptr;
    const float* lse = nullptr;   ///< as attention_forward writes it
    const float* dlse = nullptr;  ///< the gradient of lse, laid out like it; null: zero
    void* dq = nullptr;
    void* dk = nullptr;  ///< [.., heads_kv, head_dim]: summed over the query heads of a group
    void* dv = nullptr;
    const void* bias = nullptr;
    const float* alibi_slopes = nullptr;
    const std::int32_t* cu_seqlens_q = nullptr;
    const std::int32_t* cu_seqlens_k = nullptr;
    const std::int32_t* seqused_q = nullptr;  ///< the rest of dq is left alone
    const std::int32_t* seqused_k = nullptr;  ///< the rest of dk and dv is left alone
    const std::uint64_t* dropout_state = nullptr;
    /// As bias is; written for all of seqlen_q and seqlen_k, zero where nothing is seen. Null: not wanted.
    void* dbias = nullptr;

    std::int64_t batch = 0;
    std::int64_t heads = 0;
    std::int64_t heads_kv = 0;
    std::int64_t seqlen_q = 0;
    std::int64_t seqlen_k = 0;
    std::int64_t head_dim = 0;
    std::int64_t head_dim_v = 0;
    std::int64_t tokens_q = 0;  ///< of all sequences, with cu_seqlens_q; 0: not known
    std::int64_t tokens_k = 0;  ///< of all sequences, with cu_seqlens_k; 0: not known

    std::int64_t q_stride_batch = unset, q_stride_head = unset, q_stride_token = unset;
    std::int64_t k_stride_batch = unset, k_stride_head = unset, k_stride_token = unset;
    std::int64_t v_stride_batch = unset, v_stride_head = unset, v_stride_token = unset;
    std::int64_t out_stride_batch = unset, out_stride_head = unset, out_stride_token = unset;
    std::int64_t dout_stride_batch = unset, dout_stride_head = unset, dout_stride_token = unset;
    std::int64_t dq_stride_batch = unset, dq_stride_head = unset, dq_stride_token = unset;
    std::int64_t dk_stride_batch = unset, dk_stride_head = unset, dk_stride_token = unset;
    std::int64_t dv_stride_batch = unset, dv_stride_head = unset, dv_stride_token = unset;
    std::int64_t bias_stride_batch = unset, bias_stride_head = unset, bias_stride_row = unset;
    std::int64_t dbias_stride_batch = unset, dbias_stride_head = unset,
                 dbias_stride_row = unset;  ///< inner stride 1
    std::int64_t lse_stride_batch = unset, lse_stride_head = unset;
    std::int64_t dlse_stride_batch = unset, dlse_stride_head = unset;  ///< inner stride 1

    float scale = unset_scale;
    float soft_cap = 0.0F;
    float dropout_p = 0.0F;
    std::int32_t window_left = -1;
    std::int32_t window_right = -1;
    std::uint64_t dropout_seed = 0;
    std::uint64_t dropout_offset = 0;
    switchyard::dtype dtype = switchyard::dtype::f32;
    attention_mask mask = attention_mask::none;
    bool deterministic = false;  ///< the same bits in every run

    // A block mask, see attention_block_mask.hpp, with the transposed lists; null: none.
    const std::int32_t* kv_num_blocks = nullptr;  ///< [mask_batch, mask_heads, mask_query_blocks]
    const std::int32_t* kv_indices = nullptr;     ///< [.., mask_query_blocks, mask_key_blocks]
    const std::int32_t* kv_bits = nullptr;
    const std::int32_t* full_kv_num_blocks = nullptr;
    const std::int32_t* full_kv_indices = nullptr;
    const std::int32_t* q_num_blocks = nullptr;  ///< [mask_batch, mask_heads, mask_key_blocks]
    const std::int32_t* q_indices = nullptr;     ///< [.., mask_key_blocks, mask_query_blocks]
    const std::int32_t* q_bits = nullptr;
    const std::int32_t* full_q_num_blocks = nullptr;
    const std::int32_t* full_q_indices = nullptr;
    const std::uint32_t* mask_bits = nullptr;  ///< [mask_tiles, mask_block_q, mask_words]
    std::int32_t mask_batch = 0;               ///< 1 or batch
    std::int32_t mask_heads = 0;               ///< 1 or heads
    std::int32_t mask_query_blocks = 0;
    std::int32_t mask_key_blocks = 0;
    std::int32_t mask_tiles = 0;
    std::int32_t mask_block_q = 0;
    std::int32_t mask_words = 0;  ///< of 32 keys, in a row of a block

    /// Bytes, 1 to 16, that divide the tensors' addresses and all strides; 0 when one of them is null, or
    /// a stride that matters or the scale is not set.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t aligned = alignment_as_set();
      return aligned != 0 ? aligned : alignment_without_unused(*this);
    }

    /// The same, but every stride counts, also those that this call does not use.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment_as_set() const noexcept {
      std::int64_t others = lse_stride_batch | lse_stride_head | mark_misaligned<4>(lse) | count_null(lse);
      if (attention_options<attention_backward>(*this, alibi_slopes, cu_seqlens_q, cu_seqlens_k, seqused_q,
                                                seqused_k) != 0) [[unlikely]]
        others |= mark_attention<attention_backward>(*this);
      if (dlse != nullptr) others |= dlse_stride_batch | dlse_stride_head | mark_misaligned<4>(dlse);
      if (bias != nullptr)
        others |= bias_stride_batch | bias_stride_head | bias_stride_row | mark_misaligned_for(dtype, bias);
      if (dbias != nullptr)
        others |=
            dbias_stride_batch | dbias_stride_head | dbias_stride_row | mark_misaligned_for(dtype, dbias);
      return attention_alignment(
          dtype,
          q_stride_batch | q_stride_head | q_stride_token | k_stride_batch | k_stride_head | k_stride_token |
              v_stride_batch | v_stride_head | v_stride_token | out_stride_batch | out_stride_head |
              out_stride_token | dout_stride_batch | dout_stride_head | dout_stride_token | dq_stride_batch |
              dq_stride_head | dq_stride_token | dk_stride_batch | dk_stride_head | dk_stride_token |
              dv_stride_batch | dv_stride_head | dv_stride_token,
          others, scale, q, k, v, out, dout, dq, dk, dv);
    }
  };

  static constexpr auto fields = switchyard::fields<
      &arguments::q, &arguments::k, &arguments::v, &arguments::out, &arguments::dout, &arguments::lse,
      &arguments::dlse, &arguments::dq, &arguments::dk, &arguments::dv, &arguments::bias,
      &arguments::alibi_slopes, &arguments::cu_seqlens_q, &arguments::cu_seqlens_k, &arguments::seqused_q,
      &arguments::seqused_k, &arguments::dropout_state, &arguments::dbias, &arguments::batch,
      &arguments::heads, &arguments::heads_kv, &arguments::seqlen_q, &arguments::seqlen_k,
      &arguments::head_dim, &arguments::head_dim_v, &arguments::tokens_q, &arguments::tokens_k,
      &arguments::q_stride_batch, &arguments::q_stride_head, &arguments::q_stride_token,
      &arguments::k_stride_batch, &arguments::k_stride_head, &arguments::k_stride_token,
      &arguments::v_stride_batch, &arguments::v_stride_head, &arguments::v_stride_token,
      &arguments::out_stride_batch, &arguments::out_stride_head, &arguments::out_stride_token,
      &arguments::dout_stride_batch, &arguments::dout_stride_head, &arguments::dout_stride_token,
      &arguments::dq_stride_batch, &arguments::dq_stride_head, &arguments::dq_stride_token,
      &arguments::dk_stride_batch, &arguments::dk_stride_head, &arguments::dk_stride_token,
      &arguments::dv_stride_batch, &arguments::dv_stride_head, &arguments::dv_stride_token,
      &arguments::bias_stride_batch, &arguments::bias_stride_head, &arguments::bias_stride_row,
      &arguments::dbias_stride_batch, &arguments::dbias_stride_head, &arguments::dbias_stride_row,
      &arguments::lse_stride_batch, &arguments::lse_stride_head, &arguments::dlse_stride_batch,
      &arguments::dlse_stride_head, &arguments::scale, &arguments::soft_cap, &arguments::dropout_p,
      &arguments::window_left, &arguments::window_right, &arguments::dropout_seed, &arguments::dropout_offset,
      &arguments::dtype, &arguments::mask, &arguments::deterministic, &arguments::kv_num_blocks,
      &arguments::kv_indices, &arguments::kv_bits, &arguments::full_kv_num_blocks,
      &arguments::full_kv_indices, &arguments::q_num_blocks, &arguments::q_indices, &arguments::q_bits,
      &arguments::full_q_num_blocks, &arguments::full_q_indices, &arguments::mask_bits,
      &arguments::mask_batch, &arguments::mask_heads, &arguments::mask_query_blocks,
      &arguments::mask_key_blocks, &arguments::mask_tiles, &arguments::mask_block_q, &arguments::mask_words>;

  static constexpr auto operands =
      switchyard::fields<&arguments::q, &arguments::k, &arguments::v, &arguments::out, &arguments::dout,
                         &arguments::lse, &arguments::dq, &arguments::dk, &arguments::dv>;

  static constexpr auto axes = switchyard::axes(
      type_axis<&arguments::dtype>(), type_axis<&arguments::head_dim>(), type_axis<&arguments::head_dim_v>(),
      type_axis<&arguments::mask>(),
      type_axis("window", [](const arguments& a) noexcept { return (a.window_left & a.window_right) >= 0; }),
      flag_axis<&arguments::soft_cap>("soft_capped"), flag_axis<&arguments::bias>("biased"),
      flag_axis<&arguments::alibi_slopes>("alibi"), flag_axis<&arguments::dropout_p>("dropout"),
      flag_axis<&arguments::cu_seqlens_q>("packed_q"), flag_axis<&arguments::cu_seqlens_k>("packed_k"),
      flag_axis<&arguments::seqused_q, &arguments::seqused_k>("seqused"),
      type_axis<&arguments::deterministic>(), flag_axis<&arguments::dbias>("with_dbias"),
      flag_axis<&arguments::dlse>("with_dlse"), flag_axis<&arguments::kv_num_blocks>("block_masked"),
      type_axis<&arguments::alignment>(), size_axis<&arguments::batch>(), size_axis<&arguments::heads>(),
      size_axis<&arguments::heads_kv>(), size_axis<&arguments::seqlen_q>(),
      size_axis<&arguments::seqlen_k>());

  static constexpr std::array axis_defaults{axis_default{"head_dim_v", "=head_dim"},
                                            axis_default{"heads_kv", "=heads"}};
  /// Kernels that do not know of dlse or of block masks are not to ignore them.
  static constexpr std::array implied{implied_axis{"with_dlse", implied_axis::no},
                                      implied_axis{"block_masked", implied_axis::no}};

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    if (std::string wrong = check_attention<attention_backward>(a); !wrong.empty()) return wrong;
    if (a.lse == nullptr) return "lse must not be null";
    if (std::string wrong = wrong_addresses<&arguments::dlse>(a); !wrong.empty()) return wrong;
    if (a.dbias != nullptr && a.bias == nullptr) return "dbias is wanted, but there is no bias";
    if (std::string wrong = check_attention_strides(a); !wrong.empty()) return wrong;
    if (mark_misaligned_for(a.dtype, a.bias, a.dbias) < 0)
      return "bias and dbias must be aligned to their element size";
    const std::int64_t aligned = a.alignment();
    if (aligned == 0) return "q, k, v, out, dout, dq, dk and dv must not be null";
    if (aligned < size_of(a.dtype)) return "the tensors must be aligned to their element size";
    return {};
  }

  /// What is wrong with how far a call reaches, and with the numbers in cu_seqlens and seqused;
  /// empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    return check_attention_memory(a, fields);
  }
  static constexpr auto index_tensors = packed_index_tensors<arguments> + used_index_tensors<arguments>;

  /// The tensors of a call.
  struct tensors {
    const_tensor q{};     ///< [batch, seqlen_q, heads, head_dim], packed [tokens, heads, head_dim]
    const_tensor k{};     ///< [batch, seqlen_k, heads_kv, head_dim], packed [tokens, heads_kv, head_dim]
    const_tensor v{};     ///< as k, with head_dim_v
    const_tensor out{};   ///< as q, with head_dim_v
    const_tensor dout{};  ///< as out
    const_tensor lse{};   ///< f32 [batch, heads, seqlen_q], packed [heads, tokens]
    tensor dq{};          ///< as q
    tensor dk{};          ///< as k
    tensor dv{};          ///< as v
  };

  /// What a call may have besides: the forward call's values.
  struct options {
    attention_mask mask = attention_mask::none;
    float scale = unset_scale;
    float soft_cap = 0.0F;
    std::int32_t window_left = -1;
    std::int32_t window_right = -1;
    const_tensor bias{};
    tensor dbias{};
    const_tensor dlse{};
    const_tensor alibi_slopes{};
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
    bool deterministic = false;
    const_tensor kv_num_blocks{};
    const_tensor kv_indices{};
    const_tensor kv_bits{};
    const_tensor full_kv_num_blocks{};
    const_tensor full_kv_indices{};
    const_tensor mask_bits{};
    const_tensor q_num_blocks{};
    const_tensor q_indices{};
    const_tensor q_bits{};
    const_tensor full_q_num_blocks{};
    const_tensor full_q_indices{};
  };
  using dbias_view = attention::score_view<arguments, &arguments::dbias, &arguments::dbias_stride_batch,
                                           &arguments::dbias_stride_head, &arguments::dbias_stride_row>;
  static constexpr auto described =
      attention::bias_option<options, arguments> + attention::alibi_option<options, arguments> +
      attention::length_options<options, arguments, true> + attention::mask_options<options, arguments> +
      attention::window_right_option<options, arguments> + attention::scale_options<options, arguments> +
      attention::dropout_options<options, arguments> +
      describe_options(
          option<&options::deterministic, &arguments::deterministic>{"whether every run gives the same bits"},
          tensor_option<&options::dbias, dbias_view>{
              "written: as bias, summed over what an extent of 1 shares"}) +
      describe_options(tensor_option<&options::dlse, attention::dlse_view<arguments, false>, false>{
          "the gradient of lse, laid out like it; none: zero"}) +
      attention::block_mask<options, arguments>::options +
      attention::block_mask<options, arguments>::transposed;

  /// The arguments of a call: `attention_backward::call({.q = q, .k = k, ...}, {.mask = ...})`. Any strides
  /// but the innermost. Throws call_error where tensors disagree.
  template <class Options = options>
  [[nodiscard]] static arguments call(const tensors& of,
                                      const std::type_identity_t<Options>& with = Options{}) {
    if (with.cu_seqlens_q && with.longest_q < 0) attention::fail_longest(name, "longest_q", "cu_seqlens_q");
    if (with.cu_seqlens_k && with.longest_k < 0) attention::fail_longest(name, "longest_k", "cu_seqlens_k");
    if (with.cu_seqlens_q)
      return with.cu_seqlens_k ? bind<true, true>(of, with) : bind<true, false>(of, with);
    return with.cu_seqlens_k ? bind<false, true>(of, with) : bind<false, false>(of, with);
  }

  /// The tensors that a call writes: see tensors/result_tensor.hpp.
  template <class Visitor>
  static void visit_results(const arguments& a, Visitor& visit) {
    if (a.cu_seqlens_q == nullptr) {
      visit.template operator()<dq_view<false>>();
    } else if (a.tokens_q > 0) {
      visit.template operator()<dq_view<true>>();
    }
    if (a.cu_seqlens_k == nullptr) {
      visit.template operator()<dk_view<false>>();
      visit.template operator()<dv_view<false>>();
    } else if (a.tokens_k > 0) {
      visit.template operator()<dk_view<true>>();
      visit.template operator()<dv_view<true>>();
    }
    if (a.dbias == nullptr) return;
    visit.template operator()<dbias_view>();
  }

 private:
  template <bool Packed>
  using dq_view = typename attention::query_views<arguments, Packed>::template like_q<
      &arguments::dq, &arguments::head_dim, &arguments::dq_stride_batch, &arguments::dq_stride_token,
      &arguments::dq_stride_head>;
  template <bool Packed>
  using dk_view = typename attention::key_views<arguments, &arguments::dtype, Packed>::template like_k<
      &arguments::dk, &arguments::head_dim, &arguments::dk_stride_batch, &arguments::dk_stride_token,
      &arguments::dk_stride_head>;
  template <bool Packed>
  using dv_view = typename attention::key_views<arguments, &arguments::dtype, Packed>::template like_k<
      &arguments::dv, &arguments::head_dim_v, &arguments::dv_stride_batch, &arguments::dv_stride_token,
      &arguments::dv_stride_head>;
  template <bool Packed>
  using dout_view = typename attention::query_views<arguments, Packed>::template like_q<
      &arguments::dout, &arguments::head_dim_v, &arguments::dout_stride_batch, &arguments::dout_stride_token,
      &arguments::dout_stride_head>;
  template <bool Packed>
  using query_list =
      views<attention::q_view<arguments, Packed>, attention::out_view<arguments, Packed>, dout_view<Packed>,
            dq_view<Packed>, typename attention::lse_views<arguments, Packed>::required,
            attention::dlse_view<arguments, Packed>>;
  template <bool Packed>
  using key_list =
      views<attention::k_view<arguments, &arguments::dtype, Packed>,
            attention::v_view<arguments, &arguments::dtype, Packed>, dk_view<Packed>, dv_view<Packed>>;
  template <auto Tensor>
  using cu_seqlens_list = views<attention::cu_seqlens_view<Tensor, &arguments::batch>>;

  template <bool PackedQ, bool PackedK>
  [[nodiscard]] static arguments bind(const tensors& of, const options& with) {
    using queries = query_list<PackedQ>;
    using keys = key_list<PackedK>;
    using cu_q = cu_seqlens_list<&arguments::cu_seqlens_q>;
    using cu_k = cu_seqlens_list<&arguments::cu_seqlens_k>;
    arguments a = attention::begin<attention_backward>(with);
    const auto bind_all = [&]<class Views>(Views all, const auto&... first) {
      described.bind(all, name, a, true, with, first..., of.q, of.out, of.dout, of.dq, of.lse, with.dlse,
                     of.k, of.v, of.dk, of.dv);
    };
    constexpr auto all = queries{} + keys{};
    if constexpr (PackedQ) {
      a.seqlen_q = attention::packed_longest(with, with.longest_q, of.q.extent(0));
      a.q_stride_batch = a.out_stride_batch = a.dout_stride_batch = a.dq_stride_batch = a.lse_stride_batch =
          a.dlse_stride_batch = 0;
    }
    if constexpr (PackedK) {
      a.seqlen_k = attention::packed_longest(with, with.longest_k, of.k.extent(0));
      a.k_stride_batch = a.v_stride_batch = a.dk_stride_batch = a.dv_stride_batch = 0;
    }
    if constexpr (PackedQ && PackedK) {
      bind_all(cu_q{} + cu_k{} + all, with.cu_seqlens_q, with.cu_seqlens_k);
    } else if constexpr (PackedQ) {
      bind_all(cu_q{} + all, with.cu_seqlens_q);
    } else if constexpr (PackedK) {
      bind_all(cu_k{} + all, with.cu_seqlens_k);
    } else {
      bind_all(all);
    }
    a.scale = attention::scale_or_default(with.scale, a.head_dim);
    return a;
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
