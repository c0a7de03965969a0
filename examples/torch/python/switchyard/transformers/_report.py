# SPDX-License-Identifier: MIT
"""Which operators each module of a model calls, or why it calls none although it could."""

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
    """Maps the names of attention modules to "attention" if they call ours, otherwise to the reason."""
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
    """Merges the three reports: for each module the operators that it calls, then why others are not called."""
    out = {}
    for name in {**calls, **attention, **unchanged}:
        found = [reports[name] for reports in (attention, calls) if name in reports]
        served = [report for report in found if not report.startswith(UNCHANGED)]
        reasons = [report.removeprefix(UNCHANGED) for report in found if report.startswith(UNCHANGED)]
        reasons += [unchanged[name]] if name in unchanged else []
        parts = [", ".join(served)] * bool(served) + [UNCHANGED + "; ".join(reasons)] * bool(reasons)
        out[name] = "; ".join(parts)
    return out
