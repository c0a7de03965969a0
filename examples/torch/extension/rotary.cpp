// SPDX-License-Identifier: MIT
#include <tuple>

#include <switchyard/operators/rotary.hpp>

#include "invocation.hpp"
#include "register.hpp"

namespace switchyard_torch {

namespace {

namespace ops = switchyard::operators;

/// A result beside q or k: [batch, heads, seqlen, dim] over memory [batch, seqlen, heads, dim], or packed.
[[nodiscard]] Tensor empty_beside(const invocation& call, const Tensor& x, bool packed) {
  const auto sizes = x.sizes();
  if (packed) return call.empty({sizes.data(), sizes.size()}, dtype_of(x));
  const std::array<std::int64_t, 4> strides{sizes[1] * sizes[2] * sizes[3], sizes[3], sizes[1] * sizes[3], 1};
  return call.empty({sizes.data(), sizes.size()}, strides, dtype_of(x));
}

std::tuple<Tensor, Tensor> rotary(const Tensor& q, const optional_tensor& k, const optional_tensor& cos,
                                  const optional_tensor& sin, const optional_tensor& positions,
                                  const optional_tensor& sequence_offsets, const optional_tensor& cu_seqlens,
                                  std::int64_t longest, std::int64_t offset, std::int64_t rotary_dim,
                                  double base, double scaling, std::int64_t style, bool inverse) {
  const invocation call{"rotary", q};
  const bool packed = cu_seqlens.has_value();
  const std::int64_t rank = packed ? 3 : 4;
  if (q.dim() != rank || (k.has_value() && k->dim() != rank)) {
    refuse("rotary", packed ? "q and k must be [tokens, heads, head_dim] with cu_seqlens"
                            : "q and k must be [batch, heads, seqlen, head_dim]");
  }
  if (style < 0 || style > 1) refuse("rotary", "style must be 0 (half) or 1 (interleaved)");
  Tensor q_out = empty_beside(call, q, packed);
  Tensor k_out = k.has_value() ? empty_beside(call, *k, packed) : nothing();
  if (q.numel() == 0 && (!k.has_value() || k->numel() == 0)) return {q_out, k_out};
  const Tensor q_in = with_dense_rows(q);
  const optional_tensor k_in = with_dense_rows(k);
  const optional_tensor cos_in = with_dense_rows(cos);
  const optional_tensor sin_in = with_dense_rows(sin);
  ops::rotary::options with{.longest = longest,
                            .offset = offset,
                            .base = static_cast<float>(base),
                            .scaling = static_cast<float>(scaling),
                            .style = static_cast<ops::rotary_style>(style),
                            .inverse = inverse};
  if (rotary_dim >= 0) with.rotary_dim = rotary_dim;
  with.cos = call.view(cos_in, "cos");
  with.sin = call.view(sin_in, "sin");
  with.positions = call.view(positions, "positions");
  with.sequence_offsets = call.view(sequence_offsets, "sequence_offsets");
  with.cu_seqlens = call.view(cu_seqlens, "cu_seqlens");
  const auto view = [&](const Tensor& x, const char* name) {
    return packed ? call.view(x, name, {0, 1, 2}) : call.view(x, name, {0, 2, 1, 3});
  };
  call.run<ops::rotary>(ops::rotary::call(
      view(q_in, "q"), k.has_value() ? view(*k_in, "k") : switchyard::tensor{}, view(q_out, "q_out"),
      k.has_value() ? view(k_out, "k_out") : switchyard::tensor{}, with));
  return {q_out, k_out};
}

SWITCHYARD_TORCH_OP(rotary, rotary)

}  // namespace

}  // namespace switchyard_torch
