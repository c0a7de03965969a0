// Scaled dot-product attention, forward:
//
//   out = softmax(mask(cap(scale * q k^T) + bias + alibi)) v,   cap(s) = soft_cap * tanh(s / soft_cap)
//
// A query row that may see no key gives zeros, and an LSE of -infinity or, where it has a sink, of the sink:
// the LSE is the logarithm of the softmax's whole sum. Windows are about the diagonal, key i of query i with
// causal_top_left and key i + m - n otherwise.
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

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/attention.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

struct attention_forward {
  static constexpr std::string_view name = "attention_forward";

  /// Strides are in elements; the innermost dimension is contiguous. The usual order is
  /// [batch, seqlen, heads, dim], others follow from the strides.
  struct arguments {
    const void* q = nullptr;
    const void* k = nullptr;
    const void* v = nullptr;
    void* out = nullptr;
    float* lse = nullptr;  ///< [batch, heads, seqlen_q], or [heads, tokens] with cu_seqlens_q; natural log;
                           ///< null: not wanted
    const void* bias =
        nullptr;  ///< additive, dtype of q, broadcast by zero strides, inner stride 1; null: none
    const float* alibi_slopes = nullptr;  ///< [heads]: adds -slope * |i + m - n - j|; null: none
    const float* sinks =
        nullptr;  ///< [heads]: a logit that joins the softmax's sum and has no value; null: none
    const std::int32_t* cu_seqlens_q = nullptr;  ///< [batch + 1]: q, out and lse are packed; null: dense
    const std::int32_t* cu_seqlens_k = nullptr;  ///< [batch + 1]: k and v are packed; null: dense or paged
    const std::int32_t* seqused_q =
        nullptr;  ///< [batch] queries in use, the rest of out is left alone; null: all
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
    std::int64_t block_table_stride = 0;

    std::int64_t q_stride_batch = 0, q_stride_head = 0, q_stride_token = 0;
    std::int64_t k_stride_batch = 0, k_stride_head = 0, k_stride_token = 0;
    std::int64_t v_stride_batch = 0, v_stride_head = 0, v_stride_token = 0;
    std::int64_t out_stride_batch = 0, out_stride_head = 0, out_stride_token = 0;
    std::int64_t bias_stride_batch = 0, bias_stride_head = 0, bias_stride_row = 0;
    std::int64_t lse_stride_batch = 0, lse_stride_head = 0;  ///< its inner stride is 1

    float scale = 0.0F;     ///< usually 1 / sqrt(head_dim)
    float soft_cap = 0.0F;  ///< 0: none
    float dropout_p = 0.0F;
    std::int32_t window_left = -1;   ///< keys before the diagonal that are seen; -1: all
    std::int32_t window_right = -1;  ///< keys after the diagonal that are seen; -1: all
    std::uint64_t dropout_seed = 0;
    std::uint64_t dropout_offset = 0;
    switchyard::dtype dtype = switchyard::dtype::f32;
    attention_mask mask = attention_mask::none;

    /// Bytes, 1 to 16, that divide q, k, v, out and every stride of theirs; 0 when one of them is null.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      return attention_alignment(dtype,
                                 q_stride_batch | q_stride_head | q_stride_token | k_stride_batch |
                                     k_stride_head | k_stride_token | v_stride_batch | v_stride_head |
                                     v_stride_token | out_stride_batch | out_stride_head | out_stride_token,
                                 q, k, v, out);
    }
  };

  static constexpr auto fields = switchyard::fields<
      &arguments::q, &arguments::k, &arguments::v, &arguments::out, &arguments::lse, &arguments::bias,
      &arguments::alibi_slopes, &arguments::sinks, &arguments::cu_seqlens_q, &arguments::cu_seqlens_k,
      &arguments::seqused_q, &arguments::seqused_k, &arguments::block_table, &arguments::dropout_state,
      &arguments::batch, &arguments::heads, &arguments::heads_kv, &arguments::seqlen_q, &arguments::seqlen_k,
      &arguments::head_dim, &arguments::head_dim_v, &arguments::page_size, &arguments::block_table_stride,
      &arguments::q_stride_batch, &arguments::q_stride_head, &arguments::q_stride_token,
      &arguments::k_stride_batch, &arguments::k_stride_head, &arguments::k_stride_token,
      &arguments::v_stride_batch, &arguments::v_stride_head, &arguments::v_stride_token,
      &arguments::out_stride_batch, &arguments::out_stride_head, &arguments::out_stride_token,
      &arguments::bias_stride_batch, &arguments::bias_stride_head, &arguments::bias_stride_row,
      &arguments::lse_stride_batch, &arguments::lse_stride_head, &arguments::scale, &arguments::soft_cap,
      &arguments::dropout_p, &arguments::window_left, &arguments::window_right, &arguments::dropout_seed,
      &arguments::dropout_offset, &arguments::dtype, &arguments::mask>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(), switchyard::type_axis<&arguments::head_dim>(),
      switchyard::type_axis<&arguments::head_dim_v>(), switchyard::type_axis<&arguments::mask>(),
      switchyard::type_axis(
          "window", [](const arguments& a) noexcept { return a.window_left >= 0 || a.window_right >= 0; }),
      switchyard::type_axis("soft_capped", [](const arguments& a) noexcept { return a.soft_cap != 0.0F; }),
      switchyard::type_axis("biased", [](const arguments& a) noexcept { return a.bias != nullptr; }),
      switchyard::type_axis("alibi", [](const arguments& a) noexcept { return a.alibi_slopes != nullptr; }),
      switchyard::type_axis("sink", [](const arguments& a) noexcept { return a.sinks != nullptr; }),
      switchyard::type_axis("dropout", [](const arguments& a) noexcept { return a.dropout_p != 0.0F; }),
      switchyard::type_axis("with_lse", [](const arguments& a) noexcept { return a.lse != nullptr; }),
      switchyard::type_axis("packed_q",
                            [](const arguments& a) noexcept { return a.cu_seqlens_q != nullptr; }),
      switchyard::type_axis("kv",
                            [](const arguments& a) noexcept {
                              if (a.block_table != nullptr) return attention_kv::paged;
                              return a.cu_seqlens_k != nullptr ? attention_kv::packed : attention_kv::dense;
                            }),
      switchyard::type_axis(
          "seqused",
          [](const arguments& a) noexcept { return a.seqused_q != nullptr || a.seqused_k != nullptr; }),
      switchyard::type_axis<&arguments::page_size>(),
      switchyard::type_axis("alignment", [](const arguments& a) noexcept { return a.alignment(); }),
      switchyard::size_axis<&arguments::batch>(), switchyard::size_axis<&arguments::heads>(),
      switchyard::size_axis<&arguments::heads_kv>(), switchyard::size_axis<&arguments::seqlen_q>(),
      switchyard::size_axis<&arguments::seqlen_k>());

  /// What is wrong with a call; empty when it is legal.
  [[nodiscard]] static std::string check(const arguments& a) {
    if (std::string wrong = check_attention(a); !wrong.empty()) return wrong;
    if (a.block_table != nullptr && a.cu_seqlens_k != nullptr)
      return "block_table and cu_seqlens_k exclude each other";
    if (std::string wrong = check_attention_pages(a); !wrong.empty()) return wrong;
    const std::int64_t aligned = a.alignment();
    if (aligned == 0) return "q, k, v and out must not be null";
    if (aligned < size_of(a.dtype)) return "q, k, v and out must be aligned to their element size";
    return {};
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
