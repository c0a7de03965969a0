#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times how fast PyTorch, torch.compile and Liger run the memory-bound operators on this machine's GPU.

Prints one JSON object a line: operator, shape, dtype, peer, microseconds of one call, bytes that the operator
must move. Each call is a node of a CUDA graph that is replayed, so that no launch cost of the host is in the
figures, and calls walk over buffers that together exceed the last-level cache. Needs torch; liger-kernel is
used when it is installed.

    python3 memory_bound.py [--dtype bf16] [--operators rms_norm,softmax_backward] [--peers torch,compile]
"""

import argparse
import json
import math
import sys

import torch
import torch._functorch.config
import torch.nn.functional as F
from common import GATED, ROTARY, ROWS

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
CACHE_BYTES = 64 << 20


def copy_bandwidth():
    """Bytes read and written a second by the better of a device copy and an elementwise kernel."""
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    best = math.inf
    for copy in (lambda: target.copy_(source), lambda: torch.neg(source, out=target)):
        times = []
        for _ in range(20):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(5):
                copy()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 5)
        best = min(best, sorted(times)[len(times) // 2])
    return 2 * source.numel() * 4 / best * 1000


def microseconds(prepare, buffer_bytes):
    """Median time of a call; prepare() makes one set of buffers and returns the call."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        calls = [prepare() for _ in range(max(2, min(8, math.ceil(4 * CACHE_BYTES / buffer_bytes))))]
        for _ in range(3):
            for call in calls:
                call()
    stream.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        begin.record()
        for call in calls:
            call()
        end.record()
    end.synchronize()
    rounds = max(1, min(40, math.ceil(8.0 / max(begin.elapsed_time(end), 1e-3))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(rounds):
            kept = [call() for call in calls]  # results of a round do not share memory
            del kept
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(7):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / (rounds * len(calls)) * 1000)
    return sorted(times)[len(times) // 2]


def forward_call(function, inputs):
    def call():
        with torch.no_grad():
            return function(*inputs)

    return call


def backward_call(function, inputs):
    for tensor in inputs:
        tensor.requires_grad_()
    out = function(*inputs)
    outs = out if isinstance(out, tuple) else (out,)
    gradients = [torch.randn_like(o) for o in outs]
    return lambda: torch.autograd.grad(outs, inputs, gradients, retain_graph=True)


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def torch_functions(columns, dtype):
    def rotary(q, k, cos, sin):
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

    return {
        "rms_norm": lambda x, w: F.rms_norm(x, (columns,), w, 1e-6),
        "layer_norm": lambda x, w, b: F.layer_norm(x, (columns,), w, b, 1e-5),
        "softmax": lambda x: torch.softmax(x, -1),
        "gated_activation/silu": lambda gate, up: F.silu(gate) * up,
        "gated_activation/gelu_tanh": lambda gate, up: F.gelu(gate, approximate="tanh") * up,
        "gated_activation/gelu": lambda gate, up: F.gelu(gate) * up,
        "rotary": rotary,
    }


def liger_functions(columns, dtype):
    from liger_kernel.ops.geglu import LigerGELUMulFunction
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.rope import LigerRopeFunction
    from liger_kernel.ops.softmax import LigerSoftmaxFunction
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    return {
        "rms_norm": lambda x, w: LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False),
        "layer_norm": lambda x, w, b: LigerLayerNormFunction.apply(x, w, b, 1e-5),
        "softmax": lambda x: LigerSoftmaxFunction.apply(x),
        "gated_activation/silu": lambda gate, up: LigerSiLUMulFunction.apply(gate, up),
        "gated_activation/gelu_tanh": lambda gate, up: LigerGELUMulFunction.apply(gate, up),
        "rotary": lambda q, k, cos, sin: LigerRopeFunction.apply(q, k, cos, sin),
    }


def make_inputs(operator, shape, dtype):
    def random(*size):
        return torch.randn(*size, device="cuda", dtype=dtype)

    if operator == "rotary":
        batch, tokens, heads, heads_kv, dim = shape
        # As models hold them: [batch, tokens, heads, dim] seen as [batch, heads, tokens, dim].
        angle = torch.rand(1, tokens, dim, device="cuda") * 6.28
        return [
            random(batch, tokens, heads, dim).transpose(1, 2),
            random(batch, tokens, heads_kv, dim).transpose(1, 2),
            angle.cos().to(dtype),
            angle.sin().to(dtype),
        ]
    rows, columns = shape
    if operator == "rms_norm":
        return [random(rows, columns), random(columns)]
    if operator == "layer_norm":
        return [random(rows, columns), random(columns), random(columns)]
    if operator == "softmax":
        return [random(rows, columns)]
    return [random(rows, columns), random(rows, columns)]


def passes(operator, backward):
    """Tensors the size of the input that a call must read or write."""
    if operator.startswith("gated_activation"):
        return 5 if backward else 3
    return 3 if backward and operator != "rotary" else 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="bf16", choices=DTYPES)
    parser.add_argument("--operators", default="")
    parser.add_argument("--peers", default="torch,compile,liger")
    options = parser.parse_args()
    dtype = DTYPES[options.dtype]
    torch._functorch.config.donated_buffer = False  # backwards are replayed from one forward

    print(
        json.dumps(
            {
                "device": torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "copy_bytes_per_second": round(copy_bandwidth()),
            }
        ),
        flush=True,
    )
    wanted = options.operators.split(",") if options.operators else None
    gated = ["gated_activation/silu", "gated_activation/gelu_tanh"]
    for operator in ["rms_norm", "layer_norm", "softmax", *gated, "rotary"]:
        shapes = ROTARY if operator == "rotary" else GATED if operator in gated else ROWS
        for shape in shapes:
            for backward in (False, True):
                if backward and operator == "rotary":
                    continue
                name = (
                    operator
                    if not backward
                    else operator.replace("activation", "activation_backward")
                    if operator in gated
                    else operator + "_backward"
                )
                if wanted and name.split("/")[0] not in wanted:
                    continue
                elements = math.prod(shape) if operator != "rotary" else shape[0] * shape[1] * (shape[2] + shape[3]) * shape[4]
                size = passes(operator, backward) * elements * dtype.itemsize
                for peer in options.peers.split(","):
                    torch._dynamo.reset()
                    torch.cuda.empty_cache()
                    record = {"operator": name, "shape": list(shape), "dtype": options.dtype, "peer": peer}
                    try:
                        table = liger_functions if peer == "liger" else torch_functions
                        functions = table(shape[-1], dtype)
                        if operator not in functions:
                            continue
                        function = functions[operator]
                        if peer == "compile":
                            function = torch.compile(function, dynamic=False, fullgraph=True)
                        call = backward_call if backward else forward_call
                        time = microseconds(lambda: call(function, make_inputs(operator, shape, dtype)), size)
                        record.update(microseconds=round(time, 2), bytes=size)
                    except Exception as error:  # a peer that refuses a shape is a result too
                        record.update(error=f"{type(error).__name__}: {error}"[:200])
                    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    sys.exit(main())
