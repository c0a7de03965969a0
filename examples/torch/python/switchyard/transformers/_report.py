# SPDX-License-Identifier: MIT
"""What each module of a model calls, and why not where it could."""

import torch

from ._probe import INTERFACE, names_in_forward

UNCHANGED = "unchanged: "


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
        if INTERFACE in names_in_forward(module):
            implementation = _implementation(module, model)
            ours = implementation == "switchyard"
            out[name] = "attention" if ours else f"{UNCHANGED}its attn_implementation is {implementation!r}"
        elif _is_attention(module) and not any(map(_is_attention, list(module.modules())[1:])):
            inside = [submodule for submodule in module.modules() if INTERFACE in names_in_forward(submodule)]
            if not inside:
                out[name] = f"{UNCHANGED}{type(module).__name__} computes attention itself"
    return out


def merged(attention: dict[str, str], calls: dict[str, str], unchanged: dict[str, str]) -> dict[str, str]:
    """All in one: a module that calls several operators names them, then why another is not."""
    out = {}
    for name in {**calls, **attention, **unchanged}:
        found = [reports[name] for reports in (attention, calls) if name in reports]
        served = [report for report in found if not report.startswith(UNCHANGED)]
        reasons = [report.removeprefix(UNCHANGED) for report in found if report.startswith(UNCHANGED)]
        reasons += [unchanged[name]] if name in unchanged else []
        parts = [", ".join(served)] * bool(served) + [UNCHANGED + "; ".join(reasons)] * bool(reasons)
        out[name] = "; ".join(parts)
    return out
