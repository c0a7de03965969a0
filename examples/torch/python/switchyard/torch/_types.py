# SPDX-License-Identifier: MIT
"""Converts a call's auxiliary tensors to the types that kernels read, on the device and without synchronising."""

import torch

_INTEGERS = frozenset((torch.int32, torch.int64, torch.int16, torch.uint8, torch.int8))
_FLOATS = frozenset((torch.float32, torch.float16, torch.bfloat16))


def indices(x: torch.Tensor | None, dtype: torch.dtype = torch.int32) -> torch.Tensor | None:
    """Lengths, offsets, positions and page numbers, given as integers of any type. Others are left for the op to refuse."""
    return x if x is None or x.dtype is dtype or x.dtype not in _INTEGERS else x.to(dtype)


def wide(x: torch.Tensor | None) -> torch.Tensor | None:
    """One or a few numbers per head, in f32; the gradient keeps the tensor's type."""
    return x if x is None or x.dtype is torch.float32 or not x.is_floating_point() else x.float()


def of_one_type(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Queries, keys or values of different types. Under autocast they get its type: a norm of q and k may give f32 where v stays
    in half precision. Otherwise they are left for the op, which takes keys and values in e4m3 and refuses the rest."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device) or not all(tensor.dtype in _FLOATS for tensor in tensors):
        return tensors
    return tuple(tensor.to(torch.get_autocast_dtype(device)) for tensor in tensors)


def weights(like: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None = None):
    """A norm's weight and bias, of one type: the rows' or f32."""
    if (weight is not None and weight.dtype is not like.dtype) or (bias is not None and bias.dtype is not like.dtype):
        return wide(weight), wide(bias)
    return weight, bias
