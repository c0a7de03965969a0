# SPDX-License-Identifier: MIT
"""vLLM's cache as pages of keys and of values, and what is written into it."""

import torch

from ..torch._library import ops

_identities: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}


def pages_of(kv_cache: torch.Tensor, head_size: int, narrow: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """[blocks, heads_kv, block_size, 2 * head_size] as keys and values, [blocks, block_size, heads_kv, head_size].

    Both are views, whatever the layout in memory. A narrow cache of bytes is viewed as e4m3.
    """
    if narrow and kv_cache.dtype != torch.float8_e4m3fn:
        kv_cache = kv_cache.view(torch.float8_e4m3fn)
    keys, values = kv_cache.transpose(1, 2).split(head_size, dim=-1)
    return keys, values


def _identity(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of angle 0: rotary_cache rotates at least one pair."""
    if device not in _identities:
        _identities[device] = (torch.ones(1, 1, device=device), torch.zeros(1, 1, device=device))
    return _identities[device]


def write(key, value, keys, values, slots, k_scale=None, v_scale=None) -> None:
    """Writes [tokens, heads_kv, head_size] into the slots, one launch for both; a negative slot is padding. Tokens beyond
    the slots are padding too."""
    tokens = slots.shape[0]
    cos, sin = _identity(key.device)
    none = key[:tokens, :0]  # vLLM has turned queries and keys
    ops.rotary_cache(none, key[:tokens], value[:tokens], keys, values, cos, sin, torch.zeros_like(slots), slots,
                     k_scale=k_scale, v_scale=v_scale)  # fmt: skip
