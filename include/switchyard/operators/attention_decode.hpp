// Scaled dot-product attention of the last few tokens of sequences whose keys and values lie in a cache:
//
//   out = softmax(mask(cap(scale * q k^T) - alibi)) v,   cap(s) = soft_cap * tanh(s / soft_cap)
//
// with k = k_scale * the stored keys and v = v_scale * the stored values. Query i of n, of a sequence with m
// keys, stands at position i + m - n: with a causal mask it sees the keys up to there, a window is about it,
// and ALiBi counts from it. A query that sees no key gives zeros, and an LSE of -infinity or, where it has a
// sink, of the sink: the LSE is the logarithm of the softmax's whole sum.
//
// Keys and values in f8_e4m3 are the OCP format on every device (float8.hpp), the FNUZ formats of gfx942's
// own instructions are not. A NaN among the keys or values in use makes NaN of what sees it; keys and values
// beyond a sequence's length are not read.
//
// More than 16 queries, packed tensors, bias, dropout and f32 are attention_forward's.
//
// Sources: Dao et al., FlashAttention, arXiv:2205.14135; Dao et al., Flash-Decoding for long-context
// inference, 2023; Kwon et al., PagedAttention, arXiv:2309.06180; Press et al., ALiBi, arXiv:2108.12409.
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

struct attention_decode {
  static constexpr std::string_view name = "attention_decode";

  /// Most queries of a sequence.
  static constexpr std::int64_t most_queries = 16;

  /// Strides are in elements of their tensor; the innermost dimension is contiguous.
  struct arguments {
    const void* q = nullptr;  ///< [batch, seqlen_q, heads, head_dim]
    const void* k = nullptr;  ///< [batch or pages, seqlen_k or page_size, heads_kv, head_dim], of kv_dtype
    const void* v = nullptr;  ///< the same with head_dim_v
    void* out = nullptr;      ///< [batch, seqlen_q, heads, head_dim_v]
    float* lse = nullptr;     ///< [batch, heads, seqlen_q]; natural log; null: not wanted
    const float* k_scale = nullptr;  ///< of KV head h at k_scale[h * k_scale_stride]; null: 1
    const float* v_scale = nullptr;
    const float* alibi_slopes = nullptr;  ///< [heads]: adds -slope * |i + m - n - j|; null: none
    const float* sinks =
        nullptr;  ///< [heads]: a logit that joins the softmax's sum and has no value; null: none
    const std::int32_t* seqused_k = nullptr;    ///< [batch] keys in use, at most seqlen_k; null: all
    const std::int32_t* block_table = nullptr;  ///< [batch, block_table_stride] page numbers; null: not paged

    std::int64_t batch = 0;
    std::int64_t heads = 0;
    std::int64_t heads_kv = 0;  ///< divides heads: query head h reads KV head h / (heads / heads_kv)
    std::int64_t seqlen_q = 1;  ///< 1 to 16, the same for all sequences
    std::int64_t seqlen_k = 0;  ///< the longest, with seqused_k
    std::int64_t head_dim = 0;
    std::int64_t head_dim_v = 0;
    std::int64_t page_size = 0;
    std::int64_t block_table_stride = 0;

    std::int64_t q_stride_batch = 0, q_stride_head = 0, q_stride_token = 0;
    std::int64_t k_stride_batch = 0, k_stride_head = 0, k_stride_token = 0;  ///< batch: of pages, when paged
    std::int64_t v_stride_batch = 0, v_stride_head = 0, v_stride_token = 0;
    std::int64_t out_stride_batch = 0, out_stride_head = 0, out_stride_token = 0;
    std::int64_t lse_stride_batch = 0, lse_stride_head = 0;  ///< its inner stride is 1
    std::int64_t k_scale_stride = 0, v_scale_stride = 0;     ///< 0: one scale for all heads; 1: one a KV head

    float scale = 0.0F;             ///< usually 1 / sqrt(head_dim)
    float soft_cap = 0.0F;          ///< 0: none
    std::int32_t window_left = -1;  ///< keys before a query's position that it sees; -1: all
    switchyard::dtype dtype = switchyard::dtype::f32;           ///< of q and out: f16 or bf16
    switchyard::dtype kv_dtype = switchyard::dtype::f32;        ///< of k and v: that of q, or f8_e4m3
    attention_mask mask = attention_mask::causal_bottom_right;  ///< or none: every query sees the last key

    /// Bytes, 1 to 16, that divide q, k, v, out and every stride of theirs; 0 when one of them is null.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t ours = attention_alignment(dtype,
                                                    q_stride_batch | q_stride_head | q_stride_token |
                                                        out_stride_batch | out_stride_head | out_stride_token,
                                                    q, out);
      const std::int64_t cached = attention_alignment(
          kv_dtype,
          k_stride_batch | k_stride_head | k_stride_token | v_stride_batch | v_stride_head | v_stride_token,
          k, v);
      return ours < cached ? ours : cached;
    }
  };

  static constexpr auto fields = switchyard::fields<
      &arguments::q, &arguments::k, &arguments::v, &arguments::out, &arguments::lse, &arguments::k_scale,
      &arguments::v_scale, &arguments::alibi_slopes, &arguments::sinks, &arguments::seqused_k,
      &arguments::block_table, &arguments::batch, &arguments::heads, &arguments::heads_kv,
      &arguments::seqlen_q, &arguments::seqlen_k, &arguments::head_dim, &arguments::head_dim_v,
      &arguments::page_size, &arguments::block_table_stride, &arguments::q_stride_batch,
      &arguments::q_stride_head, &arguments::q_stride_token, &arguments::k_stride_batch,
      &arguments::k_stride_head, &arguments::k_stride_token, &arguments::v_stride_batch,
      &arguments::v_stride_head, &arguments::v_stride_token, &arguments::out_stride_batch,
      &arguments::out_stride_head, &arguments::out_stride_token, &arguments::lse_stride_batch,
      &arguments::lse_stride_head, &arguments::k_scale_stride, &arguments::v_scale_stride, &arguments::scale,
      &arguments::soft_cap, &arguments::window_left, &arguments::dtype, &arguments::kv_dtype,
      &arguments::mask>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(), switchyard::type_axis<&arguments::kv_dtype>(),
      switchyard::type_axis<&arguments::head_dim>(), switchyard::type_axis<&arguments::head_dim_v>(),
      switchyard::type_axis<&arguments::mask>(),
      switchyard::type_axis("window", [](const arguments& a) noexcept { return a.window_left >= 0; }),
      switchyard::type_axis("soft_capped", [](const arguments& a) noexcept { return a.soft_cap != 0.0F; }),
      switchyard::type_axis("alibi", [](const arguments& a) noexcept { return a.alibi_slopes != nullptr; }),
      switchyard::type_axis("sink", [](const arguments& a) noexcept { return a.sinks != nullptr; }),
      switchyard::type_axis("with_lse", [](const arguments& a) noexcept { return a.lse != nullptr; }),
      switchyard::type_axis("kv",
                            [](const arguments& a) noexcept {
                              return a.block_table != nullptr ? attention_kv::paged : attention_kv::dense;
                            }),
      switchyard::type_axis("seqused", [](const arguments& a) noexcept { return a.seqused_k != nullptr; }),
      switchyard::type_axis<&arguments::page_size>(),
      switchyard::type_axis("alignment", [](const arguments& a) noexcept { return a.alignment(); }),
      switchyard::size_axis<&arguments::batch>(), switchyard::size_axis<&arguments::heads>(),
      switchyard::size_axis<&arguments::heads_kv>(), switchyard::size_axis<&arguments::seqlen_q>(),
      switchyard::size_axis<&arguments::seqlen_k>());

  /// What is wrong with a call; empty when it is legal.
  [[nodiscard]] static std::string check(const arguments& a) {
    if (std::string wrong = check_attention_sizes(a); !wrong.empty()) return wrong;
    if (a.seqlen_q < 1 || a.seqlen_q > most_queries) {
      return "seqlen_q must be 1 to 16, not " + std::to_string(a.seqlen_q) + "; attention_forward takes more";
    }
    if (a.dtype != dtype::f16 && a.dtype != dtype::bf16) return "dtype must be f16 or bf16";
    if (a.kv_dtype != a.dtype && a.kv_dtype != dtype::f8_e4m3) {
      return "kv_dtype must be dtype or f8_e4m3";
    }
    if (a.k_scale_stride < 0 || a.k_scale_stride > 1 || a.v_scale_stride < 0 || a.v_scale_stride > 1) {
      return "k_scale_stride and v_scale_stride must be 0 or 1";
    }
    if (a.window_left < -1) return "window_left must be -1 or more";
    if (a.mask == attention_mask::causal_top_left) {
      return "mask must be none or causal_bottom_right: the queries are a sequence's last tokens";
    }
    if (std::string wrong = check_attention_pages(a); !wrong.empty()) return wrong;
    const std::int64_t aligned = a.alignment();
    if (aligned == 0) return "q, k, v and out must not be null";
    const std::int64_t strides = a.q_stride_batch | a.q_stride_head | a.q_stride_token | a.out_stride_batch |
                                 a.out_stride_head | a.out_stride_token;
    if (aligned < size_of(a.kv_dtype) ||
        attention_alignment(a.dtype, strides, a.q, a.out) < size_of(a.dtype)) {
      return "q, k, v and out must be aligned to their element size";
    }
    return {};
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
