# SPDX-License-Identifier: MIT
"""patch and unpatch: replace the forward of module instances. Classes and other models stay unchanged."""

import copy
import dataclasses
import functools
import inspect
import pickle
import types
from collections.abc import Callable

import torch

from . import _calls, _classes, _known, _merged, _modules, _probe, _recognize, _report

_STATE = "_switchyard"


@dataclasses.dataclass
class _Replacement:
    forward: Callable
    what: str  # the operators that it calls
    merged: tuple[str, ...] = ()  # projections that merge_projections merges
    norm: tuple | None = None  # what the forward of a norm reads


@dataclasses.dataclass
class _State:
    implementations: list  # each config with the attn_implementation that it had
    replaced: dict[str, tuple[_Replacement, object]]  # by module's name, with the forward that it had
    unchanged: dict[str, str]  # reasons

    def __deepcopy__(self, memo):
        return _State(*(copy.deepcopy(getattr(self, field.name), memo) for field in dataclasses.fields(self)))

    def __reduce_ex__(self, _):
        """Pickle would give modules the forward functions of their classes, without a word."""
        raise pickle.PicklingError("switchyard.transformers: a patched model cannot be pickled: unpatch it first, and patch "
                                   "what is loaded; state_dict and save_pretrained do not need that")  # fmt: skip


def _with_rotary(forward, rotary: Callable):
    """A copy of an attention's forward that calls our rotary embedding; the model's module stays as it is.

    Its globals have no __name__: with one, torch.compile would look names up in the module instead.
    """
    forward = inspect.unwrap(forward)
    names = {key: value for key, value in forward.__globals__.items() if key != "__name__"}
    names[_recognize.NAME_OF_ROTARY] = rotary
    copy = types.FunctionType(forward.__code__, names, forward.__name__, forward.__defaults__, forward.__closure__)
    copy.__kwdefaults__ = forward.__kwdefaults__
    if "cache" not in inspect.signature(forward).parameters:
        return copy

    @functools.wraps(copy)
    def run(self, *args, **kwargs):
        if "past_key_values" in kwargs:  # which transformers' decorator renames
            kwargs.setdefault("cache", kwargs.pop("past_key_values"))
        return copy(self, *args, **kwargs)

    return run


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


class _Plan:
    """What patch does to each module of a model, found before anything is changed."""

    def __init__(self, model: torch.nn.Module):
        self.replacements: dict[str, _Replacement] = {}
        self.unchanged: dict[str, str] = {}
        self._modules = dict(model.named_modules())
        self._tables = {name: found for name, module in self._modules.items()
                        if (found := _recognize.tables_of(module)) is not None}  # fmt: skip
        self._known = {}  # what was recognised, by all that it depends on
        self._rotaries = {}  # of attentions: how they turn, and the name of what makes their tables
        for name, module in self._modules.items():
            self._plan_rows(name, module)
        for name, module in self._modules.items():
            self._plan_rotary(name, module)
        for name, module in self._modules.items():
            if _known.is_layer(module):
                self._plan_known(name, module, "residual", lambda _: _modules.with_checkpoints(_modules.decoder_layer))
        by_rows = {name for name in self._tables if self._serves_by_rows(name)}
        for name in by_rows:
            self.replacements[name] = _Replacement(_modules.rotary_tables, "rotary tables")
        for name, (rotary, tables) in self._rotaries.items():
            self.replacements[name] = self._attention(self._modules[name], rotary.function(tables in by_rows))
        for name, module in self._modules.items():
            if _known.is_decoder(module):
                has_sums = self._is_layered(name)
                self._plan_known(name, module, "mask", lambda module, sums=has_sums: _modules.whole_sequences(
                    type(module).forward, sums, _known.cache_name(module)))  # fmt: skip

    def follows(self, name: str) -> bool:
        """Whether norms of sums serve a decoder: it is one of ours, and all of its layers are."""
        return name in self.replacements and self.replacements[name].what == "mask" and self._is_layered(name)

    def _plan_rows(self, name: str, module: torch.nn.Module) -> None:
        norm = self._once(_recognize.norm_of, module)
        if isinstance(norm, _recognize.Norm):
            self.replacements[name] = _Replacement(norm.forward, norm.kind, norm=norm.values)
            return
        gated = None if norm is not None else self._once(_recognize.gated_of, module)
        if isinstance(gated, _recognize.Gated):
            merged = (gated.gate, gated.up) if gated.up is not None else ()
            self.replacements[name] = _Replacement(gated.forward, "gated_activation", merged)
        elif reason := norm or gated:
            self.unchanged[name] = reason

    def _once(self, recognize: Callable, module: torch.nn.Module):
        """The same for modules of one class and with the same attributes, but for their layers' numbers."""
        key = recognize, *_probe.attributes(module)
        if key not in self._known:
            self._known[key] = recognize(module)
        return self._known[key]

    def _plan_rotary(self, name: str, module: torch.nn.Module) -> None:
        tables = self._tables_above(name)
        found = _recognize.rotary_of(module, None if tables is None else self._tables[tables].layout)
        if isinstance(found, _recognize.Rotary):
            self._rotaries[name] = found, tables
        elif found is not None:
            self.unchanged[name] = found

    def _plan_known(self, name: str, module: torch.nn.Module, what: str, forward: Callable) -> None:
        if reason := _known.unknown_names(module, what):
            self.unchanged[name] = reason
        else:
            self.replacements[name] = _Replacement(forward(module), what)

    def _tables_above(self, name: str) -> str | None:
        """The module that makes tables in the nearest module around; None where that has several of different layouts."""
        while True:
            found = [maker for maker in self._tables if _parent(maker) == name]
            if found:
                return found[0] if len({self._tables[maker].layout for maker in found}) == 1 else None
            if not name:
                return None
            name = _parent(name)

    def _is_layered(self, name: str) -> bool:
        layers = getattr(self._modules[name], "layers", None)
        inside = f"{name}.layers." if name else "layers."
        return isinstance(layers, torch.nn.ModuleList) and len(layers) > 0 and isinstance(
            getattr(self._modules[name], "norm", None), torch.nn.Module) and all(
            self._is_planned(f"{inside}{i}", "residual") for i in range(len(layers)))  # fmt: skip

    def _is_planned(self, name: str, what: str) -> bool:
        return name in self.replacements and self.replacements[name].what == what

    def _serves_by_rows(self, name: str) -> bool:
        """Whether all that reads a module's tables is ours: a known decoder hands them to known layers, whose attentions
        turn by them."""
        parent = _parent(name)
        decoder = self._modules[parent]
        if not self._tables[name].plain or not _known.is_decoder(decoder) or not self._is_layered(parent):
            return False
        inside = f"{parent}." if parent else ""
        return all(f"{inside}layers.{i}.self_attn" in self._rotaries for i in range(len(decoder.layers)))

    def _attention(self, module: torch.nn.Module, rotary: Callable) -> _Replacement:
        forward = _with_rotary(type(module).forward, rotary)
        known = _known.attention_like(module)
        if known is None:
            return _Replacement(forward, "rotary")
        # Rows of q and k whose norms follow would not be at one distance.
        merged = () if known[0] else _modules.QUERY_KEY_VALUE
        return _Replacement(_modules.attention_block(forward, rotary, *known), "rotary", merged)


def patch(model, *, merge_projections: bool = False):
    """Makes a model run on Switchyard: attention, rotary embedding, RMSNorm, LayerNorm, SwiGLU and GEGLU.

    Works for every class of transformers 5 that takes an attention interface, on any device with kernels. Modules are
    recognised by what they compute: each module is compared with its replacement on random input, on the CPU, and left
    unchanged if the results differ; report(model) gives the reasons. Only this instance changes.

    merge_projections: in calls without gradients, a feed-forward block computes its gate and up projections as one matrix
    product; so does attention q, k and v, unless a norm follows them. Their parameters become views of one tensor: move and
    cast the model before patch. Compiled code, and blocks whose projections are quantised, adapted or moved later, use
    separate products.

    Returns the model. Raises RuntimeError if the model is already patched, and ValueError if its class takes no attention
    interface.
    """
    if hasattr(model, _STATE):
        raise RuntimeError("switchyard.transformers: the model is patched already")
    _classes.require_interface(type(model))
    plan = _Plan(model)
    modules = dict(model.named_modules())
    before = _implementations(modules.values())
    try:
        model.set_attn_implementation("switchyard")
    except Exception:
        _restore(before)
        raise
    replaced = {}
    for name, replacement in plan.replacements.items():
        module = modules[name]
        place = _place_of_forward(module)
        replaced[name] = replacement, vars(module).get(place)
        vars(module)[place] = types.MethodType(replacement.forward, module)
        if replacement.norm is not None:
            vars(module)[_calls.NORM] = replacement.norm
        if plan.follows(name):
            _calls.follow(module.layers, module.norm)
        if merge_projections and replacement.merged:
            _merged.merge(module, replacement.merged)
    object.__setattr__(model, _STATE, _State(before, replaced, plan.unchanged))
    return model


def _implementations(modules) -> list:
    configs = {id(config): config for module in modules if (config := getattr(module, "config", None)) is not None}
    return [(config, config._attn_implementation_internal) for config in configs.values()
            if hasattr(config, "_attn_implementation_internal")]  # fmt: skip


def _restore(implementations: list) -> None:
    for config, implementation in implementations:
        config._attn_implementation_internal = implementation


def _place_of_forward(module: torch.nn.Module) -> str:
    """accelerate's hooks, which move weights, replace a module's forward and call the one before."""
    return "_old_forward" if "_hf_hook" in vars(module) else "forward"


def unpatch(model):
    """Undoes patch. Returns the model. Raises RuntimeError if the model is not patched."""
    if not hasattr(model, _STATE):
        raise RuntimeError("switchyard.transformers: the model is not patched")
    state = getattr(model, _STATE)
    modules = dict(model.named_modules())
    for name, (replacement, forward) in state.replaced.items():
        module = modules[name]
        place = _place_of_forward(module)
        if forward is None and place == "forward":
            vars(module).pop(place, None)
        else:
            vars(module)[place] = forward or types.MethodType(type(module).forward, module)
        vars(module).pop(_calls.NORM, None)
        if replacement.what == "mask":
            _calls.unfollow(module.layers)
        if replacement.merged:
            _merged.part(module, replacement.merged)
    _restore(state.implementations)
    object.__delattr__(model, _STATE)
    return model


def report(model) -> dict[str, str]:
    """Maps module names to the operators that modules call, such as "attention, rotary", or to "unchanged: " and the reason.
    Attention is listed for each layer, also with attn_implementation="switchyard" and without patch."""
    state = getattr(model, _STATE, None)
    calls = {} if state is None else {name: replacement.what for name, (replacement, _) in state.replaced.items()}
    unchanged = {} if state is None else state.unchanged
    return _report.merged(_report.attention_calls(model), calls, unchanged)
