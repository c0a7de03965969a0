// SPDX-License-Identifier: MIT
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
#include <type_traits>

#include <switchyard/base/dtype.hpp>
#include <switchyard/call_options.hpp>
#include <switchyard/error.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/rotary_errors.hpp>
#include <switchyard/operators/rotary_memory.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>

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
    const void* q = nullptr;  ///< null: keys only, heads is 0
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

    std::int64_t q_stride_batch = unset, q_stride_head = unset, q_stride_token = unset;
    std::int64_t k_stride_batch = unset, k_stride_head = unset, k_stride_token = unset;
    std::int64_t q_out_stride_batch = unset, q_out_stride_head = unset, q_out_stride_token = unset;
    std::int64_t k_out_stride_batch = unset, k_out_stride_head = unset, k_out_stride_token = unset;
    std::int64_t table_stride = unset;

    float base = 10000.0F;
    float scaling = 1.0F;  ///< multiplies positions; used with computed angles only
    switchyard::dtype dtype = switchyard::dtype::f32;
    switchyard::dtype table_dtype = switchyard::dtype::f32;  ///< of cos and sin
    rotary_style style = rotary_style::half;
    bool inverse = false;

    std::int64_t table_rows = unset;  ///< positions that cos and sin have; unset: not known
    std::int64_t tokens = unset;      ///< of all sequences, with cu_seqlens; unset: not known

    /// Bytes, 1 to 16, that divide q, k, their outputs and every stride of theirs; 0 when a required
    /// pointer is null, one of cos and sin is, or a stride that matters is not set.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      const std::int64_t aligned = alignment_as_set();
      return aligned != 0 ? aligned : alignment_without_unused(*this);
    }

    /// The same where every stride counts.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment_as_set() const noexcept {
      const std::int64_t strides_q = q_stride_batch | q_stride_head | q_stride_token | q_out_stride_batch |
                                     q_out_stride_head | q_out_stride_token;
      std::int64_t required = offset | mark_misaligned<alignof(std::int64_t)>(positions) |
                              mark_misaligned<alignof(std::int32_t)>(cu_seqlens, sequence_offsets);
      if (cos != nullptr) {
        required |=
            table_stride | mark_past_table() | mark_misaligned_for(table_dtype, cos, sin) | count_null(sin);
      } else {
        required |= mark_unless_positive(base) | mark_unless_finite(scaling) | -std::int64_t{sin != nullptr};
      }
      if (heads_kv <= 0) return alignment_of_strided(dtype, strides_q, required, q, q_out);
      const std::int64_t strides_k = k_stride_batch | k_stride_head | k_stride_token | k_out_stride_batch |
                                     k_out_stride_head | k_out_stride_token;
      return alignment_of_strided(dtype, strides_q | strides_k, required, q, q_out, k, k_out);
    }

    /// A call with 0 for strides that are not set and do not matter, because no two elements lie that far
    /// apart: of a batch of one, of packed sequences, of one head, of a single token.
    [[nodiscard, gnu::cold, gnu::noinline]] friend arguments without_unused_strides(arguments a) noexcept {
      const bool batched = a.batch > 1 && a.cu_seqlens == nullptr;
      const bool many_tokens = a.seqlen > 1 || (a.cu_seqlens != nullptr && a.batch > 1);
      if (a.heads == 0 && a.heads_kv > 0) {  // keys only: q may be null
        a.q = a.k;
        a.q_out = a.k_out;
        ignore_unless(false, a.q_stride_batch, a.q_stride_head, a.q_stride_token, a.q_out_stride_batch,
                      a.q_out_stride_head, a.q_out_stride_token);
      }
      ignore_unless(batched, a.q_stride_batch, a.k_stride_batch, a.q_out_stride_batch, a.k_out_stride_batch);
      ignore_unless(a.heads > 1, a.q_stride_head, a.q_out_stride_head);
      ignore_unless(a.heads_kv > 1, a.k_stride_head, a.k_out_stride_head);
      ignore_unless(many_tokens, a.q_stride_token, a.k_stride_token, a.q_out_stride_token,
                    a.k_out_stride_token);
      if (a.table_rows >= 0 && !a.counts_positions()) a.table_rows = unset;
      return a;
    }

    /// Whether `offset` and `seqlen` tell which positions are read.
    [[nodiscard]] bool counts_positions() const noexcept {
      return !any_given(positions, sequence_offsets, cu_seqlens) && batch > 0 && seqlen > 0;
    }

    /// Negative where the tables' rows are known and end before offset + seqlen, or are below `unset`.
    [[nodiscard, gnu::always_inline]] inline std::int64_t mark_past_table() const noexcept {
      const auto rows = static_cast<std::uint64_t>(table_rows);
      const bool is_past = static_cast<std::uint64_t>(offset) + static_cast<std::uint64_t>(seqlen) > rows;
      return static_cast<std::int64_t>(rows + 1) | -std::int64_t{is_past};
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
      &arguments::dtype, &arguments::table_dtype, &arguments::style, &arguments::inverse,
      &arguments::table_rows, &arguments::tokens>;

  static constexpr auto operands =
      switchyard::fields<&arguments::q, &arguments::k, &arguments::q_out, &arguments::k_out>;

  static constexpr std::array formerly{switchyard::former_name{"heads_q", "heads"},
                                       switchyard::former_name{"heads_k", "heads_kv"}};

  static constexpr auto axes = switchyard::axes(
      type_axis<&arguments::dtype>(), type_axis<&arguments::style>(), type_axis<&arguments::head_dim>(),
      type_axis<&arguments::rotary_dim>(), type_axis<&arguments::inverse>(),
      type_axis("table", [](const arguments& a) noexcept { return a.cos != nullptr && a.sin != nullptr; }),
      type_axis<&arguments::table_dtype>(),
      type_axis("positions_from",
                [](const arguments& a) noexcept {
                  if (a.positions != nullptr) return rotary_positions::explicit_ids;
                  return a.sequence_offsets != nullptr ? rotary_positions::sequence_offsets
                                                       : rotary_positions::offset;
                }),
      flag_axis<&arguments::cu_seqlens>("variable_length"),
      type_axis("in_place", [](const arguments& a) noexcept { return a.q == a.q_out && a.k == a.k_out; }),
      type_axis<&arguments::alignment>(), size_axis<&arguments::batch>(), size_axis<&arguments::seqlen>(),
      size_axis<&arguments::heads>(), size_axis<&arguments::heads_kv>());

  static constexpr std::array axis_defaults{axis_default{"rotary_dim", "=head_dim"},
                                            axis_default{"heads_kv", "=heads"},
                                            axis_default{"table_dtype", "f32"}};

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    if (a.batch < 0 || a.seqlen < 0 || a.heads < 0 || a.heads_kv < 0) {
      return "batch, seqlen, heads and heads_kv must not be negative";
    }
    if (a.offset < 0) return "offset must not be negative: it is " + std::to_string(a.offset);
    if (a.head_dim < 1) return "head_dim must be positive";
    if (a.rotary_dim < 2 || a.rotary_dim > a.head_dim || a.rotary_dim % 2 != 0) {
      return "rotary_dim must be even, at least 2 and at most head_dim";
    }
    if (a.dtype != dtype::f32 && a.dtype != dtype::f16 && a.dtype != dtype::bf16) {
      return "dtype must be f32, f16 or bf16";
    }
    if ((a.cos == nullptr) != (a.sin == nullptr))
      return "cos and sin must be given together, or both be null";
    if (a.cos == nullptr) {
      if (std::string wrong = wrong_magnitude("base", a.base); !wrong.empty()) return wrong;
      if (mark_unless_finite(a.scaling) < 0)
        return "scaling must be finite: it is " + std::to_string(a.scaling);
    }
    if (std::string wrong =
            wrong_addresses<&arguments::positions, &arguments::cu_seqlens, &arguments::sequence_offsets>(a);
        !wrong.empty())
      return wrong;
    if (a.cos != nullptr && mark_misaligned_for(a.table_dtype, a.cos, a.sin) < 0)
      return "cos and sin must be aligned to their element size";
    if (std::string wrong = check_strides(a); !wrong.empty()) return wrong;
    if (a.cos != nullptr && a.table_rows < unset)
      return "table_rows must not be negative: it is " + std::to_string(a.table_rows);
    if (a.cos != nullptr && a.counts_positions() && a.mark_past_table() < 0)
      return rotary_errors::wrong_positions(a.offset, a.seqlen, a.table_rows);
    const std::int64_t aligned = a.alignment();
    if (aligned == 0)
      return "q and q_out where heads > 0, and k and k_out where heads_kv > 0, must not be null";
    if (aligned < size_of(a.dtype)) return "q, k, q_out and k_out must be aligned to their element size";
    return {};
  }

  /// What is wrong with how far a call reaches, and with the numbers in cu_seqlens, positions and
  /// sequence_offsets; empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    return check_rotary_memory(a, fields);
  }
  static constexpr auto index_tensors = rotary_index_tensors<arguments>;

  /// What a call may have besides q and k.
  struct options {
    const_tensor cos{};
    const_tensor sin{};
    std::int64_t rotary_dim = unset;
    const_tensor positions{};
    const_tensor sequence_offsets{};
    const_tensor cu_seqlens{};
    std::int64_t longest = unset;
    std::int64_t offset = 0;
    float base = 10000.0F;
    float scaling = 1.0F;
    rotary_style style = rotary_style::half;
    bool inverse = false;
  };

 private:
  template <auto Tensor>
  using table_view = optional_view<Tensor, &arguments::table_dtype,
                                   dim<named("positions"), &arguments::table_stride>, dim<named("pairs")>>;
  template <auto... Dims>
  using positions_view = optional_view<&arguments::positions, dtype::i64, dim<Dims>...>;
  using cu_seqlens_view =
      view<&arguments::cu_seqlens, dtype::i32,
           dim<&arguments::batch, dense_stride{}, dim_form{.factor = 1, .more = 1, .may_be_one = false}>>;

 public:
  static constexpr auto described = describe_options(
      tensor_option<&options::cos, table_view<&arguments::cos>>{
          "cosines of each position's rotary_dim / 2 pairs; computed from base without them"},
      tensor_option<&options::sin, table_view<&arguments::sin>>{"sines, as cos"},
      tensor_option<&options::positions, positions_view<&arguments::batch, &arguments::seqlen>, false>{
          "each token's position; packed, [tokens]"},
      tensor_option<&options::sequence_offsets,
                    optional_view<&arguments::sequence_offsets, dtype::i32, dim<&arguments::batch>>>{
          "the position of each sequence's first token"},
      tensor_option<&options::cu_seqlens, cu_seqlens_view, false>{
          "where sequences begin: tensors are packed, [tokens, heads, head_dim]"},
      option<&options::longest>{"tokens of the longest sequence, with cu_seqlens"},
      option<&options::offset, &arguments::offset>{"the position of the first token"},
      option<&options::rotary_dim>{
          "elements of a head that are turned; not set: all of head_dim, or what cos has"},
      option<&options::base, &arguments::base>{"angles are position * scaling * base^(-2i / rotary_dim)"},
      option<&options::scaling, &arguments::scaling>{"of positions, where angles are computed"},
      option<&options::style, &arguments::style>{"which elements are a pair"},
      option<&options::inverse, &arguments::inverse>{"whether to turn back"});

  /// The arguments of a call. Tensors are [batch, seqlen, heads, head_dim], with any strides but the
  /// innermost; k and k_out may be {}. Throws call_error where they disagree.
  template <class Options = options>
  [[nodiscard, gnu::always_inline]] inline static arguments call(
      const const_tensor& q, const const_tensor& k, const tensor& q_out, const tensor& k_out,
      const std::type_identity_t<Options>& with = Options{}) {
    arguments a = default_arguments<arguments>(fields);
    described.set(a, with);
    a.heads_kv = k && k.rank() >= 2 ? k.extent(k.rank() - 2) : 0;
    if (with.cu_seqlens) {
      if (with.longest < 0) rotary_errors::fail_longest();
      a.seqlen = with.longest;
      a.q_stride_batch = a.q_out_stride_batch = a.k_stride_batch = a.k_out_stride_batch = 0;
      a.tokens = q.extent(0);
      described.bind(packed_views{}, name, a, true, with, with.cu_seqlens, q, q_out, k, k_out,
                     with.positions);
    } else {
      described.bind(dense_views{}, name, a, true, with, q, q_out, k, k_out, with.positions);
    }
    const std::int64_t from_table = with.cos ? detail::checked_product(2, with.cos.extent(1)) : a.head_dim;
    a.rotary_dim = with.rotary_dim < 0 ? from_table : with.rotary_dim;
    if (with.cos && a.rotary_dim != from_table) [[unlikely]]
      rotary_errors::fail_table(a.rotary_dim, from_table);
    if (with.cos) a.table_rows = with.cos.extent(0);
    if (!with.positions && !with.sequence_offsets) require_positions(a, with.cos);
    return a;
  }

  /// The same in place.
  template <class Options = options>
  [[nodiscard, gnu::always_inline]] inline static arguments in_place(
      const tensor& q, const tensor& k, const std::type_identity_t<Options>& with = Options{}) {
    return call(q, k, q, k, with);
  }

  /// The tensors that a call writes: see tensors/result_tensor.hpp.
  template <class Visitor>
  static void visit_results(const arguments& a, Visitor& visit) {
    if (a.cu_seqlens == nullptr) {
      visit.template
      operator()<dense_view<&arguments::q_out, &arguments::heads, &arguments::q_out_stride_batch,
                            &arguments::q_out_stride_token, &arguments::q_out_stride_head>>();
      visit.template
      operator()<dense_view<&arguments::k_out, &arguments::heads_kv, &arguments::k_out_stride_batch,
                            &arguments::k_out_stride_token, &arguments::k_out_stride_head>>();
    } else if (a.tokens >= 0) {
      visit
          .template operator()<counted_view<&arguments::q_out, &arguments::heads,
                                            &arguments::q_out_stride_token, &arguments::q_out_stride_head>>();
      visit
          .template operator()<counted_view<&arguments::k_out, &arguments::heads_kv,
                                            &arguments::k_out_stride_token, &arguments::k_out_stride_head>>();
    }
  }

 private:
  template <auto Tensor, auto Heads, auto StrideBatch, auto StrideToken, auto StrideHead>
  using dense_view =
      view<Tensor, &arguments::dtype, dim<&arguments::batch, StrideBatch>,
           dim<&arguments::seqlen, StrideToken>, dim<Heads, StrideHead>, dim<&arguments::head_dim>>;
  template <auto Tensor, auto Heads, auto StrideToken, auto StrideHead>
  using packed_view = view<Tensor, &arguments::dtype, dim<named("tokens"), StrideToken>,
                           dim<Heads, StrideHead>, dim<&arguments::head_dim>>;
  template <auto Tensor, auto Heads, auto StrideToken, auto StrideHead>
  using counted_view = view<Tensor, &arguments::dtype, dim<&arguments::tokens, StrideToken>,
                            dim<Heads, StrideHead>, dim<&arguments::head_dim>>;
  template <class View>
  using optional = as_optional<View>;

  using dense_views =
      views<dense_view<&arguments::q, &arguments::heads, &arguments::q_stride_batch,
                       &arguments::q_stride_token, &arguments::q_stride_head>,
            dense_view<&arguments::q_out, &arguments::heads, &arguments::q_out_stride_batch,
                       &arguments::q_out_stride_token, &arguments::q_out_stride_head>,
            optional<dense_view<&arguments::k, &arguments::heads_kv, &arguments::k_stride_batch,
                                &arguments::k_stride_token, &arguments::k_stride_head>>,
            optional<dense_view<&arguments::k_out, &arguments::heads_kv, &arguments::k_out_stride_batch,
                                &arguments::k_out_stride_token, &arguments::k_out_stride_head>>,
            positions_view<&arguments::batch, &arguments::seqlen>>;
  using packed_views = views<
      cu_seqlens_view,
      packed_view<&arguments::q, &arguments::heads, &arguments::q_stride_token, &arguments::q_stride_head>,
      packed_view<&arguments::q_out, &arguments::heads, &arguments::q_out_stride_token,
                  &arguments::q_out_stride_head>,
      optional<packed_view<&arguments::k, &arguments::heads_kv, &arguments::k_stride_token,
                           &arguments::k_stride_head>>,
      optional<packed_view<&arguments::k_out, &arguments::heads_kv, &arguments::k_out_stride_token,
                           &arguments::k_out_stride_head>>,
      positions_view<named("tokens")>>;

  /// Positions that are counted from the offset must have rows in the tables. Not in the key: every call. The
  /// longest of packed sequences may be a bound, so that only dense calls tell their last position.
  [[gnu::always_inline]] inline static void require_positions(const arguments& a, const const_tensor& cos) {
    std::int64_t end = 0;
    const bool is_past = __builtin_add_overflow(a.offset, a.seqlen, &end) ||
                         (cos && a.cu_seqlens == nullptr && end > cos.extent(0));
    if (a.offset < 0 || (is_past && a.batch > 0 && a.seqlen > 0)) [[unlikely]]
      rotary_errors::fail_positions(a.offset, a.seqlen, cos ? cos.extent(0) : -1);
  }
  template <class = void>
  [[nodiscard]] static std::string check_strides(const arguments& call) {
    const arguments a = without_unused_strides(call);
    std::string wrong = wrong_strides<&arguments::q_stride_batch, &arguments::q_stride_head,
                                      &arguments::q_stride_token, &arguments::q_out_stride_batch,
                                      &arguments::q_out_stride_head, &arguments::q_out_stride_token>(a);
    if (wrong.empty() && a.heads_kv > 0) {
      wrong = wrong_strides<&arguments::k_stride_batch, &arguments::k_stride_head, &arguments::k_stride_token,
                            &arguments::k_out_stride_batch, &arguments::k_out_stride_head,
                            &arguments::k_out_stride_token>(a);
    }
    if (wrong.empty() && a.cos != nullptr) wrong = wrong_strides<&arguments::table_stride>(a);
    return wrong;
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
