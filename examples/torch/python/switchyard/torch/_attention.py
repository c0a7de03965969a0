"""Attention: dense, packed, paged, and of the last tokens against a cache."""

import torch

from ._library import ops

_forward = ops.attention_forward

MASKS = {"none": 0, "causal_top_left": 1, "causal_bottom_right": 2}


def _mask(causal: bool | str) -> int:
    if isinstance(causal, str):
        return MASKS[causal]
    return MASKS["causal_bottom_right"] if causal else MASKS["none"]


def _needs_gradient(*tensors) -> bool:
    if not torch.is_grad_enabled():
        return False
    return any(each is not None and each.requires_grad for each in tensors)


def _scores(bias: torch.Tensor | None, q: torch.Tensor) -> torch.Tensor | None:
    """The bias with 4 dimensions; a mask of booleans becomes 0 and -infinity."""
    if bias is None:
        return None
    if bias.dtype == torch.bool:
        bias = torch.zeros((), dtype=q.dtype, device=q.device).masked_fill(~bias, -torch.inf)
    return bias if bias.dim() == 4 else bias[(None,) * (4 - bias.dim())]


def _state(dropout_p: float, state: torch.Tensor | None, device: torch.device) -> torch.Tensor | None:
    """Seed and offset from torch's generator, on the device: safe in CUDA graphs, without synchronisation."""
    if dropout_p == 0.0 or state is not None:
        return state
    return torch.randint(0, 2**62, (2,), dtype=torch.int64, device=device)


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
    return_lse: bool = False,
):
    """softmax(mask(cap(scale * q k^T) + bias)) v, as torch.nn.functional.scaled_dot_product_attention has it.

    q: [batch, heads, seqlen_q, head_dim]; k, v: [batch, heads_kv, seqlen_k, dim], where heads_kv divides heads; or
    with block_table (i32 [batch, entries]), [pages, page_size, heads_kv, dim], and seqused_k is required. f32, f16
    or bf16; any strides (a strided innermost dimension is copied).

    causal: True or "causal_bottom_right" (query i of n sees key j of m where j <= i + m - n), "causal_top_left"
    (j <= i), False or "none". bias: added to scores, of q's type and broadcastable, or a boolean mask (True is
    seen). window: keys before and after the diagonal that are seen, -1 for all. soft_cap: c * tanh(score / c); 0:
    none. sinks, alibi_slopes: f32 [heads]. seqused_q, seqused_k: i32 [batch] on the device, queries and keys in
    use; other rows of the result are 0. scale: 1 / sqrt(head_dim) unless given. dropout_p drops weights;
    dropout_state is i64 [2] on the device, a seed and an offset, from torch's generator unless given.

    Returns [batch, heads, seqlen_q, dim of v] over memory [batch, seqlen_q, heads, dim], and with return_lse the
    f32 log of each row's sum, [batch, heads, seqlen_q]. Gradients: q, k, v, bias, sinks; the LSE has none. With
    torch.use_deterministic_algorithms, the backward gives the same bits in every run.
    """
    scores = _scores(bias, q)
    # Arguments that have their defaults are left out: each costs the host time.
    given = {"mask": _mask(causal)}
    if return_lse or _needs_gradient(q, k, v, scores, sinks):
        given["with_lse"] = True
    if scale is not None:
        given["scale"] = scale
    if window != (-1, -1):
        given["window_left"], given["window_right"] = window
    if soft_cap:
        given["soft_cap"] = soft_cap
    if dropout_p:
        given["dropout_p"], given["dropout_state"] = dropout_p, _state(dropout_p, dropout_state, q.device)
    if scores is not None:
        given["bias"] = scores
    if sinks is not None:
        given["sinks"] = sinks
    if alibi_slopes is not None:
        given["alibi_slopes"] = alibi_slopes
    if seqused_q is not None:
        given["seqused_q"] = seqused_q
    if seqused_k is not None:
        given["seqused_k"] = seqused_k
    if block_table is not None:
        given["block_table"] = block_table
    if longest_k >= 0:
        given["longest_k"] = longest_k
    out, lse = _forward(q, k, v, **given)
    return (out, lse) if return_lse else out


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
    return_lse: bool = False,
):
    """attention of packed sequences: q [tokens, heads, head_dim], k and v [tokens_k, heads_kv, dim].

    cu_seqlens_q, cu_seqlens_k: i32 [batch + 1] on the device, where sequences begin, and last the number of
    tokens. longest_q, longest_k: at least the longest sequence. The other arguments are those of attention; the
    LSE is [heads, tokens].
    """
    out, lse = ops.attention_forward(
        q, k, v, None, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, None, None, None,
        _state(dropout_p, dropout_state, q.device), longest_q, longest_k, _mask(causal), *window, scale, soft_cap,
        dropout_p, return_lse or _needs_gradient(q, k, v, sinks))  # fmt: skip
    return (out, lse) if return_lse else out


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
):
    """attention of the last 1 to 16 tokens of sequences against their cache, for inference.

    q: [batch, heads, 1 to 16, head_dim], f16 or bf16; k, v: [batch, heads_kv, seqlen_k, dim], or with block_table
    [pages, page_size, heads_kv, dim], of q's type or float8_e4m3fn with k_scale and v_scale (f32 [1] or
    [heads_kv]). seqused_k: i32 [batch] on the device, keys in use, the queries' own among them. It has no gradient.
    """
    out, lse = ops.attention_decode(
        q, k, v, k_scale, v_scale, alibi_slopes, sinks, seqused_k, block_table, _mask(causal), window_left, scale,
        soft_cap, return_lse)  # fmt: skip
    return (out, lse) if return_lse else out


def attention_dropout_mask(
    state: torch.Tensor, batch: int, heads: int, seqlen_q: int, seqlen_k: int, dropout_p: float
) -> torch.Tensor:
    """What dropout multiplies weights with: f32 [batch, heads, seqlen_q, seqlen_k] of 0 and 1 / (1 - dropout_p).

    state: i64 [2], the dropout_state of the attention call.
    """
    return ops.attention_dropout_mask(state, batch, heads, seqlen_q, seqlen_k, dropout_p)
