# SPDX-License-Identifier: MIT
"""Ways in which PyTorch calls ops besides plainly: autocast, export, lazy negation, threads, recomputation with dropout."""

import copy
import io
import pickle
import threading

import architectures
import pytest
import switchyard.flash_attn as fa
import switchyard.torch as sy
import switchyard.transformers
import torch
from torch.utils.checkpoint import checkpoint

HALF = torch.bfloat16


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(32))

    def forward(self, x):
        return sy.rms_norm(sy.attention(sy.rotary(x), x, x, causal=True), self.weight)


def equal(program, module, *shape):
    x = torch.randn(shape)
    return torch.equal(program(x), module(x))


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict):
    module, tokens = Block(), torch.export.Dim("tokens", min=2, max=64)
    program = torch.export.export(module, (torch.randn(1, 2, 8, 32),), dynamic_shapes=({2: tokens},), strict=strict)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    assert equal(loaded, module, 1, 2, 8, 32) and equal(loaded, module, 1, 2, 13, 32)
    assert {node.target.namespace for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)} == {
        "switchyard"
    }


@torch.no_grad()
def test_traces():
    module = Block()
    x = torch.randn(1, 2, 8, 32)
    assert equal(torch.jit.trace(module, x), module, 1, 2, 8, 32)
    assert equal(torch.fx.experimental.proxy_tensor.make_fx(module)(x), module, 1, 2, 8, 32)


@pytest.mark.parametrize("compiled", [False, True])
def test_autocast_gives_queries_keys_and_values_one_type(compiled):
    """A norm of heads may give f32, where values stay as the projection made them."""
    q, k, v = (torch.randn(1, 2, 8, 32, dtype=dtype, requires_grad=True) for dtype in (torch.float32, torch.float32, HALF))
    cu = torch.tensor([0, 8])
    calls = {
        sy.attention: lambda call, *x: call(*x),
        sy.attention_varlen: lambda call, *x: call(*(y[0].transpose(0, 1) for y in x), cu, cu, 8, 8).transpose(0, 1)[None],
    }
    for function, run in calls.items():
        call = torch.compile(function, backend="aot_eager", fullgraph=True) if compiled else function
        with pytest.raises(RuntimeError, match="v is bf16, but k is f32"):
            run(function, q, k, v)
        with torch.autocast("cpu", HALF):
            out = run(call, q, k, v)
        assert torch.equal(out, run(function, q.to(HALF), k.to(HALF), v)) and out.dtype == HALF
        assert [grad.dtype for grad in torch.autograd.grad(out.sum(), (q, k, v))] == [torch.float32, torch.float32, HALF]
        with torch.autocast("cpu", HALF):
            assert run(call, q, q, q).dtype == torch.float32  # of one type they keep it


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma2", "gpt_oss", "bert", "vit", "hy_v4"])
@pytest.mark.parametrize("patched", [False, True])
def test_models_under_autocast(kind, patched):
    """Sums of a layer have f32 beside projections in half precision."""
    model_type = architectures.all_classes().get(kind)
    if model_type is None:
        pytest.skip("not in this version of transformers")
    config = architectures.tiny(model_type)
    given, losses = architectures.inputs(model_type, config), {}
    for implementation in ("eager", "switchyard"):
        torch.manual_seed(0)
        ours = implementation == "switchyard"
        model = model_type._from_config(config, attn_implementation="eager" if patched else implementation).eval()
        if ours and patched:
            switchyard.transformers.patch(model)
        with torch.autocast("cpu", HALF):
            out = model(**given)
        first = next(value for value in out.values() if isinstance(value, torch.Tensor) and value.is_floating_point())
        loss = first.float().square().mean()
        loss.backward()
        grads = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
        losses[implementation] = torch.stack([loss.detach(), torch.stack(grads).norm()])
    torch.testing.assert_close(losses["switchyard"], losses["eager"], rtol=0.05, atol=1e-4)


def test_patched_models_cannot_be_pickled():
    """Their modules would come back with the forward functions of their classes."""
    kind = architectures.all_classes()["llama"]
    config = architectures.tiny(kind)
    given, model = architectures.inputs(kind, config), kind._from_config(config).eval()
    want = switchyard.transformers.patch(model)(**given).logits
    for save in (pickle.dumps, lambda model: torch.save(model, io.BytesIO())):
        with pytest.raises(pickle.PicklingError, match="a patched model cannot be pickled: unpatch it first"):
            save(model)
    assert torch.equal(copy.deepcopy(model)(**given).logits, want)
    loaded = pickle.loads(pickle.dumps(switchyard.transformers.unpatch(model)))
    assert torch.equal(switchyard.transformers.patch(loaded)(**given).logits, want)


def test_lazily_negated_tensors():
    lazy = torch.randn(1, 2, 8, 32, dtype=torch.complex64).conj().imag
    assert lazy.is_neg()
    for run in (sy.softmax, sy.rms_norm, sy.rotary, lambda x: sy.attention(x, x, x)):
        for mode in (torch.no_grad, torch.enable_grad, torch.inference_mode):
            with mode():
                assert torch.equal(run(lazy), run(lazy.resolve_neg()))
    x = torch.randn(1, 2, 8, 32, requires_grad=True)
    assert not torch.autograd.grad(sy.attention(x, x, x), x, torch._efficientzerotensor(x.shape))[0].any()


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_dropout_is_the_same(reentrant):
    x = torch.randn(1, 2, 8, 32, requires_grad=True)
    run = lambda x: sy.attention(x, x, x, dropout_p=0.4)
    grads = []
    for call in (run, lambda x: checkpoint(run, x, use_reentrant=reentrant)):
        torch.manual_seed(3)
        x.grad = None
        call(x).sum().backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


def test_longest_sequences_as_tensors():
    """Compiled code ends a graph there."""
    q, cu = torch.randn(8, 4, 32), torch.tensor([0, 3, 8], dtype=torch.int32)

    def run(q, cu):
        longest = cu.diff().max()
        return fa.flash_attn_varlen_func(q, q, q, cu, cu, longest, longest, causal=True)

    want = fa.flash_attn_varlen_func(q, q, q, cu, cu, 5, 5, causal=True)
    assert torch.equal(run(q, cu), want) and torch.equal(torch.compile(run, backend="aot_eager")(q, cu), want)


def test_threads():
    x, found = torch.randn(1, 2, 8, 32), [None] * 8

    def work(i):
        for _ in range(20):
            own = x.clone().requires_grad_()
            (found[i],) = torch.autograd.grad(sy.attention(own, own, own, causal=True).sum(), own)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(one, found[0]) for one in found)


def test_defaults_of_the_process_do_not_matter():
    q, seen = torch.randn(1, 2, 8, 32), torch.ones(8, 8, dtype=torch.bool).tril()
    want = sy.attention(q, q, q, bias=seen)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.device("meta"):
            assert torch.equal(sy.attention(q, q, q, bias=seen), want)
            assert sy.attention(q, q, q, dropout_p=0.5).device.type == "cpu"
    finally:
        torch.set_default_dtype(before)
