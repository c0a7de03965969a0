# SPDX-License-Identifier: MIT
"""Attention with flash_attn's arguments: dense and packed by cu_seqlens, with gradients."""

import contextlib

import torch

from ..torch import _gradients, attention
from ..torch._attention import MASKS, _state
from ..torch._direct import caller, needs_gradient
from ..torch._types import indices, wide

_forward = caller("attention_forward", _gradients.attention_forward)


def _deterministic(wanted: bool):
    return contextlib.nullcontext() if torch.compiler.is_compiling() or not wanted else _gradients.deterministic(True)


def refuse_probabilities(return_attn_probs: bool, dropout_p: float) -> None:
    if return_attn_probs and dropout_p:
        raise RuntimeError("switchyard.flash_attn: return_attn_probs with dropout_p is not served: no kernel writes the "
                           "probabilities; switchyard.torch.attention_dropout_mask tells what is dropped")  # fmt: skip


def alibi(slopes: torch.Tensor | None, n: int, m: int, like: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Slopes of heads, and in place of those of each sequence and head what they add to scores."""
    if slopes is None or slopes.dim() == 1:
        return slopes, None
    i, j = torch.arange(n, device=like.device)[:, None], torch.arange(m, device=like.device)[None, :]
    return None, (-slopes[:, :, None, None].float() * (i + m - n - j).abs()).to(like.dtype)


def results(out: torch.Tensor, lse: torch.Tensor, wanted: bool):
    """As flash_attn returns them: the LSE of a row that sees nothing is +infinity. No probabilities are written."""
    return (out, lse.masked_fill(lse == -torch.inf, torch.inf), None) if wanted else out


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

    causal and window_size count from the last query and key. alibi_slopes: f32 [heads] or [batch, heads]. Returns
    [batch, seqlen_q, heads, head_dim]; with return_attn_probs that, the LSE [batch, heads, seqlen_q] and None.
    """
    refuse_probabilities(return_attn_probs, dropout_p)
    slopes, bias = alibi(alibi_slopes, q.shape[1], k.shape[1], q)
    with _deterministic(deterministic):
        found = attention(*(each.transpose(1, 2) for each in (q, k, v)), causal=causal, bias=bias, scale=softmax_scale,
                          window=tuple(window_size), soft_cap=softcap, alibi_slopes=slopes, dropout_p=dropout_p,
                          return_lse=return_attn_probs)  # fmt: skip
    if return_attn_probs:
        return results(found[0].transpose(1, 2), found[1], True)
    return found.transpose(1, 2)


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
    block_table [pages, page_size, heads_kv, head_dim]. cu_seqlens: [batch + 1], where sequences begin.

    Returns [tokens, heads, head_dim]; with return_attn_probs that, the LSE [heads, tokens] and None.
    """
    refuse_probabilities(return_attn_probs, dropout_p)
    if alibi_slopes is not None and alibi_slopes.dim() != 1:
        if alibi_slopes.shape[0] != 1:
            raise RuntimeError("switchyard.flash_attn: alibi_slopes of each sequence are not served with packed sequences, "
                               "only [heads]")  # fmt: skip
        alibi_slopes = alibi_slopes[0]
    slopes = wide(alibi_slopes)
    needs = needs_gradient(q, k, v, slopes)
    cu_q, cu_k, used = indices(cu_seqlens_q), indices(cu_seqlens_k), None
    if block_table is not None:
        cu_k, used = None, cu_k[1:] - cu_k[:-1]
    left, right = window_size
    mask = MASKS["causal_bottom_right" if causal else "none"]
    state = _state(None, q.device) if dropout_p else None
    with _deterministic(deterministic):
        out, lse = _forward(needs, q, k, v, None, slopes, None, cu_q, cu_k, None, used, indices(block_table), state, max_seqlen_q,
                            max_seqlen_k, mask, left, right, softmax_scale, softcap, dropout_p,
                            return_attn_probs or needs, None, None)  # fmt: skip
    return results(out, lse, return_attn_probs)


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
