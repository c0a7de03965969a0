# SPDX-License-Identifier: MIT
"""Times Llama-3.1-8B's shape with random weights in PyTorch: the peer of examples/llm's --bench, point by point.

    python tests/torch/benchmark_llm.py [--peers compile sdpa] [--layers 32] [--prompts 512 2048 8192]
        [--sequences 1 8 32] [--contexts 128 4096 32768] > torch.jsonl

bf16 weights. Prints a JSON object a line: tokens per second by medians. Decode steps read a static cache and are
replayed from a CUDA graph; the time is that of the GPU, without copies of ids and logits, which --bench includes.
Prompts run SDPA with is_causal and no mask, and leave no cache behind. Points without room say so.
"""

import argparse
import copy
import gc
import json
import statistics
import sys

import torch
from benchmark import MODELS, CompiledCausal, build, cudnn, decode, prefill


def points_of(given):
    for tokens in given.prompts:
        yield {"point": "prompt", "tokens": tokens}
    for sequences in given.sequences:
        for context in given.contexts:
            yield {"point": "decode", "sequences": sequences, "context": context}


def run_point(model, point, runs):
    """Milliseconds: the median of the runs' medians, the least and the most."""
    times = []
    for _ in range(runs):
        if point["point"] == "prompt":
            times.append(prefill(model, point["tokens"])["ms"])
        else:
            times.append(decode(model, point["sequences"], point["context"])["ms"])
        gc.collect()
        torch.cuda.empty_cache()
    return statistics.median(times), min(times), max(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", nargs="+", default=["compile", "sdpa"], choices=["compile", "sdpa"])
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--prompts", nargs="*", type=int, default=[512, 2048, 8192])
    parser.add_argument("--sequences", nargs="*", type=int, default=[1, 8, 32])
    parser.add_argument("--contexts", nargs="*", type=int, default=[128, 4096, 32768])
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", file=sys.stderr)
    config = copy.deepcopy(MODELS["llama"])
    config.num_hidden_layers = given.layers
    for peer in given.peers:
        for kind in ("prompt", "decode"):
            torch._dynamo.reset()
            model = CompiledCausal(config) if kind == "prompt" else build(config, "sdpa")
            run = torch.compile(model, dynamic=False) if peer == "compile" else model
            for point in points_of(given):
                if point["point"] != kind:
                    continue
                row = {"peer": peer, **point}
                try:
                    with cudnn():
                        ms, least, most = run_point(run, point, given.runs)
                    tokens = point.get("tokens", point.get("sequences"))
                    row |= {"tokens_per_second": 1000 * tokens / ms, "ms": ms, "least_ms": least, "max_ms": most}
                except torch.OutOfMemoryError:
                    row["failed"] = "out of memory"
                except Exception as problem:  # a point that fails must not end the run
                    row["failed"] = f"{type(problem).__name__}: {problem}"[:200]
                print(json.dumps(row), flush=True)
                gc.collect()
                torch.cuda.empty_cache()
            del model, run
            gc.collect()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
