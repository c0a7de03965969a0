# SPDX-License-Identifier: MIT
"""Times the host: an op beside torch's own, and a layer of a patched model beside the same model without us.

    python tests/torch/benchmark_host.py [--device cpu|cuda] [--rounds 100]

Microseconds of the calling thread for one call: the lowest tenth of rounds in which all functions take turns, because other
programs disturb more rounds than not. Tensors are tiny, so that kernels take little of it: on a GPU they run beside the host; on a CPU, one processor runs everything, and what its kernels
take counts on both sides. benchmark.py has this as its part `host`.
"""

import argparse
import gc
import os
import time

MODES = ("inference_mode", "no_grad", "with gradients", "with backward")
LAYERS = (2, 10)  # a layer is what the longer model takes more, divided by how many it has more


def turns(functions: dict, clock, synchronize, calls: int, rounds: int) -> dict:
    """Microseconds a call of each function; they take turns, so that a busy machine slows all of them down."""
    times = {name: [] for name in functions}
    for round in range(rounds + 1):
        for name, function in functions.items():
            synchronize()
            begin = clock()
            for _ in range(calls):
                function()
            if round:  # the first warms up
                times[name].append((clock() - begin) / calls * 1e6)
    synchronize()
    return {name: sorted(samples)[len(samples) // 10] for name, samples in times.items()}


def calls_of(torch, device, size) -> dict:
    """Of each op: our call, torch's, the tensors with gradients."""
    import switchyard.torch as sy

    functional = torch.nn.functional
    kind = {"device": device, "dtype": torch.float32 if device.type == "cpu" else torch.bfloat16}
    heads, seqlen, dim, rows, columns = size
    q, k, v = (torch.randn(1, heads, seqlen, dim, **kind) for _ in range(3))
    x, y = (torch.randn(rows, columns, **kind) for _ in range(2))
    w, b = (torch.randn(columns, **kind) for _ in range(2))
    angle = torch.randn(seqlen, dim // 2, device=device)
    cos, sin = (table.to(kind["dtype"]) for table in (angle.cos(), angle.sin()))
    wide_cos, wide_sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)

    def turned(x):  # as transformers has it
        a, b = x.chunk(2, -1)
        return x * wide_cos + torch.cat((-b, a), -1) * wide_sin

    return {
        "attention": (lambda: sy.attention(q, k, v, causal=True),
                      lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v)),
        "rms_norm": (lambda: sy.rms_norm(x, w), lambda: functional.rms_norm(x, (columns,), w, 1e-6), (x, w)),
        "layer_norm": (lambda: sy.layer_norm(x, w, b), lambda: functional.layer_norm(x, (columns,), w, b), (x, w, b)),
        "softmax": (lambda: sy.softmax(x), lambda: torch.softmax(x, -1), (x,)),
        "gated_activation": (lambda: sy.gated_activation(x, y), lambda: functional.silu(x) * y, (x, y)),
        "rotary": (lambda: sy.rotary(q, k, cos, sin), lambda: (turned(q), turned(k)), (q, k)),
    }  # fmt: skip


def with_backward(torch, function, inputs):
    out = function()
    grads = [torch.ones_like(result) for result in (out if isinstance(out, tuple) else (out,))]
    return lambda: torch.autograd.grad(function(), inputs, grads)


def ops(torch, device, size, clock, synchronize, calls: int, rounds: int):
    """A line for each mode and op."""
    measured = calls_of(torch, device, size)
    for mode in MODES:
        has_gradients = mode.startswith("with")
        functions = {}
        for op, (ours, theirs, inputs) in measured.items():
            for tensor in inputs:
                tensor.requires_grad_(has_gradients)
            if mode == "with backward":
                ours, theirs = with_backward(torch, ours, inputs), with_backward(torch, theirs, inputs)
            functions[op, "switchyard"], functions[op, "torch"] = ours, theirs
        with torch.inference_mode() if mode == "inference_mode" else torch.set_grad_enabled(has_gradients):
            found = turns(functions, clock, synchronize, calls, rounds)
        for op in measured:
            yield {"kind": "host", "op": op, "mode": mode, "switchyard": found[op, "switchyard"], "torch": found[op, "torch"]}


def layers(torch, device, clock, synchronize, calls: int, rounds: int):
    """A line for each model and peer: a layer of an eager prompt under inference_mode, and what a call takes besides."""
    import switchyard.transformers
    from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

    ids = torch.randint(0, 64, (1, 4), device=device)
    for name, configuration in (("llama", LlamaConfig), ("qwen3", Qwen3Config)):
        runs = {}
        for count in LAYERS:
            config = configuration(vocab_size=64, hidden_size=128, intermediate_size=192, num_hidden_layers=count,
                                   num_attention_heads=2, num_key_value_heads=1, head_dim=64, max_position_embeddings=64)  # fmt: skip
            for peer in ("switchyard", "switchyard merged", "sdpa"):
                with device:
                    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
                model = model.to(torch.float32 if device.type == "cpu" else torch.bfloat16)
                if peer != "sdpa":
                    switchyard.transformers.patch(model, merge_projections=peer == "switchyard merged")
                runs[peer, count] = lambda model=model: model(ids, use_cache=False, logits_to_keep=1)
        with torch.inference_mode():
            found = turns(runs, clock, synchronize, calls, rounds)
        few, many = LAYERS
        for peer in ("switchyard", "switchyard merged", "sdpa"):
            layer = (found[peer, many] - found[peer, few]) / (many - few)
            yield {"kind": "layer", "model": name, "peer": peer, "layer": layer, "rest": found[peer, few] - few * layer}


def lines(torch, device, is_test: bool = False, rounds: int = 100):
    """All measurements, as they come."""
    on_cpu = device.type == "cpu"
    clock = time.thread_time if on_cpu else time.perf_counter
    synchronize = (lambda: None) if on_cpu else torch.cuda.synchronize
    size = (2, 2, 16, 2, 64) if on_cpu else (8, 128, 64, 128, 1024)
    calls, rounds = (1, 2) if is_test else (20, rounds)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield from ops(torch, device, size, clock, synchronize, calls, rounds)
        yield from layers(torch, device, clock, synchronize, calls, rounds)
    finally:
        if was_enabled:
            gc.enable()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    if given.device == "cpu":  # before the threads of torch and of Switchyard are made
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import benchmark_report as report
    import torch

    print(report.host(list(lines(torch, torch.device(given.device), rounds=given.rounds))), end="")


if __name__ == "__main__":
    main()
