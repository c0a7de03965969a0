"""Autograd: each op's backward is another op."""

import torch

from ._library import ops


def _refuse(name: str):
    """An op without a gradient: a backward through it raises."""

    def backward(ctx, *grads):
        raise RuntimeError(f"switchyard::{name} has no gradient")

    torch.library.register_autograd(f"switchyard::{name}", backward)


for _name in (
    "attention_backward",
    "attention_decode",
    "rms_norm_backward",
    "layer_norm_backward",
    "gated_activation_backward",
    "softmax_backward",
):
    _refuse(_name)


def _wants(ctx, index: int) -> bool:
    return index < len(ctx.needs_input_grad) and ctx.needs_input_grad[index]


# attention_forward

_ATTENTION_TENSORS = 12  # q, k, v, bias, alibi_slopes, sinks, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k,
#                          block_table, dropout_state


def _keep_attention(ctx, inputs, output):
    out, lse = output
    ctx.save_for_backward(*inputs[:_ATTENTION_TENSORS], out, lse)
    ctx.values = inputs[_ATTENTION_TENSORS:-1]  # without with_lse
    ctx.mark_non_differentiable(lse)
    ctx.set_materialize_grads(False)


def _sum_to_bias(grad: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return grad if grad.shape == bias.shape else grad.view(bias.shape)


def _grad_sinks(sinks, out, lse, grad_out, packed):
    """The sink's weight is exp(sink - lse) and has no value: its gradient is -weight * rowsum(grad_out * out)."""
    delta = (grad_out.float() * out.float()).sum(-1)
    if packed:
        return -(torch.exp(sinks[:, None] - lse) * delta.transpose(0, 1)).sum(1)
    return -(torch.exp(sinks[None, :, None] - lse) * delta).sum((0, 2))


def _attention_backward(ctx, grad_out, grad_lse):
    (q, k, v, bias, alibi, sinks, cu_q, cu_k, used_q, used_k, pages, state, out, lse) = ctx.saved_tensors
    longest_q, longest_k, mask, left, right, scale, soft_cap, dropout_p = ctx.values
    nothing = (None,) * (_ATTENTION_TENSORS - 6 + 9)
    if grad_out is None:
        return (None,) * 6 + nothing
    if lse.numel() == 0 and out.numel() != 0:
        raise RuntimeError("switchyard::attention_forward: a gradient needs with_lse=True in the forward call")
    if pages is not None:
        raise RuntimeError("switchyard::attention_forward has no gradient for keys and values in pages")
    if _wants(ctx, 4):
        raise RuntimeError("switchyard::attention_forward has no gradient for alibi_slopes")
    grad_q, grad_k, grad_v, grad_bias = ops.attention_backward(
        grad_out, q, k, v, out, lse, bias, alibi, cu_q, cu_k, used_q, used_k, state, longest_q, longest_k, mask, left,
        right, scale, soft_cap, dropout_p, torch.are_deterministic_algorithms_enabled(), _wants(ctx, 3))  # fmt: skip
    grad_sinks = _grad_sinks(sinks, out, lse, grad_out, cu_q is not None) if _wants(ctx, 5) else None
    return (grad_q, grad_k, grad_v, grad_bias if _wants(ctx, 3) else None, None, grad_sinks) + nothing


torch.library.register_autograd(
    "switchyard::attention_forward", _attention_backward, setup_context=_keep_attention
)


# rotary


def _keep_rotary(ctx, inputs, output):
    _, k, cos, sin, *rest = inputs
    ctx.has_k = k is not None
    if not ctx.has_k:
        ctx.mark_non_differentiable(output[1])
    tensors, ctx.values = rest[:3], rest[3:]
    ctx.save_for_backward(cos, sin, *tensors)
    ctx.set_materialize_grads(False)


def _rotary_backward(ctx, grad_q, grad_k):
    """The backward turns the other way."""
    if _wants(ctx, 2) or _wants(ctx, 3):
        raise RuntimeError("switchyard::rotary has no gradient for cos and sin")
    cos, sin, positions, offsets, cu_seqlens = ctx.saved_tensors
    *values, inverse = ctx.values

    def turn(q, k):
        return ops.rotary(q, k, cos, sin, positions, offsets, cu_seqlens, *values, not inverse)

    if not ctx.has_k:
        grad_k = None
    if grad_q is not None:
        turned_q, turned_k = turn(grad_q, grad_k)
        turned_k = turned_k if grad_k is not None else None
    else:
        turned_q, turned_k = None, turn(grad_k, None)[0] if grad_k is not None else None
    return (turned_q, turned_k) + (None,) * 12


torch.library.register_autograd("switchyard::rotary", _rotary_backward, setup_context=_keep_rotary)


# Norms


def _require_statistics(name: str, statistics: torch.Tensor, x: torch.Tensor) -> None:
    if statistics.numel() == 0 and x.numel() != 0:
        raise RuntimeError(f"switchyard::{name}: a gradient needs with_statistics=True in the forward call")


def _keep_rms_norm(ctx, inputs, output):
    x, weight, residual, _, ctx.weight_offset, _ = inputs
    _, residual_out, rstd = output
    ctx.has_residual = residual is not None
    ctx.save_for_backward(residual_out if ctx.has_residual else x, weight, rstd)
    ctx.mark_non_differentiable(rstd, *([] if ctx.has_residual else [residual_out]))
    ctx.set_materialize_grads(False)


def _rms_norm_backward(ctx, grad_out, grad_residual, _):
    h, weight, rstd = ctx.saved_tensors
    grad_residual = grad_residual if ctx.has_residual else None
    if grad_out is None:  # the normalised rows are not used
        return (grad_residual, None, grad_residual, None, None, None)
    _require_statistics("rms_norm", rstd, h)
    wants_weight = _wants(ctx, 1)
    grad_x, grad_weight = ops.rms_norm_backward(
        grad_out, h, rstd, weight, grad_residual, ctx.weight_offset, wants_weight
    )
    return (grad_x, grad_weight if wants_weight else None, grad_x if ctx.has_residual else None, None, None, None)


torch.library.register_autograd("switchyard::rms_norm", _rms_norm_backward, setup_context=_keep_rms_norm)


def _keep_layer_norm(ctx, inputs, output):
    x, weight, _, residual, _, ctx.weight_offset, _ = inputs
    _, residual_out, mean, rstd = output
    ctx.has_residual = residual is not None
    ctx.save_for_backward(residual_out if ctx.has_residual else x, weight, mean, rstd)
    ctx.mark_non_differentiable(mean, rstd, *([] if ctx.has_residual else [residual_out]))
    ctx.set_materialize_grads(False)


def _layer_norm_backward(ctx, grad_out, grad_residual, *_):
    h, weight, mean, rstd = ctx.saved_tensors
    grad_residual = grad_residual if ctx.has_residual else None
    if grad_out is None:
        return (grad_residual, None, None, grad_residual, None, None, None)
    _require_statistics("layer_norm", rstd, h)
    wants_weight, wants_bias = _wants(ctx, 1), _wants(ctx, 2)
    grad_x, grad_weight, grad_bias = ops.layer_norm_backward(
        grad_out, h, mean, rstd, weight, grad_residual, ctx.weight_offset, wants_weight, wants_bias
    )
    return (
        grad_x,
        grad_weight if wants_weight else None,
        grad_bias if wants_bias else None,
        grad_x if ctx.has_residual else None,
        None,
        None,
        None,
    )


torch.library.register_autograd("switchyard::layer_norm", _layer_norm_backward, setup_context=_keep_layer_norm)


# Elementwise operators


def _keep_gated(ctx, inputs, output):
    gate, up, ctx.function = inputs
    ctx.save_for_backward(gate, up)


def _gated_backward(ctx, grad_out):
    gate, up = ctx.saved_tensors
    grad_gate, grad_up = ops.gated_activation_backward(grad_out, gate, up, ctx.function)
    return grad_gate, grad_up if up is not None else None, None


torch.library.register_autograd("switchyard::gated_activation", _gated_backward, setup_context=_keep_gated)


def _keep_softmax(ctx, inputs, output):
    ctx.scale = inputs[1]
    ctx.save_for_backward(output)


def _softmax_backward(ctx, grad_out):
    (out,) = ctx.saved_tensors
    return ops.softmax_backward(grad_out, out, ctx.scale), None


torch.library.register_autograd("switchyard::softmax", _softmax_backward, setup_context=_keep_softmax)
