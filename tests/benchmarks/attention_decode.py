# SPDX-License-Identifier: MIT
"""Decoding with Switchyard beside cuDNN and FlashAttention through PyTorch: microseconds of one call, from CUDA graphs.

  attention_decode.py LIBRARY [--batch 1,8,32,128] [--context 1024,4096,...] [--heads 32/8,64/8] [--layout bhsd|bshd]
                      [--kv bf16|f8_e4m3] [--page 0|16|32|64] [--json FILE] [--sustained SECONDS] [--turns 3]

LIBRARY is attention_decode.cpp, built. Each graph holds calls on different caches, together larger than the L2 cache,
one after the other; its time over their number is that of a call. Graphs of all contenders are replayed in turn, and
the median of their rounds counts. Peers do not take pages or e4m3; then they are given bf16 in one piece. With --sustained, a
second line has times, energy a call and power under load (under_load.py).
"""

import argparse
import ctypes
import json
import math
import statistics
import sys

import energy
import torch
import under_load
from common import DECODE_BATCHES, DECODE_CONTEXTS, DECODE_HEADS
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"f16": 0, "bf16": 1, "f8_e4m3": 4}
PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
CACHE = 400e6  # bytes of keys and values that a graph goes through, some eight L2 caches
ROUNDS = 15


class Call(ctypes.Structure):
    """attention_decode_call of attention_decode.cpp."""

    _fields_ = (
        [(name, ctypes.c_void_p) for name in ("q", "k", "v", "out", "k_scale", "v_scale", "seqused_k", "block_table")]
        + [
            (name, ctypes.c_int64)
            for name in ("batch", "heads", "heads_kv", "seqlen_q", "seqlen_k", "head_dim", "page_size", "block_table_stride")
        ]
        + [(name, ctypes.c_int64 * 3) for name in ("q_stride", "k_stride", "v_stride", "out_stride")]
        + [
            ("dtype", ctypes.c_int32),
            ("kv_dtype", ctypes.c_int32),
            ("workspace", ctypes.c_void_p),
            ("workspace_bytes", ctypes.c_int64),
        ]
    )


class Ours:
    """Switchyard on given tensors."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.kept = []

    def prepare(self, q, k, v, kv_type, page):
        """A function that launches the call, its output, and which variant that is. k and v are [batch, heads, keys,
        dim]; with pages they are first laid out anew."""
        call = Call()
        call.batch, call.heads, call.seqlen_q, call.head_dim = q.shape
        call.heads_kv, call.seqlen_k = k.shape[1], k.shape[2]
        out = torch.full_like(q, float("nan"))
        if kv_type == "f8_e4m3":
            k, v = k.to(torch.float8_e4m3fn), v.to(torch.float8_e4m3fn)
            scales = torch.ones(call.heads_kv, device=q.device)
            call.k_scale = call.v_scale = scales.data_ptr()
            self.kept.append(scales)
        if page:
            pages = call.batch * call.seqlen_k // page
            order = torch.randperm(pages, device=q.device).to(torch.int32)
            used = torch.full((call.batch,), call.seqlen_k, dtype=torch.int32, device=q.device)

            def paged(x):
                rows = x.view(torch.uint8) if x.element_size() == 1 else x
                rows = rows.transpose(1, 2).reshape(pages, page, call.heads_kv, call.head_dim)
                result = torch.empty_like(rows)
                result[order.long()] = rows
                return result.transpose(1, 2)

            k, v = paged(k), paged(v)
            call.page_size, call.block_table_stride = page, pages // call.batch
            call.block_table, call.seqused_k = order.data_ptr(), used.data_ptr()
            self.kept += [order, used]
        self.kept += [k, v, out]
        for name, tensor in (("q", q), ("k", k), ("v", v), ("out", out)):
            setattr(call, name, tensor.data_ptr())
            getattr(call, name + "_stride")[:] = tensor.stride()[:3]
        call.dtype, call.kv_dtype = DTYPES["bf16"], DTYPES[kv_type]
        name = ctypes.create_string_buffer(200)
        need = ctypes.c_int64()
        if self.library.attention_decode_prepare(ctypes.byref(call), name, 200, ctypes.byref(need)):
            sys.exit("a call could not be prepared")
        workspace = torch.empty(max(need.value, 16), dtype=torch.uint8, device=q.device)
        call.workspace, call.workspace_bytes = workspace.data_ptr(), workspace.numel()
        self.kept += [workspace, call]

        def run():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            if self.library.attention_decode_run(ctypes.byref(call), stream):
                sys.exit("a call failed")

        return run, out, name.value.decode()


def capture(calls):
    calls[0]()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def replay(graph):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000


class Replays:
    """A graph of several calls, as under_load.py takes it."""

    is_graph = True

    def __init__(self, graph, copies, us):
        self.graph = graph
        self.replays = max(1, round(under_load.CHUNK_US / (us * copies)))
        self.calls = self.replays * copies

    def enqueue(self):
        return under_load.launched(self.graph.replay, self.replays)


def measure(ours, batch, context, heads, heads_kv, dim, options, meter):
    """Times of all contenders, our variant, and figures under load."""
    bytes_of_call = batch * context * heads_kv * dim * 4
    copies = max(1, min(32, round(CACHE / bytes_of_call)))

    def cache():
        if options.layout == "bshd":
            return torch.randn(batch, context, heads_kv, dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
        return torch.randn(batch, heads_kv, context, dim, device="cuda", dtype=torch.bfloat16)

    q = torch.randn(batch, heads, 1, dim, device="cuda", dtype=torch.bfloat16)
    caches = [(cache(), cache()) for _ in range(copies)]
    graphs = {}
    expected = None
    for name, backend in PEERS.items():

        def call(k, v, backend=backend):
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

        try:
            expected = call(*caches[0]) if expected is None else expected
            graphs[name] = capture([lambda k=k, v=v: call(k, v) for k, v in caches])
        except RuntimeError as error:
            print(f"{name} does not take this: {str(error).splitlines()[0]}", file=sys.stderr)
            torch.cuda.synchronize()
    prepared = [ours.prepare(q, k, v, options.kv, options.page) for k, v in caches]
    graphs["switchyard"] = capture([run for run, _, _ in prepared])
    graphs["switchyard"].replay()
    torch.cuda.synchronize()
    error = float("nan") if expected is None else (prepared[0][1].float() - expected.float()).abs().max().item()
    if not error < (0.05 if options.kv == "f8_e4m3" else 0.01):
        print(f"B {batch} N {context}: differs from the peer by {error}", file=sys.stderr)
    times = {name: [] for name in graphs}
    for graph in graphs.values():
        replay(graph)
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            times[name].append(replay(graph) / copies)
    medians = {name: statistics.median(values) for name, values in times.items()}
    load = {}
    if options.sustained:
        works = {name: Replays(graph, copies, medians[name]) for name, graph in graphs.items()}
        turns = under_load.in_turns(works, options.turns, options.sustained, meter)
        load = {name: under_load.summary(of) for name, of in turns.items()}
    ours.kept.clear()
    return medians, prepared[0][2], load


def numbers(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--batch", type=numbers, default=DECODE_BATCHES)
    parser.add_argument("--context", type=numbers, default=DECODE_CONTEXTS)
    parser.add_argument("--heads", default=",".join(f"{query}/{kv}" for query, kv in DECODE_HEADS))
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--layout", choices=("bhsd", "bshd"), default="bhsd")
    parser.add_argument("--kv", choices=("bf16", "f8_e4m3"), default="bf16")
    parser.add_argument("--page", type=int, default=0)
    parser.add_argument("--json", default="")
    under_load.add_options(parser)
    options = parser.parse_args()
    meter = energy.Meter(torch.cuda.current_device())
    torch.manual_seed(0)
    ours = Ours(options.library)
    records = []
    for heads in options.heads.split(","):
        query_heads, heads_kv = map(int, heads.split("/"))
        for batch in options.batch:
            for context in options.context:
                size = batch * context * heads_kv * options.dim * 4
                if size * (2.5 if options.kv == "f8_e4m3" or options.page else 1) > 120e9:
                    continue
                times, variant, load = measure(ours, batch, context, query_heads, heads_kv, options.dim, options, meter)
                torch.cuda.empty_cache()
                mine = times["switchyard"]
                best = min((time for name, time in times.items() if name != "switchyard"), default=math.nan)
                moved = size / (2 if options.kv == "f8_e4m3" else 1)
                print(
                    f"{heads} batch {batch} context {context}: "
                    + ", ".join(f"{name} {time:.2f}" for name, time in times.items())
                    + f" us; {moved / mine / 1e6:.2f} TB/s, best peer over ours {best / mine:.3f}; {variant}",
                    flush=True,
                )
                if load:
                    print("    " + under_load.text_of(load, "switchyard"), flush=True)
                records.append(
                    {
                        "heads": query_heads,
                        "heads_kv": heads_kv,
                        "batch": batch,
                        "context": context,
                        "times_us": times,
                        "variant": variant,
                        "sustained": load,
                    }
                )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "device": torch.cuda.get_device_name(),
                    "layout": options.layout,
                    "kv": options.kv,
                    "page": options.page,
                    "limit_watts": meter.limit_watts(),
                    "records": records,
                },
                file,
                indent=1,
            )


if __name__ == "__main__":
    main()
