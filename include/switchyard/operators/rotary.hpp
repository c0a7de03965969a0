// Rotary position embedding of queries and keys.
//
// For a token at position p, pair i of a head's first rotary_dim elements is turned by the angle
// p * scaling * base^(-2i / rotary_dim):
//   (x0, x1) -> (x0 cos - x1 sin, x0 sin + x1 cos)
// Pairs are (2i, 2i + 1) in the interleaved style and (i, i + rotary_dim / 2) in the half style (GPT-NeoX).
// Elements from rotary_dim on are copied. The backward of the operator is itself with `inverse` set, which
// negates sin. Source: Su et al., RoFormer, arXiv:2104.09864.
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

enum class rotary_style : std::int32_t { half = 0, interleaved = 1 };

/// Where a token's position comes from.
enum class rotary_positions : std::int32_t { offset = 0, sequence_offsets = 1, explicit_ids = 2 };

struct rotary {
  static constexpr std::string_view name = "rotary";

  /// Strides are in elements; the innermost dimension is contiguous. Dense tensors are
  /// [batch, seqlen, heads, head_dim]; with cu_seqlens they are [tokens, heads, head_dim] and stride_batch is
  /// not used.
  struct arguments {
    const void* q = nullptr;
    const void* k = nullptr;  ///< null: queries only, heads_kv is 0
    void* q_out = nullptr;    ///< may be q: in place
    void* k_out = nullptr;    ///< may be k: in place
    const void* cos =
        nullptr;  ///< [positions, rotary_dim / 2], row stride table_stride; null: computed from base
    const void* sin = nullptr;                 ///< as cos
    const std::int64_t* positions = nullptr;   ///< [batch, seqlen] or [tokens]; null: counted from the offset
    const std::int32_t* cu_seqlens = nullptr;  ///< [batch + 1], rising: variable length; null: dense
    const std::int32_t* sequence_offsets =
        nullptr;  ///< [batch] first position of each sequence; null: `offset`

    std::int64_t batch = 0;
    std::int64_t seqlen = 0;  ///< the longest, with cu_seqlens
    std::int64_t heads = 0;
    std::int64_t heads_kv = 0;
    std::int64_t head_dim = 0;
    std::int64_t rotary_dim = 0;  ///< even, at most head_dim
    std::int64_t offset = 0;      ///< first position of every sequence

    std::int64_t q_stride_batch = 0, q_stride_head = 0, q_stride_token = 0;
    std::int64_t k_stride_batch = 0, k_stride_head = 0, k_stride_token = 0;
    std::int64_t q_out_stride_batch = 0, q_out_stride_head = 0, q_out_stride_token = 0;
    std::int64_t k_out_stride_batch = 0, k_out_stride_head = 0, k_out_stride_token = 0;
    std::int64_t table_stride = 0;

    float base = 10000.0F;
    float scaling = 1.0F;  ///< multiplies positions; used with computed angles only
    switchyard::dtype dtype = switchyard::dtype::f32;
    switchyard::dtype table_dtype = switchyard::dtype::f32;  ///< of cos and sin
    rotary_style style = rotary_style::half;
    bool inverse = false;

    /// Bytes, 1 to 16, that divide q, k, their outputs and every stride of theirs; 0 when a required
    /// pointer is null.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const bool with_k = heads_kv > 0;
      if (with_k && (k == nullptr || k_out == nullptr)) return 0;
      const std::int64_t strides = q_stride_batch | q_stride_head | q_stride_token | q_out_stride_batch |
                                   q_out_stride_head | q_out_stride_token |
                                   (with_k ? k_stride_batch | k_stride_head | k_stride_token |
                                                 k_out_stride_batch | k_out_stride_head | k_out_stride_token
                                           : 0);
      const auto* stride_bytes = reinterpret_cast<const void*>((strides * detail::size_of_legal(dtype)) | 16);
      return with_k ? alignment_of(q, q_out, k, k_out, stride_bytes) : alignment_of(q, q_out, stride_bytes);
    }
  };

  static constexpr auto fields = switchyard::fields<
      &arguments::q, &arguments::k, &arguments::q_out, &arguments::k_out, &arguments::cos, &arguments::sin,
      &arguments::positions, &arguments::cu_seqlens, &arguments::sequence_offsets, &arguments::batch,
      &arguments::seqlen, &arguments::heads, &arguments::heads_kv, &arguments::head_dim,
      &arguments::rotary_dim, &arguments::offset, &arguments::q_stride_batch, &arguments::q_stride_head,
      &arguments::q_stride_token, &arguments::k_stride_batch, &arguments::k_stride_head,
      &arguments::k_stride_token, &arguments::q_out_stride_batch, &arguments::q_out_stride_head,
      &arguments::q_out_stride_token, &arguments::k_out_stride_batch, &arguments::k_out_stride_head,
      &arguments::k_out_stride_token, &arguments::table_stride, &arguments::base, &arguments::scaling,
      &arguments::dtype, &arguments::table_dtype, &arguments::style, &arguments::inverse>;

  static constexpr std::array formerly{switchyard::former_name{"heads_q", "heads"},
                                       switchyard::former_name{"heads_k", "heads_kv"}};

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(), switchyard::type_axis<&arguments::style>(),
      switchyard::type_axis<&arguments::head_dim>(), switchyard::type_axis<&arguments::rotary_dim>(),
      switchyard::type_axis<&arguments::inverse>(),
      switchyard::type_axis("table",
                            [](const arguments& a) noexcept { return a.cos != nullptr && a.sin != nullptr; }),
      switchyard::type_axis<&arguments::table_dtype>(),
      switchyard::type_axis("positions_from",
                            [](const arguments& a) noexcept {
                              if (a.positions != nullptr) return rotary_positions::explicit_ids;
                              return a.sequence_offsets != nullptr ? rotary_positions::sequence_offsets
                                                                   : rotary_positions::offset;
                            }),
      switchyard::type_axis("variable_length",
                            [](const arguments& a) noexcept { return a.cu_seqlens != nullptr; }),
      switchyard::type_axis("in_place",
                            [](const arguments& a) noexcept { return a.q == a.q_out && a.k == a.k_out; }),
      switchyard::type_axis("alignment", [](const arguments& a) noexcept { return a.alignment(); }),
      switchyard::size_axis<&arguments::batch>(), switchyard::size_axis<&arguments::seqlen>(),
      switchyard::size_axis<&arguments::heads>(), switchyard::size_axis<&arguments::heads_kv>());

  /// What is wrong with a call; empty when it is legal.
  [[nodiscard]] static std::string check(const arguments& a) {
    if (a.batch < 0 || a.seqlen < 0 || a.heads < 0 || a.heads_kv < 0) {
      return "batch, seqlen, heads and heads_kv must not be negative";
    }
    if (a.head_dim < 1) return "head_dim must be positive";
    if (a.rotary_dim < 2 || a.rotary_dim > a.head_dim || a.rotary_dim % 2 != 0) {
      return "rotary_dim must be even, at least 2 and at most head_dim";
    }
    if (a.dtype != dtype::f32 && a.dtype != dtype::f16 && a.dtype != dtype::bf16) {
      return "dtype must be f32, f16 or bf16";
    }
    if ((a.cos == nullptr) != (a.sin == nullptr))
      return "cos and sin must be given together, or both be null";
    const std::int64_t aligned = a.alignment();
    if (aligned == 0) return "q and q_out, and k and k_out where heads_kv > 0, must not be null";
    if (aligned < size_of(a.dtype)) return "q, k, q_out and k_out must be aligned to their element size";
    return {};
  }
};

}  // namespace operators

template <>
inline constexpr std::array<std::string_view, 2> enumerator_names<operators::rotary_style>{"half",
                                                                                           "interleaved"};
template <>
inline constexpr std::array<std::string_view, 3> enumerator_names<operators::rotary_positions>{
    "offset", "sequence_offsets", "explicit_ids"};

}  // namespace v0
}  // namespace switchyard
