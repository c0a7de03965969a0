# SPDX-License-Identifier: MIT
"""What return_attn_probs returns with dropout, computed by torch because no kernel writes it. As in flash_attn it is for
tests: it is as large as all scores."""

import torch

from ..torch import attention_dropout_mask


def _signed(q, k, causal, scale, window, softcap, slopes, mask, used_q=None, used_k=None):
    """exp(score - largest of the row), negative where mask is 0. q, k: [batch, tokens, heads, dim]."""
    (n, heads), (m, heads_kv) = q.shape[1:3], k.shape[1:3]
    queries, keys = q.detach().float().transpose(1, 2), k.detach().float().transpose(1, 2)
    keys = keys.repeat_interleave(heads // heads_kv, 1)
    scores = queries @ keys.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    i, j = torch.arange(n, device=q.device)[:, None], torch.arange(m, device=q.device)[None, :]
    none = torch.zeros((1, 1, 1), dtype=torch.int64, device=q.device)
    used_q = none + n if used_q is None else used_q[:, None, None]
    used_k = none + m if used_k is None else used_k[:, None, None]
    behind = j - (i + used_k - used_q)  # how far a key stands behind the query
    if slopes is not None:
        scores = scores - slopes.reshape(-1, heads)[:, :, None, None] * behind.abs()[:, None]
    left, right = window[0], 0 if causal else window[1]
    seen = (i < used_q) & (j < used_k)
    seen = seen & (behind >= -left) if left >= 0 else seen
    seen = (seen & (behind <= right) if right >= 0 else seen)[:, None]
    scores = scores.masked_fill(~seen, -torch.inf)
    largest = scores.amax(3, keepdim=True)
    out = torch.exp(scores - largest.masked_fill(largest == -torch.inf, 0))
    return torch.where(mask > 0, out, -out).to(q.dtype)


def of_dense(q, k, causal, scale, window, softcap, slopes, dropout_p, state):
    batch, n, heads, _ = q.shape
    m = k.shape[1]
    folded = slopes is not None and slopes.dim() == 2  # as the call was
    mask = attention_dropout_mask(state, *((1, batch * heads) if folded else (batch, heads)), n, m, dropout_p)
    return _signed(q, k, causal, scale, window, softcap, slopes, mask.view(batch, heads, n, m))


def _padded(x, begin, longest):
    """Packed rows as [batch, longest, ...]; what is behind a sequence is any other row."""
    at = begin[:-1, None].long() + torch.arange(longest, device=x.device)
    return x[at.clamp(max=x.shape[0] - 1)]


def of_packed(q, k, cu_q, cu_k, n, m, causal, scale, window, softcap, slopes, dropout_p, state):
    if cu_k is None:
        raise RuntimeError("switchyard.flash_attn: return_attn_probs with dropout_p and block_table is not served")
    batch = cu_q.shape[0] - 1
    mask = attention_dropout_mask(state, batch, q.shape[1], n, m, dropout_p)
    return _signed(_padded(q, cu_q, n), _padded(k, cu_k, m), causal, scale, window, softcap, slopes, mask,
                   cu_q[1:] - cu_q[:-1], cu_k[1:] - cu_k[:-1])  # fmt: skip
