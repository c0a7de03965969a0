# SPDX-License-Identifier: MIT
"""Projections of one input as one matrix product: q, k and v of Llama, gate and up of every gated feed-forward block.

Their weights become views of one tensor, so that no memory is added. The merged product serves calls without gradients
while the weights stay in that tensor: moving, replacing or adapting one of them ends it for its block, which then uses
separate products again.
"""

import torch

from ._calls import is_bare

_MERGED = "_switchyard_merged"
_is_compiling = torch.compiler.is_compiling
_linear = torch.nn.functional.linear


def _may_merge(linears: list[torch.nn.Module]) -> bool:
    first = linears[0]
    for linear in linears:
        if type(linear) is not torch.nn.Linear or linear.bias is not None or "forward" in vars(linear):
            return False
        weight = linear.weight
        if type(weight) is not torch.nn.Parameter or weight.dtype != first.weight.dtype or weight.is_meta:
            return False
        if weight.device != first.weight.device or weight.shape[1] != first.weight.shape[1]:
            return False
    return True


def merge(block: torch.nn.Module, names: tuple[str, ...]) -> bool:
    """Makes the weights of a block's projections views of one tensor. Returns whether that was possible."""
    linears = [block._modules[name] for name in names]
    if not _may_merge(linears):
        return False
    with torch.no_grad():
        weight = torch.cat([linear.weight for linear in linears])
        begin = 0
        for linear in linears:
            rows = linear.weight.shape[0]
            linear.weight.data = weight[begin : begin + rows]
            begin += rows
    # Where each weight is; an attribute of its own, not a parameter or a buffer.
    block.__dict__[_MERGED] = (weight, [linear.weight.data_ptr() for linear in linears])
    return True


def part(block: torch.nn.Module, names: tuple[str, ...]) -> None:
    """Undoes merge: gives each weight its own memory again."""
    if block.__dict__.pop(_MERGED, None) is not None:
        for name in names:
            weight = block._modules[name].weight
            weight.data = weight.data.clone()


def project_merged(block: torch.nn.Module, names: tuple[str, ...], x: torch.Tensor) -> torch.Tensor | None:
    """The projections side by side in the last dimension; None where they must be called separately."""
    merged = block.__dict__.get(_MERGED)
    if merged is None or _is_compiling():
        return None
    weight, places = merged
    modules = block._modules
    records = torch.is_grad_enabled()
    if records and x.requires_grad:
        return None
    for name, place in zip(names, places):  # one for each
        linear = modules[name]
        own = linear._parameters.get("weight")
        # The merged tensor keeps its memory: nothing else can be there.
        if type(linear) is not torch.nn.Linear or own is None or own.data_ptr() != place:
            block.__dict__.pop(_MERGED, None)
            return None
        if records and own.requires_grad or "forward" in linear.__dict__ or not is_bare(linear):
            return None
    return _linear(x, weight)
