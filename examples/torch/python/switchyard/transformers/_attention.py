# SPDX-License-Identifier: MIT
"""Attention of a Hugging Face layer."""

import torch

from ..torch import attention as dense_attention
from ..torch import attention_decode
from ..torch._attention import MAX_DECODE_QUERIES


def _serves_decode(query, key, value, dropout) -> bool:
    """Whether the call is a step of decoding: a few queries in half precision, without gradients."""
    if query.size(2) > MAX_DECODE_QUERIES or query.dtype == torch.float32 or dropout:
        return False
    return not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value)))


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    **kwargs,
) -> tuple[torch.Tensor, None]:
    """The attention of transformers' AttentionInterface: [batch, heads, seqlen, dim] to [batch, seqlen, heads, dim].

    `attention_mask` is the result of `_masks.mask` or `no_mask`, or the caller's own mask: boolean or added to scores,
    [batch or 1, heads or 1, q, k]. `position_bias` is added to scores too. Raises RuntimeError where no kernel serves the
    call, and if attention weights are requested, which fused kernels do not compute.
    """
    if kwargs.get("output_attentions"):
        raise RuntimeError("attn_implementation='switchyard' returns no attention weights: use 'eager' for them")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    used = bias = None
    if attention_mask is not None and attention_mask.shape[-1] != 0:  # else no_mask's
        if attention_mask.dtype == torch.int32:
            if attention_mask.shape[-1] != 1:
                raise RuntimeError(f"switchyard.transformers: {type(module).__name__} puts masks together, which lengths of a "
                                   "static cache are not: use a dynamic cache, or attn_implementation='sdpa'")  # fmt: skip
            used = attention_mask.reshape(-1)
        else:
            bias, causal, sliding_window = attention_mask, False, None
    if position_bias is not None:  # T5's
        if bias is None:
            bias = position_bias
        elif bias.dtype == torch.bool:
            bias = position_bias.masked_fill(~bias, -torch.inf)
        else:
            bias = position_bias + bias
    if bias is not None and bias.dtype.is_floating_point and bias.dtype != query.dtype:
        bias = bias.to(query.dtype)
    sinks = None if s_aux is None else s_aux.float()
    soft_cap = softcap or 0.0
    left = sliding_window - 1 if sliding_window is not None else -1
    if causal and bias is None and _serves_decode(query, key, value, dropout):
        out = attention_decode(query, key, value, seqused_k=used, scale=scaling, window_left=left, soft_cap=soft_cap,
                               sinks=sinks)  # fmt: skip
        return out.transpose(1, 2), None
    right = -1
    if not causal and left >= 0:
        right = left  # a bidirectional window
    # Lengths of as many queries as keys are those of padding on the right: query i is at position i. Else queries are
    # a sequence's last.
    diagonal = "causal_top_left" if used is not None and query.size(2) == key.size(2) else "causal_bottom_right"
    out = dense_attention(query, key, value, causal=diagonal if causal else "none", bias=bias, scale=scaling,
                          window=(left, right), soft_cap=soft_cap, sinks=sinks, dropout_p=dropout,
                          seqused_k=used)  # fmt: skip
    return out.transpose(1, 2), None
