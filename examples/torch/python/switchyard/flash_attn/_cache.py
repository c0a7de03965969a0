# SPDX-License-Identifier: MIT
"""Attention to a cache of keys and values, into which new ones are written. For inference: no gradients."""

import torch

from ..torch import attention, attention_decode, rotary
from ..torch._attention import MAX_DECODE_QUERIES
from ..torch._types import indices
from ._functions import no_row_is_infinite, window_of


def _refuse(text: str):
    raise RuntimeError(f"switchyard.flash_attn: {text}")


def _turned(x, cos, sin, interleaved, used, in_order):
    """x [batch, tokens, heads, dim] turned by its places behind `used` keys, or all tokens by the first's."""
    positions = used[:, None].long() + (torch.arange(x.shape[1], device=x.device) if in_order else 0)
    style = "interleaved" if interleaved else "half"
    positions = positions.expand(x.shape[:2]).contiguous()
    out = rotary(x.transpose(1, 2), None, cos, sin, positions=positions, rotary_dim=2 * cos.shape[1], style=style)
    return out.transpose(1, 2)


def _append(cache, new, used, rows, block_table):
    """Writes [batch, tokens, heads, dim] behind the keys in use, which _require_room has found room for."""
    at = used[:, None].long() + torch.arange(new.shape[1], device=new.device)
    if block_table is None:
        cache[rows[:, None].long(), at] = new
        return
    size = cache.shape[1]
    cache[_pages_of(at, block_table, size), at % size] = new


def _pages_of(at, block_table, size):
    return block_table.long().gather(1, at // size)


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    rotary_cos: torch.Tensor | None = None,
    rotary_sin: torch.Tensor | None = None,
    cache_seqlens: int | torch.Tensor | None = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: torch.Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
):
    """Attention of q [batch, seqlen_q, heads, head_dim] to k_cache and v_cache [rows, seqlen_cache, heads_kv, head_dim], or
    with block_table [pages, page_size, heads_kv, head_dim].

    k and v, [batch, seqlen_new, heads_kv, head_dim], are appended to the cache after the first cache_seqlens keys of each
    sequence. rotary_cos and rotary_sin, [positions, rotary_dim / 2], rotate q and k first. k is rotated by position; so is q
    with `causal` or a window, otherwise all of q uses the position of the first new token. cache_batch_idx: the cache row of
    each sequence. cache_leftpad: the number of padding keys at the start of each row. num_splits is ignored: the kernel
    chooses how many blocks share a row. Returns [batch, seqlen_q, heads, head_dim], and with return_softmax_lse the LSE
    [batch, heads, seqlen_q].
    """
    if block_table is not None and (cache_batch_idx is not None or cache_leftpad is not None):
        _refuse("pages take neither cache_batch_idx nor cache_leftpad")
    if (k is None) != (v is None):
        _refuse("k and v are given together")
    if k is not None and cache_seqlens is None:
        _refuse("k and v need cache_seqlens: where they are written")
    if rotary_cos is not None and (k is None or rotary_sin is None):
        _refuse("rotary_cos needs rotary_sin and the k that it turns")
    batch, seqlen_q = q.shape[:2]
    with torch.no_grad():
        return _run(q, k_cache, v_cache, k, v, rotary_cos, rotary_sin,
                    _lengths(cache_seqlens, batch, q.device), _rows(cache_batch_idx, batch, q.device), cache_leftpad,
                    cache_batch_idx is not None, indices(block_table), softmax_scale, causal, window_of(window_size), softcap,
                    rotary_interleaved, alibi_slopes, return_softmax_lse)  # fmt: skip


def _require_new(q, new, cache, name):
    """Keys or values are written as they are: others would be broadcast or refused in words of indexing."""
    if new.dtype != cache.dtype:
        _refuse(f"{name} is {new.dtype}, but {name}_cache is {cache.dtype}")
    if new.dim() != 4 or new.shape[0] != q.shape[0] or new.shape[2:] != cache.shape[2:]:
        wanted = (q.shape[0], "seqlen_new", *cache.shape[2:])
        _refuse(f"{name} has the shape {tuple(new.shape)}, but must be ({', '.join(map(str, wanted))}) beside {name}_cache")


def _is_readable(numbers):
    return numbers.device.type == "cpu" and numbers.numel() > 0 and not torch.compiler.is_compiling()


def _require_room(used, new, cache, pages):
    """On the CPU, all keys of a sequence must fit into its row of the cache, or into its pages: behind their end, and before
    their beginning, another's would be written."""
    if used is None or not _is_readable(used):
        return
    least, most = (int(number) for number in used.aminmax())
    if least < 0:
        _refuse(f"cache_seqlens has {least}, but a sequence has at least 0 keys")
    size, rows = cache.shape[1], 1 if pages is None else pages.shape[1]
    if most + new > rows * size:
        room = f"k_cache has room for {size}" if pages is None else f"block_table has {rows} pages of {size}"
        _refuse(f"{room} keys for each sequence, but one has {most + new} keys")


def _require_known(what, numbers, cache, of):
    """On the CPU, rows and pages must exist; a negative number would count from the end."""
    if not _is_readable(numbers):
        return
    least, most = (int(number) for number in numbers.aminmax())
    if least < 0 or most >= cache.shape[0]:
        wrong = least if least < 0 else most
        _refuse(f"{what} has {wrong}, but k_cache has the {of} 0 to {cache.shape[0] - 1}")


def _lengths(given, batch, device):
    if given is None or isinstance(given, torch.Tensor):
        return indices(given)
    return torch.full((batch,), given, dtype=torch.int32, device=device)


def _rows(given, batch, device):
    return torch.arange(batch, device=device) if given is None else given


def _run(q, k_cache, v_cache, k, v, cos, sin, used, rows, leftpad, has_rows, pages, scale, causal, window, softcap, interleaved,
         slopes, with_lse):  # fmt: skip
    batch, seqlen_q = q.shape[:2]
    if has_rows:
        _require_known("cache_batch_idx", rows, k_cache, "rows")
    if k is not None:
        _require_new(q, k, k_cache, "k")
        _require_new(q, v, v_cache, "v")
    _require_room(used, 0 if k is None else k.shape[1], k_cache, pages)
    if k is not None and pages is not None and _is_readable(used):
        at = used[:, None].long() + torch.arange(k.shape[1])
        _require_known("block_table, where keys are written,", _pages_of(at, pages, k_cache.shape[1]), k_cache, "pages")
    if k is not None:
        if cos is not None:
            q = _turned(q, cos, sin, interleaved, used, causal or window != (-1, -1))
            k = _turned(k, cos, sin, interleaved, used, True)
        _append(k_cache, k, used, rows, pages)
        _append(v_cache, v, used, rows, pages)
        used = used + k.shape[1]
    longest = k_cache.shape[1] if pages is None else pages.shape[1] * k_cache.shape[1]
    if pages is None:
        if has_rows:
            k_cache, v_cache = k_cache.index_select(0, rows), v_cache.index_select(0, rows)
        keys, values = k_cache[:batch].transpose(1, 2), v_cache[:batch].transpose(1, 2)
    else:
        keys, values = k_cache, v_cache
        if used is None:
            used = torch.full((batch,), longest, dtype=torch.int32, device=q.device)
    bias = None
    if leftpad is not None:
        seen = torch.arange(longest, device=q.device) >= leftpad[:, None]
        bias = torch.zeros((), dtype=q.dtype, device=q.device).masked_fill(~seen[:, None, None, :], -torch.inf)
    is_step = seqlen_q <= MAX_DECODE_QUERIES and q.dtype != torch.float32 and bias is None
    is_step = is_step and window[1] < 0 and (causal or window[0] < 0)  # what attention_decode has

    def attend(queries, keys, values, used, pages, bias, slopes):
        options = {"causal": causal, "seqused_k": used, "block_table": pages, "scale": scale, "soft_cap": softcap,
                   "alibi_slopes": slopes, "return_lse": True}  # fmt: skip
        if is_step:
            out, lse = attention_decode(queries, keys, values, window_left=window[0], **options)
        else:
            out, lse = attention(queries, keys, values, bias=bias, window=window, **options)
        return out.transpose(1, 2), lse

    given = [q.transpose(1, 2), keys, values, used, pages, bias]
    if slopes is not None and slopes.dim() == 2 and batch > 0:
        out, lse = map(torch.cat, zip(*(attend(*_of_sequence(b, given), slopes[b]) for b in range(batch)), strict=True))
    else:
        out, lse = attend(*given, slopes if batch > 0 else None)
    return (out, no_row_is_infinite(lse)) if with_lse else out


def _of_sequence(b, given):
    """The part of one sequence. The kernel takes its slopes in f32; a bias for all would be rounded to q's type."""
    queries, keys, values, used, pages, bias = given
    one = slice(b, b + 1)
    if pages is None:
        keys, values = keys[one], values[one]
    return queries[one], keys, values, *(None if x is None else x[one] for x in (used, pages, bias))
