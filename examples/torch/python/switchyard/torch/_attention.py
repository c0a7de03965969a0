# SPDX-License-Identifier: MIT
"""Attention: dense, packed, paged, and of the last tokens against a cache."""

import torch

from . import _gradients
from ._block_mask import lists_for
from ._direct import caller, needs_gradient
from ._options import number_of
from ._types import indices, wide

_forward = caller("attention_forward", _gradients.attention_forward)
_forward_out = caller("attention_forward", _gradients.attention_forward, first=True)
_forward_into = caller("attention_forward_into")
_decode = caller("attention_decode")
_dropout_mask = caller("attention_dropout_mask")

MASKS = {"none": 0, "causal_top_left": 1, "causal_bottom_right": 2}
MAX_DECODE_QUERIES = 16  # of a sequence in one call of attention_decode


def _mask(causal: bool | str) -> int:
    if isinstance(causal, str):
        return number_of("mask", causal, MASKS)
    return MASKS["causal_bottom_right"] if causal else MASKS["none"]


def _scores(bias: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """The bias with 4 dimensions, of q's type; a mask of booleans becomes 0 and -infinity."""
    if bias.dtype == torch.bool:
        bias = torch.zeros((), dtype=q.dtype, device=q.device).masked_fill(~bias, -torch.inf)
    elif bias.dtype != q.dtype and bias.is_floating_point():
        bias = bias.to(q.dtype)
    return bias if bias.dim() == 4 else bias[(None,) * (4 - bias.dim())]


def _state(state: torch.Tensor | None, device: torch.device) -> torch.Tensor:
    """Seed and offset from torch's generator, on the device: safe in CUDA graphs, without synchronisation."""
    if state is not None:
        return state
    return torch.randint(0, 2**62, (2,), dtype=torch.int64, device=device)


def _result_of(q: torch.Tensor, v: torch.Tensor, out_dtype: torch.dtype | None, packed: bool) -> torch.Tensor | None:
    """What the result of queries in e4m3 is written to; None for other queries, whose result has their type."""
    if q.dtype != torch.float8_e4m3fn:
        if out_dtype not in (None, q.dtype):
            raise TypeError(f"out_dtype is for queries in float8_e4m3fn: of {q.dtype} the result has that type")
        return None
    dtype = torch.bfloat16 if out_dtype is None else out_dtype
    if packed:
        return torch.empty(*q.shape[:-1], v.shape[-1], dtype=dtype, device=q.device)
    batch, heads, seqlen, _ = q.shape
    return torch.empty(batch, seqlen, heads, v.shape[-1], dtype=dtype, device=q.device).transpose(1, 2)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool | str = False,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
    window: tuple[int, int] = (-1, -1),
    soft_cap: float = 0.0,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    dropout_state: torch.Tensor | None = None,
    seqused_q: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    longest_k: int = -1,
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    return_lse: bool = False,
    block_mask=None,
    out_dtype: torch.dtype | None = None,
):
    """softmax(mask(cap(scale * q k^T) + bias)) v, laid out as in torch.nn.functional.scaled_dot_product_attention.

    q: [batch, heads, seqlen_q, head_dim]; k, v: [batch, heads_kv, seqlen_k, dim], where heads_kv divides heads. With
    block_table (i32 [batch, entries]) k and v are [pages, page_size, heads_kv, dim], and seqused_k is required. f32,
    f16 or bf16; any strides (a strided innermost dimension is copied). For inference, k and v may be float8_e4m3fn
    with q in f16 or bf16; k_scale and v_scale (f32 [1] or [heads_kv]) are their factors. q may be float8_e4m3fn with
    them, with q_scale (f32 [1] or [heads]); out_dtype is then the result's type, bfloat16 (the default) or float16,
    and on Hopper the products are in e4m3.

    causal: True or "causal_bottom_right" (query i of n sees key j of m where j <= i + m - n), "causal_top_left"
    (j <= i), False or "none". bias: added to scores, of q's type and broadcastable, or a boolean mask (True: the key
    is seen). window: how many keys before and after the diagonal are seen, -1 for all. soft_cap: c in
    c * tanh(score / c); 0 for none. sinks, alibi_slopes: f32 [heads]. seqused_q, seqused_k: i32 [batch] on the
    device, the queries and keys in use; other rows of the result are 0. scale defaults to 1 / sqrt(head_dim).
    dropout_p: the probability of dropping a weight. dropout_state: i64 [2] on the device, a seed and an offset;
    defaults to torch's generator.

    block_mask: a torch.nn.attention.flex_attention.BlockMask, or the result of prepare_block_mask, in place of
    causal and window. Hidden blocks cost nothing. Only sinks and scale may be given with it. Its mask_mod is
    evaluated once, at the first call.

    Returns [batch, heads, seqlen_q, dim of v], stored as [batch, seqlen_q, heads, dim], and with return_lse also the
    f32 logarithm of each row's sum, [batch, heads, seqlen_q]. Both results have gradients for q, k, v, bias and sinks.
    With torch.use_deterministic_algorithms, the backward is bitwise reproducible.
    """
    into = _result_of(q, v, out_dtype, packed=False)
    scores = None if bias is None else _scores(bias, q if into is None else into)
    alibi_slopes, sinks = wide(alibi_slopes), wide(sinks)
    needs = needs_gradient(q, k, v, scores, sinks, alibi_slopes)
    left, right = window
    state = _state(dropout_state, q.device) if dropout_p else None
    given = (
        scores, alibi_slopes, sinks, None, None, indices(seqused_q), indices(seqused_k), indices(block_table), state, -1,
        longest_k, _mask(causal), left, right, scale, soft_cap, dropout_p, return_lse or needs, wide(k_scale), wide(v_scale),
        wide(q_scale), *lists_for(block_mask, q, k))  # fmt: skip
    if into is not None:
        lse = _forward_into(needs, q, k, v, into, *given)
        return (into, lse) if return_lse else into
    run = _forward if return_lse else _forward_out
    return run(needs, q, k, v, *given)


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    longest_q: int,
    longest_k: int,
    *,
    causal: bool | str = False,
    scale: float | None = None,
    window: tuple[int, int] = (-1, -1),
    soft_cap: float = 0.0,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    dropout_state: torch.Tensor | None = None,
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    return_lse: bool = False,
    out_dtype: torch.dtype | None = None,
):
    """attention() of packed sequences: q [tokens, heads, head_dim], k and v [tokens_k, heads_kv, dim].

    cu_seqlens_q, cu_seqlens_k: i32 [batch + 1] on the device, the start of each sequence, then the number of tokens.
    longest_q, longest_k: upper bounds of the sequence lengths. The other arguments are those of attention(). The LSE
    is [heads, tokens].
    """
    alibi_slopes, sinks = wide(alibi_slopes), wide(sinks)
    needs = needs_gradient(q, k, v, sinks, alibi_slopes)
    left, right = window
    state = _state(dropout_state, q.device) if dropout_p else None
    given = (
        None, alibi_slopes, sinks, indices(cu_seqlens_q), indices(cu_seqlens_k), None, None, None, state, longest_q,
        longest_k, _mask(causal), left, right, scale, soft_cap, dropout_p, return_lse or needs, wide(k_scale), wide(v_scale),
        wide(q_scale))  # fmt: skip
    into = _result_of(q, v, out_dtype, packed=True)
    if into is not None:
        lse = _forward_into(needs, q, k, v, into, *given)
        return (into, lse) if return_lse else into
    run = _forward if return_lse else _forward_out
    return run(needs, q, k, v, *given)


def attention_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = True,
    seqused_k: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    scale: float | None = None,
    window_left: int = -1,
    soft_cap: float = 0.0,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    return_lse: bool = False,
    k_rotary: torch.Tensor | None = None,
):
    """attention() of the last 1 to 16 tokens of sequences to their cache, for inference: no gradients.

    q: [batch, heads, 1 to 16, head_dim], f16 or bf16; k, v: [batch, heads_kv, seqlen_k, dim], or with block_table
    [pages, page_size, heads_kv, dim], of q's type or float8_e4m3fn with k_scale and v_scale (f32 [1] or
    [heads_kv]). seqused_k: i32 [batch] on the device, the keys in use, including those of the queries' tokens.

    Multi-head latent attention with absorbed projections has one KV head of 576 elements. Pass v as the view
    k[..., :512]: the cache is then read once. Pass the model's scale too, which is not 1 / sqrt(576).

    A latent cache may also be float8_e4m3fn with rotary columns apart: k and v are both its 512 columns in float8_e4m3fn,
    k_rotary its rotary columns in q's type, [batch, seqlen_k, 64] or [pages, page_size, 64], and k_scale a factor for each
    128 of the others, f32 [batch, seqlen_k, groups] or [pages, page_size, groups]. All three may be views of one cache, as
    FlashMLA's fp8_ds_mla has them: of uint8 [pages, page_size, 1, 656], cache[..., :512].view(torch.float8_e4m3fn),
    cache[:, :, 0, 512:528].view(torch.float32) and cache[:, :, 0, 528:].view(torch.bfloat16).
    """
    if (
        k_rotary is not None
        and v is not k
        and not torch.compiler.is_compiling()
        and (v.data_ptr() != k.data_ptr() or v.shape != k.shape)
    ):
        raise ValueError("v must be k with k_rotary: the values are the keys' columns in float8_e4m3fn")
    out, lse = _decode(
        needs_gradient(q, k, v, k_scale, v_scale, sinks, alibi_slopes, k_rotary), q, k, v, wide(k_scale), wide(v_scale),
        wide(alibi_slopes), wide(sinks), indices(seqused_k), indices(block_table), _mask(causal), window_left, scale,
        soft_cap, return_lse, k_rotary)  # fmt: skip
    return (out, lse) if return_lse else out


def attention_dropout_mask(
    state: torch.Tensor, batch: int, heads: int, seqlen_q: int, seqlen_k: int, dropout_p: float
) -> torch.Tensor:
    """The factors that dropout applies to weights: f32 [batch, heads, seqlen_q, seqlen_k] of 0 and 1 / (1 - dropout_p).

    state: i64 [2], the dropout_state of the attention call.
    """
    return _dropout_mask(False, state, batch, heads, seqlen_q, seqlen_k, dropout_p)
