# SPDX-License-Identifier: MIT
"""xformers' memory_efficient_attention on Switchyard's kernels, with xformers' biases: the same arguments, layouts and results,
so that code changes one import.

    from switchyard.xformers import memory_efficient_attention

The biases are xformers' own objects (xformers.ops.fmha.attn_bias), known by their classes; xformers itself is not imported.
Unsupported arguments raise an error that names them.
"""

import torch

from .torch import _gradients, attention
from .torch._attention import MASKS, _state
from .torch._direct import caller, needs_gradient
from .torch._types import indices

__all__ = ["memory_efficient_attention"]

_forward = caller("attention_forward", _gradients.attention_forward, first=True)

_FROM_TOP, _FROM_BOTTOM, _NONE = "causal_top_left", "causal_bottom_right", "none"
# What a bias of each class means: the mask, by which a window counts as well.
_DENSE = {
    "LowerTriangularMask": _FROM_TOP,
    "LowerTriangularMaskWithTensorBias": _FROM_TOP,
    "LowerTriangularFromBottomRightMask": _FROM_BOTTOM,
    "LowerTriangularFromBottomRightLocalAttentionMask": _FROM_BOTTOM,
    "LocalAttentionFromBottomRightMask": _NONE,
}
_PACKED = {
    "BlockDiagonalMask": _NONE,
    "BlockDiagonalCausalMask": _FROM_TOP,
    "BlockDiagonalCausalLocalAttentionMask": _FROM_TOP,
    "BlockDiagonalCausalFromBottomRightMask": _FROM_BOTTOM,
    "BlockDiagonalCausalLocalAttentionFromBottomRightMask": _FROM_BOTTOM,
}
_PADDED = {
    "BlockDiagonalPaddedKeysMask": _NONE,
    "BlockDiagonalLocalAttentionPaddedKeysMask": _NONE,
    "BlockDiagonalCausalWithOffsetPaddedKeysMask": _FROM_BOTTOM,
    "BlockDiagonalCausalLocalAttentionPaddedKeysMask": _FROM_BOTTOM,
}
_PAGED = {
    "PagedBlockDiagonalPaddedKeysMask": _NONE,
    "PagedBlockDiagonalCausalWithOffsetPaddedKeysMask": _FROM_BOTTOM,
    "PagedBlockDiagonalCausalLocalPaddedKeysMask": _FROM_BOTTOM,
}


def _refuse(text: str):
    raise RuntimeError(f"switchyard.xformers: {text}")


def _window(bias) -> tuple[int, int]:
    """Keys before and after the diagonal that a query sees. xformers' size of a causal window counts the diagonal."""
    if hasattr(bias, "_window_size"):
        return bias._window_size - 1, -1
    if "Local" in type(bias).__name__ and not hasattr(bias, "window_left"):
        _refuse(f"{type(bias).__name__} does not say its window as the tested versions of xformers do")
    return getattr(bias, "window_left", -1), getattr(bias, "window_right", -1)


def _heads_of_keys(x: torch.Tensor) -> torch.Tensor:
    """[batch, tokens, groups, heads, dim] as [batch, tokens, heads_kv, dim]: heads that were expanded are one."""
    return x[:, :, :, 0] if x.shape[3] > 1 and x.stride(3) == 0 else x.flatten(2, 3)


def memory_efficient_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias=None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op=None,
    output_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """softmax(scale * query key^T + attn_bias) value, with dropout of probability p.

    query, key and value: [batch, tokens, heads, dim]; [batch, tokens, dim] for one head; or [batch, tokens, groups, heads, dim],
    where the heads of keys and values may be expanded. attn_bias: a tensor added to scores, [batch, heads, queries, keys] or
    [batch, groups, heads, queries, keys], or a bias of xformers: lower triangular, local, block diagonal, with padded or paged
    keys. scale defaults to 1 / sqrt(dim). op is ignored: Switchyard chooses the kernel. Gradients: query, key, value, and
    attn_bias if it is a tensor.
    """
    shape = query.shape
    if query.dim() == 3:
        query, key, value = (tensor.unsqueeze(2) for tensor in (query, key, value))
    elif query.dim() == 5:
        query, key, value = query.flatten(2, 3), _heads_of_keys(key), _heads_of_keys(value)
    elif query.dim() != 4:
        _refuse(f"query has {query.dim()} dimensions, but must have 3 to 5")
    kind = type(attn_bias).__name__
    if attn_bias is None or isinstance(attn_bias, torch.Tensor) or kind in _DENSE:
        out = _dense(query, key, value, attn_bias, kind, p, scale)
    elif kind in _PACKED or kind in _PADDED or kind in _PAGED:
        out = _packed(query, key, value, attn_bias, kind, p, scale)
    else:
        _refuse(f"a bias of class {kind} is not served")
    out = out.reshape(*shape[:-1], value.shape[-1])
    return out if output_dtype is None else out.to(output_dtype)


def _dense(query, key, value, bias, kind, p, scale):
    added = bias if isinstance(bias, torch.Tensor) else getattr(bias, "_bias", None)
    if added is not None and added.dim() == 5:
        added = added.flatten(1, 2)
    elif added is not None and added.dim() == 3:  # [batch * heads, queries, keys] of 3 dimensions
        added = added.unflatten(0, (query.shape[0], -1))
    window = (-1, -1) if added is bias else _window(bias)
    return attention(*(tensor.transpose(1, 2) for tensor in (query, key, value)), causal=_DENSE.get(kind, _NONE), bias=added,
                     window=window, scale=scale, dropout_p=p).transpose(1, 2)  # fmt: skip


def _packed(query, key, value, bias, kind, p, scale):
    """Sequences side by side in one batch, [1, tokens, heads, dim]."""
    if query.shape[0] != 1:
        _refuse(f"{kind} goes with a batch of 1, not of {query.shape[0]}")
    q, k, v = query[0], key[0], value[0]
    device = q.device
    queries, keys = bias.q_seqinfo, bias.k_seqinfo
    cu_q = queries.seqstart.to(device, non_blocking=True)
    cu_k = used = table = None
    if kind in _PACKED:
        mask, cu_k = _PACKED[kind], keys.seqstart.to(device, non_blocking=True)
    else:
        used = keys.seqlen.to(device, non_blocking=True)
        if kind in _PADDED:  # the keys of a sequence and what pads them
            mask = _PADDED[kind]
            k, v = (
                tensor[: used.shape[0] * keys.padding].unflatten(0, (-1, keys.padding)).transpose(1, 2) for tensor in (k, v)
            )
        else:
            mask, table = _PAGED[kind], bias.block_tables.to(device, non_blocking=True)
            k, v = (tensor.unflatten(0, (-1, bias.page_size)) for tensor in (k, v))
    needs = needs_gradient(q, k, v)
    state = _state(None, device) if p else None
    out = _forward(needs, q, k, v, None, None, None, indices(cu_q), indices(cu_k), None, indices(used), indices(table), state,
                   queries.max_seqlen, keys.max_seqlen, MASKS[mask], *_window(bias), scale, 0.0, p, needs, None, None)  # fmt: skip
    return out[None]
