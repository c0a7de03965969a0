"""Times attention of PyTorch, by FlashAttention-2 and by cuDNN, forward and backward, and prints a JSON line for each:
  attention_peers.py < shapes     a line: operator axis=value ... of gpu_operators, dense, heads_kv as heads
"""

import json
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

PEERS = {"FlashAttention-2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}


def microseconds(call, samples=10):
    """Median of event timings after three warm-up calls."""
    for _ in range(3):
        call()
    times = []
    for _ in range(samples):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return sorted(times)[len(times) // 2]


def main():
    for line in sys.stdin:
        operator, *words = line.split()
        axes = dict(word.split("=") for word in words)
        shape = [int(axes["batch"]), int(axes["seqlen_q"]), int(axes["heads"]), int(axes["head_dim"])]
        causal = axes.get("mask", "none") != "none"
        backward = operator == "attention_backward"
        q, k, v = (torch.randn(shape, device="cuda", dtype=TYPES[axes["dtype"]]).transpose(1, 2).requires_grad_(backward)
                   for _ in range(3))
        gradient = torch.randn_like(q)
        for name, backend in PEERS.items():
            record = {"shape": line.strip(), "peer": name}
            try:
                with sdpa_kernel(backend):
                    if backward:
                        out = scaled_dot_product_attention(q, k, v, is_causal=causal)
                        record["us"] = microseconds(
                            lambda out=out: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))
                    else:
                        record["us"] = microseconds(lambda: scaled_dot_product_attention(q, k, v, is_causal=causal))
            except RuntimeError as problem:
                record["error"] = str(problem).splitlines()[0]
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
