# SPDX-License-Identifier: MIT
"""Masks in the form that the kernels take: nothing, lengths on the device, or a mask of booleans.

transformers hands what is returned here to each layer's attention. It must be a tensor of 4 dimensions, because
`generate` passes it through the model's own mask function again:

    None                      every key is in use; causal and sliding layers say so themselves
    i32 [1, 1, 1, 0]          the same, from a patched model, before transformers makes a mask (no_mask)
    i32 [batch, 1, 1, 1]      the keys in use of each sequence (static caches, padding on the right)
    bool [batch, 1, q, k]     any other mask, complete: the causal rule and the window are in it
    float [batch, 1, q, k]    the same, for models some of whose attention is their own
"""

import dataclasses

import torch
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, eager_mask, sdpa_mask


@dataclasses.dataclass(frozen=True)
class Needs:
    """What a model's attention needs of its masks, by the type of its config."""

    whole: bool = False  # none may be left out: it need not know that it is causal, and may work on the mask
    windows: bool = False  # windows must be in the mask: it does not say which it has
    added: bool = False  # some attention is the model's own, and adds the mask to its scores


NEEDS: dict[type, Needs] = {}
_NONE = Needs()


def no_mask(device: torch.device) -> torch.Tensor:
    """The mask to pass to a model when every key is in use: transformers hands on masks of 4 dimensions."""
    return torch.empty((1, 1, 1, 0), dtype=torch.int32, device=device)


def _is_traced(tensor: torch.Tensor | None) -> bool:
    """Whether a value of the tensor must not be looked at: under torch.compile, export and CUDA graph capture."""
    if torch.compiler.is_compiling() or (tensor is not None and tensor.is_cuda and torch.cuda.is_current_stream_capturing()):
        return True
    return False


def _padding(attention_mask: torch.Tensor) -> tuple[bool, bool]:
    """Whether a 2D mask has no padding, and whether it has padding on the right only. Reads the mask: once a
    forward pass and outside of compiled code, as transformers' own masks do."""
    falls = attention_mask[:, 1:] <= attention_mask[:, :-1]
    none, right = torch.stack([attention_mask.all(), (falls.all() & attention_mask[:, 0].all())]).tolist()
    return none, right


def _lengths(used, batch_size: int, device: torch.device) -> torch.Tensor:
    """i32 [batch, 1, 1, 1] of a number, or of a tensor with one element for each sequence or for all."""
    if not isinstance(used, torch.Tensor):
        return torch.full((batch_size, 1, 1, 1), used, dtype=torch.int32, device=device)
    return used.to(device=device, dtype=torch.int32).reshape(-1, 1, 1, 1).expand(batch_size, 1, 1, 1).contiguous()


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset=0,
    kv_offset: int = 0,
    mask_function=causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    use_vmap: bool = False,
    device: torch.device | str = "cpu",
    **kwargs,
) -> torch.Tensor | None:
    """The mask function for transformers' AttentionMaskInterface, with the arguments of `sdpa_mask`. For the forms of its
    result see the module."""
    device = torch.device(device)
    config = kwargs.get("config")
    needs = NEEDS.get(type(config), _NONE)
    whole = needs.whole or needs.added or (needs.windows and kwargs.get("local_size") is not None)
    # Where a decoder's config makes it see both ways, its layers and its masks may disagree about being causal: PaliGemma's.
    whole = whole or bool(getattr(config, "use_bidirectional_attention", None))
    all_used = not isinstance(q_offset, torch.Tensor) and q_offset + q_length - kv_offset == kv_length
    # A compiled decode step asks for no skip, but its mask is plain unless somebody gave a function.
    is_step = q_length == 1 and not use_vmap and not allow_is_bidirectional_skip
    is_causal = allow_is_causal_skip or is_step
    if not whole and (is_causal or allow_is_bidirectional_skip):
        no_padding, right = True, True
        if attention_mask is not None:
            no_padding, right = (False, False) if _is_traced(attention_mask) else _padding(attention_mask)
        if is_causal and no_padding:
            if all_used:
                return None
            used = q_offset + q_length - kv_offset  # a static cache has room for more
            used = used.clamp(max=kv_length) if isinstance(used, torch.Tensor) else min(used, kv_length)
            return _lengths(used, batch_size, device)
        if not is_causal and no_padding:
            return None
        # Queries of padding see what they like; those before it are unaffected.
        is_plain = is_causal or mask_function is bidirectional_mask_function  # a window on both sides needs each query's place
        if is_plain and right and attention_mask is not None and attention_mask.shape[-1] == kv_length:
            if not is_causal or (q_length == kv_length and not isinstance(q_offset, torch.Tensor)):
                return _lengths(attention_mask.sum(-1), batch_size, device)
    return (eager_mask if needs.added else sdpa_mask)(
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=mask_function,
        attention_mask=attention_mask,
        allow_is_causal_skip=False,
        allow_is_bidirectional_skip=False,
        use_vmap=use_vmap,
        device=device,
        **kwargs,
    )
