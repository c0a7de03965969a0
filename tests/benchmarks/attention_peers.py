# SPDX-License-Identifier: MIT
"""Times attention of PyTorch, by FlashAttention-2 and by cuDNN, and FlashAttention-4 where it is installed, forward and
backward, and prints a JSON line for each:

  attention_peers.py [--tutorial FILE] < shapes     a line: operator axis=value ... of gpu_operators, dense

FILE is a copy of Triton's python/tutorials/06-fused-attention.py: its `attention` is timed too, where it takes the shape,
with and without warps specialised, whichever is faster.
"""

import argparse
import importlib.util
import inspect
import json
import sys
import types

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

PEERS = {"FlashAttention-2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
AHEAD = 500_000  # cycles that the device sleeps while Python launches the first calls


def microseconds(call, samples=15):
    """Median of event timings, after a warm-up, of as many calls in a row as take two milliseconds: what gpu_operators does,
    and what Python takes to launch them does not count."""

    def time(count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(AHEAD)  # pylint: disable=protected-access
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / count

    for _ in range(3):
        call()
    count = max(1, min(50, round(2000 / time(2))))
    return sorted(time(count) for _ in range(samples))[samples // 2]


def through_torch(backend):
    def attend(q, k, v, causal):
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    return attend


def flash_attention_4():
    """The way to call FlashAttention-4 (flash-attn-4, CuTe DSL) where it is installed, else none."""
    try:
        from flash_attn.cute import flash_attn_func
    except Exception:  # pylint: disable=broad-except  (its compiler's libraries may be missing too)
        return []

    def attend(q, k, v, causal):
        result = flash_attn_func(*(tensor.transpose(1, 2) for tensor in (q, k, v)), causal=causal)
        return (result[0] if isinstance(result, tuple) else result).transpose(1, 2)

    return [attend]


def tutorial(path):
    """The ways to call the tutorial's attention, as functions like those above. It writes f16 whatever it reads, and
    wants its tensors contiguous, as many KV heads as heads, and lengths that its blocks divide."""
    sys.modules.setdefault(
        "pytest", types.SimpleNamespace(mark=types.SimpleNamespace(parametrize=lambda *_, **__: lambda function: function))
    )  # its tests, which are not run
    spec = importlib.util.spec_from_file_location("fused_attention", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def way(*extra):
        def attend(q, k, v, causal):
            if q.dtype != torch.float16 or q.shape[1] != k.shape[1] or q.shape[-1] > 128:
                raise RuntimeError("the tutorial takes f16 with as many KV heads as heads, and is timed to head dim 128")
            if True in extra and (causal or q.requires_grad):
                raise RuntimeError("the tutorial specialises warps on Hopper for full attention forward only")
            return module.attention(q, k, v, causal, q.shape[-1] ** -0.5, *extra)

        return attend

    if "warp_specialize" in inspect.signature(module._attention.forward).parameters:
        return [way(False), way(True)]
    return [way()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutorial", default="")
    options = parser.parse_args()
    peers = {name: [through_torch(backend)] for name, backend in PEERS.items()}
    if ways := flash_attention_4():
        peers["FlashAttention-4"] = ways
    if options.tutorial:
        peers["Triton tutorial"] = tutorial(options.tutorial)

    for line in sys.stdin:
        operator, *words = line.split()
        axes = dict(word.split("=") for word in words)
        batch, seqlen, heads, head_dim = (int(axes[axis]) for axis in ("batch", "seqlen_q", "heads", "head_dim"))
        heads_kv = int(axes.get("heads_kv", heads))
        causal = axes.get("mask", "none") != "none"
        backward = operator == "attention_backward"
        for name, ways in peers.items():
            contiguous = name == "Triton tutorial"

            def tensor(heads, contiguous=contiguous, dtype=TYPES[axes["dtype"]]):
                shape = [batch, heads, seqlen, head_dim] if contiguous else [batch, seqlen, heads, head_dim]
                made = torch.randn(shape, device="cuda", dtype=dtype)
                return (made if contiguous else made.transpose(1, 2)).requires_grad_(backward)

            q, k, v = tensor(heads), tensor(heads_kv), tensor(heads_kv)
            record = {"shape": line.strip(), "peer": name}
            gradient = torch.randn_like(q) if backward else None
            for attend in ways:
                try:
                    if backward:
                        out = attend(q, k, v, causal)
                        time = microseconds(lambda out=out: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))
                    else:
                        time = microseconds(lambda attend=attend: attend(q, k, v, causal))
                    record["us"] = min(time, record.get("us", time))
                except Exception as problem:  # pylint: disable=broad-except  (a compiler's errors have no common base)
                    record["error"] = (str(problem) or type(problem).__name__).splitlines()[0]
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
