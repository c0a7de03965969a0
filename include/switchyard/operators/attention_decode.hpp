// SPDX-License-Identifier: MIT
// Scaled dot-product attention of the last few tokens of sequences whose keys and values lie in a cache:
//
//   out = softmax(mask(cap(scale * q k^T) - alibi)) v,   cap(s) = soft_cap * tanh(s / soft_cap)
//
// with k = k_scale * the stored keys and v = v_scale * the stored values. Query i of n, of a sequence with m
// keys, is at position i + m - n: a causal mask shows it the keys up to there, a window is around it, and
// ALiBi counts from it. A query that sees no key gives zeros, and an LSE of -infinity or, where it has a
// sink, of the sink: the LSE is the logarithm of the softmax's whole sum.
//
// Keys and values in f8_e4m3 are the OCP format on every device (float8.hpp), not the FNUZ format of gfx942's
// own instructions. A NaN among the keys or values in use gives NaN in every row that sees it; keys and
// values beyond a sequence's length are not read.
//
// Multi-head latent attention (DeepSeek-AI, arXiv:2405.04434), with its projections absorbed by the queries
// and the output, is this operator with one KV head of 576 columns, whose first 512 are also the values: v is
// k with fewer columns. The axis `latent` says that the values are part of the keys, so that a kernel reads
// them once. A latent cache in f8_e4m3 may have its other columns, the rotary ones, apart and in the queries'
// type, and a scale for each 128 of a token's columns: attention_latent.hpp, the axis `rotary_apart`.
//
// Scales of keys and values in 16 bits are rare. The axis `scaled_16` tells such calls, so that a kernel may
// leave them to others.
//
// For more than 16 queries, packed tensors, bias, dropout or f32, use attention_forward, which takes the same
// caches.
//
// Sources: Dao et al., FlashAttention, arXiv:2205.14135; Dao et al., Flash-Decoding for long-context
// inference, 2023; Kwon et al., PagedAttention, arXiv:2309.06180; Press et al., ALiBi, arXiv:2108.12409.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <switchyard/base/dtype.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/attention.hpp>
#include <switchyard/operators/attention_latent.hpp>
#include <switchyard/operators/attention_memory.hpp>
#include <switchyard/operators/attention_views.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

struct attention_decode {
  static constexpr std::string_view name = "attention_decode";

  /// Most queries of a sequence.
  static constexpr std::int64_t max_queries = 16;

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
    const float* sinks = nullptr;  ///< [heads]: a logit in the softmax's sum without a value; null: none
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
    std::int64_t block_table_stride = unset;

    std::int64_t q_stride_batch = unset, q_stride_head = unset, q_stride_token = unset;
    std::int64_t k_stride_batch = unset, k_stride_head = unset,
                 k_stride_token = unset;  ///< batch: of pages, when paged
    std::int64_t v_stride_batch = unset, v_stride_head = unset, v_stride_token = unset;
    std::int64_t out_stride_batch = unset, out_stride_head = unset, out_stride_token = unset;
    std::int64_t lse_stride_batch = unset, lse_stride_head = unset;  ///< its inner stride is 1
    std::int64_t k_scale_stride = 0, v_scale_stride = 0;  ///< 0: one scale for all heads; 1: one a KV head

    float scale = unset_scale;      ///< usually 1 / sqrt(head_dim)
    float soft_cap = 0.0F;          ///< 0: none
    std::int32_t window_left = -1;  ///< keys before a query's position that it sees; -1: all
    switchyard::dtype dtype = switchyard::dtype::f32;           ///< of q and out: f16 or bf16
    switchyard::dtype kv_dtype = switchyard::dtype::f32;        ///< of k and v: that of q, or f8_e4m3
    attention_mask mask = attention_mask::causal_bottom_right;  ///< or none: every query sees the last key

    std::int64_t pages = unset;                ///< of k and v, with block_table; unset: not known
    std::int64_t block_table_entries = unset;  ///< of each row of block_table; unset: not known

    // A latent cache with rotary columns apart, see attention_latent.hpp: k and v have head_dim_v columns.
    // k_scale is then [batch or pages, seqlen_k or page_size, scale_groups].
    const void* k_rotary = nullptr;  ///< [the same, rotary_dim], of dtype; null: k has all columns
    std::int64_t rotary_dim = 0;     ///< head_dim - head_dim_v
    std::int64_t scale_groups = 0;   ///< of 128 columns: head_dim_v / 128, rounded up
    std::int64_t k_rotary_stride_batch = unset,
                 k_rotary_stride_token = unset;  ///< batch: of pages, when paged
    std::int64_t k_scale_stride_batch = unset, k_scale_stride_token = unset;

    /// Whether the values are the first columns of the keys.
    [[nodiscard, gnu::always_inline]] inline bool latent() const noexcept {
      return (address_bits(k) ^ address_bits(v)) == 0 &&
             ((k_stride_batch ^ v_stride_batch) | (k_stride_head ^ v_stride_head) |
              (k_stride_token ^ v_stride_token)) == 0 &&
             head_dim_v <= head_dim;
    }

    /// Bytes, 1 to 16, that divide q, k, v, out, k_rotary and every stride of theirs; 0 when one of the first
    /// four is null, a stride that matters or the scale is not set, or rotary columns apart are wrong.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t aligned = alignment_as_set();
      return aligned != 0 ? aligned : alignment_of_others();
    }

    /// The same where every stride counts; 0 with rotary columns apart.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment_as_set() const noexcept {
      const std::int64_t strides_kv =
          k_stride_batch | k_stride_head | k_stride_token | v_stride_batch | v_stride_head | v_stride_token;
      std::int64_t required = strides_kv | count_null(k, v) |
                              mark_misaligned<4>(lse, seqused_k, block_table) |
                              mark_misaligned_for(dtype, q, out);
      if (lse != nullptr) required |= lse_stride_batch | lse_stride_head;
      if (block_table != nullptr) required |= block_table_stride;
      if (attention_options<attention_decode>(*this, alibi_slopes, sinks, k_scale, v_scale, k_rotary) != 0)
          [[unlikely]]
        required |= mark_attention<attention_decode>(*this);
      const void* const cached = strides_as_address(strides_kv, kv_dtype);
      return attention_alignment(dtype,
                                 q_stride_batch | q_stride_head | q_stride_token | out_stride_batch |
                                     out_stride_head | out_stride_token,
                                 required, scale, q, out, optional_tensors(k, v, cached));
    }

   private:
    /// With rotary columns apart, or strides that do not matter. Out of line, as most calls have neither.
    [[nodiscard, gnu::noinline]] std::int64_t alignment_of_others() const noexcept {
      if (k_rotary == nullptr) return alignment_without_unused(*this);
      const std::int64_t aligned = alignment_with_rotary();
      return aligned != 0 ? aligned : without_unused_strides(*this).alignment_with_rotary();
    }
    [[nodiscard]] std::int64_t alignment_with_rotary() const noexcept {
      const std::int64_t strides_k = k_stride_batch | k_stride_head | k_stride_token;
      std::int64_t required = strides_k | count_null(k) | mark_misaligned<4>(lse, seqused_k, block_table) |
                              mark_misaligned_for(dtype, q, out) | mark_rotary_apart(*this) |
                              mark_attention_inline<attention_decode>(*this);
      if (lse != nullptr) required |= lse_stride_batch | lse_stride_head;
      if (block_table != nullptr) required |= block_table_stride;
      const void* const cached = strides_as_address(strides_k, kv_dtype);
      return attention_alignment(dtype,
                                 q_stride_batch | q_stride_head | q_stride_token | out_stride_batch |
                                     out_stride_head | out_stride_token | k_rotary_stride_batch |
                                     k_rotary_stride_token,
                                 required, scale, q, out, optional_tensors(k, cached, k_rotary));
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
      &arguments::mask, &arguments::pages, &arguments::block_table_entries, &arguments::k_rotary,
      &arguments::rotary_dim, &arguments::scale_groups, &arguments::k_rotary_stride_batch,
      &arguments::k_rotary_stride_token, &arguments::k_scale_stride_batch, &arguments::k_scale_stride_token>;

  static constexpr auto operands =
      switchyard::fields<&arguments::q, &arguments::k, &arguments::v, &arguments::out>;

  static constexpr auto axes = switchyard::axes(
      type_axis<&arguments::dtype>(), type_axis<&arguments::kv_dtype>(), type_axis<&arguments::head_dim>(),
      type_axis<&arguments::head_dim_v>(), type_axis<&arguments::mask>(),
      type_axis("window", [](const arguments& a) noexcept { return windowed(a); }),
      flag_axis<&arguments::soft_cap>("soft_capped"), flag_axis<&arguments::alibi_slopes>("alibi"),
      flag_axis<&arguments::sinks>("sink"), flag_axis<&arguments::lse>("with_lse"),
      type_axis("kv",
                [](const arguments& a) noexcept {
                  return a.block_table != nullptr ? attention_kv::paged : attention_kv::dense;
                }),
      type_axis("latent", [](const arguments& a) noexcept { return a.latent(); }),
      flag_axis<&arguments::k_rotary>("rotary_apart"),
      type_axis("scaled_16",
                [](const arguments& a) noexcept {
                  return truth{a.kv_dtype == a.dtype ? given(a.k_scale, a.v_scale).bits : 0};
                }),
      flag_axis<&arguments::seqused_k>("seqused"), type_axis<&arguments::page_size>(),
      type_axis<&arguments::alignment>(), size_axis<&arguments::batch>(), size_axis<&arguments::heads>(),
      size_axis<&arguments::heads_kv>(), size_axis<&arguments::seqlen_q>(),
      size_axis<&arguments::seqlen_k>());

  /// Kernels that do not know of rotary columns apart are not to read k beyond its columns.
  static constexpr std::array implied{implied_axis{"rotary_apart", implied_axis::no}};

  static constexpr std::array axis_defaults{
      axis_default{"kv_dtype", "=dtype"},          axis_default{"head_dim_v", "=head_dim"},
      axis_default{"heads_kv", "=heads"},          axis_default{"page_size", "0"},
      axis_default{"mask", "causal_bottom_right"}, axis_default{"seqlen_q", "1"}};

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    if (std::string wrong = check_attention_sizes<attention_decode>(a); !wrong.empty()) return wrong;
    if (a.seqlen_q < 1 || a.seqlen_q > max_queries) {
      return "seqlen_q must be 1 to 16, not " + std::to_string(a.seqlen_q) + "; attention_forward takes more";
    }
    if (a.dtype != dtype::f16 && a.dtype != dtype::bf16) return "dtype must be f16 or bf16";
    if (a.kv_dtype != a.dtype && a.kv_dtype != dtype::f8_e4m3) {
      return "kv_dtype must be dtype or f8_e4m3";
    }
    if (std::string wrong = check_scale_strides(a); !wrong.empty()) return wrong;
    if (std::string wrong = wrong_rotary_apart(a); !wrong.empty()) return wrong;
    if (a.mask == attention_mask::causal_top_left) {
      return "mask must be none or causal_bottom_right: the queries are a sequence's last tokens";
    }
    if (std::string wrong = check_attention_pages(a); !wrong.empty()) return wrong;
    if (std::string wrong = check_attention_strides(a); !wrong.empty()) return wrong;
    return check_attention_alignment(a, a.dtype, a.kv_dtype, nullptr);
  }

  /// What is wrong with how far a call reaches, and with the numbers in seqused_k and block_table;
  /// empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    return check_attention_memory(a, fields);
  }
  static constexpr auto index_tensors = used_index_tensors<arguments> + paged_index_tensors<arguments>;

  /// What a call may have besides q, k, v and out.
  struct options {
    attention_mask mask = attention_mask::causal_bottom_right;
    float scale = unset_scale;
    float soft_cap = 0.0F;
    std::int32_t window_left = -1;
    tensor lse{};
    const_tensor k_scale{};
    const_tensor v_scale{};
    const_tensor alibi_slopes{};
    const_tensor sinks{};
    const_tensor seqused_k{};
    const_tensor k_rotary{};
  };
  static constexpr auto described =
      attention::scales_options<options, arguments> + attention::alibi_option<options, arguments> +
      attention::sinks_option<options, arguments> + attention::seqused_k_option<options, arguments, false> +
      attention::mask_options<options, arguments> + attention::scale_options<options, arguments> +
      attention::lse_option<options, arguments> + attention::rotary_option<options, arguments>;

  /// Of a call, besides those of keys and values.
  using call_views = views<attention::q_view<arguments, false>, attention::out_view<arguments, false>,
                           attention::lse_views<arguments, false>::optional>;

  /// The arguments of a call. Tensors are [batch, seqlen, heads, dim], with any strides but the innermost.
  /// Throws call_error where they disagree.
  template <class Options = options>
  [[nodiscard, gnu::always_inline]] inline static arguments call(
      const const_tensor& q, const const_tensor& k, const const_tensor& v, const tensor& out,
      const std::type_identity_t<Options>& with = Options{}) {
    using used = attention::vector_view<&arguments::seqused_k, &arguments::batch, dtype::i32>;
    using keys = views<attention::k_view<arguments, &arguments::kv_dtype, false>,
                       attention::v_view<arguments, &arguments::kv_dtype, false>, used>;
    arguments a = attention::begin<attention_decode>(with);
    if (with.k_rotary.rank() == 0) [[likely]] {
      described.bind(call_views{} + keys{}, name, a, true, with, q, out, with.lse, k, v, with.seqused_k);
    } else {
      using latent = attention::latent_views<arguments, &arguments::batch, &arguments::seqlen_k>;
      bind_latent(typename latent::all{} + views<used>{}, a, with, q, out, k, v, with.seqused_k);
    }
    a.scale = attention::scale_or_default(with.scale, a.head_dim);
    return a;
  }

  /// The same with keys and values in pages.
  template <class Options = options>
  [[nodiscard, gnu::always_inline]] inline static arguments call(
      const const_tensor& q, const paged& cache, const tensor& out,
      const std::type_identity_t<Options>& with = Options{}) {
    attention::require_no_seqused(name, with);
    arguments a = attention::begin<attention_decode>(with);
    attention::require_pages(name, cache);
    a.seqlen_k = attention::longest_of(cache);
    a.block_table_entries = cache.block_table.extent(1);
    if (with.k_rotary.rank() == 0) [[likely]] {
      described.bind(call_views{} + attention::paged_views<arguments, &arguments::kv_dtype>{}, name, a, true,
                     with, q, out, with.lse, cache.k, cache.v, cache.block_table, cache.used);
    } else {
      using latent = attention::latent_views<arguments, &arguments::pages, &arguments::page_size>;
      bind_latent(typename latent::all{} + attention::table_views<arguments>{}, a, with, q, out, cache.k,
                  cache.v, cache.block_table, cache.used);
    }
    a.scale = attention::scale_or_default(with.scale, a.head_dim);
    return a;
  }

  /// A binding's call.
  template <class Reader>
  [[nodiscard]] static arguments call_named(Reader& in) {
    return attention::call_named<attention_decode>(in);
  }

 private:
  /// With rotary columns apart, whose k_scale has three dimensions. `others` follow the latent tensors.
  template <class Latent, class... Tensors>
  [[gnu::cold, gnu::noinline]] static void bind_latent(Latent latent, arguments& a, options with,
                                                       const const_tensor& q, const tensor& out,
                                                       const const_tensor& k, const const_tensor& v,
                                                       const Tensors&... others) {
    if (!with.k_rotary) attention::fail_rotary(name);
    const const_tensor scales = std::exchange(with.k_scale, {});
    described.bind(call_views{} + latent, name, a, true, with, q, out, with.lse, k, v, with.k_rotary, scales,
                   others...);
    a.k_scale = static_cast<const float*>(scales.data());  // which the absent option has made null
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
