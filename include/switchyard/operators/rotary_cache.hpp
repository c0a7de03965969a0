// SPDX-License-Identifier: MIT
// What lies between the projections of attention and attention itself, in one launch: optional RMS
// normalisation of each head's queries and keys, their rotary position embedding, and the keys and values
// written to a paged cache. For a token at position p:
//
//   n(x)    = x / sqrt(mean(x^2) + epsilon) * gamma      over the head's elements, where a gamma is given
//   q       = turn(n(q), p)                              in place
//   k_cache = turn(n(k), p) / k_scale                    in the token's slot
//   v_cache = v / v_scale                                in the token's slot
//
// turn() is that of the operator rotary: pairs of the first rotary_dim elements by the angles whose cosines
// and sines the table has. Slot s is element s % page_size of page s / page_size. A token with a negative
// slot is padding: it is not cached, but its queries are turned. Evaluated in f32 and rounded once; what
// f8_e4m3 cannot hold becomes its largest value.
//
// Sources: Su et al., RoFormer, arXiv:2104.09864; Henry et al., Query-Key Normalization, arXiv:2010.04245;
// Kwon et al., PagedAttention, arXiv:2309.06180.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/call_options.hpp>
#include <switchyard/error.hpp>
#include <switchyard/index_tensors.hpp>
#include <switchyard/named_call.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/index_data.hpp>
#include <switchyard/operators/reach.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

struct rotary_cache {
  static constexpr std::string_view name = "rotary_cache";

  /// Strides are in elements of their tensor; the innermost dimension is contiguous.
  struct arguments {
    void* q = nullptr;                        ///< [tokens, heads, head_dim]: turned in place
    const void* k = nullptr;                  ///< [tokens, heads_kv, head_dim]
    const void* v = nullptr;                  ///< [tokens, heads_kv, head_dim]
    void* k_cache = nullptr;                  ///< [pages, page_size, heads_kv, head_dim] of kv_dtype
    void* v_cache = nullptr;                  ///< the same
    const float* cos = nullptr;               ///< [positions, rotary_dim / 2], row stride table_stride
    const float* sin = nullptr;               ///< as cos
    const std::int64_t* positions = nullptr;  ///< [tokens]
    const std::int64_t* slots = nullptr;      ///< [tokens]; negative: not cached
    const float* q_gamma = nullptr;           ///< [head_dim]; null: queries are not normalised
    const float* k_gamma = nullptr;           ///< [head_dim]; null: keys are not normalised
    const float* k_scale = nullptr;           ///< of KV head h at k_scale[h * k_scale_stride]; null: 1
    const float* v_scale = nullptr;

    std::int64_t tokens = 0;
    std::int64_t heads = 0;
    std::int64_t heads_kv = 0;
    std::int64_t head_dim = 0;
    std::int64_t rotary_dim = 0;  ///< even, at most head_dim
    std::int64_t page_size = 0;

    std::int64_t q_stride_token = unset, q_stride_head = unset;
    std::int64_t k_stride_token = unset, k_stride_head = unset;
    std::int64_t v_stride_token = unset, v_stride_head = unset;
    std::int64_t k_cache_stride_page = unset, k_cache_stride_token = unset, k_cache_stride_head = unset;
    std::int64_t v_cache_stride_page = unset, v_cache_stride_token = unset, v_cache_stride_head = unset;
    std::int64_t table_stride = unset;
    std::int64_t k_scale_stride = 0, v_scale_stride = 0;  ///< 0: one scale for all heads; 1: one a KV head

    float epsilon = 1e-6F;
    switchyard::dtype dtype = switchyard::dtype::f32;     ///< of q, k and v: f32, f16 or bf16
    switchyard::dtype kv_dtype = switchyard::dtype::f32;  ///< of the cache: f16, bf16 or f8_e4m3
    rotary_style style = rotary_style::half;

    std::int64_t pages = unset;       ///< of the caches; unset: not known
    std::int64_t table_rows = unset;  ///< positions that cos and sin have; unset: not known

    /// Bytes, 1 to 16, that divide q, k, v, both caches and every stride of theirs; 0 when a required pointer
    /// is null, or a stride that matters is not set.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t aligned = alignment_as_set();
      return aligned != 0 ? aligned : alignment_without_unused(*this);
    }

    /// The same where every stride counts.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment_as_set() const noexcept {
      const std::int64_t strides =
          q_stride_token | q_stride_head | k_stride_token | k_stride_head | v_stride_token | v_stride_head;
      const std::int64_t cached = k_cache_stride_page | k_cache_stride_token | k_cache_stride_head |
                                  v_cache_stride_page | v_cache_stride_token | v_cache_stride_head;
      const std::int64_t illegal =
          mark_misaligned<alignof(std::int64_t)>(positions, slots) | mark_misaligned_for(dtype, q, k, v) |
          mark_misaligned<alignof(float)>(cos, sin, q_gamma, k_gamma, k_scale, v_scale) |
          mark_scale_strides(k_scale_stride | v_scale_stride) | described.mark(*this);
      // The cache may have another dtype: the bytes of its strides join as an address does.
      const void* const cache_bytes = reinterpret_cast<const void*>(
          static_cast<std::uintptr_t>(cached) * static_cast<std::uintptr_t>(detail::size_of_legal(kv_dtype)));
      return alignment_of_strided(dtype, strides,
                                  cached | table_stride | illegal | count_null(cos, sin, positions, slots), q,
                                  k, v, k_cache, v_cache, optional_tensors(cache_bytes));
    }

    /// A call with 0 for strides that are not set and do not matter, because no two elements lie that far
    /// apart.
    [[nodiscard, gnu::cold, gnu::noinline]] friend arguments without_unused_strides(arguments a) noexcept {
      ignore_unless(a.tokens > 1, a.q_stride_token, a.k_stride_token, a.v_stride_token);
      ignore_unless(a.heads > 1, a.q_stride_head);
      ignore_unless(a.heads_kv > 1, a.k_stride_head, a.v_stride_head, a.k_cache_stride_head,
                    a.v_cache_stride_head);
      ignore_unless(a.page_size > 1, a.k_cache_stride_token, a.v_cache_stride_token);
      return a;
    }
  };

  static constexpr auto fields = switchyard::fields<
      &arguments::q, &arguments::k, &arguments::v, &arguments::k_cache, &arguments::v_cache, &arguments::cos,
      &arguments::sin, &arguments::positions, &arguments::slots, &arguments::q_gamma, &arguments::k_gamma,
      &arguments::k_scale, &arguments::v_scale, &arguments::tokens, &arguments::heads, &arguments::heads_kv,
      &arguments::head_dim, &arguments::rotary_dim, &arguments::page_size, &arguments::q_stride_token,
      &arguments::q_stride_head, &arguments::k_stride_token, &arguments::k_stride_head,
      &arguments::v_stride_token, &arguments::v_stride_head, &arguments::k_cache_stride_page,
      &arguments::k_cache_stride_token, &arguments::k_cache_stride_head, &arguments::v_cache_stride_page,
      &arguments::v_cache_stride_token, &arguments::v_cache_stride_head, &arguments::table_stride,
      &arguments::k_scale_stride, &arguments::v_scale_stride, &arguments::epsilon, &arguments::dtype,
      &arguments::kv_dtype, &arguments::style, &arguments::pages, &arguments::table_rows>;

  static constexpr auto operands =
      switchyard::fields<&arguments::q, &arguments::k, &arguments::v, &arguments::k_cache,
                         &arguments::v_cache, &arguments::cos, &arguments::sin, &arguments::positions,
                         &arguments::slots>;

  static constexpr auto axes = switchyard::axes(
      type_axis<&arguments::dtype>(), type_axis<&arguments::kv_dtype>(), type_axis<&arguments::style>(),
      type_axis<&arguments::head_dim>(), type_axis<&arguments::rotary_dim>(),
      flag_axis<&arguments::q_gamma>("q_norm"), flag_axis<&arguments::k_gamma>("k_norm"),
      flag_axis<&arguments::k_scale, &arguments::v_scale>("scaled"), type_axis<&arguments::page_size>(),
      type_axis<&arguments::alignment>(), size_axis<&arguments::tokens>(), size_axis<&arguments::heads>(),
      size_axis<&arguments::heads_kv>());

  static constexpr std::array axis_defaults{axis_default{"rotary_dim", "=head_dim"},
                                            axis_default{"kv_dtype", "=dtype"},
                                            axis_default{"heads_kv", "=heads"}};

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    if (a.tokens < 0 || a.heads < 0 || a.heads_kv < 0)
      return "tokens, heads and heads_kv must not be negative";
    if (a.head_dim < 1) return "head_dim must be positive";
    if (a.page_size < 1) return "page_size must be positive";
    if (a.rotary_dim < 2 || a.rotary_dim > a.head_dim || a.rotary_dim % 2 != 0)
      return "rotary_dim must be even, at least 2 and at most head_dim";
    if (a.dtype != dtype::f32 && a.dtype != dtype::f16 && a.dtype != dtype::bf16)
      return "dtype must be f32, f16 or bf16";
    if (a.kv_dtype != dtype::f16 && a.kv_dtype != dtype::bf16 && a.kv_dtype != dtype::f8_e4m3)
      return "kv_dtype must be f16, bf16 or f8_e4m3";
    if (a.k_scale_stride < 0 || a.k_scale_stride > 1 || a.v_scale_stride < 0 || a.v_scale_stride > 1)
      return "k_scale_stride and v_scale_stride must be 0 or 1";
    if (std::string wrong = described.wrong(a); !wrong.empty()) return wrong;
    if (std::string wrong = wrong_addresses<&arguments::positions, &arguments::slots, &arguments::cos,
                                            &arguments::sin, &arguments::q_gamma, &arguments::k_gamma,
                                            &arguments::k_scale, &arguments::v_scale>(a);
        !wrong.empty())
      return wrong;
    if (std::string wrong = check_strides(without_unused_strides(a)); !wrong.empty()) return wrong;
    const std::int64_t aligned = a.alignment();
    if (mark_misaligned_for(a.dtype, a.q, a.k, a.v) < 0)
      return "q, k, v, k_cache and v_cache must be aligned to their element size";
    if (aligned == 0) return "q, k, v, k_cache, v_cache, cos, sin, positions and slots must not be null";
    if (alignment_of_strided(a.dtype, 0, 0, a.q, a.k, a.v) < size_of(a.dtype) ||
        aligned < size_of(a.kv_dtype))
      return "q, k, v, k_cache and v_cache must be aligned to their element size";
    return {};
  }

  /// What is wrong with how far a call reaches, and with the numbers in positions and slots; empty when
  /// nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    if (!reach::is_near(a, fields)) {
      if (std::string wrong = wrong_reach(a); !wrong.empty()) return wrong;
    }
    if (a.alignment() == 0 || a.page_size < 1) return {};  // check() says why
    std::string wrong = indices::wrong_count("pages", a.pages);
    if (wrong.empty()) wrong = indices::wrong_count("table_rows", a.table_rows);
    const indices::bound rows = indices::known_or_far({"positions in cos and sin", a.table_rows},
                                                      "positions that any memory holds", a.table_stride);
    if (wrong.empty()) wrong = indices::wrong_numbers("positions", a.positions, a.tokens, rows);
    if (!wrong.empty()) return wrong;
    const std::int64_t page = std::max(a.k_cache_stride_page, a.v_cache_stride_page);
    const indices::bound pages =
        indices::known_or_far({"pages", a.pages}, "pages that any memory holds", page);
    return indices::wrong_slots("slots", a.slots, a.tokens, pages, a.page_size);
  }

  static constexpr auto index_tensors = switchyard::index_tensors(
      switchyard::index_tensor<&arguments::positions>([](const arguments& a) { return a.tokens; }),
      switchyard::index_tensor<&arguments::slots>([](const arguments& a) { return a.tokens; }));

  /// What a call may have besides.
  struct options {
    const_tensor q_gamma{};
    const_tensor k_gamma{};
    const_tensor k_scale{};
    const_tensor v_scale{};
    float epsilon = 1e-6F;
    rotary_style style = rotary_style::half;
  };

 private:
  template <auto Tensor>
  using gamma_view = optional_view<Tensor, dtype::f32, dim<&arguments::head_dim>>;
  static constexpr dim_form one_for_all{.factor = 1, .more = 0, .may_be_one = true};
  template <auto Tensor, auto Stride>
  using scale_view = optional_view<Tensor, dtype::f32, dim<&arguments::heads_kv, Stride, one_for_all>>;

 public:
  static constexpr auto described = describe_options(
      tensor_option<&options::q_gamma, gamma_view<&arguments::q_gamma>>{
          "factors of normalised queries; without them, queries are not normalised"},
      tensor_option<&options::k_gamma, gamma_view<&arguments::k_gamma>>{
          "factors of normalised keys; without them, keys are not normalised"},
      tensor_option<&options::k_scale, scale_view<&arguments::k_scale, &arguments::k_scale_stride>>{
          "what keys are divided by; 1 without it"},
      tensor_option<&options::v_scale, scale_view<&arguments::v_scale, &arguments::v_scale_stride>>{
          "what values are divided by; 1 without it"},
      option<&options::epsilon, &arguments::epsilon, legal_values::magnitude>{"added to the mean of squares"},
      option<&options::style, &arguments::style>{"which elements are a pair"});

  /// The angles and places of the tokens.
  struct places {
    const_tensor cos;        ///< f32 [positions, rotary_dim / 2]
    const_tensor sin;        ///< as cos
    const_tensor positions;  ///< i64 [tokens]
    const_tensor slots;      ///< i64 [tokens]
  };

  /// The arguments of a call: q is [tokens, heads, head_dim], k and v are [tokens, heads_kv, head_dim] with
  /// any strides but the innermost, the caches are [pages, page_size, heads_kv, head_dim]. Throws call_error
  /// where they disagree.
  template <class = void>
  [[nodiscard, gnu::always_inline]] inline static arguments call(const tensor& q, const const_tensor& k,
                                                                 const const_tensor& v, const tensor& k_cache,
                                                                 const tensor& v_cache, const places& at,
                                                                 const options& with) {
    arguments a = default_arguments<arguments>(fields);
    described.bind(call_views{}, name, a, false, with, q, k, v, k_cache, v_cache, at.cos, at.sin,
                   at.positions, at.slots);
    described.set(a, with);
    a.rotary_dim = detail::checked_product(2, at.cos.extent(1));
    a.table_rows = at.cos.extent(0);
    return a;
  }

  /// The same for queries, keys and values side by side, as one projection leaves them: qkv is
  /// [tokens, heads + 2 * heads_kv, head_dim], and heads_kv is the cache's.
  template <class = void>
  [[nodiscard]] static arguments call_packed(const tensor& qkv, const tensor& k_cache, const tensor& v_cache,
                                             const places& at, const options& with) {
    const std::int64_t heads_kv = k_cache.rank() == 4 ? k_cache.extent(2) : 0;
    const bool is_possible = qkv.rank() == 3 && heads_kv >= 0 && heads_kv <= qkv.extent(1) / 2;
    if (!is_possible) fail_packed(heads_kv);
    const std::int64_t heads = qkv.extent(1) - 2 * heads_kv;
    const auto part = [&](std::int64_t first, std::int64_t count) {
      const std::uintptr_t offset = static_cast<std::uintptr_t>(first) *
                                    static_cast<std::uintptr_t>(qkv.stride(1)) *
                                    static_cast<std::uintptr_t>(size_of(qkv.dtype()));
      auto* const from = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(qkv.data()) + offset);
      return tensor{from,
                    qkv.dtype(),
                    {qkv.extent(0), count, qkv.extent(2)},
                    {qkv.stride(0), qkv.stride(1), qkv.stride(2)}};
    };
    return call(part(0, heads), part(heads, heads_kv), part(heads + heads_kv, heads_kv), k_cache, v_cache, at,
                with);
  }

  /// A binding's call: packed with qkv.
  template <class Reader>
  [[nodiscard]] static arguments call_named(Reader& in) {
    const places at{in.tensor("cos"), in.tensor("sin"), in.tensor("positions"), in.tensor("slots")};
    const options with = read_options(described, in);
    const tensor k_cache = in.tensor("k_cache");
    const tensor v_cache = in.tensor("v_cache");
    if (in.has("qkv")) return call_packed(in.tensor("qkv"), k_cache, v_cache, at, with);
    return call(in.tensor("q"), in.tensor("k"), in.tensor("v"), k_cache, v_cache, at, with);
  }

  /// The tensors that a call writes: see tensors/result_tensor.hpp.
  template <class Visitor>
  static void visit_results(const arguments& a, Visitor& visit) {
    visit.template operator()<token_view<&arguments::q, &arguments::heads, &arguments::q_stride_token,
                                         &arguments::q_stride_head>>();
    if (a.pages <= 0) return;  // what the caches hold is not known
    visit
        .template operator()<cache_view<&arguments::k_cache, &arguments::k_cache_stride_page,
                                        &arguments::k_cache_stride_token, &arguments::k_cache_stride_head>>();
    visit
        .template operator()<cache_view<&arguments::v_cache, &arguments::v_cache_stride_page,
                                        &arguments::v_cache_stride_token, &arguments::v_cache_stride_head>>();
  }

 private:
  template <auto Tensor, auto Heads, auto StrideToken, auto StrideHead>
  using token_view = view<Tensor, &arguments::dtype, dim<&arguments::tokens, StrideToken>,
                          dim<Heads, StrideHead>, dim<&arguments::head_dim>>;
  template <auto Tensor, auto StridePage, auto StrideToken, auto StrideHead>
  using cache_view = view<Tensor, &arguments::kv_dtype, dim<&arguments::pages, StridePage>,
                          dim<&arguments::page_size, StrideToken>, dim<&arguments::heads_kv, StrideHead>,
                          dim<&arguments::head_dim>>;
  template <auto Tensor>
  using table_view =
      view<Tensor, dtype::f32, dim<named("table_positions"), &arguments::table_stride>, dim<named("pairs")>>;
  using call_views = views<
      token_view<&arguments::q, &arguments::heads, &arguments::q_stride_token, &arguments::q_stride_head>,
      token_view<&arguments::k, &arguments::heads_kv, &arguments::k_stride_token, &arguments::k_stride_head>,
      token_view<&arguments::v, &arguments::heads_kv, &arguments::v_stride_token, &arguments::v_stride_head>,
      cache_view<&arguments::k_cache, &arguments::k_cache_stride_page, &arguments::k_cache_stride_token,
                 &arguments::k_cache_stride_head>,
      cache_view<&arguments::v_cache, &arguments::v_cache_stride_page, &arguments::v_cache_stride_token,
                 &arguments::v_cache_stride_head>,
      table_view<&arguments::cos>, table_view<&arguments::sin>,
      view<&arguments::positions, dtype::i64, dim<&arguments::tokens>>,
      view<&arguments::slots, dtype::i64, dim<&arguments::tokens>>>;

  [[nodiscard, gnu::cold]] static std::string wrong_reach(const arguments& call) {
    const arguments a = without_unused_strides(call);
    return reach::wrong_dimension(
        {{"tokens", a.tokens},
         {"heads", a.heads},
         {"head_dim", a.head_dim},
         {"tokens", a.tokens, "q_stride_token", a.q_stride_token},
         {"tokens", a.tokens, "k_stride_token", a.k_stride_token},
         {"tokens", a.tokens, "v_stride_token", a.v_stride_token},
         {"heads", a.heads, "q_stride_head", a.q_stride_head},
         {"heads_kv", a.heads_kv, "k_stride_head", a.k_stride_head},
         {"heads_kv", a.heads_kv, "v_stride_head", a.v_stride_head},
         {"pages", a.pages, "k_cache_stride_page", a.k_cache_stride_page},
         {"pages", a.pages, "v_cache_stride_page", a.v_cache_stride_page},
         {"page_size", a.page_size, "k_cache_stride_token", a.k_cache_stride_token},
         {"page_size", a.page_size, "v_cache_stride_token", a.v_cache_stride_token},
         {"heads_kv", a.heads_kv, "k_cache_stride_head", a.k_cache_stride_head},
         {"heads_kv", a.heads_kv, "v_cache_stride_head", a.v_cache_stride_head},
         {"the number of positions", a.table_rows, "table_stride", a.table_stride}});
  }

  template <class = void>
  [[nodiscard]] static std::string check_strides(const arguments& a) {
    return wrong_strides<&arguments::q_stride_token, &arguments::q_stride_head, &arguments::k_stride_token,
                         &arguments::k_stride_head, &arguments::v_stride_token, &arguments::v_stride_head,
                         &arguments::k_cache_stride_page, &arguments::k_cache_stride_token,
                         &arguments::k_cache_stride_head, &arguments::v_cache_stride_page,
                         &arguments::v_cache_stride_token, &arguments::v_cache_stride_head,
                         &arguments::table_stride>(a);
  }

  [[noreturn, gnu::cold, gnu::noinline]] static void fail_packed(std::int64_t heads_kv) {
    throw call_error{error_code::invalid_argument,
                     "rotary_cache: qkv must be [tokens, heads + 2 * heads_kv, head_dim] and the caches "
                     "[pages, page_size, heads_kv, head_dim], with heads_kv = " +
                         std::to_string(heads_kv)};
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
