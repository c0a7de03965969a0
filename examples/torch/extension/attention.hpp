// SPDX-License-Identifier: MIT
// What the attention ops share: layouts of their tensors.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <switchyard/operators/attention.hpp>
#include <switchyard/tensor.hpp>

#include "invocation.hpp"
#include "op_options.hpp"

namespace switchyard_torch {

/// [batch, heads, seqlen, dim] as PyTorch has it, or [tokens, heads, dim] when packed, as the operator has
/// it.
[[nodiscard]] inline switchyard::tensor view_heads(const invocation& call, const Tensor& tensor,
                                                   const char* name, bool packed) {
  return packed ? call.view(tensor, name, {0, 1, 2}) : call.view(tensor, name, {0, 2, 1, 3});
}

/// Keys or values: packed, [pages, page_size, heads_kv, dim] when paged, else as queries.
[[nodiscard]] inline switchyard::tensor view_pages(const invocation& call, const Tensor& tensor,
                                                   const char* name) {
  return call.view(tensor, name, {0, 1, 2, 3});
}

/// A result beside queries or keys, with `dim` columns: memory is [batch, seqlen, heads, dim], or packed.
[[nodiscard]] inline Tensor empty_heads(const invocation& call, const Tensor& like, std::int64_t dim,
                                        bool packed) {
  const auto sizes = like.sizes();
  if (packed) return call.empty({sizes[0], sizes[1], dim}, dtype_of(like));
  const std::array<std::int64_t, 4> extents{sizes[0], sizes[1], sizes[2], dim};
  const std::array<std::int64_t, 4> strides{sizes[1] * sizes[2] * dim, dim, sizes[1] * dim, 1};
  return call.empty(extents, strides, dtype_of(like));
}

/// The LSE beside queries: f32 [batch, heads, seqlen_q], packed [heads, tokens].
[[nodiscard]] inline Tensor empty_lse(const invocation& call, const Tensor& q, bool packed) {
  return packed ? call.empty({q.size(1), q.size(0)}, dtype_f32())
                : call.empty({q.size(0), q.size(1), q.size(2)}, dtype_f32());
}

/// The LSE where values have no columns, so that no kernel runs: that of the keys, which
/// `with_keys_as_values` computes. Keys without columns have no scores either.
template <class Call>
[[nodiscard]] Tensor lse_without_values(Tensor lse, const Tensor& k, Call&& with_keys_as_values) {
  if (lse.numel() == 0) return lse;
  if (k.size(k.dim() - 1) != 0) return with_keys_as_values();
  torch::stable::zero_(lse);
  return lse;
}

/// Throws call_error where q, k or v has another number of dimensions than the layout.
inline void require_ranks(const invocation& call, const Tensor& q, bool packed_q, const Tensor& k,
                          const Tensor& v, bool packed_k) {
  if (q.dim() != (packed_q ? 3 : 4))
    refuse(call.op(), packed_q ? "q must be [tokens, heads, head_dim] with cu_seqlens_q"
                               : "q must be [batch, heads, seqlen_q, head_dim]");
  if (k.dim() != (packed_k ? 3 : 4) || v.dim() != k.dim())
    refuse(call.op(), packed_k ? "k and v must be [tokens, heads_kv, dim] with cu_seqlens_k"
                               : "k and v must have 4 dimensions");
}

/// Throws call_error where `out` is no place for the result beside q: another shape or type, or strided rows,
/// in whose place a copy would be written.
inline void require_result(const invocation& call, const Tensor& out, const Tensor& q, const Tensor& v) {
  // Of queries in e4m3 the operator says which types go with them.
  bool fits = out.dim() == q.dim() && (dtype_of(out) == dtype_of(q) || dtype_of(q) == dtype_e4m3());
  for (std::int64_t d = 0; fits && d < q.dim(); ++d)
    fits = out.size(d) == (d + 1 < q.dim() ? q.size(d) : v.size(v.dim() - 1));
  if (!fits) refuse(call.op(), "out must have q's type, and its shape with v's last dimension");
  if (out.size(q.dim() - 1) > 1 && out.stride(q.dim() - 1) != 1)
    refuse(call.op(), "out is written in place: its last dimension must be contiguous");
}

}  // namespace switchyard_torch
