# SPDX-License-Identifier: MIT
"""Fake kernels: the shapes, types and strides of results, without data."""

import torch

from ._library import ops  # noqa: F401 (defines the ops)


def _register(name: str):
    return torch.library.register_fake(f"switchyard::{name}")


def _order(x: torch.Tensor) -> list[int]:
    """All dimensions but the last in the order of their strides, outermost first, as the kernels walk rows."""
    return sorted(range(x.dim() - 1), key=lambda d: -x.stride(d))


def _size(x) -> int:
    """An extent as strides count it: torch gives an empty dimension the stride of one of 1."""
    return max(x, 1) if isinstance(x, int) else x


def _rows(x: torch.Tensor, columns: int | None = None) -> torch.Tensor:
    """As rows::empty of the extension."""
    sizes = [*x.shape[:-1], x.shape[-1] if columns is None else columns]
    strides = [1] * len(sizes)
    step = _size(sizes[-1])
    for d in reversed(_order(x)):
        strides[d] = step
        step = step * _size(sizes[d])
    return torch.empty_strided(sizes, strides, dtype=x.dtype, device=x.device)


def _per_row(x: torch.Tensor) -> torch.Tensor:
    """As rows::empty_per_row of the extension."""
    sizes = list(x.shape[:-1])
    strides = [1] * len(sizes)
    step = 1
    for d in reversed(_order(x)):
        strides[d] = step
        step = step * _size(sizes[d])
    return torch.empty_strided(sizes, strides, dtype=torch.float32, device=x.device)


def _heads(like: torch.Tensor, dim: int, packed: bool) -> torch.Tensor:
    """[batch, heads, seqlen, dim] over memory [batch, seqlen, heads, dim], or packed [tokens, heads, dim]."""
    if packed:
        return like.new_empty((*like.shape[:2], dim))
    batch, heads, seqlen = like.shape[:3]
    strides = (heads * seqlen * dim, dim, heads * dim, 1)
    return torch.empty_strided((batch, heads, seqlen, dim), strides, dtype=like.dtype, device=like.device)


def _lse(q: torch.Tensor, packed: bool) -> torch.Tensor:
    shape = (q.shape[1], q.shape[0]) if packed else q.shape[:3]
    return q.new_empty(shape, dtype=torch.float32)


@_register("attention_forward")
def _(q, k, v, bias=None, alibi_slopes=None, sinks=None, cu_seqlens_q=None, cu_seqlens_k=None, seqused_q=None,
      seqused_k=None, block_table=None, dropout_state=None, longest_q=-1, longest_k=-1, mask=0, window_left=-1,
      window_right=-1, scale=None, soft_cap=0.0, dropout_p=0.0, with_lse=False, k_scale=None,
      v_scale=None):  # fmt: skip
    packed = cu_seqlens_q is not None
    lse = _lse(q, packed) if with_lse else None
    return _heads(q, v.shape[-1], packed), lse


@_register("attention_backward")
def _(grad_out, q, k, v, out, lse, bias=None, alibi_slopes=None, cu_seqlens_q=None, cu_seqlens_k=None,
      seqused_q=None, seqused_k=None, dropout_state=None, longest_q=-1, longest_k=-1, mask=0, window_left=-1,
      window_right=-1, scale=None, soft_cap=0.0, dropout_p=0.0, deterministic=False, with_grad_bias=False,
      grad_lse=None):  # fmt: skip
    packed_k = cu_seqlens_k is not None
    grad_bias = bias.new_empty(bias.shape) if with_grad_bias else None
    return (
        _heads(q, q.shape[-1], cu_seqlens_q is not None),
        _heads(k, k.shape[-1], packed_k),
        _heads(v, v.shape[-1], packed_k),
        grad_bias,
    )


@_register("attention_decode")
def _(q, k, v, k_scale=None, v_scale=None, alibi_slopes=None, sinks=None, seqused_k=None, block_table=None, mask=2,
      window_left=-1, scale=None, soft_cap=0.0, with_lse=False):  # fmt: skip
    return _heads(q, v.shape[-1], False), _lse(q, False) if with_lse else None


@_register("attention_dropout_mask")
def _(state, batch, heads, seqlen_q, seqlen_k, dropout_p):
    return state.new_empty((batch, heads, seqlen_q, seqlen_k), dtype=torch.float32)


@_register("rotary")
def _(q, k=None, cos=None, sin=None, positions=None, sequence_offsets=None, cu_seqlens=None, longest=-1, offset=0,
      rotary_dim=-1, base=10000.0, scaling=1.0, style=0, inverse=False):  # fmt: skip
    packed = cu_seqlens is not None
    return _heads(q, q.shape[-1], packed), None if k is None else _heads(k, k.shape[-1], packed)


@_register("rms_norm")
def _(x, weight=None, residual=None, epsilon=1e-6, weight_offset=0.0, with_statistics=False):
    statistics = _per_row(x) if with_statistics else None
    return _rows(x), None if residual is None else _rows(x), statistics


@_register("rms_norm_backward")
def _(grad_out, h, rstd, weight=None, grad_residual=None, weight_offset=0.0, with_grad_weight=False):
    like = h if weight is None else weight
    return _rows(h), like.new_empty((h.shape[-1],)) if with_grad_weight else None


@_register("layer_norm")
def _(x, weight=None, bias=None, residual=None, epsilon=1e-5, weight_offset=0.0, with_statistics=False):
    statistics = [_per_row(x) if with_statistics else None for _ in range(2)]
    return _rows(x), None if residual is None else _rows(x), *statistics


@_register("layer_norm_backward")
def _(grad_out, h, mean, rstd, weight=None, grad_residual=None, weight_offset=0.0, with_grad_weight=False,
      with_grad_bias=False):  # fmt: skip
    like = h if weight is None else weight
    gradients = [like.new_empty((h.shape[-1],)) if each else None for each in (with_grad_weight, with_grad_bias)]
    return _rows(h), *gradients


@_register("gated_activation")
def _(gate, up=None, function=0):
    return _rows(gate, gate.shape[-1] // 2 if up is None else None)


@_register("gated_activation_backward")
def _(grad_out, gate, up=None, function=0):
    return _rows(gate), None if up is None else _rows(gate)


@_register("softmax")
def _(x, scale=1.0):
    return _rows(x)


@_register("softmax_backward")
def _(grad_out, out, scale=1.0):
    return _rows(out)
