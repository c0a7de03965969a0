# SPDX-License-Identifier: MIT
"""Eager calls go past torch.library's Python, and give what the op itself gives, with its own gradient: in every mode,
for every set of inputs that need one, and where only the op itself is right (subclasses, torch.func, tracing).

On the device SWITCHYARD_TEST_DEVICE, or the CPU.
"""

import gc
import itertools
import os
import sys
import weakref

import pytest
import switchyard.torch as sy
import torch
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

ops = torch.ops.switchyard
DEVICE = os.environ.get("SWITCHYARD_TEST_DEVICE", "cpu")
CU = torch.tensor([0, 2, 5], dtype=torch.int32, device=DEVICE)


def randn(*shape, **kwargs):
    return torch.randn(shape, device=DEVICE, **kwargs)


def detached(out):
    """(out, lse), the LSE as losses must take it."""
    return out[0], out[1].detach()


def calls():
    """Of each function: our call, the op's, and the inputs that have gradients."""
    q, k, v = randn(1, 4, 5, 16), randn(1, 2, 5, 16), randn(1, 2, 5, 16)
    packed = [randn(5, h, 16) for h in (4, 2, 2)]
    bias, sinks = randn(1, 4, 5, 5), randn(4)
    angle = randn(5, 8)
    x, y, weight, offset = randn(3, 32), randn(3, 32), randn(32), randn(32)
    one = lambda out: out[0]
    two = lambda out: out[:2]
    return {
        "attention": (lambda q, k, v: sy.attention(q, k, v, causal=True),
                      lambda q, k, v: one(ops.attention_forward(q, k, v, mask=2, with_lse=True)), (q, k, v)),
        "attention_lse": (lambda q, k, v: detached(sy.attention(q, k, v, return_lse=True)),
                          lambda q, k, v: detached(ops.attention_forward(q, k, v, with_lse=True)), (q, k, v)),
        "attention_bias": (lambda q, k, v, b, s: sy.attention(q, k, v, bias=b, sinks=s),
                           lambda q, k, v, b, s: one(ops.attention_forward(q, k, v, bias=b, sinks=s, with_lse=True)),
                           (q, k, v, bias, sinks)),
        "attention_varlen": (lambda q, k, v: sy.attention_varlen(q, k, v, CU, CU, 3, 3),
                             lambda q, k, v: one(ops.attention_forward(q, k, v, cu_seqlens_q=CU, cu_seqlens_k=CU, longest_q=3,
                                                                       longest_k=3, with_lse=True)), packed),
        "rotary": (lambda q, k: sy.rotary(q, k, angle.cos(), angle.sin()),
                   lambda q, k: ops.rotary(q, k, angle.cos(), angle.sin()), (q, k)),
        "rotary_q": (lambda q: sy.rotary(q, None, angle.cos(), angle.sin()),
                     lambda q: one(ops.rotary(q, None, angle.cos(), angle.sin())), (q,)),
        "rms_norm": (sy.rms_norm, lambda x, w: one(ops.rms_norm(x, w, with_statistics=True)), (x, weight)),
        "rms_norm_residual": (sy.rms_norm, lambda x, w, r: two(ops.rms_norm(x, w, r, with_statistics=True)), (x, weight, y)),
        "layer_norm": (sy.layer_norm, lambda x, w, b: one(ops.layer_norm(x, w, b, with_statistics=True)), (x, weight, offset)),
        "layer_norm_residual": (sy.layer_norm, lambda x, w, b, r: two(ops.layer_norm(x, w, b, r, with_statistics=True)),
                                (x, weight, offset, y)),
        "gated_activation": (sy.gated_activation, ops.gated_activation, (x, y)),
        "gated_activation_packed": (sy.gated_activation, ops.gated_activation, (x,)),
        "softmax": (sy.softmax, ops.softmax, (x,)),
    }  # fmt: skip


NAMES = list(calls())


def as_tuple(out):
    return out if isinstance(out, tuple) else (out,)


def leaves(inputs, needs=None):
    needs = needs or (True,) * len(inputs)
    return [tensor.clone().requires_grad_(need) for tensor, need in zip(inputs, needs, strict=True)]


def backward(function, inputs, **options):
    """Results, and gradients of those inputs that need one."""
    out = [result for result in as_tuple(function(*inputs)) if result.requires_grad]
    asked = [tensor for tensor in inputs if tensor.requires_grad]
    return out, torch.autograd.grad(out, asked, [torch.ones_like(result).cumsum(-1) for result in out], **options)


def files_of_python(function) -> set[str]:
    """The files whose Python functions run."""
    seen = set()
    sys.setprofile(lambda frame, event, _: seen.add(frame.f_code.co_filename) if event == "call" else None)
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_no_python_of_torchs_library_runs(name):
    function, op, inputs = calls()[name]
    given = leaves(inputs)

    def library(run) -> bool:
        return any("torch/_library/" in path for path in files_of_python(run))

    assert library(lambda: backward(op, given))  # else this test would see nothing
    assert not library(lambda: backward(function, given))
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            assert not library(lambda: function(*given))
    assert not library(lambda: function(*inputs))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_as_the_op_for_every_set_of_gradients(name):
    function, op, inputs = calls()[name]
    for needs in itertools.product([False, True], repeat=len(inputs)):
        given = leaves(inputs, needs)
        mine, theirs = as_tuple(function(*given)), as_tuple(op(*given))
        for a, b in zip(mine, theirs, strict=True):
            assert torch.equal(a, b) and a.requires_grad == b.requires_grad
        if any(needs):
            (_, mine), (_, theirs) = backward(function, given), backward(op, given)
            for a, b in zip(mine, theirs, strict=True):
                assert torch.equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_modes_without_gradients(name):
    function, op, inputs = calls()[name]
    given = leaves(inputs)
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            for a, b in zip(as_tuple(function(*given)), as_tuple(op(*given)), strict=True):
                assert torch.equal(a, b) and not a.requires_grad and a.is_inference() == (mode is torch.inference_mode)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("rotary")])
def test_a_second_derivative_is_refused(name):
    function, _, inputs = calls()[name]
    _, grads = backward(function, leaves(inputs), create_graph=True)
    with pytest.raises(RuntimeError, match="backward has no gradient"):
        sum(grad.sum() for grad in grads).backward()


def test_rotary_has_a_second_derivative():
    function, op, (q, k) = calls()["rotary"]
    found = []
    for run in (function, op):
        scale = torch.tensor(2.0, device=DEVICE, requires_grad=True)
        given = leaves((q, k))
        out = sum((result * scale).square().sum() for result in run(*given))
        (grad,) = torch.autograd.grad(out, given[0], create_graph=True)
        found.append(torch.autograd.grad(grad.sum(), scale)[0])
    assert found[0] == found[1] != 0


@pytest.mark.filterwarnings("ignore:Input .* is not a double precision")
@pytest.mark.parametrize("name", NAMES)
def test_gradients_by_differences(name):
    """gradcheck, as far as f32 goes."""
    function, _, inputs = calls()[name]
    smooth = lambda *given: [result for result in as_tuple(function(*given)) if result.requires_grad]
    torch.autograd.gradcheck(
        smooth, leaves([0.5 * tensor for tensor in inputs]), eps=1e-2, atol=2e-2, rtol=2e-2, fast_mode=True
    )


class Seen(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.functions = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.functions.append(func)
        return func(*args, **(kwargs or {}))


class Marked(torch.Tensor):
    """Results of a subclass are of the subclass: its __torch_function__ ran."""


@pytest.mark.parametrize("grad", [False, True])
def test_torch_functions_see_the_op(grad):
    x = randn(3, 32, requires_grad=grad)
    with Seen() as mode:
        out = sy.softmax(x)
    assert ops.softmax.default in mode.functions and out.requires_grad == grad
    marked = x.detach().as_subclass(Marked).requires_grad_(grad)
    out = sy.softmax(marked)
    assert type(out) is Marked and torch.equal(out.as_subclass(torch.Tensor), sy.softmax(x))


def test_dispatch_modes_see_the_op(counted):
    x = randn(3, 32, requires_grad=True)
    with counted() as mode:
        sy.softmax(x).sum().backward()
    assert mode.calls["softmax"] == 1 and mode.calls["softmax_backward"] == 1


@pytest.mark.filterwarnings("ignore:.*is deprecated")
@pytest.mark.parametrize("grad", [False, True])
def test_traces_hold_the_op(grad):
    traced = torch.jit.trace(sy.softmax, randn(3, 32, requires_grad=grad), check_trace=False)
    assert "switchyard::softmax" in str(traced.graph)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant):
    function, _, inputs = calls()["attention"]
    given = leaves(inputs)
    _, want = backward(function, given)
    checkpoint(function, *given, use_reentrant=reentrant).backward(torch.ones_like(inputs[0]).cumsum(-1))
    for tensor, grad in zip(given, want, strict=True):
        assert torch.equal(tensor.grad, grad)


def test_a_saved_tensor_that_changes_is_noticed():
    gate, up = randn(3, 32, requires_grad=True), randn(3, 32)
    out = sy.gated_activation(gate, up)
    up.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("name", NAMES)
def test_results_are_freed_without_the_garbage_collector(name):
    function, _, inputs = calls()[name]
    gc.collect()
    gc.disable()
    try:
        given = leaves(inputs)
        out, _ = backward(function, given, retain_graph=True)
        refs = [weakref.ref(result) for result in out]
        del out
        assert all(ref() is None for ref in refs)
    finally:
        gc.enable()


@pytest.mark.parametrize("compiled_backward", [False, True])
def test_compiled_and_eager_parts_of_one_graph(compiled_backward):
    """An eager call recorded by hand, its backward beside compiled code's, and compiled itself."""
    torch._dynamo.reset()
    function, _, inputs = calls()["attention"]
    given = leaves(inputs)
    _, want = backward(lambda *given: function(*given) * 2, given)
    double = torch.compile(lambda x: x * 2, backend="aot_eager", fullgraph=True)
    grad = torch.ones_like(inputs[0]).cumsum(-1)
    if compiled_backward:
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            (function(*given) * 2).backward(grad)
    else:
        double(function(*given)).backward(grad)
    for tensor, expected in zip(given, want, strict=True):
        torch.testing.assert_close(tensor.grad, expected)


def test_what_was_not_asked_for_is_none():
    x = randn(3, 32)
    _, residual, rstd = ops.rms_norm(x)
    assert residual is None and rstd is None
    with pytest.raises(RuntimeError, match="needs with_statistics=True"):
        ops.rms_norm(x.requires_grad_())[0].sum().backward()
    q = randn(1, 2, 4, 16, requires_grad=True)
    with pytest.raises(RuntimeError, match="needs with_lse=True"):
        ops.attention_forward(q, q, q)[0].sum().backward()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", ["jvp", "jacfwd", "vmap of jvp", "jvp of vmap", "dual", "dual with gradients"])
def test_forward_mode_raises(name, way):
    """It would be zero without a word; each input alone has a tangent."""
    function, _, inputs = calls()[name]
    for i, x in enumerate(inputs):

        def of(x, i=i):
            return as_tuple(function(*inputs[:i], x, *inputs[i + 1 :]))[0]

        def run(x, of=of):
            if way == "jvp":
                return torch.func.jvp(of, (x,), (x,))
            if way == "jacfwd":
                return torch.func.jacfwd(of)(x)
            if way == "vmap of jvp":
                return torch.func.vmap(lambda one: torch.func.jvp(of, (one,), (one,)))(torch.stack([x, x]))
            if way == "jvp of vmap":
                return torch.func.jvp(torch.func.vmap(of), (torch.stack([x, x]),), (torch.stack([x, x]),))
            with torch.autograd.forward_ad.dual_level():
                return of(torch.autograd.forward_ad.make_dual(x.clone().requires_grad_(way != "dual"), x))

        with pytest.raises(RuntimeError, match=r"switchyard::\w+ has no forward-mode derivative"):
            run(x)


def test_calls_without_tangents_in_a_dual_level():
    x = torch.randn(2, 16)
    with torch.autograd.forward_ad.dual_level():
        assert torch.equal(sy.softmax(x), ops.softmax(x))
