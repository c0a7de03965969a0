# SPDX-License-Identifier: MIT
"""Gradients: each op's backward is another op."""

import contextlib
import threading

import torch

from ._direct import Formula, needs_gradient, refuse_gradient, run_backward
from ._library import op_names, ops


class _Wanted(threading.local):
    deterministic = False


_wanted = _Wanted()


@contextlib.contextmanager
def deterministic(wanted: bool):
    """Context manager: makes the backwards of calls inside bitwise reproducible, if wanted. Compiled code only follows
    torch.use_deterministic_algorithms."""
    before, _wanted.deterministic = _wanted.deterministic, wanted
    try:
        yield
    finally:
        _wanted.deterministic = before


def _place(name: str, argument: str) -> int:
    """Where an argument of an op stands."""
    return [known.name for known in getattr(ops, name)._schema.arguments].index(argument)


# attention_forward

_with_lse = _place("attention_forward", "with_lse")
_lists = slice(_place("attention_forward", "kv_num_blocks"), _place("attention_forward", "full_q_indices") + 1)


def _keep_attention(ctx, inputs, output):
    q, k, v, bias, alibi, sinks, cu_q, cu_k, used_q, used_k, pages, state, *ctx.values = inputs[:_with_lse]
    block_mask = inputs[_lists]
    if block_mask and block_mask[0] is None:
        block_mask = ()
    out, lse = output
    ctx.deterministic = not torch.compiler.is_compiling() and _wanted.deterministic
    ctx.is_plain = bias is alibi is sinks is cu_q is cu_k is used_q is used_k is pages is state is None
    ctx.is_masked = len(block_mask) > 0
    if ctx.is_masked:
        ctx.save_for_backward(q, k, v, out, lse, sinks, *block_mask)
    elif ctx.is_plain:  # each saved tensor costs the host time, also one that is None
        ctx.save_for_backward(q, k, v, out, lse)
    else:
        ctx.save_for_backward(q, k, v, out, lse, bias, alibi, sinks, cu_q, cu_k, used_q, used_k, pages, state)
    ctx.set_materialize_grads(False)
    return ()


def _has_query(rows: int, cu_q, used_q):
    """Which rows of the LSE are a query's; None for all. The others are 0, and not the sinks'."""
    if cu_q is None and used_q is None:
        return None
    at = torch.arange(rows, device=(used_q if cu_q is None else cu_q).device)
    if cu_q is None:
        return (at < used_q[:, None])[:, None]
    if used_q is None:
        return at < cu_q[-1]
    sequence = (torch.searchsorted(cu_q, at.int(), right=True) - 1).clamp(max=used_q.shape[0] - 1)
    return (at < cu_q[-1]) & (at - cu_q[sequence] < used_q[sequence])


def _grad_sinks(sinks, out, lse, grad_out, grad_lse, cu_q, used_q):
    """The sink's weight is exp(sink - lse) and has no value: its gradient is
    weight * (grad_lse - rowsum(grad_out * out))."""
    packed = cu_q is not None
    delta = (grad_out.float() * out.float()).sum(-1)
    if packed:
        delta = delta.transpose(0, 1)
    if grad_lse is not None:
        real = _has_query(lse.shape[-1], cu_q, used_q)
        delta = delta - (grad_lse if real is None else grad_lse.masked_fill(~real, 0.0))
    lse = lse.masked_fill(lse == -torch.inf, torch.inf)  # nothing is seen, not even the sink: no weight
    if packed:
        return -(torch.exp(sinks[:, None] - lse) * delta).sum(1)
    return -(torch.exp(sinks[None, :, None] - lse) * delta).sum((0, 2))


_run_attention_backward = run_backward("attention_backward")


def _attention_backward(ctx, wants, grad_out, grad_lse=None):
    q, k, v, out, lse, *others = ctx.saved_tensors
    block_mask = ()
    if ctx.is_masked:  # which excludes the others
        sinks, *block_mask = others
        others = (None, None, sinks, *(None,) * 6)
    bias, alibi, sinks, cu_q, cu_k, used_q, used_k, pages, state = (None,) * 9 if not others else others
    longest_q, longest_k, mask, left, right, scale, soft_cap, dropout_p = ctx.values
    *_, wants_bias, wants_alibi, wants_sinks = wants
    if grad_out is None and grad_lse is None:
        return (None,) * 6
    if lse is None:
        raise RuntimeError("switchyard::attention_forward: a gradient needs with_lse=True in the forward call")
    if pages is not None:
        raise RuntimeError("switchyard::attention_forward has no gradient for keys and values in pages")
    if k.dtype != q.dtype:
        raise RuntimeError("switchyard::attention_forward has no gradient for keys and values in another type than q's")
    if wants_alibi:
        raise RuntimeError("switchyard::attention_forward has no gradient for alibi_slopes")
    if grad_out is None:  # the loss contains the LSE alone
        grad_out = torch.zeros_like(out)
    same_bits = ctx.deterministic or torch.are_deterministic_algorithms_enabled()
    grad_q, grad_k, grad_v, grad_bias = _run_attention_backward(
        grad_out, q, k, v, out, lse, bias, alibi, cu_q, cu_k, used_q, used_k, state, longest_q, longest_k, mask, left,
        right, scale, soft_cap, dropout_p, same_bits, wants_bias, grad_lse, *block_mask)  # fmt: skip
    grad_sinks = _grad_sinks(sinks, out, lse, grad_out, grad_lse, cu_q, used_q) if wants_sinks else None
    return grad_q, grad_k, grad_v, grad_bias, None, grad_sinks


attention_forward = Formula("attention_forward", 6, _keep_attention, _attention_backward)


# rotary


_inverse = _place("rotary", "inverse")


def _keep_rotary(ctx, inputs, output):
    _, _, cos, sin, positions, offsets, cu_seqlens, *_ = inputs
    ctx.values = (*inputs[7:_inverse], not inputs[_inverse], *inputs[_inverse + 1 :])
    ctx.save_for_backward(cos, sin, positions, offsets, cu_seqlens)
    ctx.set_materialize_grads(False)
    return ()


_turn = run_backward("rotary", lambda: rotary)


def _rotary_backward(ctx, wants, grad_q, grad_k=None):
    """The backward turns the other way."""
    if wants[2] or wants[3]:
        raise RuntimeError("switchyard::rotary has no gradient for cos and sin")
    cos, sin, positions, offsets, cu_seqlens = ctx.saved_tensors

    def turn(q, k):
        return _turn(q, k, cos, sin, positions, offsets, cu_seqlens, *ctx.values)

    if grad_q is not None:
        turned_q, turned_k = turn(grad_q, grad_k)
    else:
        turned_q, turned_k = None, turn(grad_k, None)[0] if grad_k is not None else None
    return turned_q, turned_k, None, None


rotary = Formula("rotary", 4, _keep_rotary, _rotary_backward)


# Norms


def _require_statistics(name: str, statistics: torch.Tensor | None) -> None:
    if statistics is None:
        raise RuntimeError(f"switchyard::{name}: a gradient needs with_statistics=True in the forward call")


def _norm(name: str, weights: int) -> Formula:
    """rms_norm, which has one weight and rstd, or layer_norm, which has a bias and a mean besides."""
    run = run_backward(f"{name}_backward")
    at_residual, at_offset = _place(name, "residual"), _place(name, "weight_offset")

    def keep(ctx, inputs, output):
        residual, ctx.weight_offset = inputs[at_residual], inputs[at_offset]
        _, residual_out, *statistics = output
        ctx.has_residual = residual is not None
        ctx.save_for_backward(residual_out if ctx.has_residual else inputs[0], inputs[1], *statistics)
        ctx.set_materialize_grads(False)
        return tuple(statistics)

    def backward(ctx, wants, grad_out, grad_residual=None, *_):
        h, weight, *statistics = ctx.saved_tensors
        if grad_out is None:  # the normalised rows are not used
            return (grad_residual, *(None,) * weights, grad_residual)
        _require_statistics(name, statistics[0])
        wanted = wants[1 : 1 + weights]
        grad_x, *grads = run(grad_out, h, *statistics, weight, grad_residual, ctx.weight_offset, *wanted)
        return (grad_x, *grads, grad_x if ctx.has_residual else None)

    return Formula(name, 2 + weights, keep, backward)


rms_norm = _norm("rms_norm", 1)
layer_norm = _norm("layer_norm", 2)


# Elementwise operators


def _keep_gated(ctx, inputs, output):
    gate, up, ctx.function, *_ = inputs
    ctx.save_for_backward(gate, up)
    return ()


_run_gated_backward = run_backward("gated_activation_backward")


def _gated_backward(ctx, wants, grad_out):
    gate, up = ctx.saved_tensors
    grad_gate, grad_up = _run_gated_backward(grad_out, gate, up, ctx.function)
    return grad_gate, grad_up


gated_activation = Formula("gated_activation", 2, _keep_gated, _gated_backward)


def _keep_softmax(ctx, inputs, output):
    ctx.scale = inputs[1]
    ctx.save_for_backward(output)
    return ()


_run_softmax_backward = run_backward("softmax_backward")


def _softmax_backward(ctx, wants, grad_out):
    (out,) = ctx.saved_tensors
    return (_run_softmax_backward(grad_out, out, ctx.scale),)


softmax = Formula("softmax", 1, _keep_softmax, _softmax_backward)


# Ops without a formula

_in_place = torch.library.Library("switchyard", "IMPL")


def _refuse_at_the_call(name: str) -> None:
    """Of an op that writes the caller's tensors: autograd would not notice, and there is no backward that could raise."""
    overload = getattr(ops, name)

    def run(*args, **kwargs):
        if needs_gradient(*(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))):
            raise RuntimeError(f"switchyard::{name} has no gradient")
        with torch._C._AutoDispatchBelowAutograd():
            return overload(*args, **kwargs)

    _in_place.impl(name, run, "Autograd")


for _name in op_names - Formula.names:
    if getattr(ops, _name)._schema.is_mutable:
        _refuse_at_the_call(_name)
    else:
        torch.library.register_autograd(f"switchyard::{_name}", refuse_gradient(_name))
