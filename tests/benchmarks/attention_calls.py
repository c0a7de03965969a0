# SPDX-License-Identifier: MIT
"""Attention forward as engines call it, beside FlashAttention-3 and 4 and cuDNN where they serve the call: pages, packed sequences of
unequal lengths, windows, sinks, soft caps, caches in e4m3, and head dims of many models. In one process, in turns.

  attention_calls.py LIBRARY [--dtype bf16] [--only TEXT]... [--rounds 9] [--json FILE] [--sustained SECONDS] [--turns 3]
      [--budget-s SECONDS]

LIBRARY is libswitchyard.so; SWITCHYARD_PATH names the folder of kernels and tables. Each contender's calls are timed by
events, as many in a row as take two milliseconds, while a sleep of the device hides what Python takes to launch them; the
contenders take turns, and the median of the rounds counts. No peer takes keys in e4m3 with queries in another type: such a
call stands beside our own with keys of q's type that have the same values. Results are compared in f32 with the first
contender's. Rows of pages behind a sequence's end hold NaN: a peer whose result is not finite is timed, and named. A line a
call: microseconds of each, the best peer's over ours, the largest difference, and what ran. "behind": a peer is faster by
more than 2 %, and the quartiles of their rounds do not overlap. With --sustained, a second line has times, energy a call and
power under load (under_load.py). Exits with 1 where results differ. FlashAttention-3 is there where
SWITCHYARD_FLASH_ATTENTION_3 names vLLM's build, _vllm_fa3_C.abi3.so. With --budget-s, no call begins after so many seconds.
"""

import argparse
import contextlib
import ctypes
import json
import math
import os
import statistics
import sys
import time
from dataclasses import dataclass, field

import energy
import torch
import under_load
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "c_api"))
from binding import Tensor, arguments, load

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
NUMBERS = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float8_e4m3fn: 4, torch.int32: 7}


@dataclass(frozen=True)
class Call:
    """Sequences of `queries` and `keys`; one length each where they are not packed."""

    name: str
    heads: int
    heads_kv: int
    head_dim: int
    queries: tuple
    keys: tuple = ()
    causal: bool = True
    head_dim_v: int = 0
    page: int = 0
    packed: bool = False
    window: int = -1
    soft_cap: float = 0.0
    sinks: bool = False
    bias: bool = False  # [1, heads, queries, keys]
    narrow: bool = False  # keys and values in e4m3

    def lengths(self):
        return self.queries, self.keys or self.queries

    def dims(self):
        return self.head_dim, self.head_dim_v or self.head_dim


def calls():
    """Those of engines, by kind."""
    for page in (16, 64, 128, 256):
        yield Call(f"paged prompt, pages of {page}", 32, 8, 128, (1024,) * 4, page=page)
        yield Call(f"paged chunk of 256, pages of {page}", 32, 8, 128, (256,) * 2, (6000,) * 2, page=page)
    yield Call("dense prompt", 32, 8, 128, (1024,) * 4)
    yield Call("dense chunk of 256", 32, 8, 128, (256,) * 2, (6000,) * 2)
    yield Call("paged chunk of 64", 32, 8, 128, (64,) * 8, (4096,) * 8, page=64)
    yield Call("paged, 17 queries", 32, 8, 128, (17,) * 16, (4096,) * 16, page=64)
    yield Call("paged chunk of 64, batch 1, 32k keys", 32, 8, 128, (64,), (32768,), page=64)
    yield Call("paged chunk of 128, batch 2, 8k keys", 32, 8, 128, (128,) * 2, (8192,) * 2, page=64)
    yield Call("paged, 17 queries, batch 1, 8k keys", 32, 8, 128, (17,), (8192,), page=64)
    yield Call("dense chunk of 64, batch 1, D 64, 32k keys", 64, 8, 64, (64,), (32768,))
    for page in (16, 64):
        yield Call(f"e4m3, paged prompt, pages of {page}", 32, 8, 128, (1024,) * 4, page=page, narrow=True)
        yield Call(f"e4m3, paged chunk of 256, pages of {page}", 32, 8, 128, (256,) * 2, (6000,) * 2, page=page, narrow=True)
    yield Call("e4m3, paged chunk of 64", 32, 8, 128, (64,) * 8, (4096,) * 8, page=64, narrow=True)
    yield Call("e4m3, paged chunk of 64, batch 1, 32k keys", 32, 8, 128, (64,), (32768,), page=64, narrow=True)
    yield Call("e4m3, paged, 4 prompts of 2000", 32, 8, 128, (2000,) * 4, packed=True, page=64, narrow=True)
    yield Call("e4m3, paged prompt, D 64, sinks", 64, 8, 64, (2048,) * 2, page=64, sinks=True, narrow=True)
    yield Call("e4m3, paged prompt, D 256, soft cap", 16, 8, 256, (2048,) * 2, page=64, soft_cap=50.0, narrow=True)
    yield Call("e4m3, dense prompt", 32, 8, 128, (1024,) * 4, narrow=True)
    yield Call("paged prompt, 28/4 heads", 28, 4, 128, (2048,) * 2, page=64)
    yield Call("paged chunk of 64, 28/4 heads", 28, 4, 128, (64,) * 4, (4096,) * 4, page=64)
    yield Call("packed 8 x 300, 28/4 heads", 28, 4, 128, (300,) * 8, packed=True)
    yield Call("paged prompt, D 256, soft cap", 16, 8, 256, (2048,) * 2, page=64, soft_cap=50.0)
    yield Call("paged prompt, D 64, sinks", 64, 8, 64, (2048,) * 2, page=64, sinks=True)
    yield Call("paged prompt, D 64, sinks, window of 128", 64, 8, 64, (4096,), page=64, sinks=True, window=127)
    yield Call("D 64, 64/8 heads, sinks, full", 64, 8, 64, (4096,), causal=False, sinks=True)
    yield Call("D 64, 64/8 heads, sinks", 64, 8, 64, (4096,), sinks=True)
    yield Call("D 64, 64/8 heads, sinks, window of 1024", 64, 8, 64, (4096,), sinks=True, window=1023)
    yield Call("D 64, 64/8 heads, sinks, window of 128", 64, 8, 64, (4096,), sinks=True, window=127)
    yield Call("D 128, window of 128 in 32k", 32, 8, 128, (32768,), window=127)
    yield Call("D 128, window of 4096 in 8k", 32, 8, 128, (8192,), window=4095)
    yield Call("D 256, window of 1024, soft cap", 16, 8, 256, (8192,), window=1023, soft_cap=50.0)
    yield Call("D 512, 16/4 heads", 16, 4, 512, (2048,) * 2)
    yield Call("paged prompt, D 512", 16, 4, 512, (2048,) * 2, page=64)
    yield Call("paged chunk of 64, D 512, batch 1, 8k keys", 16, 4, 512, (64,), (8192,), page=64)
    yield Call("D 192/128", 128, 128, 192, (2048,), head_dim_v=128)
    yield Call("D 192/128, packed", 128, 128, 192, (1000, 300, 700, 48), head_dim_v=128, packed=True)
    for dim, heads, tokens in (
        (72, 16, 4096),
        (80, 16, 1024),
        (80, 16, 4096),
        (88, 16, 2048),
        (112, 16, 2048),
        (40, 8, 4096),
        (32, 12, 2048),
        (96, 32, 2048),
    ):
        yield Call(f"D {dim}, full, {tokens}", heads, heads, dim, (tokens,) * 2, causal=False)
        yield Call(f"D {dim}, causal, {tokens}", heads, heads, dim, (tokens,) * 2)
    yield Call("packed 8 x 900", 16, 16, 128, (900,) * 8, packed=True)
    yield Call("packed 8 x 900, full", 16, 16, 128, (900,) * 8, packed=True, causal=False)
    yield Call("packed 1 x 8192", 32, 8, 128, (8192,), packed=True)
    yield Call("packed 63 x 100", 32, 8, 128, (100,) * 63, packed=True)
    yield Call("packed 1 x 8192 and 63 x 100", 32, 8, 128, (8192,) + (100,) * 63, packed=True)
    yield Call("paged 1 x 8192", 32, 8, 128, (8192,), packed=True, page=64)
    yield Call("paged 63 x 100", 32, 8, 128, (100,) * 63, packed=True, page=64)
    yield Call("paged 1 x 8192 and 63 x 100", 32, 8, 128, (8192,) + (100,) * 63, packed=True, page=64)
    yield Call("paged, 4 prompts of 2000", 32, 8, 128, (2000,) * 4, packed=True, page=64)
    yield Call("paged, 60 queries on 2000 keys each", 32, 8, 128, (1,) * 60, (2000,) * 60, packed=True, page=64)
    yield Call(
        "paged, 4 prompts of 2000 and 60 queries on 2000 keys each",
        32,
        8,
        128,
        (2000,) * 4 + (1,) * 60,
        (2000,) * 64,
        packed=True,
        page=64,
    )
    yield Call("vision, packed 16 x 729, D 72", 16, 16, 72, (729,) * 16, packed=True, causal=False)
    yield Call("encoder, 64 x 197, D 64", 12, 12, 64, (197,) * 64, causal=False)
    yield Call("encoder, 32 x 512, D 64", 12, 12, 64, (512,) * 32, causal=False)
    yield Call("bias, encoder, 64 x 197, D 64", 12, 12, 64, (197,) * 64, causal=False, bias=True)
    yield Call("bias, encoder, 32 x 512, D 64", 12, 12, 64, (512,) * 32, causal=False, bias=True)
    yield Call("bias, D 80, 2 x 4096", 16, 16, 80, (4096,) * 2, causal=False, bias=True)
    yield Call("bias, D 128, 2 x 4096", 16, 16, 128, (4096,) * 2, causal=False, bias=True)
    yield Call("bias, D 128, 2 x 4096, causal", 16, 16, 128, (4096,) * 2, bias=True)
    yield Call("D 128, N 512, full", 16, 16, 128, (512,) * 32, causal=False)
    yield Call("D 128, N 1024, full", 16, 16, 128, (1024,) * 16, causal=False)
    yield Call("D 64, N 512", 32, 32, 64, (512,) * 32)
    # What is long enough for the power limit to matter.
    for tokens in (8192, 16384):
        for causal in (True, False):
            name = f"long, D 128, {'causal' if causal else 'full'}, {tokens}"
            yield Call(name, 16, 16, 128, (tokens,) * (16384 // tokens), causal=causal)
    yield Call("long, D 192/128, 2048", 128, 128, 192, (2048,), head_dim_v=128)
    yield Call("long, D 256, causal, 8192", 8, 8, 256, (8192,) * 2)
    yield Call("long, 64/8 heads, 8192", 64, 8, 128, (8192,))
    yield Call("long, D 64, 64/8 heads, sinks, window of 128", 64, 8, 64, (8192,), sinks=True, window=127)
    yield Call("long, D 256, soft cap, 3000", 16, 8, 256, (3000,) * 2, soft_cap=50.0)


@dataclass
class Tensors:
    """q, k, v as [batch, tokens, heads, dim], or packed without the batch; and the same keys in pages."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    sinks: torch.Tensor = None
    bias: torch.Tensor = None
    cu_q: torch.Tensor = None
    cu_k: torch.Tensor = None
    used: torch.Tensor = None
    table: torch.Tensor = None
    pages_k: torch.Tensor = None
    pages_v: torch.Tensor = None
    scale: torch.Tensor = None  # of keys and values in e4m3
    kept: list = field(default_factory=list)


def cumulated(lengths):
    return torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)


def make(call, dtype):
    """Random tensors. Pages are in random order; those of nobody, and rows behind a sequence's end, hold NaN."""
    queries, keys = call.lengths()
    dim, dim_v = call.dims()

    def normal(*shape):
        return torch.randn(*shape, device="cuda", dtype=dtype)

    if call.packed:
        out = Tensors(
            normal(sum(queries), call.heads, dim),
            normal(sum(keys), call.heads_kv, dim),
            normal(sum(keys), call.heads_kv, dim_v),
            cu_q=cumulated(queries),
            cu_k=cumulated(keys),
        )
    else:
        out = Tensors(
            normal(len(queries), queries[0], call.heads, dim),
            normal(len(keys), keys[0], call.heads_kv, dim),
            normal(len(keys), keys[0], call.heads_kv, dim_v),
        )
    if call.sinks:
        out.sinks = torch.randn(call.heads, device="cuda", dtype=torch.float32)
    if call.bias:
        out.bias = normal(1, call.heads, queries[0], keys[0])
    if call.narrow:
        out.scale = torch.linspace(0.5, 1.5, call.heads_kv, device="cuda")
        out.k, out.v = ((tensor / out.scale[:, None]).to(torch.float8_e4m3fn).to(dtype) for tensor in (out.k, out.v))
    if call.page:
        counts = [math.ceil(n / call.page) for n in keys]
        order = torch.randperm(sum(counts) + 7, device="cuda").to(torch.int32)
        out.table = torch.zeros(len(keys), max(counts), device="cuda", dtype=torch.int32)
        out.used = torch.tensor(keys, device="cuda", dtype=torch.int32)
        out.pages_k, out.pages_v = (
            torch.full((len(order), call.page, call.heads_kv, n), math.nan, device="cuda", dtype=dtype) for n in (dim, dim_v)
        )
        at = 0
        for b, (n, count) in enumerate(zip(keys, counts)):
            mine = order[at : at + count]
            at += count
            out.table[b, :count] = mine
            for pages, rows in ((out.pages_k, out.k), (out.pages_v, out.v)):
                of = rows[sum(keys[:b]) : sum(keys[:b]) + n] if call.packed else rows[b, :n]
                whole = torch.full((count * call.page, *of.shape[1:]), math.nan, device="cuda", dtype=dtype)
                whole[:n] = of
                pages[mine.long()] = whole.view(count, call.page, *of.shape[1:])
    return out


def view(tensor):
    out = Tensor(ctypes.sizeof(Tensor), tensor.data_ptr(), NUMBERS[tensor.dtype], tensor.dim())
    for i, (extent, stride) in enumerate(zip(tensor.shape, tensor.stride())):
        out.extents[i], out.strides[i] = extent, stride
    return out


def stream():
    """PyTorch's current one; null is the default stream."""
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


class Switchyard:
    """Calls through the C API."""

    name = "Switchyard"

    def __init__(self, path, wide=False):
        self.wide = wide  # of calls in e4m3: with keys and values of q's type
        if wide:
            self.name = "with wide keys"
        self.library, self.catalog = load(path), ctypes.c_void_p()
        self.require(self.library.switchyard_open(None, ctypes.byref(self.catalog)))
        self.op = self.opened("attention_forward")

    def opened(self, operator):
        op = ctypes.c_void_p()
        self.require(self.library.switchyard_operator_open(self.catalog, operator.encode(), None, ctypes.byref(op)))
        return op

    def require(self, code):
        if code != 0:
            raise RuntimeError(self.library.switchyard_last_error_text().decode())

    def prepare(self, call, t):
        queries, keys = call.lengths()
        if self.wide and not call.narrow:
            raise RuntimeError("not served")
        out = torch.full((*t.q.shape[:-1], call.dims()[1]), math.nan, device="cuda", dtype=t.q.dtype)
        given = {
            "q": t.q,
            "out": out,
            "mask": "causal_bottom_right" if call.causal else "none",
            "sinks": t.sinks,
            "bias": t.bias,
        }
        k, v = (t.pages_k, t.pages_v) if call.page else (t.k, t.v)
        if self.wide:
            k, v = (tensor * t.scale[:, None].to(tensor.dtype) for tensor in (k, v))
        elif call.narrow:
            k, v = (tensor.to(torch.float8_e4m3fn) for tensor in (k, v))
            given |= {"k_scale": t.scale, "v_scale": t.scale}
        given |= {"k": k, "v": v}
        if call.page:
            given |= {"block_table": t.table, "seqused_k": t.used, "longest_k": max(keys)}
        elif call.packed:
            given |= {"cu_seqlens_k": t.cu_k, "longest_k": max(keys)}
        if call.packed:
            given |= {"cu_seqlens_q": t.cu_q, "longest_q": max(queries)}
        if call.window >= 0:
            given["window_left"] = call.window
        if call.soft_cap:
            given["soft_cap"] = call.soft_cap
        made = arguments(
            **{
                name: view(value) if isinstance(value, torch.Tensor) else value
                for name, value in given.items()
                if value is not None
            }
        )
        t.kept.append(given)

        def run():
            self.require(self.library.switchyard_call(self.op, stream(), made, len(made)))
            return out

        text = ctypes.create_string_buffer(4096)
        self.require(self.library.switchyard_explain(self.op, None, made, len(made), text, len(text), None))
        return run, text.value.decode()


class FlashAttention3:
    """vLLM's build, which takes packed sequences and pages."""

    name = "FlashAttention-3"

    def __init__(self):
        torch.ops.load_library(os.environ["SWITCHYARD_FLASH_ATTENTION_3"])
        self.forward = torch.ops._vllm_fa3_C.fwd  # pylint: disable=protected-access

    def prepare(self, call, t):
        queries, keys = call.lengths()
        if call.bias or call.narrow:
            raise RuntimeError("not served")
        q, k, v = (t.q, t.k, t.v) if call.packed else (tensor.flatten(0, 1) for tensor in (t.q, t.k, t.v))
        cu_q = t.cu_q if call.packed else cumulated(queries)
        cu_k = None if call.page else t.cu_k if call.packed else cumulated(keys)
        if call.page:
            k, v = t.pages_k, t.pages_v
        sinks = None if t.sinks is None else t.sinks.to(q.dtype)
        right = 0 if call.window >= 0 else -1

        def run():
            out = self.forward(
                *(q, k, v, None, None, None, None, cu_q, cu_k, None, None, t.used, max(queries), max(keys), t.table),
                *(None,) * 8,  # of batches, left padding, rotary embedding, and factors of e4m3
                *(call.head_dim**-0.5, call.causal, call.window, right, call.soft_cap, True),
                *(None, 0, None, 0, sinks, 1, 0, None),
            )
            return out[0].view(*t.q.shape[:-1], call.dims()[1])

        return run, ""


class FlashAttention4:
    """flash-attn-4 (CuTe DSL)."""

    name = "FlashAttention-4"

    def __init__(self):
        from flash_attn.cute import flash_attn_func, flash_attn_varlen_func

        self.dense, self.packed = flash_attn_func, flash_attn_varlen_func

    def prepare(self, call, t):
        queries, keys = call.lengths()
        if call.bias or call.narrow:
            raise RuntimeError("not served")
        options = {"causal": call.causal}
        if call.window >= 0:
            options |= {"window_size": (call.window, 0)}
        if call.soft_cap:
            options |= {"softcap": call.soft_cap}
        if t.sinks is not None:
            options |= {"learnable_sink": t.sinks.to(torch.bfloat16)}
        if not call.packed and not call.page:
            return lambda: first(self.dense(t.q, t.k, t.v, **options)), ""
        options |= {"max_seqlen_q": max(queries), "max_seqlen_k": max(keys)}
        if call.packed:
            options |= {"cu_seqlens_q": t.cu_q}
        if call.page:
            options |= {"page_table": t.table, "seqused_k": t.used}
            return lambda: first(self.packed(t.q, t.pages_k, t.pages_v, **options)), ""
        return lambda: first(self.packed(t.q, t.k, t.v, cu_seqlens_k=t.cu_k, **options)), ""


class Cudnn:
    """cuDNN through PyTorch: dense calls without windows, sinks or caps, and with a bias or a causal mask."""

    name = "cuDNN"

    def prepare(self, call, t):
        queries, keys = call.lengths()
        if (
            call.narrow
            or call.packed
            or call.page
            or call.window >= 0
            or call.soft_cap
            or call.sinks
            or (call.causal and queries != keys)
        ):
            raise RuntimeError("not served")
        if call.bias and call.causal:
            raise RuntimeError("not served")
        q, k, v = (tensor.transpose(1, 2) for tensor in (t.q, t.k, t.v))

        def run():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return scaled_dot_product_attention(
                    q, k, v, attn_mask=t.bias, is_causal=call.causal, enable_gqa=call.heads != call.heads_kv
                ).transpose(1, 2)

        return run, ""


def first(result):
    return result[0] if isinstance(result, tuple) else result


def time_row(run, count):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(60_000 * count + 500_000)  # pylint: disable=protected-access
    begin.record()
    for _ in range(count):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / count


def measure(runs, rounds):
    """Microseconds of each round, in turns."""
    counts = {}
    for name, run in runs.items():
        for _ in range(2):
            run()
        counts[name] = max(1, min(20, round(2000 / time_row(run, 2))))
    samples = {name: [] for name in runs}
    names = list(runs)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            samples[name].append(time_row(runs[name], counts[name]))
    return samples


def behind(samples):
    """The peers that are faster than Switchyard by more than 2 % and outside the spread: quartiles do not overlap."""
    ours = samples.get("Switchyard")
    if not ours or len(ours) < 2:
        return []

    def faster(peer):
        return (
            statistics.median(peer) < 0.98 * statistics.median(ours)
            and statistics.quantiles(peer, n=4)[2] < statistics.quantiles(ours, n=4)[0]
        )

    return [name for name, peer in samples.items() if name != "Switchyard" and faster(peer)]


def options_of(text, **flags):
    """The command line's options; `text` describes the program, `flags` what it can be told besides."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--dtype", default="bf16", choices=TYPES)
    parser.add_argument("--only", action="append", help="calls whose name has this; may be given several times")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", default="")
    parser.add_argument("--budget-s", type=float, default=math.inf, help="no call begins after so many seconds")
    under_load.add_options(parser)
    for name, meaning in flags.items():
        parser.add_argument("--" + name, action="store_true", help=meaning)
    return parser.parse_args()


def chosen(options, listed):
    """Those of the listed calls that were asked for, as long as there is time."""
    begin = time.monotonic()
    for call in listed:
        if options.only and not any(text in call.name for text in options.only):
            continue
        if time.monotonic() - begin > options.budget_s:
            print(f"not measured, for want of time: {call.name}", flush=True)
        else:
            yield call


def stream_of(options):
    """That calls are made on: graphs cannot be captured from the default stream."""
    return torch.cuda.stream(torch.cuda.Stream()) if options.sustained else contextlib.nullcontext()


def report_load(options, runs, us, meter):
    """The figures under load, printed; nothing unless they are asked for."""
    found = under_load.figures(options, runs, us, meter)
    if found:
        print("    " + under_load.text_of(found), flush=True)
    return found


def available(*kinds):
    """Those of the peers that can be made here."""
    made = []
    for kind in kinds:
        try:
            made.append(kind())
        except Exception as problem:  # pylint: disable=broad-except  (a compiler's libraries may be missing too)
            print(f"{kind.name} cannot be imported: {problem}", file=sys.stderr)
    return made


def save(options, records, meter):
    if options.json:
        what = {"device": torch.cuda.get_device_name(), "dtype": options.dtype, "limit_watts": meter.limit_watts()}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(what | {"records": records}, file, indent=1)


def main():
    options = options_of(__doc__)
    with stream_of(options):
        return compare(options)


def compare(options):
    meter = energy.Meter(torch.cuda.current_device())
    peers = [FlashAttention4, Cudnn]
    if "SWITCHYARD_FLASH_ATTENTION_3" in os.environ:
        peers.insert(0, FlashAttention3)
    contenders = [Switchyard(options.library), Switchyard(options.library, wide=True), *available(*peers)]
    records, differ = [], 0
    for call in chosen(options, calls()):
        torch.manual_seed(len(records))
        tensors = make(call, TYPES[options.dtype])
        runs, results, why, errors = {}, {}, "", {}
        for contender in contenders:
            try:
                run, text = contender.prepare(call, tensors)
                result = run().float()
                torch.cuda.synchronize()
                runs[contender.name] = run
                if result.isfinite().all() or contender.name == "Switchyard":
                    results[contender.name] = result
                else:
                    errors[contender.name] = "its result is not finite"
                why = why or text
            except Exception as problem:  # pylint: disable=broad-except  (each peer has errors of its own)
                errors[contender.name] = (str(problem) or type(problem).__name__).splitlines()[0][:160]
        worst = 0.0
        for one in list(results.values())[1:]:
            difference = (one - next(iter(results.values()))).abs().max().item()
            worst = max(worst, difference if math.isfinite(difference) else math.inf)
        samples = measure(runs, options.rounds)
        times = {name: statistics.median(values) for name, values in samples.items()}
        late = behind(samples)
        peers = [time for name, time in times.items() if name != "Switchyard"]
        ours = times.get("Switchyard", math.nan)
        ratio = min(peers) / ours if peers else math.nan
        differ += not worst < 0.05
        records.append(
            {
                "call": call.name,
                "us": times,
                "rounds": samples,
                "best_peer_over_ours": ratio,
                "behind": late,
                "difference": worst,
                "why": why,
                "errors": errors,
            }
        )
        print(
            f"{call.name:58} "
            + " ".join(f"{name} {time:8.1f}" for name, time in times.items())
            + f"  {ratio:5.2f}  {worst:.1e}  {'behind ' + ', '.join(late) if late else ''}  {why or errors.get('Switchyard', '')}"
            + "".join(f"; {name}: {text}" for name, text in errors.items() if name in runs),
            flush=True,
        )
        records[-1]["sustained"] = report_load(options, runs, times, meter)
        del tensors, runs, results
    save(options, records, meter)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
