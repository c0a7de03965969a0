# SPDX-License-Identifier: MIT
"""flash_attn.bert_padding: converts between padded batches and packed sequences. As in flash_attn, counting tokens waits
for the device."""

import torch
from torch.nn.functional import pad


def index_first_axis(input: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:  # flash_attn's name
    """The rows of the first dimension at `indices`."""
    return input[indices]


def index_first_axis_residual(input: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows at `indices`, and all rows, as what is added to later."""
    return index_first_axis(input, indices), input


def index_put_first_axis(values: torch.Tensor, indices: torch.Tensor, first_axis_dim: int) -> torch.Tensor:
    """`first_axis_dim` rows of zeros, with values[i] at row indices[i]."""
    out = values.new_zeros((first_axis_dim, *values.shape[1:]))
    return out.index_put((indices,), values)


def _packed(hidden_states, indices, lengths, used):
    cu_seqlens = pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    longest = int(lengths.max()) if lengths.numel() else 0
    return index_first_axis(hidden_states.flatten(0, 1), indices), indices, cu_seqlens, longest, used


def unpad_input(hidden_states: torch.Tensor, attention_mask: torch.Tensor, unused_mask: torch.Tensor | None = None):
    """Packs the tokens of [batch, seqlen, ...] that attention_mask or unused_mask, both [batch, seqlen], select.

    Returns the tokens, their indices in batch * seqlen, cu_seqlens (i32 [batch + 1]), the longest sequence, and the number
    of tokens per sequence that attention_mask alone selects (i32 [batch]).
    """
    every = attention_mask if unused_mask is None else attention_mask + unused_mask
    indices = torch.nonzero(every.flatten(), as_tuple=False).flatten()
    return _packed(hidden_states, indices, every.sum(-1, dtype=torch.int32), attention_mask.sum(-1, dtype=torch.int32))


def unpad_input_for_concatenated_sequences(hidden_states: torch.Tensor, attention_mask_in_length: torch.Tensor):
    """Packs rows that hold several sequences: a row of attention_mask_in_length [batch, seqlen] has their lengths and zeros."""
    length = attention_mask_in_length.sum(-1)
    seqlen = attention_mask_in_length.shape[-1]
    every = torch.arange(seqlen, device=length.device) < length[:, None]
    lengths = attention_mask_in_length.flatten()
    lengths = lengths[lengths.nonzero(as_tuple=False).flatten()].int()
    indices = torch.nonzero(every.flatten(), as_tuple=False).flatten()
    return _packed(hidden_states, indices, lengths, None)[:4]


def pad_input(hidden_states: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int) -> torch.Tensor:
    """Undoes unpad_input: [batch, seqlen, ...], with zeros at padding."""
    return index_put_first_axis(hidden_states, indices, batch * seqlen).unflatten(0, (batch, seqlen))
