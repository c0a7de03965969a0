"""Operators on rows: norms, gated activations, softmax. Rows are the last dimension of tensors of any shape."""

import torch

from ._library import ops

FUNCTIONS = ("silu", "gelu", "gelu_tanh")


def _needs_gradient(*tensors) -> bool:
    return torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in tensors)


def rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    *,
    epsilon: float = 1e-6,
    weight_offset: float = 0.0,
):
    """Root-mean-square normalisation: h = x + residual; h / sqrt(mean(h^2) + epsilon) * (weight + weight_offset).

    x and residual: [..., columns], f32, f16 or bf16. weight: [columns], of x's type or f32. `weight_offset` is 1
    for models that store the weight around zero (Gemma). Computed in f32 and rounded once. Returns the normalised
    tensor, or with a residual that and h, of x's type.
    """
    out, h, _ = ops.rms_norm(x, weight, residual, epsilon, weight_offset, _needs_gradient(x, weight, residual))
    return out if residual is None else (out, h)


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

    x and residual: [..., columns], f32, f16 or bf16. weight and bias: [columns], both of x's type or both f32.
    Returns the normalised tensor, or with a residual that and h, of x's type.
    """
    needs = _needs_gradient(x, weight, bias, residual)
    out, h, _, _ = ops.layer_norm(x, weight, bias, residual, epsilon, weight_offset, needs)
    return out if residual is None else (out, h)


def gated_activation(gate: torch.Tensor, up: torch.Tensor | None = None, *, function: str = "silu") -> torch.Tensor:
    """activation(gate) * up; without `up`, the last dimension of `gate` holds gate and up side by side.

    function: silu (SwiGLU), gelu or gelu_tanh (GEGLU). f32, f16 or bf16, any shape. Raises ValueError for another
    function.
    """
    return ops.gated_activation(gate, up, FUNCTIONS.index(function))


def softmax(x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
    """softmax(scale * x) over the last dimension; f32, f16 or bf16, computed in f32 and rounded once."""
    return ops.softmax(x, scale)
