# SPDX-License-Identifier: MIT
"""Times models with random weights on a GPU: Switchyard beside SDPA, torch.compile, Liger and FlashAttention-4.

    python tests/torch/benchmark.py --out results.jsonl [--parts prefill,training,decode,host] [--models llama,qwen3]
        [--peers "sdpa,compile,switchyard"] [--sizes 512,2048] [--budget-s 220]
    python tests/torch/benchmark.py --report results.jsonl [more.jsonl ...] [--plot models.svg]

8 layers of Llama-3.1-8B's and Qwen3-4B's shape, bf16. A JSON line is appended to --out after each measurement:
milliseconds, those of the host and of each kernel, and peak memory of models; the host's microseconds of ops and layers (benchmark_host.py). So parts may be
measured in several runs; with --budget-s no measurement begins after so many seconds, and what is left is named. A
peer that cannot be imported, or fails, has a line that says so.

Milliseconds are medians of CUDA events around single runs, on a GPU that is idle before: a model's own host time until
its first large kernel counts. Time outside matrix products is the GPU time of all kernels but those of linear layers,
by their names (benchmark_report.py), from torch.profiler in runs of their own. --report needs no GPU. --small measures
tiny models on the CPU, to test this program.
"""

import argparse
import collections
import contextlib
import gc
import itertools
import json
import statistics
import sys
import time

import benchmark_report as report

PARTS = ("prefill", "training", "decode", "host")


def names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


class Bench:
    """Measures on one device, and writes a line for each measurement."""

    def __init__(self, given):
        import torch

        self.torch = torch
        self.small = given.small
        self.device = torch.device("cpu" if given.small else "cuda")
        self.out = given.out
        self.end = time.monotonic() + (getattr(given, "budget_s", 0) or float("inf"))
        self.left_out = []

    def write(self, **row) -> None:
        with open(self.out, "a") as file:
            file.write(json.dumps(row) + "\n")
        shown = row.get("failed", f"{row['ms']:.3f} ms" if "ms" in row else "")
        what = [row.get(column) for column in ("kind", "model", "part", "size", "peer", "op", "mode")]
        print(*(value for value in what if value is not None), shown, flush=True)

    def machine(self) -> None:
        import transformers

        torch = self.torch
        gpu, driver = "CPU", ""
        if not self.small:
            import ctypes

            version = ctypes.c_int()
            ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
            gpu, driver = torch.cuda.get_device_name(), str(version.value)
        self.write(kind="machine", gpu=gpu, driver=driver, torch=torch.__version__, transformers=transformers.__version__,
                   cudnn=torch.backends.cudnn.version())  # fmt: skip

    @contextlib.contextmanager
    def cudnn_first(self):
        """SDPA takes cuDNN where it serves the call."""
        from torch.nn.attention import SDPBackend, sdpa_kernel

        order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        with contextlib.nullcontext() if self.small else sdpa_kernel(order, set_priority=True):
            yield

    def synchronize(self) -> None:
        if not self.small:
            self.torch.cuda.synchronize()

    def once(self, function) -> tuple[float, float]:
        """Milliseconds of one run on an idle device, and until the host has launched it."""
        self.synchronize()
        if self.small:
            start = time.perf_counter()
            function()
            return ((time.perf_counter() - start) * 1e3,) * 2
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        start = time.perf_counter()
        function()
        host = (time.perf_counter() - start) * 1e3
        end.record()
        end.synchronize()
        return begin.elapsed_time(end), host

    def kernels(self, function, runs: int = 2) -> dict[str, float]:
        """Milliseconds a run of each kernel, by name."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU if self.small else ProfilerActivity.CUDA]) as seen:
            for _ in range(runs):
                function()
            self.synchronize()
        out = collections.Counter()
        for event in seen.key_averages():
            spent = event.self_cpu_time_total if self.small else event.self_device_time_total
            if spent > 0:
                out[event.key[:120]] += spent / 1e3 / runs
        return {name: round(ms, 5) for name, ms in out.most_common()}

    def measure(self, function, repeats: int) -> dict:
        """Times, kernels and peak memory of a function that was not run before."""
        function()
        peak = self.peak(function)
        for _ in range(2):
            function()
        ms, host = map(statistics.median, zip(*(self.once(function) for _ in range(repeats)), strict=True))
        return {"ms": ms, "host_ms": host, "peak_gib": peak, "kernels": self.kernels(function)}

    def peak(self, function) -> float:
        """GiB that torch has allocated at most while the function runs."""
        self.synchronize()
        if self.small:
            function()
            return 0.0
        self.torch.cuda.reset_peak_memory_stats()
        function()
        self.synchronize()
        return self.torch.cuda.max_memory_allocated() / 2**30

    def compiled(self, model):
        return self.torch.compile(model, dynamic=False, backend="aot_eager" if self.small else "inductor")

    # Parts. Each takes a model and a size.

    def prefill(self, model, length: int) -> dict:
        torch = self.torch
        ids = torch.randint(0, 1000, (1, length), device=self.device)

        def run():
            with torch.inference_mode():
                model(ids, use_cache=False, logits_to_keep=1)

        return self.measure(run, 20 if length <= 2048 else 8)

    def training(self, model, length: int) -> dict:
        ids = self.torch.randint(0, 1000, (1, length), device=self.device)
        model.train()

        def run():
            model.zero_grad(set_to_none=True)
            model(ids, labels=ids, use_cache=False).loss.backward()

        return self.measure(run, 6)

    def decode(self, model, batch: int) -> dict:
        """A step of decoding behind CONTEXT tokens, replayed from a CUDA graph. The static cache holds noise."""
        from benchmark_models import CONTEXT
        from transformers import StaticCache

        torch, config, context = self.torch, model.config, 64 if self.small else CONTEXT
        cache = StaticCache(config=config, max_cache_len=context + 64)
        cache.early_initialization(batch, config.num_key_value_heads, config.head_dim, model.dtype, self.device)
        ids = torch.randint(0, 1000, (batch, 1), device=self.device)
        positions = torch.full((batch, 1), context, device=self.device)

        def rewind():
            for layer in cache.layers:
                layer.cumulative_length.fill_(context)

        def run():
            return model(ids, past_key_values=cache, position_ids=positions, use_cache=True).logits

        with torch.no_grad():
            for layer in cache.layers:
                layer.keys.normal_()
                layer.values.normal_()
            rewind()
            run()
            replay = run if self.small else self.captured(run)
            steps = itertools.count()

            def step():
                if next(steps) % 32 == 0:  # a step lengthens the cache by one, and 64 more fit
                    rewind()
                replay()

            return self.measure(step, 20)

    def captured(self, function):
        """The function as a CUDA graph's replay."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                function()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            function()

        def replay(captured=function):  # which holds the tensors that the graph reads
            graph.replay()

        return replay

    def models(self, given) -> None:
        """All parts that concern models."""
        import benchmark_models as known

        sizes = {"prefill": known.PREFILL, "training": (known.TRAINING,), "decode": known.BATCHES}
        if self.small:
            sizes = {"prefill": (16, 32), "training": (16,), "decode": (1, 2)}
        for model in given.models:
            config = known.configurations(self.small)[model]
            for peer in given.peers:
                make, is_compiled, decodes = known.PEERS[peer]
                cells = [(part, size) for part in given.parts if part != "host" for size in sizes[part]
                         if (not given.sizes or size in given.sizes) and (part != "decode" or decodes)]  # fmt: skip
                with known.restored_module(config):
                    self.peer(model, config, peer, make, is_compiled, cells)

    def peer(self, name, config, peer, make, is_compiled, cells) -> None:
        model = run = problem = None
        for part, size in cells:
            what = {"kind": "model", "model": name, "part": part, "size": size, "peer": peer}
            if time.monotonic() > self.end:
                self.left_out.append(f"{name} {part} {size} {peer}")
                continue
            try:
                if problem:
                    raise problem
                if model is None:
                    model = make(config, self.device)
                    self.torch._dynamo.reset()
                run = self.compiled(model) if is_compiled else model
                with self.cudnn_first():
                    self.write(**what, **getattr(self, part)(run, size))
            except Exception as failure:  # a peer that is not there must not end the run
                problem = failure if model is None else None
                self.write(**what, failed=f"{type(failure).__name__}: {failure}".splitlines()[0][:160])
            if model is not None:
                model.eval()
                model.zero_grad(set_to_none=True)
            self.tidy()
        del model, run  # else it counts in the next peer's peak memory
        self.tidy()

    def tidy(self) -> None:
        gc.collect()
        if not self.small:
            self.torch.cuda.empty_cache()

    def host(self) -> None:
        """The host's microseconds while the GPU has little to do."""
        import benchmark_host

        with self.cudnn_first():
            for line in benchmark_host.lines(self.torch, self.device, is_test=self.small):
                self.write(**line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", type=names, default=list(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--models", type=names, default=["llama", "qwen3"])
    parser.add_argument("--peers", type=names, default=[], help="all unless given, in this order")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in names(text)], default=[],
                        help="tokens of prefill and training, batches of decode: only these")  # fmt: skip
    parser.add_argument("--out", default="benchmark.jsonl", help="JSON lines are appended")
    parser.add_argument("--budget-s", type=float, default=0.0)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--report", nargs="+", metavar="FILE", help="print tables of these files and measure nothing")
    parser.add_argument("--plot", default="", help="with --report: an SVG")
    given = parser.parse_args()
    if given.report:
        rows = report.read(given.report)
        print(report.tables(rows), end="")
        if given.plot:
            report.plot(rows, given.plot)
        return
    from benchmark_models import PEERS

    given.peers = given.peers or list(PEERS)
    for what, asked, known in (
        ("part", given.parts, PARTS),
        ("peer", given.peers, PEERS),
        ("model", given.models, ("llama", "qwen3")),
    ):
        for name in asked:
            if name not in known:
                sys.exit(f"benchmark: no {what} {name!r}; there are {', '.join(known)}")
    bench = Bench(given)
    bench.machine()
    if "host" in given.parts:
        bench.host()
    bench.models(given)
    if bench.left_out:
        print("not measured, out of time:", "; ".join(bench.left_out))


if __name__ == "__main__":
    main()
