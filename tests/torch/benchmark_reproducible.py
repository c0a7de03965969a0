# SPDX-License-Identifier: MIT
"""Times what reproducible attention costs: calls limited to a class beside the same calls with the free choice.

    python tests/torch/benchmark_reproducible.py [--out results.jsonl] [--only TEXT] [--rounds 10] [--class batch_invariant]
        [--budget-s SECONDS]

Decode and prompts in bf16, decode with a cache in e4m3 too; in turns, from CUDA graphs of eight calls. A line a call: microseconds of
the free choice and of the class, their ratio, the largest difference of the results, and which variants ran. A line of JSON for each
goes to --out; with --budget-s no call begins after so many seconds. Without a GPU it measures small calls on the CPU, to test this
program.
"""

import argparse
import contextlib
import json
import math
import statistics
import time
from dataclasses import dataclass

import switchyard.torch as sy
import torch
from benchmark_block_masks import Timed

CALLS = 8  # of a graph: its launch does not count


@dataclass(frozen=True)
class Call:
    """A sequence of `queries` on `keys` for each of a batch; decode, or a prompt."""

    batch: int
    queries: int
    keys: int
    heads: int = 32
    heads_kv: int = 8
    dim: int = 128
    decode: bool = True
    narrow: bool = False  # keys and values in e4m3
    packed: bool = False

    def name(self) -> str:
        kind = "decode" if self.decode else "packed prompt" if self.packed else "prompt"
        keys = "keys in e4m3" if self.narrow else "keys"
        return f"{kind}, {self.batch} x {self.queries} on {self.keys} {keys}, {self.heads}/{self.heads_kv} heads, D {self.dim}"


def calls(device: str):
    if device == "cpu":
        yield Call(2, 1, 96, 4, 2, 32)
        yield Call(2, 40, 40, 4, 2, 32, decode=False)
        yield Call(2, 40, 40, 4, 2, 32, decode=False, packed=True)
        return
    for queries in (1, 4):
        for batch, keys in ((1, 131072), (8, 16384), (32, 4096), (64, 8192)):
            yield Call(batch, queries, keys)
    yield Call(32, 1, 4096, narrow=True)
    yield Call(64, 1, 8192, narrow=True)
    yield Call(16, 1, 4096, 64, 8, 64)
    for batch, tokens in ((16, 1024), (4, 4096), (1, 16384)):
        yield Call(batch, tokens, tokens, decode=False)
    yield Call(4, 4096, 4096, 64, 8, 64, decode=False)
    yield Call(1, 4096, 4096, 16, 8, 256, decode=False)
    yield Call(8, 900, 900, decode=False, packed=True)
    yield Call(2, 256, 6000, decode=False)


def function_of(call: Call, device: str):
    """The call on random tensors, and how it is explained."""

    def random(heads, tokens):
        return torch.randn(call.batch, tokens, heads, call.dim, device=device, dtype=torch.bfloat16).transpose(1, 2)

    q, k, v = random(call.heads, call.queries), random(call.heads_kv, call.keys), random(call.heads_kv, call.keys)
    if call.narrow:
        k, v = k.to(torch.float8_e4m3fn), v.to(torch.float8_e4m3fn)
    if call.decode:
        op, given, options = sy.attention_decode, (q, k, v), {}
    elif call.packed:
        ends = [torch.arange(call.batch + 1, device=device, dtype=torch.int32) * n for n in (call.queries, call.keys)]
        rows = [x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)]
        op, given, options = sy.attention_varlen, (*rows, *ends, call.queries, call.keys), {"causal": True}
    else:
        op, given, options = sy.attention, (q, k, v), {"causal": True}
    return lambda: op(*given, **options), lambda: sy.explain(op, *given, **options)


def measure(given, call: Call, device: str, of_class: str) -> dict:
    function, explain = function_of(call, device)
    line, timed, results = {"call": call.name()}, {}, {}
    for kind, limit in (("free", ""), ("class", of_class)):
        with sy.reproducible(limit):
            why = explain()
            line[kind + " variant"], line[kind] = why["variant"], why.get("reproducible")
            results[kind] = function().clone()
            timed[kind] = Timed(lambda: [function() for _ in range(CALLS)][-1])
    samples = {kind: [] for kind in timed}
    for _ in range(given.rounds):
        for kind, one in timed.items():
            with sy.reproducible(of_class if kind == "class" else ""):  # where nothing is captured
                samples[kind].append(1e3 * one.milliseconds() / CALLS)
    for kind, values in samples.items():
        line[kind + " us"] = statistics.median(values)
    line["ratio"] = line["class us"] / line["free us"]
    line["difference"] = (results["free"].float() - results["class"].float()).abs().max().item()
    return line


def class_of(given, device: str) -> str:
    """The class to measure: on a CPU, one that it has."""
    if device == "cuda":
        return given.of_class
    q = torch.zeros(1, 1, 1, 64, dtype=torch.bfloat16)
    found = (one["reproducible"] for one in sy.explain(sy.attention, q, q, q)["candidates"] if one["admissible"])
    return next(name for name in found if name.endswith("_tile_n128"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out")
    parser.add_argument("--only", default="", help="calls whose name has this")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--class", dest="of_class", default="batch_invariant")
    parser.add_argument("--budget-s", type=float, default=math.inf)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    of_class, begin, ratios = class_of(given, device), time.monotonic(), []
    for call in calls(device):
        if given.only not in call.name():
            continue
        if time.monotonic() - begin > given.budget_s:
            print(f"not measured, for want of time: {call.name()}")
            continue
        try:
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else contextlib.nullcontext():
                line = measure(given, call, device, of_class)
        except RuntimeError as problem:  # no kernel of the class serves it
            print(f"{call.name()}: {str(problem).splitlines()[0]}", flush=True)
            continue
        ratios.append(line["ratio"])
        if given.out:
            with open(given.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        print(
            f"{line['call']}: free {line['free us']:.1f}, {of_class} {line['class us']:.1f} us, ratio {line['ratio']:.3f}, "
            f"difference {line['difference']:.1e}; {line['free variant']}, {line['class variant']}",
            flush=True,
        )
    if ratios:
        print(f"{len(ratios)} calls: {statistics.geometric_mean(ratios):.3f} in the geometric mean, {max(ratios):.3f} at most")


if __name__ == "__main__":
    main()
