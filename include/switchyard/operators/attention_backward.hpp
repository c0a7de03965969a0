// Gradients of attention_forward with respect to q, k, v and bias. What q, k, v, bias, alibi_slopes, lengths,
// windows, mask, dropout and layouts mean is said in attention_forward.hpp; a call takes the forward call's
// values and its results.
//
//   P = exp(scores - lse), dP = dout v^T, delta = rowsum(dout * out), dS = P * (dP - delta),
//   dv = P^T dout, dq = scale * dS k, dk = scale * dS^T q,
//
// where dropout drops from P in dv and from dP as it did in the forward call, and a soft cap multiplies dS by
// 1 - (s / soft_cap)^2 of its capped score s. Keys that no query sees have zero gradients. Sinks are in lse
// already. The gradient of the bias is dS without the factor of the soft cap, summed over what a zero stride
// of dbias makes one.
//
// A variant may add up dq in any order, so that its last bits differ from run to run, unless the call is
// deterministic.
//
// Source: Dao, FlashAttention-2, arXiv:2307.08691.
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
    const float* lse = nullptr;  ///< as attention_forward writes it
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

    std::int64_t q_stride_batch = 0, q_stride_head = 0, q_stride_token = 0;
    std::int64_t k_stride_batch = 0, k_stride_head = 0, k_stride_token = 0;
    std::int64_t v_stride_batch = 0, v_stride_head = 0, v_stride_token = 0;
    std::int64_t out_stride_batch = 0, out_stride_head = 0, out_stride_token = 0;
    std::int64_t dout_stride_batch = 0, dout_stride_head = 0, dout_stride_token = 0;
    std::int64_t dq_stride_batch = 0, dq_stride_head = 0, dq_stride_token = 0;
    std::int64_t dk_stride_batch = 0, dk_stride_head = 0, dk_stride_token = 0;
    std::int64_t dv_stride_batch = 0, dv_stride_head = 0, dv_stride_token = 0;
    std::int64_t bias_stride_batch = 0, bias_stride_head = 0, bias_stride_row = 0;
    std::int64_t dbias_stride_batch = 0, dbias_stride_head = 0, dbias_stride_row = 0;  ///< inner stride 1
    std::int64_t lse_stride_batch = 0, lse_stride_head = 0;

    float scale = 0.0F;
    float soft_cap = 0.0F;
    float dropout_p = 0.0F;
    std::int32_t window_left = -1;
    std::int32_t window_right = -1;
    std::uint64_t dropout_seed = 0;
    std::uint64_t dropout_offset = 0;
    switchyard::dtype dtype = switchyard::dtype::f32;
    attention_mask mask = attention_mask::none;
    bool deterministic = false;  ///< the same bits in every run

    /// Bytes, 1 to 16, that divide the tensors' addresses and all strides; 0 when one of them is null.
    [[nodiscard, gnu::always_inline]] inline std::int64_t alignment() const noexcept {
      return attention_alignment(
          dtype,
          q_stride_batch | q_stride_head | q_stride_token | k_stride_batch | k_stride_head | k_stride_token |
              v_stride_batch | v_stride_head | v_stride_token | out_stride_batch | out_stride_head |
              out_stride_token | dout_stride_batch | dout_stride_head | dout_stride_token | dq_stride_batch |
              dq_stride_head | dq_stride_token | dk_stride_batch | dk_stride_head | dk_stride_token |
              dv_stride_batch | dv_stride_head | dv_stride_token,
          q, k, v, out, dout, dq, dk, dv);
    }
  };

  static constexpr auto fields = switchyard::fields<
      &arguments::q, &arguments::k, &arguments::v, &arguments::out, &arguments::dout, &arguments::lse,
      &arguments::dq, &arguments::dk, &arguments::dv, &arguments::bias, &arguments::alibi_slopes,
      &arguments::cu_seqlens_q, &arguments::cu_seqlens_k, &arguments::seqused_q, &arguments::seqused_k,
      &arguments::dropout_state, &arguments::dbias, &arguments::batch, &arguments::heads,
      &arguments::heads_kv, &arguments::seqlen_q, &arguments::seqlen_k, &arguments::head_dim,
      &arguments::head_dim_v, &arguments::q_stride_batch, &arguments::q_stride_head,
      &arguments::q_stride_token, &arguments::k_stride_batch, &arguments::k_stride_head,
      &arguments::k_stride_token, &arguments::v_stride_batch, &arguments::v_stride_head,
      &arguments::v_stride_token, &arguments::out_stride_batch, &arguments::out_stride_head,
      &arguments::out_stride_token, &arguments::dout_stride_batch, &arguments::dout_stride_head,
      &arguments::dout_stride_token, &arguments::dq_stride_batch, &arguments::dq_stride_head,
      &arguments::dq_stride_token, &arguments::dk_stride_batch, &arguments::dk_stride_head,
      &arguments::dk_stride_token, &arguments::dv_stride_batch, &arguments::dv_stride_head,
      &arguments::dv_stride_token, &arguments::bias_stride_batch, &arguments::bias_stride_head,
      &arguments::bias_stride_row, &arguments::dbias_stride_batch, &arguments::dbias_stride_head,
      &arguments::dbias_stride_row, &arguments::lse_stride_batch, &arguments::lse_stride_head,
      &arguments::scale, &arguments::soft_cap, &arguments::dropout_p, &arguments::window_left,
      &arguments::window_right, &arguments::dropout_seed, &arguments::dropout_offset, &arguments::dtype,
      &arguments::mask, &arguments::deterministic>;

  static constexpr auto axes = switchyard::axes(
      switchyard::type_axis<&arguments::dtype>(), switchyard::type_axis<&arguments::head_dim>(),
      switchyard::type_axis<&arguments::head_dim_v>(), switchyard::type_axis<&arguments::mask>(),
      switchyard::type_axis(
          "window", [](const arguments& a) noexcept { return a.window_left >= 0 || a.window_right >= 0; }),
      switchyard::type_axis("soft_capped", [](const arguments& a) noexcept { return a.soft_cap != 0.0F; }),
      switchyard::type_axis("biased", [](const arguments& a) noexcept { return a.bias != nullptr; }),
      switchyard::type_axis("alibi", [](const arguments& a) noexcept { return a.alibi_slopes != nullptr; }),
      switchyard::type_axis("dropout", [](const arguments& a) noexcept { return a.dropout_p != 0.0F; }),
      switchyard::type_axis("packed_q",
                            [](const arguments& a) noexcept { return a.cu_seqlens_q != nullptr; }),
      switchyard::type_axis("packed_k",
                            [](const arguments& a) noexcept { return a.cu_seqlens_k != nullptr; }),
      switchyard::type_axis(
          "seqused",
          [](const arguments& a) noexcept { return a.seqused_q != nullptr || a.seqused_k != nullptr; }),
      switchyard::type_axis<&arguments::deterministic>(),
      switchyard::type_axis("with_dbias", [](const arguments& a) noexcept { return a.dbias != nullptr; }),
      switchyard::type_axis("alignment", [](const arguments& a) noexcept { return a.alignment(); }),
      switchyard::size_axis<&arguments::batch>(), switchyard::size_axis<&arguments::heads>(),
      switchyard::size_axis<&arguments::heads_kv>(), switchyard::size_axis<&arguments::seqlen_q>(),
      switchyard::size_axis<&arguments::seqlen_k>());

  /// What is wrong with a call; empty when it is legal.
  [[nodiscard]] static std::string check(const arguments& a) {
    if (std::string wrong = check_attention(a); !wrong.empty()) return wrong;
    if (a.lse == nullptr) return "lse must not be null";
    if (a.dbias != nullptr && a.bias == nullptr) return "dbias is wanted, but there is no bias";
    const std::int64_t aligned = a.alignment();
    if (aligned == 0) return "q, k, v, out, dout, dq, dk and dv must not be null";
    if (aligned < size_of(a.dtype)) return "the tensors must be aligned to their element size";
    return {};
  }
};

}  // namespace operators

}  // namespace v0
}  // namespace switchyard
