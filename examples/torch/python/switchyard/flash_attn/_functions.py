# SPDX-License-Identifier: MIT
"""Attention with flash_attn's arguments: dense and packed by cu_seqlens, with gradients."""

import contextlib

import torch

from ..torch import _gradients, attention
from ..torch._attention import MASKS, _state
from ..torch._direct import caller, needs_gradient
from ..torch._types import indices, wide
from . import _probabilities

_forward = caller("attention_forward", _gradients.attention_forward)


def _deterministic(wanted: bool):
    return contextlib.nullcontext() if torch.compiler.is_compiling() or not wanted else _gradients.deterministic(True)


def window_of(size) -> tuple[int, int]:
    """The window as two numbers; also accepts a tensor, and None for no limit."""
    left, right = (-1 if keys is None else int(keys) for keys in size)
    return left, right


def _number(length) -> int:
    """A length, also where it is a tensor: outside of compiled code the op would take it as it is."""
    return int(length) if isinstance(length, torch.Tensor) else length


def no_row_is_infinite(lse: torch.Tensor) -> torch.Tensor:
    """As flash_attn has it: the LSE of a row that sees nothing is +infinity."""
    return lse.masked_fill(lse == -torch.inf, torch.inf)


def _folded(x: torch.Tensor) -> torch.Tensor:
    """[batch, tokens, heads, dim] as one sequence with the heads of all, [1, batch * heads, tokens, dim]."""
    return x.transpose(1, 2).reshape(1, -1, x.shape[1], x.shape[3])


def _dense(q, k, v, causal, scale, window, softcap, slopes, sinks, dropout_p, state, return_lse):
    """Results [batch, tokens, heads, dim] and the LSE. Slopes of each sequence become those of more heads."""
    apart = slopes is not None and slopes.dim() == 2
    fold = _folded if apart else lambda x: x.transpose(1, 2)
    if apart and sinks is not None:
        sinks = sinks.repeat(q.shape[0])
    found = attention(fold(q), fold(k), fold(v), causal=causal, scale=scale, window=window, soft_cap=softcap,
                      alibi_slopes=slopes.reshape(-1) if apart else slopes, sinks=sinks, dropout_p=dropout_p,
                      dropout_state=state, return_lse=return_lse)  # fmt: skip
    out, lse = found if return_lse else (found, None)
    batch, n, heads, _ = q.shape
    if apart:
        out = out.view(batch, heads, n, -1)
        lse = None if lse is None else lse.view(batch, heads, n)
    return out.transpose(1, 2).contiguous() if apart else out.transpose(1, 2), lse


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
):
    """Attention of q [batch, seqlen_q, heads, head_dim] to k and v [batch, seqlen_k, heads_kv, head_dim].

    causal and window_size are aligned to the last query and key. alibi_slopes: f32 [heads] or [batch, heads]. Returns
    [batch, seqlen_q, heads, head_dim]. With return_attn_probs, also returns the LSE [batch, heads, seqlen_q] and a third
    result for tests: None, or with dropout exp(score - row maximum), negative where dropped, computed by torch.
    """
    return run_dense(q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
                     return_attn_probs)  # fmt: skip


def run_dense(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
              deterministic=False, return_attn_probs=False, sinks=None):  # fmt: skip
    if q.dim() != 4:
        raise RuntimeError(f"switchyard.flash_attn: q must be [batch, seqlen, heads, head_dim], not {list(q.shape)}")
    window = window_of(window_size)
    state = _state(None, q.device) if dropout_p else None
    with _deterministic(deterministic):
        out, lse = _dense(q, k, v, causal, softmax_scale, window, softcap, alibi_slopes, sinks, dropout_p, state,
                          return_attn_probs)  # fmt: skip
    if not return_attn_probs:
        return out
    signed = None
    if dropout_p:
        signed = _probabilities.of_dense(q, k, causal, softmax_scale, window, softcap, alibi_slopes, dropout_p, state)
    return out, no_row_is_infinite(lse), signed


def flash_attn_kvpacked_func(
    q: torch.Tensor,
    kv: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
):
    """flash_attn_func with k and v in one tensor, [batch, seqlen_k, 2, heads_kv, head_dim]."""
    return flash_attn_func(q, *kv.unbind(2), dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
                           deterministic, return_attn_probs)  # fmt: skip


def flash_attn_qkvpacked_func(
    qkv: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
):
    """flash_attn_func with q, k and v in one tensor, [batch, seqlen, 3, heads, head_dim]."""
    return flash_attn_func(*qkv.unbind(2), dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
                           deterministic, return_attn_probs)  # fmt: skip


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
):
    """Attention of packed sequences: q [tokens, heads, head_dim], k and v [tokens_k, heads_kv, head_dim], or with
    block_table [pages, page_size, heads_kv, head_dim]. cu_seqlens: [batch + 1], the start of each sequence.

    alibi_slopes: f32 [heads] or [batch, heads]; slopes per sequence need one launch per sequence. Returns
    [tokens, heads, head_dim]. With return_attn_probs, also returns the LSE [heads, tokens] and the third result of
    flash_attn_func, [batch, heads, max_seqlen_q, max_seqlen_k].
    """
    return run_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, causal,
                      window_size, softcap, alibi_slopes, deterministic, return_attn_probs, block_table)  # fmt: skip


def run_packed(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None, causal=False,
               window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False,
               block_table=None, sinks=None):  # fmt: skip
    slopes, sinks = wide(alibi_slopes), wide(sinks)
    needs = needs_gradient(q, k, v, slopes, sinks)
    cu_q, cu_k, used = indices(cu_seqlens_q), indices(cu_seqlens_k), None
    if block_table is not None:
        cu_k, used = None, cu_k[1:] - cu_k[:-1]
    window = window_of(window_size)
    max_seqlen_q, max_seqlen_k = _number(max_seqlen_q), _number(max_seqlen_k)
    mask = MASKS["causal_bottom_right" if causal else "none"]
    state = _state(None, q.device) if dropout_p else None

    def run(slopes, used_q, used_k):
        return _forward(needs, q, k, v, None, slopes, sinks, cu_q, cu_k, used_q, used_k, indices(block_table), state,
                        max_seqlen_q, max_seqlen_k, mask, *window, softmax_scale, softcap, dropout_p,
                        return_attn_probs or needs, None, None)  # fmt: skip

    with _deterministic(deterministic):
        if slopes is not None and slopes.dim() == 2:
            out, lse = _by_sequence(run, slopes, cu_q, cu_k, used, q.shape[0])
        else:
            out, lse = run(slopes, None, used)
    if not return_attn_probs:
        return out
    signed = None
    if dropout_p:
        signed = _probabilities.of_packed(q, k, cu_q, cu_k, max_seqlen_q, max_seqlen_k, causal, softmax_scale, window, softcap,
                                          slopes, dropout_p, state)  # fmt: skip
    return out, no_row_is_infinite(lse), signed


def _by_sequence(run, slopes, cu_q, cu_k, used, tokens):
    """Each sequence by itself, with its slopes: the others have nothing in use, and cost next to nothing."""
    used_q = cu_q[1:] - cu_q[:-1]
    used_k = cu_k[1:] - cu_k[:-1] if used is None else used
    token = torch.arange(tokens, device=cu_q.device)
    out = lse = None
    for b in range(slopes.shape[0]):
        only = torch.arange(slopes.shape[0], device=cu_q.device) == b
        found, log = run(slopes[b], used_q * only, used_k * only)
        mine = (token >= cu_q[b]) & (token < cu_q[b + 1])
        out = found if out is None else torch.where(mine[:, None, None], found, out)
        if log is not None:
            lse = log if lse is None else torch.where(mine, log, lse)
    return out, lse


def flash_attn_varlen_kvpacked_func(
    q: torch.Tensor,
    kv: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
):
    """flash_attn_varlen_func with k and v in one tensor, [tokens_k, 2, heads_kv, head_dim]."""
    return flash_attn_varlen_func(q, *kv.unbind(1), cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p,
                                  softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
                                  return_attn_probs)  # fmt: skip


def flash_attn_varlen_qkvpacked_func(
    qkv: torch.Tensor,
    cu_seqlens: torch.Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
):
    """flash_attn_varlen_func with q, k and v in one tensor, [tokens, 3, heads, head_dim]."""
    return flash_attn_varlen_func(*qkv.unbind(1), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout_p, softmax_scale,
                                  causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs)  # fmt: skip
