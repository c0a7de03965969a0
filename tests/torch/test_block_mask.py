# SPDX-License-Identifier: MIT
"""attention(block_mask=...) on the CPU beside flex_attention in eager mode, and what is made of a BlockMask."""

import gc
import warnings

import pytest
import switchyard.torch as sy
import torch
from switchyard.torch import _block_mask
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, create_mask, flex_attention

DOCUMENT = torch.tensor([0] * 50 + [1] * 190 + [2] * 160)
MODS = {
    "causal": lambda b, h, q, k: q >= k,
    "window": lambda b, h, q, k: ((q >= k) & (q - k < 60)) | (k < 5),
    "documents": lambda b, h, q, k: (DOCUMENT[q] == DOCUMENT[k]) & (q >= k),
    "prefix": lambda b, h, q, k: (k < 150) | (q >= k),
    "checkerboard": lambda b, h, q, k: (q // 128 + k // 128) % 2 == 0,
    "heads": lambda b, h, q, k: (q + h) % 3 >= (k + b) % 3,
    "blind rows": lambda b, h, q, k: (q % 7 != 3) & (q < 300),
    "all": lambda b, h, q, k: q >= 0,
}


def tensors(b=2, h=4, h_kv=2, n=256, m=256, d=16, dv=16):
    shapes = (b, h, n, d), (b, h_kv, m, d), (b, h_kv, m, dv)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def compare(got, want, tolerance=5e-6):
    scale = max(1.0, want.abs().max().item())
    assert (got - want).abs().max().item() <= tolerance * scale


def flex(q, k, v, mask):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is slow in eager mode
        return flex_attention(*(tensor.detach() for tensor in (q, k, v)), block_mask=mask, enable_gqa=True, return_lse=True)


def dense(q, k, v, seen):
    """In float64, for gradients, which flex_attention does not have on the CPU."""
    group = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(group, 1).transpose(2, 3) * q.shape[-1] ** -0.5
    blind = ~seen.any(-1, keepdim=True)
    scores = scores.masked_fill(~seen & ~blind, -torch.inf)
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp(scores - lse[..., None]).masked_fill(~seen, 0)
    return weights @ v.repeat_interleave(group, 1), lse.masked_fill(blind[..., 0], 0)


@pytest.mark.parametrize("name", MODS)
@pytest.mark.parametrize("n, m", [(256, 256), (200, 400), (1, 130)])
def test_beside_flex_attention(name, n, m):
    q, k, v = tensors(n=n, m=m, dv=24)
    batch, heads = (2, 4) if name == "heads" else (None, None)
    mask = create_block_mask(MODS[name], batch, heads, n, m, device="cpu")
    out, lse = sy.attention(q, k, v, block_mask=mask, return_lse=True)
    want, want_lse = flex(q, k, v, mask)
    compare(out, want)
    blind = want_lse == -torch.inf
    assert torch.equal(lse == -torch.inf, blind)
    compare(lse.masked_fill(blind, 0), want_lse.masked_fill(blind, 0))

    grad, grad_lse = torch.randn_like(out), torch.randn_like(lse)
    got = torch.autograd.grad((out, lse), (q, k, v), (grad, grad_lse.masked_fill(blind, torch.nan)))
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    seen = create_mask(MODS[name], batch, heads, n, m, device="cpu").expand(2, 4, n, m)
    theirs = torch.autograd.grad(dense(*wide, seen), wide, (grad.double(), grad_lse.double()))
    for mine, their in zip(got, theirs):
        compare(mine, their)


def test_blocks_of_other_sizes_scale_and_sinks():
    q, k, v = tensors(n=300, m=520)
    sinks = torch.randn(4, requires_grad=True)
    mask = create_block_mask(MODS["window"], None, None, 300, 520, device="cpu", BLOCK_SIZE=(256, 128))
    dense = torch.ones(300, 520, dtype=torch.bool)
    i, j = torch.arange(300)[:, None], torch.arange(520)[None, :]
    dense &= MODS["window"](0, 0, i, j)
    out = sy.attention(q, k, v, block_mask=mask, scale=-0.2, sinks=sinks)
    want = sy.attention(q, k, v, bias=dense, scale=-0.2, sinks=sinks)
    compare(out, want)
    grad = torch.randn_like(out)
    for mine, theirs in zip(
        torch.autograd.grad(out, (q, k, v, sinks), grad), torch.autograd.grad(want, (q, k, v, sinks), grad)
    ):
        compare(mine, theirs)


def test_lists_without_full_blocks_or_transposed_ones():
    counts, indices = torch.tensor([[[1, 2]]], dtype=torch.int32), torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32)
    mask = BlockMask.from_kv_blocks(counts, indices, mask_mod=MODS["causal"], seq_lengths=(256, 256), compute_q_blocks=False)
    q, k, v = tensors()
    out = sy.attention(q, k, v, block_mask=mask)
    want = sy.attention(q, k, v, causal=True)
    compare(out, want)
    grad = torch.randn_like(out)
    for mine, theirs in zip(torch.autograd.grad(out, (q, k, v), grad), torch.autograd.grad(want, (q, k, v), grad)):
        compare(mine, theirs)


def test_lists_are_made_once_and_bits_shared():
    calls = []

    def causal(b, h, q, k):
        calls.append(1)
        return q >= k

    mask = create_block_mask(causal, None, None, 640, 640, device="cpu")
    calls.clear()
    lists = sy.prepare_block_mask(mask)
    assert calls and lists.mask_bits.shape == (1, 128, 4)  # five diagonal blocks are one
    calls.clear()
    assert sy.prepare_block_mask(mask) is lists and not calls
    assert sy.prepare_block_mask(lists) is lists
    key = id(mask)
    assert key in _block_mask._made
    del mask
    gc.collect()
    assert key not in _block_mask._made


class Documents(torch.nn.Module):
    """What keeps a mask whose mask_mod captured it."""

    def __init__(self, document):
        super().__init__()
        self.register_buffer("document", document)
        self.mask_mod = lambda b, h, q, k: self.document[q] == self.document[k]


def captured(document):
    parts = (lambda q, k: document[q] == document[k],)
    return lambda b, h, q, k: parts[0](q, k)


@pytest.mark.parametrize("kind", ["module", "captured"])
def test_a_mask_that_changes_is_made_anew(kind):
    """As flex_attention sees it: bits of another mask would be silently wrong."""
    q, k, v = tensors(b=1, n=200, m=200)
    document = torch.arange(200) // 40
    owner = Documents(document)
    mask_mod = owner.mask_mod if kind == "module" else captured(document)
    owner.mask = mask = create_block_mask(mask_mod, None, None, 200, 200, device="cpu")
    first = sy.attention(q, k, v, block_mask=mask)
    compare(first, flex(q, k, v, mask)[0])
    document.copy_(torch.arange(200) // 70)
    second = sy.attention(q, k, v, block_mask=mask)
    compare(second, flex(q, k, v, mask)[0])
    assert not torch.equal(first, second) and sy.prepare_block_mask(mask) is sy.prepare_block_mask(mask)
    mask.mask_mod = MODS["causal"]
    compare(sy.attention(q, k, v, block_mask=mask), flex(q, k, v, mask)[0])
    key = id(mask)
    mask.mask_mod = mask_mod
    sy.prepare_block_mask(mask)
    del mask, owner, mask_mod
    gc.collect()
    assert key not in _block_mask._made


def test_compiled():
    q, k, v = tensors(b=1, n=200, m=200)
    mask = create_block_mask(MODS["causal"], None, None, 200, 200, device="cpu")
    lists = sy.prepare_block_mask(mask)
    want = sy.attention(q, k, v, block_mask=mask)
    compiled = torch.compile(
        lambda q, k, v, lists: sy.attention(q, k, v, block_mask=lists), fullgraph=True, backend="aot_eager"
    )
    out = compiled(q, k, v, lists)
    assert torch.equal(out, want)
    grad = torch.randn_like(out)
    for mine, theirs in zip(torch.autograd.grad(out, (q, k, v), grad), torch.autograd.grad(want, (q, k, v), grad)):
        assert torch.equal(mine, theirs)


def test_op_contract():
    q, k, v = tensors(b=1, h=2, n=130, m=130)
    lists = sy.prepare_block_mask(create_block_mask(MODS["causal"], None, None, 130, 130, device="cpu"))
    named = lists._asdict()
    torch.library.opcheck(torch.ops.switchyard.attention_forward.default, (q, k, v), {"with_lse": True, **named})
    with torch.no_grad():
        out, lse = torch.ops.switchyard.attention_forward(q, k, v, with_lse=True, **named)
        plain = [tensor.detach() for tensor in (q, k, v)]
        torch.library.opcheck(torch.ops.switchyard.attention_backward.default, (out, *plain, out, lse), named)


def test_refusals():
    q, k, v = tensors(n=256, m=256)
    mask = create_block_mask(MODS["causal"], None, None, 256, 256, device="cpu")
    with pytest.raises(ValueError, match=r"for \(256, 256\) tokens, but q and k have \(256, 255\)"):
        sy.attention(q, k[:, :, 1:], v[:, :, 1:], block_mask=mask)
    with pytest.raises(ValueError, match="multiples of 128"):
        sy.attention(q, k, v, block_mask=create_block_mask(MODS["causal"], None, None, 256, 256, device="cpu", BLOCK_SIZE=64))
    with pytest.raises(TypeError, match="must be a torch.nn.attention.flex_attention.BlockMask"):
        sy.prepare_block_mask(object())
    with pytest.raises(RuntimeError, match="a block mask excludes mask"):
        sy.attention(q, k, v, block_mask=mask, causal=True)
    with pytest.raises(RuntimeError, match="a block mask excludes soft_cap"):
        sy.attention(q, k, v, block_mask=mask, soft_cap=3.0)
    lists = sy.prepare_block_mask(mask)
    with pytest.raises(RuntimeError, match="mask_key_blocks is 2, but seqlen_k 384 has 3 blocks"):
        sy.attention(q, *tensors(m=384)[1:], block_mask=lists)
