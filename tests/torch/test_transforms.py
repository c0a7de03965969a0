# SPDX-License-Identifier: MIT
"""torch.func's transforms, and second derivatives: they work, or raise an error that says so."""

import pytest
import switchyard.torch as sy
import torch

Q, K = (2, 4, 5, 16), (2, 2, 7, 16)


def calls():
    """Functions of tensors, with inputs."""
    w, b = torch.randn(24), torch.randn(24)
    angle = torch.randn(5, 8)
    cu = torch.tensor([0, 3, 8], dtype=torch.int32)
    return {
        "attention": (lambda q, k: sy.attention(q, k, k, causal=True), (torch.randn(Q), torch.randn(K))),
        "attention and lse": (lambda q, k: sy.attention(q, k, k, return_lse=True), (torch.randn(Q), torch.randn(K))),
        "attention_varlen": (
            lambda q, k: sy.attention_varlen(q, k, k, cu, cu, 5, 5, causal=True),
            (torch.randn(8, 4, 16), torch.randn(8, 2, 16)),
        ),
        "rms_norm": (lambda x, w: sy.rms_norm(x, w), (torch.randn(3, 24), w)),
        "layer_norm": (lambda x, w, b: sy.layer_norm(x, w, b), (torch.randn(3, 24), w, b)),
        "gated_activation": (lambda x, y: sy.gated_activation(x, y), (torch.randn(3, 24), torch.randn(3, 24))),
        "softmax": (lambda x: sy.softmax(x), (torch.randn(3, 24),)),
        "rotary": (lambda q: sy.rotary(q, None, angle.cos(), angle.sin()), (torch.randn(Q),)),
    }  # fmt: skip


NAMES = list(calls())


def listed(out):
    return list(out) if isinstance(out, tuple) else [out]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's loop over the batch
def test_vmap(name):
    function, inputs = calls()[name]
    batched = [torch.stack([tensor, tensor.flip(0) * 2, tensor + 1]) for tensor in inputs]
    got = listed(torch.func.vmap(function)(*batched))
    want = [
        torch.stack(results)
        for results in zip(*(listed(function(*sample)) for sample in zip(*batched, strict=True)), strict=True)
    ]
    for mine, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_of_some_inputs_and_of_gradients(name):
    """Gradients of each sample, as torch.func's tutorials take them."""
    function, inputs = calls()[name]
    first = torch.stack([inputs[0], inputs[0] * 2])
    rest = inputs[1:]

    def loss(x, *others):
        return listed(function(x, *others))[0].square().sum()

    axes = (0, *(None for _ in rest))
    got = torch.func.vmap(torch.func.grad(loss), axes)(first, *rest)
    for mine, x in zip(got, first, strict=True):
        x = x.detach().requires_grad_()
        torch.testing.assert_close(mine, torch.autograd.grad(loss(x, *rest), x)[0])


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives(name):
    """Rotary's exists, since it is linear; the others' are refused by name."""
    function, inputs = calls()[name]
    given = [tensor.clone().requires_grad_() for tensor in inputs]
    out = listed(function(*given))[0]
    grads = torch.autograd.grad(out.square().sum(), given, create_graph=True)
    total = sum(grad.square().sum() for grad in grads)
    if name == "rotary":
        (got,) = torch.autograd.grad(total, given)
        torch.testing.assert_close(got, 8 * given[0].detach())  # turned and back: grads are 2 x
        return
    with pytest.raises(RuntimeError, match=r"switchyard::\w+_backward has no gradient"):
        torch.autograd.grad(total, given)


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_of_transforms(name):
    function, inputs = calls()[name]

    def loss(x):
        return listed(function(x, *inputs[1:]))[0].square().sum()

    twice = torch.func.grad(lambda x: torch.func.grad(loss)(x).square().sum())
    if name == "rotary":
        torch.testing.assert_close(twice(inputs[0]), 8 * inputs[0])
        return
    with pytest.raises(RuntimeError, match=r"switchyard::\w+_backward has no gradient"):
        twice(inputs[0])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_decode():
    """It has no gradient, and says so."""
    q, k = torch.randn(3, 2, 4, 1, 16).half(), torch.randn(3, 2, 2, 7, 16).half()
    got = torch.func.vmap(sy.attention_decode)(q, k, k)
    assert torch.equal(got, torch.stack([sy.attention_decode(a, b, b) for a, b in zip(q, k, strict=True)]))
    with pytest.raises(RuntimeError, match="switchyard::attention_decode has no gradient"):
        torch.func.grad(lambda q: sy.attention_decode(q, k[0], k[0]).sum())(q[0])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_reverse_mode_jacobians():
    x = torch.randn(2, 5)
    got = torch.func.jacrev(sy.softmax)(x)
    torch.testing.assert_close(got, torch.autograd.functional.jacobian(lambda x: torch.softmax(x, -1), x))
    out, pull = torch.func.vjp(sy.softmax, x)
    torch.testing.assert_close(pull(torch.ones_like(out))[0], torch.zeros_like(x))


def test_functional_call():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(24))

        def forward(self, x):
            return sy.rms_norm(x, self.weight)

    layer, x, weight = Layer(), torch.randn(3, 24), torch.randn(24)
    got = torch.func.functional_call(layer, {"weight": weight}, (x,))
    assert torch.equal(got, sy.rms_norm(x, weight))
    grad = torch.func.grad(lambda w: torch.func.functional_call(layer, {"weight": w}, (x,)).sum())(weight)
    w = weight.clone().requires_grad_()
    torch.testing.assert_close(grad, torch.autograd.grad(sy.rms_norm(x, w).sum(), w)[0])
