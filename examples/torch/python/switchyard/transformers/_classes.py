# SPDX-License-Identifier: MIT
"""Refuses models whose class takes no attention interface or needs what ours does not do. Otherwise masks made for ours would
be misread, and unknown arguments ignored, without notice."""

import dataclasses
import functools
import inspect
import sys

import torch
from transformers import PreTrainedModel

from ._attention import attention
from ._masks import NEEDS, Needs
from ._probe import INTERFACE, code_of, passes_by_name

_EAGER = "eager_attention_forward"
# They have sinks or a soft cap, which SDPA does not have, and take masks as SDPA does.
_AS_SDPA = {"gpt_oss", "gemma2", "vaultgemma"}


def _is_for(kind: type, config: type) -> bool:
    """Whether a module's class may be part of a model with a config: it says another config where it is none of it."""
    given = inspect.signature(kind.__init__).parameters.get("config")
    said = None if given is None else given.annotation
    return not isinstance(said, type) or said is inspect.Parameter.empty or issubclass(config, said)


@functools.cache
def _needs(model: type[PreTrainedModel], config: type) -> Needs:
    """Of the masks of a class, by what the attention classes beside it do."""
    found = [kind for kind in vars(sys.modules.get(model.__module__, object)).values()
             if isinstance(kind, type) and issubclass(kind, torch.nn.Module) and code_of(kind) is not None]  # fmt: skip
    ours = [kind for kind in found if INTERFACE in code_of(kind).co_names and _is_for(kind, config)]
    own = [kind for kind in found if INTERFACE not in code_of(kind).co_names and "attention_mask" in code_of(kind).co_varnames
           and "softmax" in code_of(kind).co_names and _is_for(kind, config)]  # fmt: skip
    skips = model._supports_sdpa or config.model_type in _AS_SDPA
    return Needs(whole=not skips or any(passes_by_name(kind, "allow_is_causal_skip") for kind in found), added=bool(own),
                 windows=not all(passes_by_name(kind, "sliding_window") for kind in ours))  # fmt: skip


def _unknown_arguments(model: type[PreTrainedModel]) -> list[str]:
    """What a class's own attention functions take and ours does not."""
    known = set(inspect.signature(attention).parameters)
    functions = [getattr(sys.modules.get(model.__module__), _EAGER, None)]
    return sorted(
        {name for function in functions if function is not None for name in inspect.signature(function).parameters} - known
    )


def why_not(model: type[PreTrainedModel]) -> str | None:
    """Why our attention cannot serve a class; None if it can. It can where the class declares or its module calls an attention
    interface, with arguments that ours knows."""
    if not (model._supports_attention_backend or model._can_set_attn_implementation()):
        return f"{model.__name__} takes no attention interface"
    if unknown := _unknown_arguments(model):
        return f"{model.__name__} gives its attention {', '.join(unknown)}, which switchyard does not know"
    return None


def takes_interface(model: type[PreTrainedModel]) -> bool:
    return why_not(model) is None


def require_interface(model: type[PreTrainedModel]) -> None:
    """Raises ValueError for a class that our attention cannot serve, as transformers does for SDPA."""
    if reason := why_not(model):
        raise ValueError(f"{reason}, so attn_implementation='switchyard' cannot serve it: use attn_implementation='eager'")


def needs_of(model: PreTrainedModel) -> Needs:
    """What a model's class needs of its masks."""
    return _needs(type(model), type(model.config))


def _record(model: PreTrainedModel) -> None:
    """Remembers what each class needs of masks: they are made for a config, whose model is not told then."""
    config = type(model.config)
    old, new = NEEDS.get(config, Needs()), needs_of(model)
    NEEDS[config] = Needs(*(getattr(old, field.name) or getattr(new, field.name) for field in dataclasses.fields(Needs)))


def refuse_others() -> None:
    """Makes transformers check models that request our attention, and models inside them, as it does for SDPA. For the inner
    models it calls the second function."""
    for name in ("_check_and_adjust_attn_implementation", "get_correct_attn_implementation"):
        setattr(PreTrainedModel, name, _checked(getattr(PreTrainedModel, name)))


def _checked(check):
    @functools.wraps(check)
    def checked(self, attn_implementation, *args, **kwargs):
        if attn_implementation == "switchyard":
            require_interface(type(self))
            _record(self)
        return check(self, attn_implementation, *args, **kwargs)

    return checked
