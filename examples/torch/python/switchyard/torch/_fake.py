# SPDX-License-Identifier: MIT
"""Fake kernels: the shapes, types and strides of results, without data."""

from types import SimpleNamespace

import torch

from ._library import ops


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


def _norm(of, statistics: int):
    results = [_per_row(of.x) if of.with_statistics else None for _ in range(statistics)]
    return _rows(of.x), None if of.residual is None else _rows(of.x), *results


def _norm_backward(of, *wanted: bool):
    like = of.h if of.weight is None else of.weight
    return _rows(of.h), *(like.new_empty((of.h.shape[-1],)) if is_wanted else None for is_wanted in wanted)


def _packed_q(of) -> bool:
    return of.cu_seqlens_q is not None


def _packed_k(of) -> bool:
    return of.cu_seqlens_k is not None


# The results of each op, from its arguments by name: an option that decides no result needs no change here.
_RESULTS = {
    "attention_forward": lambda of: (
        _heads(of.q, of.v.shape[-1], _packed_q(of)),
        _lse(of.q, _packed_q(of)) if of.with_lse else None,
    ),
    "attention_forward_into": lambda of: _lse(of.q, _packed_q(of)) if of.with_lse else None,
    "attention_backward": lambda of: (
        _heads(of.q, of.q.shape[-1], _packed_q(of)),
        _heads(of.k, of.k.shape[-1], _packed_k(of)),
        _heads(of.v, of.v.shape[-1], _packed_k(of)),
        of.bias.new_empty(of.bias.shape) if of.with_grad_bias else None,
    ),
    "attention_decode": lambda of: (_heads(of.q, of.v.shape[-1], False), _lse(of.q, False) if of.with_lse else None),
    "attention_decode_into": lambda of: _lse(of.q, False) if of.with_lse else None,
    "attention_dropout_mask": lambda of: of.state.new_empty(
        (of.batch, of.heads, of.seqlen_q, of.seqlen_k), dtype=torch.float32
    ),
    "rotary": lambda of: tuple(None if x is None else _heads(x, x.shape[-1], of.cu_seqlens is not None) for x in (of.q, of.k)),
    "rotary_cache": lambda of: None,
    "rms_norm": lambda of: _norm(of, 1),
    "rms_norm_backward": lambda of: _norm_backward(of, of.with_grad_weight),
    "layer_norm": lambda of: _norm(of, 2),
    "layer_norm_backward": lambda of: _norm_backward(of, of.with_grad_weight, of.with_grad_bias),
    "gated_activation": lambda of: _rows(of.gate, of.gate.shape[-1] // 2 if of.up is None else None),
    "gated_activation_backward": lambda of: (_rows(of.gate), None if of.up is None else _rows(of.gate)),
    "softmax": lambda of: _rows(of.x),
    "softmax_backward": lambda of: _rows(of.out),
}


def _require_one_device(name: str, given) -> None:
    """A call with a tensor of meta comes here, whose result is memory that nothing writes."""
    kinds = {value.device.type for value in given if isinstance(value, torch.Tensor)}
    if len(kinds) > 1:
        raise RuntimeError(f"switchyard::{name}: the tensors are on several devices: {', '.join(sorted(kinds))}")


def _register(name: str, results) -> None:
    defaults = {argument.name: argument.default_value for argument in getattr(ops, name)._schema.arguments}

    def fake(*args, **kwargs):
        _require_one_device(name, (*args, *kwargs.values()))
        return results(SimpleNamespace(**{**defaults, **dict(zip(defaults, args)), **kwargs}))

    torch.library.register_fake(f"switchyard::{name}", fake)


for _name, _results in _RESULTS.items():
    _register(_name, _results)
