# SPDX-License-Identifier: MIT
"""Times attention under block masks on a GPU beside FlexAttention, compiled: in turns, from CUDA graphs.

    python tests/torch/benchmark_block_masks.py [--out results.jsonl] [--cases causal,window,documents,prefix]
        [--dims 64,128] [--seqlens 4096,16384] [--tokens 16384] [--width 2048] [--rounds 10] [--tune]
        [--group 1] [--budget-s 300]

Batch times tokens is --tokens, heads times head dim --width, bf16. TFLOP/s count the products of pairs that the mask
shows: two forward, five backward. A round times each contender once, as many replays as take 20 ms; what is printed are
medians of the rounds, and the largest differences between the results (out, dq, dk, dv).
--tune compiles FlexAttention with max-autotune.
A line of JSON for each case goes to --out as soon as it is measured; with --budget-s no case begins after so many
seconds. Without a GPU it measures small calls on the CPU, without graphs, to test this program.
"""

import argparse
import contextlib
import json
import math
import statistics
import time

import switchyard.torch as sy
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

WINDOW, GLOBAL = 1024, 64


def document_of(tokens: int, device) -> torch.Tensor:
    """Eight documents, whose lengths are as 1 to 8."""
    ends = torch.tensor([tokens * (n + 1) * (n + 2) // 72 for n in range(8)], device=device)
    return torch.bucketize(torch.arange(tokens, device=device), ends, right=True).clamp(max=7)


def mods(tokens: int, device):
    document = document_of(tokens, device)
    return {
        "causal": lambda b, h, q, k: q >= k,
        "window": lambda b, h, q, k: ((q >= k) & (q - k < WINDOW)) | (k < GLOBAL),
        "documents": lambda b, h, q, k: (document[q] == document[k]) & (q >= k),
        "prefix": lambda b, h, q, k: (k < tokens // 4) | (q >= k),
        "full": lambda b, h, q, k: q >= 0,
    }


def pairs_of(mod, tokens: int, device) -> int:
    keys = torch.arange(tokens, device=device)
    parts = torch.arange(tokens, device=device).split(1024)
    return sum(int(mod(0, 0, part[:, None], keys[None, :]).expand(len(part), tokens).sum()) for part in parts)


class Timed:
    """A function as a CUDA graph, or as it is on the CPU."""

    def __init__(self, function):
        self.function = function  # which has the tensors that a graph reads
        self.on_gpu = torch.cuda.is_available()
        self.run = function
        if not self.on_gpu:
            self.replays = 1
            return
        for _ in range(3):
            function()
        self.graph = torch.cuda.CUDAGraph()
        # A backward runs on the stream of its forward, which is therefore the one that is captured.
        with torch.cuda.graph(self.graph, stream=torch.cuda.current_stream()):
            function()
        self.run = self.graph.replay
        self.replays = 3
        self.replays = max(3, int(20 / max(self.milliseconds(), 1e-3)))

    def milliseconds(self) -> float:
        if not self.on_gpu:
            begin = time.perf_counter()
            self.run()
            return 1e3 * (time.perf_counter() - begin)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.run()
        begin.record()
        for _ in range(self.replays):
            self.run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / self.replays


def contenders(given, q, k, v, mask, grad):
    """Each contender's forward and backward, and its results."""
    flex = flex_attention
    if q.is_cuda:
        from torch._functorch import config

        config.donated_buffer = False  # its backward runs more than once
        torch.compiler.reset()  # else the ninth case exceeds the limit of recompilations of one function, and runs eagerly
        flex = torch.compile(flex_attention, dynamic=False, mode="max-autotune-no-cudagraphs" if given.tune else None)
    functions = {
        "switchyard": lambda q, k, v: sy.attention(q, k, v, block_mask=mask),
        "FlexAttention": lambda q, k, v: flex(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1]),
    }
    out = {}
    for name, function in functions.items():
        plain = [tensor.detach() for tensor in (q, k, v)]
        with torch.no_grad():
            result = function(*plain).clone()
            forward = Timed(lambda function=function, plain=plain: function(*plain))
        if not q.is_cuda and name == "FlexAttention":  # which has no backward there
            out[name] = (forward, None, [result])
            continue
        leaves = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
        recorded = function(*leaves)

        def backward(recorded=recorded, leaves=leaves):
            return torch.autograd.grad(recorded, leaves, grad, retain_graph=True)

        results = [result, *(gradient.clone() for gradient in backward())]
        out[name] = (forward, Timed(backward), results)
    return out


def measure(given, case: str, tokens: int, dim: int) -> dict:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, heads = max(1, given.tokens // tokens), max(1, given.width // dim)
    mod = mods(tokens, device)[case]
    mask = create_block_mask(mod, None, None, tokens, tokens, device=device)
    pairs = pairs_of(mod, tokens, device)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    heads_kv = heads // given.group
    shapes = (batch, tokens, heads, dim), (batch, tokens, heads_kv, dim), (batch, tokens, heads_kv, dim)
    q, k, v = (torch.randn(shape, device=device, dtype=dtype).transpose(1, 2) for shape in shapes)
    grad = torch.randn(batch, heads, tokens, dim, device=device, dtype=dtype)
    all_of = contenders(given, q, k, v, mask, grad)
    times = {name: ([], []) for name in all_of}
    for _ in range(given.rounds):
        for name, (forward, backward, _) in all_of.items():
            times[name][0].append(forward.milliseconds())
            times[name][1].append(backward.milliseconds() if backward else math.nan)
    ours, theirs = all_of["switchyard"][2], all_of["FlexAttention"][2]
    differences = [(a.float() - b.float()).abs().max().item() for a, b in zip(ours, theirs)]
    line = {"case": case, "batch": batch, "heads": heads, "heads_kv": heads_kv, "tokens": tokens, "dim": dim,
            "seen": pairs / tokens**2, "differences": differences}  # fmt: skip
    flops = 2 * batch * heads * pairs * dim
    for name, both in times.items():
        for part, products, milliseconds in zip(("forward", "backward"), (2, 5), both, strict=True):
            line[f"{name} {part} ms"] = statistics.median(milliseconds)
            line[f"{name} {part} TFLOP/s"] = products * flops / statistics.median(milliseconds) / 1e9
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out")
    parser.add_argument("--cases", default="causal,window,documents")
    parser.add_argument("--dims", default="64,128")
    parser.add_argument("--seqlens", default="4096,16384" if torch.cuda.is_available() else "256")
    parser.add_argument("--tokens", type=int, default=16384 if torch.cuda.is_available() else 256)
    parser.add_argument("--width", type=int, default=2048 if torch.cuda.is_available() else 128)
    parser.add_argument("--group", type=int, default=1, help="query heads of a KV head")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--budget-s", type=float, default=0)
    given = parser.parse_args()
    begin = time.monotonic()
    print("| mask, N, D | seen | forward: Switchyard, FlexAttention, ratio | backward | largest differences |")
    print("| --- | --- | --- | --- | --- |")
    for dim in map(int, given.dims.split(",")):
        for tokens in map(int, given.seqlens.split(",")):
            for case in given.cases.split(","):
                if given.budget_s and time.monotonic() - begin > given.budget_s:
                    print(f"not measured, for want of time: {case} {tokens} {dim}")
                    continue
                with torch.cuda.stream(torch.cuda.Stream()) if torch.cuda.is_available() else contextlib.nullcontext():
                    line = measure(given, case, tokens, dim)
                if given.out:
                    with open(given.out, "a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
                cells = []
                for part in ("forward", "backward"):
                    ours, theirs = (line[f"{name} {part} TFLOP/s"] for name in ("switchyard", "FlexAttention"))
                    cells.append(f"{ours:.0f}, {theirs:.0f}, {ours / theirs:.2f}")
                worst = ", ".join(f"{difference:.1e}" for difference in line["differences"])
                print(
                    f"| {case}, {tokens}, {dim} | {100 * line['seen']:.0f} % | {cells[0]} | {cells[1]} | {worst} |", flush=True
                )


if __name__ == "__main__":
    main()
