# SPDX-License-Identifier: MIT
"""Attention in float64 from its definition: the judge of every attention test."""

import torch


def visible(n, m, mask, window, device=None):
    """Which keys (columns) of m a query (row) of n sees."""
    i = torch.arange(n, device=device)[:, None]
    j = torch.arange(m, device=device)[None, :]
    at = i if mask == "causal_top_left" else i + m - n
    seen = torch.ones(n, m, dtype=torch.bool, device=device)
    if mask != "none":
        seen &= j <= at
    if window[0] >= 0:
        seen &= j >= at - window[0]
    if window[1] >= 0:
        seen &= j <= at + window[1]
    return seen


def attention(q, k, v, *, mask="none", window=(-1, -1), scale=None, soft_cap=0.0, bias=None, sinks=None, alibi=None,
              kept=None):  # fmt: skip
    """q [B, H, N, D], k and v [B, Hkv, M, D] in float64, differentiable. `kept` multiplies the weights. Returns the
    result and the log of each row's sum."""
    n, m, groups = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if soft_cap:
        scores = soft_cap * torch.tanh(scores / soft_cap)
    if bias is not None:
        scores = scores + bias
    if alibi is not None:
        distance = torch.arange(n, device=q.device)[:, None] + m - n - torch.arange(m, device=q.device)[None, :]
        scores = scores - alibi[None, :, None, None] * distance.abs()
    scores = scores.masked_fill(~visible(n, m, mask, window, q.device), -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[None, :, None, None].expand(*scores.shape[:3], 1)], -1)
    lse = torch.logsumexp(scores, -1)
    nothing = torch.isinf(lse)[..., None]
    weights = torch.exp(scores - lse.masked_fill(torch.isinf(lse), 0.0)[..., None])[..., :m]
    weights = weights.masked_fill(nothing, 0.0)
    if kept is not None:
        weights = weights * kept
    return weights @ v, lse
