# SPDX-License-Identifier: MIT
"""Fake kernels: the shapes, types and strides of results, without data."""

from types import SimpleNamespace

import torch

from ._library import ops


def _register(name: str):
    """Registers a function that is given all arguments of the op by name: an option that it does not look at needs no change here."""
    defaults = {argument.name: argument.default_value for argument in getattr(ops, name)._schema.arguments}

    def register(function):
        def fake(*args, **kwargs):
            return function(SimpleNamespace(**{**defaults, **dict(zip(defaults, args)), **kwargs}))

        torch.library.register_fake(f"switchyard::{name}", fake)
        return function

    return register


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
def _(of):
    packed = of.cu_seqlens_q is not None
    return _heads(of.q, of.v.shape[-1], packed), _lse(of.q, packed) if of.with_lse else None


@_register("attention_forward_into")
def _(of):
    return _lse(of.q, of.cu_seqlens_q is not None) if of.with_lse else None


@_register("attention_backward")
def _(of):
    packed_k = of.cu_seqlens_k is not None
    return (
        _heads(of.q, of.q.shape[-1], of.cu_seqlens_q is not None),
        _heads(of.k, of.k.shape[-1], packed_k),
        _heads(of.v, of.v.shape[-1], packed_k),
        of.bias.new_empty(of.bias.shape) if of.with_grad_bias else None,
    )


@_register("attention_decode")
def _(of):
    return _heads(of.q, of.v.shape[-1], False), _lse(of.q, False) if of.with_lse else None


@_register("attention_decode_into")
def _(of):
    return _lse(of.q, False) if of.with_lse else None


@_register("attention_dropout_mask")
def _(of):
    return of.state.new_empty((of.batch, of.heads, of.seqlen_q, of.seqlen_k), dtype=torch.float32)


@_register("rotary")
def _(of):
    packed = of.cu_seqlens is not None
    return _heads(of.q, of.q.shape[-1], packed), None if of.k is None else _heads(of.k, of.k.shape[-1], packed)


@_register("rotary_cache")
def _(of):
    return None


def _norm(of, statistics: int):
    results = [_per_row(of.x) if of.with_statistics else None for _ in range(statistics)]
    return _rows(of.x), None if of.residual is None else _rows(of.x), *results


def _norm_backward(of, *wanted: bool):
    like = of.h if of.weight is None else of.weight
    return _rows(of.h), *(like.new_empty((of.h.shape[-1],)) if is_wanted else None for is_wanted in wanted)


@_register("rms_norm")
def _(of):
    return _norm(of, 1)


@_register("rms_norm_backward")
def _(of):
    return _norm_backward(of, of.with_grad_weight)


@_register("layer_norm")
def _(of):
    return _norm(of, 2)


@_register("layer_norm_backward")
def _(of):
    return _norm_backward(of, of.with_grad_weight, of.with_grad_bias)


@_register("gated_activation")
def _(of):
    return _rows(of.gate, of.gate.shape[-1] // 2 if of.up is None else None)


@_register("gated_activation_backward")
def _(of):
    return _rows(of.gate), None if of.up is None else _rows(of.gate)


@_register("softmax")
def _(of):
    return _rows(of.x)


@_register("softmax_backward")
def _(of):
    return _rows(of.out)
