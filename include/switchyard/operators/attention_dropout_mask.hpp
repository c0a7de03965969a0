// SPDX-License-Identifier: MIT
// Which attention weights dropout keeps, for debugging and for comparing with other implementations:
//
//   mask[b, h, i, j] = 1 / (1 - dropout_p) where the weight of query i and key j is kept, else 0.
//
// attention_forward multiplies its weights by these numbers; it defines the rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <switchyard/base/dtype.hpp>
#include <switchyard/call_options.hpp>
#include <switchyard/operator.hpp>
#include <switchyard/operators/attention_views.hpp>
#include <switchyard/operators/reach.hpp>
#include <switchyard/tensor_call.hpp>

namespace switchyard {
inline namespace v0 {

namespace operators {

struct attention_dropout_mask {
  static constexpr std::string_view name = "attention_dropout_mask";

  struct arguments {
    float* mask = nullptr;                         ///< [batch, heads, seqlen_q, seqlen_k]
    const std::uint64_t* dropout_state = nullptr;  ///< device pointer to {seed, offset}; null: the two below
    std::int64_t batch = 0;
    std::int64_t heads = 0;
    std::int64_t seqlen_q = 0;
    std::int64_t seqlen_k = 0;
    float dropout_p = 0.0F;
    std::uint64_t dropout_seed = 0;
    std::uint64_t dropout_offset = 0;
  };

  static constexpr auto fields =
      switchyard::fields<&arguments::mask, &arguments::dropout_state, &arguments::batch, &arguments::heads,
                         &arguments::seqlen_q, &arguments::seqlen_k, &arguments::dropout_p,
                         &arguments::dropout_seed, &arguments::dropout_offset>;

  static constexpr auto operands = switchyard::fields<&arguments::mask>;
  static constexpr auto described = attention::dropout_options<arguments, arguments>;

  static constexpr auto axes = switchyard::axes(
      type_axis("alignment",
                [](const arguments& a) noexcept {
                  // What check() refuses and no axis holds: a problem that was never met.
                  const std::int64_t illegal =
                      described.mark(a) | mark_misaligned<alignof(std::uint64_t)>(a.dropout_state);
                  return illegal < 0 ? 0 : alignment_of(a.mask);
                }),
      size_axis<&arguments::batch>(), size_axis<&arguments::heads>(), size_axis<&arguments::seqlen_q>(),
      size_axis<&arguments::seqlen_k>());

  /// What is wrong with a call; empty when it is legal.
  template <class = void>
  [[nodiscard]] static std::string check(const arguments& a) {
    if (a.batch < 0 || a.heads < 0 || a.seqlen_q < 0 || a.seqlen_k < 0) {
      return "batch, heads, seqlen_q and seqlen_k must not be negative";
    }
    if (std::string wrong = described.wrong(a); !wrong.empty()) return wrong;
    if (std::string wrong = wrong_addresses<&arguments::dropout_state>(a); !wrong.empty()) return wrong;
    if (a.mask == nullptr) return "mask must not be null";
    if (alignment_of(a.mask) < 4) return "mask must be aligned to its element size";
    return {};
  }

  /// What is wrong with how large the mask is; empty when nothing is.
  template <class = void>
  [[nodiscard]] static std::string check_memory(const arguments& a) {
    if (a.batch <= 0 || a.heads <= 0 || a.seqlen_q <= 0 || a.seqlen_k <= 0) return {};
    const std::int64_t heads = detail::checked_product(a.batch, a.heads);
    const std::int64_t scores = detail::checked_product(a.seqlen_q, a.seqlen_k);
    const bool is_held =
        heads > 0 && scores > 0 && heads < reach::farthest && scores < reach::farthest / heads;
    if (is_held) return {};
    return "mask [" + std::to_string(a.batch) + ", " + std::to_string(a.heads) + ", " +
           std::to_string(a.seqlen_q) + ", " + std::to_string(a.seqlen_k) + "]: no memory holds as much";
  }

  /// The arguments of a call: mask is dense f32 [batch, heads, seqlen_q, seqlen_k]. What else a call has
  /// follows: `attention_dropout_mask::call(mask, {.dropout_p = 0.1F, .dropout_seed = 7})`.
  static constexpr tensor_call<
      arguments, view<&arguments::mask, dtype::f32, dim<&arguments::batch>, dim<&arguments::heads>,
                      dim<&arguments::seqlen_q>, dim<&arguments::seqlen_k>>>
      call{name};
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
