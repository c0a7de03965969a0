"""Times models with random weights on a GPU: Switchyard beside SDPA, torch.compile, Liger and FlashAttention-4.

    python tests/torch/benchmark.py [--models llama qwen3] [--parts prefill train decode host] [--out results.json]

8 layers of Llama-3.1-8B's and Qwen3-4B's shape, bf16. For each peer: milliseconds, milliseconds outside matrix
products (the GPU time of all kernels but the linear layers'), and peak memory; at the end the host's microseconds an
op. Peers that cannot be imported or fail are reported as such. --plot writes an SVG.
"""

import argparse
import contextlib
import copy
import gc
import json
import re
import statistics
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config, StaticCache

MODELS = {
    "llama": LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=8,
                         num_attention_heads=32, num_key_value_heads=8, head_dim=128, max_position_embeddings=131072,
                         rms_norm_eps=1e-5),
    "qwen3": Qwen3Config(vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=8,
                         num_attention_heads=32, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960),
}  # fmt: skip
PREFILL, TRAIN, BATCHES, CONTEXT = (512, 2048, 8192, 32768), 4096, (1, 8, 32), 4096
MATRIX = re.compile(r"gemm|gemv|nvjet|cutlass|xmma|splitk|cublas|matmul|_mm_", re.I)
NOT_MATRIX = re.compile(r"flash|sdpa|fmha|attention|decode|softmax|norm", re.I)


def build(config, implementation):
    torch.manual_seed(0)
    with torch.device("cuda"):
        return AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=implementation,
                                                dtype=torch.bfloat16).eval()  # fmt: skip


def with_liger(config):
    import liger_kernel.transformers as liger

    model = build(config, "sdpa")
    apply = getattr(liger, f"apply_liger_kernel_to_{config.model_type}")
    apply(rope=True, rms_norm=True, swiglu=True, cross_entropy=False, fused_linear_cross_entropy=False, model=model)
    return model


def with_ours(config):
    import switchyard.transformers

    return switchyard.transformers.patch(build(config, "sdpa"))


def with_flash_4(config):
    import flash_attn.cute  # noqa: F401

    return build(config, "flash_attention_4")


class CompiledCausal(torch.nn.Module):
    """SDPA with is_causal and no mask, for torch.compile."""

    def __init__(self, config):
        super().__init__()
        from transformers import AttentionInterface, AttentionMaskInterface

        def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, **kwargs):
            out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling,
                                                                   enable_gqa=True)  # fmt: skip
            return out.transpose(1, 2), None

        AttentionInterface.register("sdpa_is_causal", attention)
        AttentionMaskInterface.register("sdpa_is_causal", lambda *args, **kwargs: None)
        self.model = build(config, "sdpa_is_causal")
        self.config = self.model.config

    def forward(self, *args, **kwargs):
        return self.model(*args, **kwargs)


# name: how the model is made, whether it is compiled, and whether it can decode from a static cache
PEERS = {
    "sdpa": (lambda config: build(config, "sdpa"), False, True),
    "compile": (lambda config: build(config, "sdpa"), True, True),
    "compile is_causal": (CompiledCausal, True, False),
    "liger": (with_liger, False, True),
    "flash 4": (with_flash_4, False, False),
    "switchyard": (with_ours, False, True),
    "switchyard compile": (with_ours, True, True),
}


@contextlib.contextmanager
def cudnn():
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
                      SDPBackend.MATH], set_priority=True):  # fmt: skip
        yield


def median_ms(function, repeats):
    """Medians of CUDA events around single runs."""
    for _ in range(3):
        function()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        function()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def outside_matrix_products(function):
    """GPU milliseconds of kernels that are no linear layer's."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        function()
        torch.cuda.synchronize()
    total = 0.0
    for event in profile.key_averages():
        if MATRIX.search(event.key) and not NOT_MATRIX.search(event.key):
            continue
        total += event.self_device_time_total / 1000
    return total


def measure(function, repeats):
    function()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    ms = median_ms(function, repeats)
    peak = torch.cuda.max_memory_allocated() / 2**30
    return {"ms": ms, "outside_ms": outside_matrix_products(function), "peak_gib": peak}


def prefill(model, length):
    ids = torch.randint(0, 1000, (1, length), device="cuda")

    def run():
        with torch.inference_mode():
            model(ids, use_cache=False, logits_to_keep=1)

    return measure(run, 20 if length <= 2048 else 8)


def train(model, length):
    ids = torch.randint(0, 1000, (1, length), device="cuda")
    model.train()

    def run():
        model.zero_grad(set_to_none=True)
        model(ids, labels=ids, use_cache=False).loss.backward()

    return measure(run, 8)


def decode(model, batch, context=CONTEXT):
    """A step of decoding behind so many tokens, replayed from a CUDA graph. The static cache is filled with noise."""
    config = model.config
    cache = StaticCache(config=config, max_cache_len=context + 64)
    cache.early_initialization(batch, config.num_key_value_heads, config.head_dim, torch.bfloat16, torch.device("cuda"))
    ids = torch.randint(0, 1000, (batch, 1), device="cuda")
    positions = torch.full((batch, 1), context, device="cuda")

    def run():
        return model(ids, past_key_values=cache, position_ids=positions, use_cache=True).logits

    with torch.no_grad():
        for layer in cache.layers:
            layer.keys.normal_()
            layer.values.normal_()
            layer.cumulative_length.fill_(context)
        run()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        for layer in cache.layers:
            layer.cumulative_length.fill_(context)

        def replay():  # a replay lengthens the cache by one; 64 more fit
            graph.replay()

        out = {"peak_gib": torch.cuda.max_memory_allocated() / 2**30}
        out["ms"] = median_ms(replay, 20)
        out["outside_ms"] = outside_matrix_products(replay)
    return out


def host():
    """The host's microseconds a call, while the GPU is ahead: ours beside torch's own op."""
    import switchyard.torch as sy

    q, k, v = [torch.randn(1, h, 128, 64, device="cuda", dtype=torch.bfloat16) for h in (8, 8, 8)]
    x, w = torch.randn(128, 1024, device="cuda", dtype=torch.bfloat16), torch.randn(1024, device="cuda", dtype=torch.bfloat16)
    norm = torch.nn.functional
    calls = {
        "attention": (lambda: sy.attention(q, k, v, causal=True),
                      lambda: norm.scaled_dot_product_attention(q, k, v, is_causal=True)),
        "rms_norm": (lambda: sy.rms_norm(x, w), lambda: norm.rms_norm(x, (1024,), w, 1e-6)),
        "softmax": (lambda: sy.softmax(x), lambda: torch.softmax(x, -1)),
        "gated_activation": (lambda: sy.gated_activation(x, x), lambda: norm.silu(x) * x),
    }  # fmt: skip

    def cost(function):
        for _ in range(50):
            function()
        rounds = []
        for _ in range(30):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(50):
                function()
            rounds.append((time.perf_counter() - begin) / 50 * 1e6)
        torch.cuda.synchronize()
        return statistics.median(rounds)

    out = {}
    for mode in ("inference_mode", "with gradients"):
        for each in (q, k, v, x, w):
            each.requires_grad_(mode == "with gradients")
        with torch.inference_mode(mode == "inference_mode"), cudnn():
            for name, (ours, theirs) in calls.items():
                out[f"{name}, {mode}"] = {"switchyard": cost(ours), "torch": cost(theirs)}
    return out


def table(title, rows):
    """Prints one measurement of all peers."""
    print(f"\n{title}")
    print(f"{'':22} {'ms':>9} {'outside':>9} {'GiB':>7}")
    for name, row in rows.items():
        if "failed" in row:
            print(f"{name:22} {row['failed']}")
        else:
            print(f"{name:22} {row['ms']:9.3f} {row['outside_ms']:9.3f} {row['peak_gib']:7.2f}")
    good = {name: row for name, row in rows.items() if "ms" in row}
    own = {name: row for name, row in good.items() if name.startswith("switchyard")}
    others = {name: row for name, row in good.items() if name not in own}
    if own and others:
        for what, label in (("ms", "total"), ("outside_ms", "outside matrix products")):
            ratio = min(r[what] for r in own.values()) / min(r[what] for r in others.values())
            print(f"{label}: {ratio:.2f} of the best peer's")


def plot(results, path):
    """Bars of the total and, darker, the time outside matrix products: one group for each measurement."""
    parts, y = [], 20
    for title, rows in results.items():
        good = {name: row for name, row in rows.items() if "ms" in row and "outside_ms" in row}
        if not good:
            continue
        parts.append(f'<text x="8" y="{y}" font-weight="bold">{title}</text>')
        y += 8
        longest = max(row["ms"] for row in good.values())
        for name, row in good.items():
            total, outside = [max(1.0, 520 * row[each] / longest) for each in ("ms", "outside_ms")]
            colour, dark = ("#7fb3d5", "#1f618d") if name.startswith("switchyard") else ("#d5d8dc", "#808b96")
            parts.append(f'<text x="8" y="{y + 13}">{name}</text>'
                         f'<rect x="170" y="{y + 2}" width="{total:.1f}" height="14" fill="{colour}"/>'
                         f'<rect x="170" y="{y + 2}" width="{min(outside, total):.1f}" height="14" fill="{dark}"/>'
                         f'<text x="{178 + total:.1f}" y="{y + 13}">{row["ms"]:.2f} ms</text>')  # fmt: skip
            y += 18
        y += 24
    with open(path, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="{y}" font-family="sans-serif" '
                   f'font-size="12"><rect width="800" height="{y}" fill="white"/>{"".join(parts)}</svg>\n')  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--parts", nargs="+", default=["prefill", "train", "decode", "host"])
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--out", default="")
    parser.add_argument("--plot", default="")
    given = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    results = {}
    for name in given.models:
        config = MODELS[name]
        cells = [("prefill", prefill, n, f"{name} prefill {n}") for n in PREFILL] if "prefill" in given.parts else []
        if "train" in given.parts:
            cells.append(("train", train, TRAIN, f"{name} training step {TRAIN}"))
        if "decode" in given.parts:
            cells += [("decode", decode, n, f"{name} decode, batch {n}, context {CONTEXT}") for n in BATCHES]
        for peer in given.peers:
            make, is_compiled, decodes = PEERS[peer]
            model = None
            try:
                model = make(config)
                run = model
                if is_compiled:
                    torch._dynamo.reset()
                    run = torch.compile(model, dynamic=False)
            except Exception as problem:  # a peer that is not there must not end the run
                for *_, title in cells:
                    results.setdefault(title, {})[peer] = {"failed": f"{type(problem).__name__}: {problem}"[:100]}
                continue
            for part, function, size, title in cells:
                if part == "decode" and not decodes:
                    continue
                try:
                    with cudnn():
                        row = function(run, size)
                except Exception as problem:
                    row = {"failed": f"{type(problem).__name__}: {problem}"[:100]}
                results.setdefault(title, {})[peer] = row
                model.eval()
                model.zero_grad(set_to_none=True)
                print(f"  {title}: {peer}: {row.get('ms', row.get('failed'))}", flush=True)
                gc.collect()
                torch.cuda.empty_cache()
            del model, run
            gc.collect()
            torch.cuda.empty_cache()
    for title, rows in results.items():
        table(title, rows)
    if "host" in given.parts:
        results["host"] = host()
        print("\nhost, us a call")
        for name, row in results["host"].items():
            ratio = row["switchyard"] / row["torch"]
            print(f"{name:34} switchyard {row['switchyard']:7.2f}  torch {row['torch']:7.2f}  {ratio:5.2f}x")
    if given.out:
        with open(given.out, "w") as file:
            json.dump(results, file, indent=1)
    if given.plot:
        plot(results, given.plot)


if __name__ == "__main__":
    main()
