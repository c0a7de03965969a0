# SPDX-License-Identifier: MIT
"""Recognises functions of transformers by their code, which models share word for word.

The forward of a layer or a model cannot be run on a probe. It is replaced only if its code equals, in the installed version,
that of a function for which the replacement was written, and its parameters are known to the replacement.
"""

import functools
import importlib
import inspect
import types

import torch

from . import _modules
from ._classes import needs_of
from ._probe import is_replaced

_ATTENTIONS = {  # with norms of heads, and where the window is: see _modules.attention_block
    ("llama", "LlamaAttention"): (False, "none"),
    ("qwen2", "Qwen2Attention"): (False, "own"),
    ("mistral", "MistralAttention"): (False, "config"),
    ("qwen3", "Qwen3Attention"): (True, "own"),
}
_LAYERS = (("llama", "LlamaDecoderLayer"), ("gpt_oss", "GptOssDecoderLayer"))
_DECODERS = (  # they make positions and masks alike, and call layers one after the other
    ("llama", "LlamaModel"), ("mistral", "MistralModel"), ("mixtral", "MixtralModel"), ("qwen2", "Qwen2Model"),
    ("qwen3", "Qwen3Model"), ("qwen3_moe", "Qwen3MoeModel"), ("gemma", "GemmaModel"), ("gemma2", "Gemma2Model"),
    ("gemma3", "Gemma3TextModel"), ("gpt_oss", "GptOssModel"), ("granite", "GraniteModel"), ("olmo2", "Olmo2Model"),
    ("olmo3", "Olmo3Model"), ("olmoe", "OlmoeModel"), ("smollm3", "SmolLM3Model"), ("starcoder2", "Starcoder2Model"),
    ("cohere2", "Cohere2Model"))  # fmt: skip
# What the forward functions that are replaced may take, and a cache besides.
_TAKES = {
    "attention": {"hidden_states", "position_embeddings", "attention_mask", "position_ids", "kwargs"},
    "residual": {"hidden_states", "attention_mask", "position_ids", "use_cache", "position_embeddings", "kwargs"},
    "mask": {"input_ids", "attention_mask", "position_ids", "inputs_embeds", "use_cache", "kwargs"},
}


def _code_of(forward) -> tuple | None:
    code = getattr(inspect.unwrap(forward), "__code__", None)
    if code is None:
        return None
    constants = tuple(_constant(constant) for constant in code.co_consts if not isinstance(constant, str))
    return code.co_code, code.co_names, code.co_varnames, constants


def _constant(value):
    return (value.co_code, value.co_names) if isinstance(value, types.CodeType) else repr(value)


@functools.cache
def _codes(references: tuple[tuple[str, str], ...]) -> dict:
    """The code of each reference that the installed transformers has, to the reference."""
    out = {}
    for family, name in references:
        try:
            module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
        except ImportError:
            continue
        if hasattr(module, name):
            out.setdefault(_code_of(getattr(module, name).forward), (family, name))
    return out


def _like(module: torch.nn.Module, references) -> tuple[str, str] | None:
    return None if is_replaced(module) else _codes(tuple(references)).get(_code_of(type(module).forward))


def attention_like(module: torch.nn.Module) -> tuple[bool, str] | None:
    """The arguments of _modules.attention_block for an attention whose code is known."""
    found = _like(module, _ATTENTIONS)
    return None if found is None or unknown_names(module, "attention") else _ATTENTIONS[found]


def is_layer(module: torch.nn.Module) -> bool:
    return _like(module, _LAYERS) is not None


def is_decoder(module: torch.nn.Module) -> bool:
    config = getattr(module, "config", None)
    is_causal = getattr(config, "is_causal", True) and not getattr(config, "use_bidirectional_attention", False)
    if not is_causal or _like(module, _DECODERS) is None:
        return False
    needs = needs_of(module)
    return not (needs.whole or needs.added or (needs.windows and getattr(config, "sliding_window", None) is not None))


def cache_name(module: torch.nn.Module) -> str:
    return min(_names(module) & _modules.CACHES)


def _names(module: torch.nn.Module) -> set[str]:
    return set(inspect.signature(inspect.unwrap(type(module).forward)).parameters) - {"self"}


def unknown_names(module: torch.nn.Module, what: str) -> str | None:
    """Why a forward cannot be replaced: its parameters are not those that the replacement was written for. None if it can."""
    names = _names(module)
    caches = names & _modules.CACHES
    if unknown := names - _TAKES[what] - caches:
        return f"its forward takes {', '.join(sorted(unknown))}, which this patch does not know"
    return None if len(caches) == 1 else f"its forward takes {len(caches)} caches instead of one"
