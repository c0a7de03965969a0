# SPDX-License-Identifier: MIT
"""Calls modules with little host time, which bounds short prompts. Where nothing hooks into a module's call, its result is
computed without the Python of torch.nn.Module. Otherwise, and in compiled code, which has no such cost, the module itself
is called."""

import threading

import torch
from torch.nn.modules.module import (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_forward_hooks,
    _global_forward_pre_hooks,
)

from ..torch import rms_norm

_is_compiling = torch.compiler.is_compiling
_linear = torch.nn.functional.linear
NORM = "_switchyard_norm"  # of a norm: epsilon, what is added to the weight, and whether it is RMSNorm
_NORMED = "_switchyard_normed"
_FOLLOWING = "_switchyard_following"


def is_bare(module: torch.nn.Module) -> bool:
    """Whether a call of the module is a call of its forward."""
    return not (
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
        or module._compiled_call_impl or _global_forward_hooks or _global_forward_pre_hooks or _global_backward_hooks
        or _global_backward_pre_hooks)  # fmt: skip


def call(module: torch.nn.Module, *args, **kwargs):
    """module(*args, **kwargs)."""
    if _is_compiling() or not is_bare(module):
        return module(*args, **kwargs)
    return module.forward(*args, **kwargs)


def project(linear: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """linear(x). Subclasses (quantised weights, adapters) and replaced forwards are called as they are."""
    if _is_compiling() or type(linear) is not torch.nn.Linear or "forward" in linear.__dict__ or not is_bare(linear):
        return linear(x)
    parameters = linear._parameters
    if "weight" not in parameters or "bias" not in parameters:  # tensors that are no parameters
        return linear(x)
    return _linear(x, parameters["weight"], parameters["bias"])


def plain_rms_norm(self, hidden_states: torch.Tensor) -> torch.Tensor:
    """The forward of an RMSNorm. Rounds once, behind the weight; transformers rounds before it too."""
    if not _is_compiling():
        kept = hidden_states.__dict__.pop(_NORMED, None)
        if kept is not None and kept[0] is self:
            return kept[1]
    epsilon, offset, _ = self._switchyard_norm
    return rms_norm(hidden_states, _weight(self), epsilon=epsilon, weight_offset=offset)


def _weight(norm: torch.nn.Module) -> torch.Tensor | None:
    weight = norm._parameters.get("weight")  # modules' attributes are slow to find
    return getattr(norm, "weight", None) if weight is None else weight


def is_rms_norm(norm: torch.nn.Module | None) -> bool:
    """Whether patch replaced this norm's forward by ours."""
    return getattr(norm, NORM, (0, 0, False))[2]


def _is_ours(norm: torch.nn.Module) -> bool:
    """Whether a call of the norm is plain_rms_norm."""
    return getattr(norm.__dict__.get("forward"), "__func__", None) is plain_rms_norm and is_bare(norm)


# The norm behind a layer. A layer ends with a sum, and a norm of it follows: the next layer's or the model's own. Both are
# one kernel. The layer runs it, returns the sum, and leaves the normalised tensor at it for the norm to take.


class _Running(threading.local):
    decoders = 0


_running = _Running()


class between_layers:
    """Active while a patched decoder runs, when only transformers and hooks see what a layer returns."""

    def __enter__(self):
        _running.decoders += 1

    def __exit__(self, *_):
        _running.decoders -= 1


def follow(layers, norm: torch.nn.Module) -> None:
    """Tells each layer which norm, of which layer, reads its result."""
    for layer, after in zip(layers, [*layers[1:], None]):  # there may be none
        # An attribute would make it a submodule.
        layer.__dict__[_FOLLOWING] = (after, norm if after is None else after.input_layernorm)


def unfollow(layers) -> None:
    for layer in layers:
        layer.__dict__.pop(_FOLLOWING, None)


def _norm_behind(layer: torch.nn.Module, device: torch.device) -> torch.nn.Module | None:
    """The norm that reads what the layer returns, if nothing in between could see or change that, and the norm may run
    here already: hooks move, gather or load weights before a layer."""
    if not _running.decoders or (layer.training and getattr(layer, "gradient_checkpointing", False)):
        return None
    after, norm = layer.__dict__.get(_FOLLOWING, (None, None))
    if norm is None or not is_bare(layer) or not _is_ours(norm):
        return None
    if after is not None and ("_hf_hook" in after.__dict__ or not is_bare(after)):
        return None
    weight = _weight(norm)
    return norm if type(weight) is torch.nn.Parameter and weight.device == device else None


def add_and_norm(layer: torch.nn.Module, x: torch.Tensor, residual: torch.Tensor, sums: dict | None) -> torch.Tensor:
    """x + residual, which the layer returns; computes the following norm with it where possible."""
    if _is_compiling():
        total = residual + x
        if sums is not None and not layer._forward_hooks:
            sums["last"] = total, x, residual
        return total
    norm = _norm_behind(layer, x.device)
    if norm is None:
        return residual + x
    normed, total = sum_and_norm(norm, x, residual)
    total.__dict__[_NORMED] = (norm, normed)
    return total


def norm_of_sum(layer: torch.nn.Module, total: torch.Tensor, sums: dict | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The layer's first norm of `total`, and `total`. In compiled code the norm computes the sum itself if the layer before
    left its addends in `sums`: nothing uses that layer's sum then, and the compiler removes it."""
    norm = layer._modules["input_layernorm"]
    last = sums.pop("last", None) if sums is not None and _is_compiling() else None
    if last is not None and last[0] is total and not layer._forward_pre_hooks:
        return sum_and_norm(norm, last[1], last[2])
    return call(norm, total), total


def sum_and_norm(norm: torch.nn.Module, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm of x + residual, and the sum. Hooks of the norm see tensors, as in an unpatched model. Under autocast x and
    residual may differ in type."""
    serves = is_rms_norm(norm) if _is_compiling() else _is_ours(norm)
    if norm._forward_hooks or norm._forward_pre_hooks or not serves or x.dtype != residual.dtype:
        total = residual + x
        return norm(total), total
    epsilon, offset, _ = norm._switchyard_norm
    return rms_norm(x, _weight(norm), residual, epsilon=epsilon, weight_offset=offset)
