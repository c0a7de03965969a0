# SPDX-License-Identifier: MIT
"""Rotary position embedding, alone and on the way into a paged cache."""

import torch

from . import _gradients
from ._direct import caller, needs_gradient
from ._options import number_of
from ._types import indices, wide

STYLES = {"half": 0, "interleaved": 1}

_rotary = caller("rotary", _gradients.rotary)
_rotary_q = caller("rotary", _gradients.rotary, first=True)
_rotary_cache = caller("rotary_cache")


def rotary(
    q: torch.Tensor,
    k: torch.Tensor | None = None,
    cos: torch.Tensor | None = None,
    sin: torch.Tensor | None = None,
    *,
    positions: torch.Tensor | None = None,
    sequence_offsets: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    longest: int = -1,
    offset: int = 0,
    rotary_dim: int = -1,
    base: float = 10000.0,
    scaling: float = 1.0,
    style: str = "half",
    inverse: bool = False,
):
    """Rotates pairs of the first `rotary_dim` elements of each head by the angle of their position.

    q: [batch, heads, seqlen, head_dim]; k likewise, with its own number of heads. With cu_seqlens (i32 [batch + 1])
    and `longest`, the longest sequence, both are [tokens, heads, head_dim]. cos and sin: [positions, rotary_dim / 2],
    of q's type or f32, rows at any stride; without them, angles are position * scaling * base^(-2i / rotary_dim).
    A token's position is positions[token] (i64), or its index in the sequence plus sequence_offsets[b] (i32) or
    `offset`. style: "half" rotates pairs (i, i + rotary_dim / 2), "interleaved" (2i, 2i + 1). `inverse` rotates back.
    Tokens behind the last packed sequence have gradients of 0; on the CPU and with `inverse` they become 0.
    Returns q, or (q, k). Gradients: q and k; a backward that asks for those of cos or sin raises.
    """
    run = _rotary_q if k is None else _rotary
    return run(
        needs_gradient(q, k, cos, sin), q, k, cos, sin, indices(positions, torch.int64), indices(sequence_offsets),
        indices(cu_seqlens), longest, offset, rotary_dim, base, scaling, number_of("style", style, STYLES), inverse)  # fmt: skip


def rotary_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    *,
    q_weight: torch.Tensor | None = None,
    k_weight: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    epsilon: float = 1e-6,
    style: str = "half",
) -> None:
    """Rotates queries in place, and writes rotated keys and unchanged values into a paged cache. For inference: no gradients.

    q: [tokens, heads, head_dim], k and v: [tokens, heads_kv, head_dim], of one type; k_cache and v_cache: [pages,
    page_size, heads_kv, head_dim] in f16, bf16 or float8_e4m3fn. Any strides but the innermost. cos and sin:
    [positions, rotary_dim / 2], converted to f32. positions: i64 [tokens]. slots: i64 [tokens], token s % page_size
    of page s / page_size, or negative for tokens that are not cached. q_weight, k_weight: f32 [head_dim], weights of an
    RMSNorm applied to each head's queries or keys first. k_scale, v_scale: f32 [1] or [heads_kv], divisors of keys and
    values. style: as in rotary().
    """
    _rotary_cache(
        needs_gradient(q, k, v), q, k, v, k_cache, v_cache, wide(cos), wide(sin), indices(positions, torch.int64),
        indices(slots, torch.int64), wide(q_weight), wide(k_weight), wide(k_scale), wide(v_scale), epsilon,
        number_of("style", style, STYLES))  # fmt: skip
