# SPDX-License-Identifier: MIT
"""Calls ops without the Python layers of torch.library, which take longer on the host than most kernels on the device.

torch.library runs Python for each call outside of inference_mode, and for up to 150 microseconds where a gradient is
recorded. Eager calls of plain tensors need none of that: here they reach the kernel below autograd, and a gradient is
a torch.autograd.Function. Everything else (compiled and traced code, tensors with __torch_function__) calls the op
itself, with the gradient that is registered for it; torch.func's transforms, which registered gradients refuse, take a
third Function. All gradients of an op are one Formula.
"""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch.autograd import forward_ad

from ._library import ops

_below_autograd = torch._C._AutoDispatchBelowAutograd  # torch.library's own guard
_functorch = torch._C._functorch
_is_transformed = torch._C._are_functorch_transforms_active
_tracing_state = torch._C._get_tracing_state
_has_torch_function = torch.overrides.has_torch_function
_is_compiling = torch.compiler.is_compiling
_is_inference = torch.is_inference_mode_enabled
_is_grad_enabled = torch.is_grad_enabled


def _quick(name: str) -> Callable:
    """An op without OpOverload's Python, for eager calls alone."""
    overload = getattr(ops, name)
    return getattr(overload, "_op", overload)


def needs_gradient(*tensors: torch.Tensor | None) -> bool:
    """Whether autograd records a call with these tensors."""
    if _is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False


def _has_tangent(x) -> bool:
    """Whether a tensor, also inside of torch.func's wrappers, has a forward-mode derivative."""
    while isinstance(x, torch.Tensor):
        if _functorch.is_batchedtensor(x):
            x = _functorch.get_unwrapped(x)
        elif forward_ad.unpack_dual(x).tangent is not None:
            return True
        elif _functorch.is_functorch_wrapped_tensor(x):
            x = _functorch.get_unwrapped(x)
        else:
            return False
    return False


def refuse_forward_mode(name: str, args) -> None:
    """Raises for dual tensors: no op has a forward-mode derivative, and autograd would treat it as zero."""
    if any(map(_has_tangent, args)):
        raise RuntimeError(f"switchyard::{name} has no forward-mode derivative (torch.func.jvp and jacfwd, "
                           "torch.autograd.forward_ad): torch.autograd.grad gives the reverse-mode one")  # fmt: skip


def _transformable(overload, setup: Callable, backward: Callable) -> Callable:
    """An op for torch.func's transforms: torch makes vmap's rule of these functions, and loops over the batch in the op."""
    members = {"generate_vmap_rule": True, "forward": staticmethod(lambda *args: overload(*args)),
               "setup_context": staticmethod(setup), "backward": staticmethod(backward)}  # fmt: skip
    return type(f"transformed_{overload._schema.name}", (torch.autograd.Function,), members).apply


def refuse_gradient(name: str) -> Callable:
    """A backward that raises, for an op without a gradient."""

    def backward(ctx, *grads):
        raise RuntimeError(f"switchyard::{name} has no gradient")

    return backward


def _refusing(name: str) -> Callable:
    """An op without a gradient, for torch.func's transforms."""
    return _transformable(getattr(ops, name), lambda ctx, inputs, output: None, refuse_gradient(name))


class Formula:
    """An op's gradient: registered for the op, and as torch.autograd.Functions for eager calls."""

    names: ClassVar[set[str]] = set()  # of the ops that have one

    def __init__(self, name: str, tensors: int, keep: Callable, backward: Callable):
        """`tensors`: how many of the first arguments may have a gradient. keep(ctx, inputs, output) saves what
        backward(ctx, wants, *grads) needs, and returns the outputs that have no gradient. `wants` and what backward
        returns have an element for each of `tensors`. Where the caller takes the first output alone, `grads` has its
        gradient alone."""
        overload, run = getattr(ops, name), _quick(name)
        others = (None,) * (len(overload._schema.arguments) - tensors)

        def wanted(needs):  # without the last arguments where they are None, or have their defaults
            return needs if len(needs) == tensors else (*needs, *(False,) * tensors)[:tensors]

        def setup(ctx, inputs, output):
            without = [tensor for tensor in keep(ctx, inputs, output) if tensor is not None]
            if without:
                ctx.mark_non_differentiable(*without)

        def registered(ctx, *grads):
            return (*backward(ctx, wanted(ctx.needs_input_grad[:tensors]), *grads), *others)

        torch.library.register_autograd(f"switchyard::{name}", registered, setup_context=setup)

        def forward(ctx, args, *_):
            with _below_autograd():
                output = run(*args)
            setup(ctx, args, output)
            return output

        def forward_to_first(ctx, args, *_):
            with _below_autograd():
                output = run(*args)
            keep(ctx, args, output)
            return output[0]

        def direct(ctx, *grads):
            return (None, *backward(ctx, wanted(ctx.needs_input_grad[1:]), *grads))

        def function(forward):
            members = {"forward": staticmethod(forward), "backward": staticmethod(direct)}
            made = type(f"switchyard_{name}", (torch.autograd.Function,), members)
            made._backward_cls.apply = direct  # torch's own searches the classes for it in each call
            return made.apply

        self.names.add(name)
        self.tensors = tensors
        self.transformed = _transformable(overload, setup, registered)
        self.record, self.record_first = function(forward), function(forward_to_first)


def caller(name: str, formula: Formula | None = None, first: bool = False) -> Callable:
    """The op as function(needs_gradient, *args), where args are all of its arguments. `first`: returns its first
    output alone."""
    overload, run = getattr(ops, name), _quick(name)
    record = formula and (formula.record_first if first else formula.record)
    tensors = formula and formula.tensors
    transformed = formula.transformed if formula else _refusing(name)

    def call(needs_gradient: bool, *args):
        if forward_ad._current_level >= 0:
            refuse_forward_mode(name, args)
        if _is_compiling():
            out = overload(*args)
        elif _is_inference():
            out = run(*args)
        elif _has_torch_function(args) or _is_transformed():
            out = transformed(*args) if _is_transformed() else overload(*args)
        elif not needs_gradient:
            with _below_autograd():
                out = run(*args)
        elif record is None or _tracing_state():
            out = overload(*args)
        else:
            last = tensors
            while args[last - 1] is None:  # each argument costs the host time
                last -= 1
            return record(args, *args[:last])
        return out[0] if first else out

    return call


def run_backward(name: str, formula: Callable[[], Formula] | None = None) -> Callable:
    """What a formula calls for gradients: an op. With create_graph the op is recorded, whose own formula may refuse."""
    overload, run = getattr(ops, name), _quick(name)
    refusing = _refusing(name)

    def call(*args):
        if _is_transformed():
            return (refusing if formula is None else formula().transformed)(*args)
        if _is_compiling() or _is_grad_enabled():
            return overload(*args)
        with _below_autograd():
            return run(*args)

    return call
