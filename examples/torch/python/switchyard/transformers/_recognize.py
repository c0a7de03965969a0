# SPDX-License-Identifier: MIT
"""Recognises modules by their parameters and by what their forward computes on a probe, not by their names.

Each function returns what it recognised, a reason (a str) if a module looks like one but computes something else, or None
if it is nothing of the kind.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable

import torch

from . import _calls, _modules
from ._probe import Randoms, is_replaced, names_in_forward, parameters_of, result, same, shadow, takes_one_tensor

_REPLACED = "its forward was replaced"
_EXACT, _HALF = 2e-5, 2.0**-6  # of the largest value of a row, in f32 and in bf16
_EPSILONS = ("eps", "epsilon", "variance_epsilon", "norm_eps")
_SCALES = (1.0, 30.0, 1e-2, 1e-3, 1e-5)  # of rows: small ones tell epsilons apart
_FUNCTIONS = ("silu", "gelu", "gelu_tanh")


@dataclasses.dataclass(frozen=True)
class Norm:
    """A norm of rows, whose weight is around -offset."""

    kind: str  # rms_norm or layer_norm
    epsilon: float
    offset: float = 0.0

    @property
    def forward(self):
        return _modules.FORWARD_OF_NORMS[self.kind]

    @property
    def values(self) -> tuple[float, float, bool]:
        """What the forward reads from the module."""
        return self.epsilon, self.offset, self.kind == "rms_norm"


@dataclasses.dataclass(frozen=True)
class Gated:
    """A feed-forward block: down(function(gate(x)) * up(x)), by the names of its projections. `up` is None where `gate`
    projects both, side by side."""

    function: str
    gate: str
    up: str | None
    down: str

    @property
    def forward(self):
        return _modules.gated_feed_forward(self.function, self.gate, self.up, self.down)


def _looks_like_norm(module: torch.nn.Module) -> bool:
    if module._modules or module._buffers or set(module._parameters) - {"weight", "bias"}:
        return False
    if isinstance(module, (torch.nn.LayerNorm, torch.nn.RMSNorm)):
        return True
    has_epsilon = any(isinstance(vars(module).get(name), float) for name in _EPSILONS)
    return has_epsilon or "normalized_shape" in vars(module) or type(module).__name__.endswith("Norm")


def norm_of(module: torch.nn.Module) -> Norm | str | None:
    """RMSNorm and LayerNorm over the last dimension, with any epsilon, weights around 0 or 1, or none."""
    if not _looks_like_norm(module):
        return None
    if is_replaced(module):
        return _REPLACED
    if not takes_one_tensor(module):
        return f"its forward takes {', '.join(parameter.name for parameter in parameters_of(module))}"
    given = {name: parameter for name, parameter in module._parameters.items() if parameter is not None}
    if any(parameter.dim() != 1 for parameter in given.values()):
        return "its weight has more than one dimension"
    normalized = vars(module).get("normalized_shape")
    if normalized is not None and not isinstance(normalized, int) and len(normalized) != 1:
        return "it normalises more than one dimension"
    if normalized is not None:
        normalized = normalized if isinstance(normalized, int) else normalized[0]
    widths = {parameter.shape[0] for parameter in given.values()} or {normalized or 48}
    if len(widths) != 1:
        return "its weight and bias disagree"
    width = max(widths) or 48  # 0: whose elements are elsewhere, as DeepSpeed leaves them
    random = Randoms()
    rows = random(len(_SCALES), 3, 2, width) * torch.tensor(_SCALES, device="cpu")[:, None, None, None]
    weights = {name: torch.nn.Parameter(random(width), requires_grad=False) if name in given else None
               for name in module._parameters}  # fmt: skip
    probe = shadow(module, weights, {}, {})
    want = result(type(module).forward, probe, rows)
    if isinstance(want, Exception):
        return f"its forward fails on a probe: {type(want).__name__}"
    own = [vars(module)[name] for name in _EPSILONS if isinstance(vars(module).get(name), float)]
    for norm in _norms(own or [1e-5, 1e-6, 1e-8, 1e-12], set(given)):
        vars(probe)[_calls.NORM] = norm.values
        if same(result(norm.forward, probe, rows), want, _EXACT):
            break
    else:
        return "its result on a probe is neither RMSNorm's nor LayerNorm's"
    half = {name: None if weight is None else torch.nn.Parameter(weight.bfloat16(), requires_grad=False)
            for name, weight in weights.items()}  # fmt: skip
    vars(probe)["_parameters"] = half
    if not same(result(norm.forward, probe, rows.bfloat16()), result(type(module).forward, probe, rows.bfloat16()), _HALF):
        return "its result in half precision differs"
    return norm


def _norms(epsilons: list[float], parameters: set[str]):
    for epsilon in epsilons:
        yield Norm("layer_norm", epsilon)
        if "bias" not in parameters:
            yield Norm("rms_norm", epsilon)
            if "weight" in parameters:
                yield Norm("rms_norm", epsilon, 1.0)


_OUTER, _INNER = 16, 24


def _linears(module: torch.nn.Module) -> dict[str, tuple[int, int]]:
    """The children that are linear layers, quantised and adapted ones too, with their columns in and out."""
    return {
        name: (child.in_features, child.out_features)
        for name, child in module._modules.items()
        if isinstance(getattr(child, "in_features", None), int) and isinstance(getattr(child, "out_features", None), int)
    }


def _roles(linears: dict[str, tuple[int, int]]) -> list[tuple[str, str | None, str]]:
    """Which child may be gate, up and down, by their sizes."""
    out = []
    for down, (inner, outer) in linears.items():
        others = [name for name in linears if name != down]
        if len(others) == 2 and all(linears[name] == (outer, inner) for name in others):
            out += [(others[0], others[1], down), (others[1], others[0], down)]
        elif len(others) == 1 and linears[others[0]] == (outer, 2 * inner):
            out.append((others[0], None, down))
    return out


def gated_of(module: torch.nn.Module) -> Gated | str | None:
    """SwiGLU and GEGLU of three linear layers, or of two where one projects gate and up."""
    linears = _linears(module)
    roles = _roles(linears) if len(linears) in (2, 3) else []
    if not roles or module._parameters or module._buffers or not takes_one_tensor(module):
        return None
    others = {name: child for name, child in module._modules.items() if name not in linears and child is not None}
    if any(next(child.parameters(), None) is not None for child in others.values()):
        return None
    if is_replaced(module):
        return _REPLACED
    random = Randoms()
    inner, outer = linears[roles[0][2]]
    small = {outer: _OUTER, inner: _INNER, 2 * inner: 2 * _INNER} if inner != outer else {outer: _OUTER, 2 * outer: 2 * _OUTER}
    children = {**module._modules, **{name: shadow(child, {}, {}, child._modules) for name, child in others.items()}}
    for name, sizes in linears.items():
        children[name] = _small_linear(random, *(small[size] for size in sizes), module._modules[name])
    probe = shadow(module, {}, {}, children)
    for name, value in vars(module).items():  # sizes that the forward splits by
        if type(value) is int and value in small:
            vars(probe)[name] = small[value]
    x = random(2, 9, _OUTER)
    want = result(type(module).forward, probe, x)
    if isinstance(want, Exception):
        return f"its forward fails on a probe: {type(want).__name__}"
    for role in roles:
        for function in _FUNCTIONS:
            gated = Gated(function, *role)
            if same(result(gated.forward, probe, x), want, _EXACT):
                vars(probe)["training"] = True
                drops = any(getattr(child, "p", 0) for child in others.values() if isinstance(child, torch.nn.Dropout))
                if drops or not same(result(type(module).forward, probe, x), want, _EXACT):
                    return "it drops elements in training"
                return gated
    return f"its result on a probe is no gated block's with {', '.join(_FUNCTIONS)}"


def _small_linear(random: Randoms, inside: int, outside: int, like: torch.nn.Module) -> torch.nn.Linear:
    with torch.device("meta"):
        out = torch.nn.Linear(inside, outside, bias=getattr(like, "bias", None) is not None)
    out.weight = torch.nn.Parameter(random(outside, inside) * inside**-0.5, requires_grad=False)
    if out.bias is not None:
        out.bias = torch.nn.Parameter(random(outside), requires_grad=False)
    return out


# Rotary embedding: the module that makes the tables, and the function that applies them.

_LAYOUTS = {  # of tables, from one with a column for each pair
    "halves": lambda table: torch.cat([table, table], -1),
    "pairs": lambda table: table.repeat_interleave(2, -1),
    "once": lambda table: table,
}


@dataclasses.dataclass(frozen=True)
class Tables:
    """What a rotary embedding's forward returns. `plain`: cos and sin of positions times inv_freq."""

    layout: str
    plain: bool = False


@dataclasses.dataclass(frozen=True)
class Rotary:
    style: str
    layout: str  # of the tables

    def function(self, has_rows: bool = False) -> Callable:
        """The replacement of apply_rotary_pos_emb. `has_rows`: rotary_tables makes the tables."""
        return _modules.rotary_with(self.style, self.layout, has_rows)


def _layout_of(table: torch.Tensor) -> str:
    half = table.shape[-1] // 2
    if table.shape[-1] % 2 == 0 and torch.equal(table[..., :half], table[..., half:]):
        return "halves"
    if table.shape[-1] % 2 == 0 and torch.equal(table[..., ::2], table[..., 1::2]):
        return "pairs"
    return "once"


def _arguments_of_tables(module: torch.nn.Module, count: int) -> list[tuple]:
    """What else than x and positions the forward may be called with."""
    if count == 2:
        return [()]
    kinds = getattr(module, "layer_types", None) or getattr(getattr(module, "config", None), "layer_types", None) or []
    return [(kind,) for kind in dict.fromkeys(kinds)]


def tables_of(module: torch.nn.Module) -> Tables | None:
    """A module that makes cos and sin from positions: its buffers are frequencies."""
    names = [parameter.name for parameter in parameters_of(module)]
    if names[:2] != ["x", "position_ids"] or len(names) > 3 or module._parameters or not module._buffers:
        return None
    if is_replaced(module) or any(buffer is None or buffer.is_meta for buffer in module._buffers.values()):
        return None
    buffers = {name: buffer.detach().to("cpu") for name, buffer in module._buffers.items()}
    positions = torch.tensor([[0, 3, 1, 7, 4], [2, 5, 9, 6, 8]], device="cpu")
    x, found = torch.zeros(2, 5, 4, device="cpu"), set()
    for more in _arguments_of_tables(module, len(names)):
        made = result(type(module).forward, shadow(module, {}, dict(buffers), {}), x, positions, *more)
        if not (isinstance(made, tuple) and len(made) == 2 and all(isinstance(table, torch.Tensor) for table in made)):
            return None
        if made[0].dim() != 3 or made[0].shape != made[1].shape or not all(table.is_floating_point() for table in made):
            return None
        layouts = {_layout_of(table) for table in made}
        if len(layouts) != 1:
            return None
        found |= layouts
    if len(found) != 1:
        return None
    (layout,) = found
    is_plain = len(names) == 2 and "inv_freq" in buffers and not _is_updated(module)
    if is_plain:
        rows = result(_modules.rotary_tables, shadow(module, {}, dict(buffers), {}), x, positions)
        is_plain = isinstance(rows, tuple) and same(
            tuple(map(_LAYOUTS[layout], rows)), tuple(table.flatten(0, 1) for table in made), _EXACT)  # fmt: skip
    return Tables(layout, is_plain)


def _is_updated(module: torch.nn.Module) -> bool:
    """Whether transformers changes the frequencies from call to call."""
    kind = getattr(module, "rope_type", "")
    return "dynamic" in kind or kind == "longrope"


NAME_OF_ROTARY = "apply_rotary_pos_emb"


def rotary_of(module: torch.nn.Module, layout: str | None) -> Rotary | str | None:
    """How an attention's apply_rotary_pos_emb rotates q and k, given tables of a layout; None if it calls no such function."""
    if NAME_OF_ROTARY not in names_in_forward(module):
        return None
    function = inspect.unwrap(type(module).forward).__globals__.get(NAME_OF_ROTARY)
    if function is None or is_replaced(module):
        return _REPLACED
    names = list(inspect.signature(inspect.unwrap(function)).parameters)
    if names[:4] != ["q", "k", "cos", "sin"] or set(names[4:]) - {"unsqueeze_dim"}:
        return f"its rotary embedding takes {', '.join(names)}"
    if layout is None:
        return "no module that makes its rotary tables was recognised"
    return _rotary_on_probe(function, layout)


@functools.cache
def _rotary_on_probe(function: Callable, layout: str) -> Rotary | str:
    random, dim = Randoms(), 16
    inputs = []
    for pairs in (dim // 2, dim // 4):  # all of a head's elements, and half of them
        tables = [_LAYOUTS[layout](random(2, 5, pairs)) for _ in range(2)]
        inputs.append((random(2, 3, 5, dim), random(2, 1, 5, dim), *tables))
    whole, part = (result(function, *arguments) for arguments in inputs)
    for style in ("half", "interleaved"):
        ours = Rotary(style, layout).function()
        if same(result(ours, *inputs[0]), _as_tuple(whole), _EXACT):
            # One for whole heads fails for others, in the model too.
            if isinstance(part, Exception) or same(result(ours, *inputs[1]), _as_tuple(part), _EXACT):
                return Rotary(style, layout)
    return "its rotary embedding is not that of half or interleaved pairs on a probe"


def _as_tuple(results):
    return tuple(results) if isinstance(results, (tuple, list)) else results
