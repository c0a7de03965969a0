# SPDX-License-Identifier: MIT
"""Runs a class's forward on random input, on the CPU, with small random weights instead of the module's own. This shows what
it computes without using its memory, hooks or device, and without touching torch's generator."""

import inspect
import types
from collections.abc import Callable

import torch

CPU = torch.device("cpu")


INTERFACE = "ALL_ATTENTION_FUNCTIONS"  # the global name by which transformers' attention finds an implementation


def code_of(kind: type[torch.nn.Module]) -> types.CodeType | None:
    """The code of a class's forward, behind transformers' decorators."""
    return getattr(inspect.unwrap(kind.forward), "__code__", None)


def names_in_forward(module: torch.nn.Module) -> tuple[str, ...]:
    """The global names and attributes that a class's forward uses."""
    code = code_of(type(module))
    return code.co_names if code is not None else ()


def passes_by_name(kind: type[torch.nn.Module], name: str) -> bool:
    """Whether a call in a class's forward has a keyword argument of this name."""
    return any(name in constant for constant in code_of(kind).co_consts if isinstance(constant, tuple))


def parameters_of(module: torch.nn.Module) -> list[inspect.Parameter]:
    """The parameters of a class's forward after self."""
    return list(inspect.signature(inspect.unwrap(type(module).forward)).parameters.values())[1:]


def takes_one_tensor(module: torch.nn.Module) -> bool:
    given = parameters_of(module)
    return len(given) == 1 and given[0].kind == inspect.Parameter.POSITIONAL_OR_KEYWORD


def is_replaced(module: torch.nn.Module) -> bool:
    """Whether other code replaced the instance's forward; accelerate's hooks, which call the original, do not count."""
    own = vars(module).get("_old_forward" if "_hf_hook" in vars(module) else "forward")
    return own is not None and getattr(own, "__func__", None) is not type(module).forward


def shadow(module: torch.nn.Module, parameters: dict, buffers: dict, modules: dict) -> torch.nn.Module:
    """A copy of the module with other parameters, buffers and children, in eval mode."""
    out = object.__new__(type(module))
    vars(out).update(vars(module))
    for name in ("forward", "_old_forward", "_hf_hook"):
        vars(out).pop(name, None)
    vars(out).update(_parameters=parameters, _buffers=buffers, _modules=modules, training=False)
    return out


def attributes(module: torch.nn.Module) -> tuple:
    """All that a forward's result may depend on except values of parameters and buffers; hashable."""
    plain = tuple(
        (name, _value(value)) for name, value in vars(module).items() if not name.startswith("_") and name != "layer_idx"
    )
    tensors = (*module._parameters.items(), *module._buffers.items())
    shapes = tuple((name, None if tensor is None else tuple(tensor.shape)) for name, tensor in tensors)
    children = tuple((name, None if child is None else attributes(child)) for name, child in module._modules.items())
    return type(module), is_replaced(module), plain, shapes, children


def _value(value):
    if (
        isinstance(value, (int, float, str, bool, type(None)))
        or isinstance(value, tuple)
        and all(type(e) is int for e in value)
    ):
        return value
    return id(value)


class Randoms:
    """Random tensors of one seed."""

    def __init__(self):
        self.generator = torch.Generator(CPU)
        self.generator.manual_seed(2024)

    def __call__(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(shape, generator=self.generator, device=CPU, dtype=torch.float32).to(dtype)


def result(function: Callable, *args, **kwargs):
    """A call's result, or the exception it raised. Runs without gradients."""
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            return function(*args, **kwargs)
    except Exception as problem:  # whatever another package's code raises
        return problem


def same(got, want, tolerance: float) -> bool:
    """Whether two results are tensors of the same type and shape whose values agree in each row, or tuples of such tensors."""
    if isinstance(got, tuple) and isinstance(want, tuple):
        return len(got) == len(want) and all(same(*pair, tolerance) for pair in zip(got, want))
    if not (isinstance(got, torch.Tensor) and isinstance(want, torch.Tensor)):
        return False
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    got, want = got.double(), want.double()
    if not want.isfinite().all():
        return False
    return bool(((got - want).abs() <= tolerance * want.abs().amax(-1, keepdim=True).clamp(min=1e-30)).all())
