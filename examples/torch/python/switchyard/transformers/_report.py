"""What each module of a model calls, and why not where it could."""

import inspect

import torch

UNCHANGED = "unchanged: "
_INTERFACE = "ALL_ATTENTION_FUNCTIONS"


def names_in_forward(module: torch.nn.Module) -> tuple[str, ...]:
    """The global names and attributes that a class's forward uses, behind transformers' decorators."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code.co_names if code is not None else ()


def _implementation(module: torch.nn.Module, model: torch.nn.Module) -> str:
    config = getattr(module, "config", None)
    found = getattr(config, "_attn_implementation", None)
    return model.config._attn_implementation if found is None else found


def _is_attention(module: torch.nn.Module) -> bool:
    return type(module).__name__.endswith("Attention")


def attention_calls(model: torch.nn.Module) -> dict[str, str]:
    """Module name to "attention" for each module that calls ours, and to a reason for attention that does not."""
    out = {}
    for name, module in model.named_modules():
        if _INTERFACE in names_in_forward(module):
            implementation = _implementation(module, model)
            ours = implementation == "switchyard"
            out[name] = "attention" if ours else f"{UNCHANGED}its attn_implementation is {implementation!r}"
        elif _is_attention(module) and not any(map(_is_attention, list(module.modules())[1:])):
            inside = [each for each in module.modules() if _INTERFACE in names_in_forward(each)]
            if not inside:
                out[name] = f"{UNCHANGED}{type(module).__name__} computes attention itself"
    return out


def merged(attention: dict[str, str], others: dict[str, str]) -> dict[str, str]:
    """Both in one: a module that calls several of our operators names all of them."""
    out = dict(others)
    for name, text in attention.items():
        if name in others:
            text = f"{others[name]}; {text}" if text.startswith(UNCHANGED) else f"{text}, {others[name]}"
        out[name] = text
    return out
