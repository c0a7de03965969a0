# SPDX-License-Identifier: MIT
"""Operators on rows: norms, gated activations, softmax. Rows are the last dimension of tensors of any shape."""

import torch

from . import _gradients
from ._direct import caller, needs_gradient
from ._options import number_of
from ._types import weights

FUNCTIONS = {"silu": 0, "gelu": 1, "gelu_tanh": 2}

_rms_norm = caller("rms_norm", _gradients.rms_norm)
_rms_norm_out = caller("rms_norm", _gradients.rms_norm, first=True)
_layer_norm = caller("layer_norm", _gradients.layer_norm)
_layer_norm_out = caller("layer_norm", _gradients.layer_norm, first=True)
_gated_activation = caller("gated_activation", _gradients.gated_activation)
_softmax = caller("softmax", _gradients.softmax)


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    *,
    epsilon: float = 1e-6,
    weight_offset: float = 0.0,
):
    """Root-mean-square normalisation: h = x + residual; h / sqrt(mean(h^2) + epsilon) * (weight + weight_offset).

    x and residual: [..., columns], f32, f16 or bf16. weight: [columns]. `weight_offset` is 1
    for models that store the weight around zero (Gemma). Computed in f32 and rounded once. Returns the normalised
    tensor, of x's type; with a residual, (that tensor, h).
    """
    weight, _ = weights(x, weight)
    needs = needs_gradient(x, weight, residual)
    if residual is None:
        return _rms_norm_out(needs, x, weight, None, epsilon, weight_offset, needs)
    return _rms_norm(needs, x, weight, residual, epsilon, weight_offset, needs)[:2]


def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    *,
    epsilon: float = 1e-5,
    weight_offset: float = 0.0,
):
    """Layer normalisation: h = x + residual; (h - mean(h)) / sqrt(var(h) + epsilon) * (weight + weight_offset) + bias.

    x and residual: [..., columns], f32, f16 or bf16. weight and bias: [columns].
    Returns the normalised tensor, of x's type; with a residual, (that tensor, h).
    """
    weight, bias = weights(x, weight, bias)
    needs = needs_gradient(x, weight, bias, residual)
    if residual is None:
        return _layer_norm_out(needs, x, weight, bias, None, epsilon, weight_offset, needs)
    return _layer_norm(needs, x, weight, bias, residual, epsilon, weight_offset, needs)[:2]


def gated_activation(gate: torch.Tensor, up: torch.Tensor | None = None, *, function: str = "silu") -> torch.Tensor:
    """activation(gate) * up; without `up`, the last dimension of `gate` holds gate and up side by side.

    function: silu (SwiGLU), gelu or gelu_tanh (GEGLU). f32, f16 or bf16, any shape. Raises ValueError for another
    function.
    """
    return _gated_activation(needs_gradient(gate, up), gate, up, number_of("function", function, FUNCTIONS))


def softmax(x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
    """softmax(scale * x) over the last dimension; f32, f16 or bf16, computed in f32 and rounded once."""
    return _softmax(needs_gradient(x), x, scale)
