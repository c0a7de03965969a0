# SPDX-License-Identifier: MIT
"""Attention backward beside FlashAttention-4 and cuDNN where they serve the call: the published shapes of attention.py, more head
dims, and packed, windowed and capped calls. In one process, in turns, each result beside float64.

  attention_backward_calls.py LIBRARY [--dtype bf16] [--only TEXT]... [--rounds 9] [--json FILE] [--sustained SECONDS] [--turns 3]
      [--deterministic] [--budget-s SECONDS]

LIBRARY is libswitchyard.so; SWITCHYARD_PATH names the folder of kernels and tables. Times are of whole calls, row sums, zeroing and
conversion of dq included, as attention_calls.py takes them; the device's memory pool keeps the workspaces, as PyTorch's allocator
keeps those of the peers. A line a call: TFLOP/s of each, the best peer's time over ours, the relative errors of dq, dk and dv (the
largest of the three, over a random KV head of a random sequence), and what ran. "behind": a peer is faster by more than 2 %, and
the quartiles of their rounds do not overlap. With --sustained, a second line has times, energy a call and power under load
(under_load.py). At the end: geometric mean and least of each peer's time over ours. Exits with 1
where an error is not finite or above 1 %. With --deterministic, ours and FlashAttention-4's deterministic modes stand side by side,
and two runs of each must give the same bits; cuDNN has no such mode through PyTorch.
"""

import ctypes
import math
import statistics
import sys

import attention
import energy
import torch
from attention_calls import (
    TYPES,
    Call,
    Switchyard,
    arguments,
    available,
    behind,
    chosen,
    first,
    make,
    measure,
    options_of,
    report_load,
    save,
    stream,
    stream_of,
    view,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

CHUNK = 1 << 29  # scores of the float64 reference that are held at a time


def calls():
    """The published shapes, then those beside them."""
    for figure in attention.figures():
        for batch, heads, tokens in figure.shapes:
            name = f"{figure.title}, N {tokens}"
            yield Call(name, heads, figure.heads_kv or heads, figure.head_dim, (tokens,) * batch, causal=figure.causal)
    for dim, dim_v, heads in ((96, 96, 20), (192, 192, 10), (192, 128, 16)):
        for causal in (False, True):
            for tokens in (512, 1024, 2048, 4096, 8192, 16384):
                named = f"D {dim}" if dim == dim_v else f"D {dim}/{dim_v}"
                yield Call(
                    f"{named}, {'causal' if causal else 'full'}, 16k tokens, N {tokens}",
                    heads,
                    heads,
                    dim,
                    (tokens,) * (16384 // tokens),
                    causal=causal,
                    head_dim_v=dim_v,
                )
    for causal in (False, True):
        for heads, heads_kv in ((16, 16), (32, 8)):
            yield Call(
                f"packed 8 x 900, {heads}/{heads_kv} heads, {'causal' if causal else 'full'}",
                heads,
                heads_kv,
                128,
                (900,) * 8,
                causal=causal,
                packed=True,
            )
    yield Call(
        "packed 8192, 4000, 2000, 1000, 8 x 100, 32/8 heads", 32, 8, 128, (8192, 4000, 2000, 1000) + (100,) * 8, packed=True
    )
    for tokens, heads, heads_kv in ((8192, 16, 16), (32768, 32, 8)):
        yield Call(f"window of 1024, N {tokens}, {heads}/{heads_kv} heads", heads, heads_kv, 128, (tokens,), window=1023)
    yield Call("window of 1024, D 64, 64/8 heads", 64, 8, 64, (8192,), window=1023)
    for dim in (64, 128):
        for causal in (False, True):
            yield Call(
                f"soft cap, D {dim}, {'causal' if causal else 'full'}",
                2048 // dim,
                2048 // dim,
                dim,
                (4096,) * 4,
                causal=causal,
                soft_cap=30.0,
            )
    yield Call("soft cap, D 256, 16/8 heads", 16, 8, 256, (4096,) * 2, soft_cap=50.0)
    yield Call("D 128, 32 heads, 86000 tokens", 32, 32, 128, (86000,))


def pairs(call):
    """Pairs of a query and a key that it sees, of all sequences."""

    def of(n):
        if not call.causal:
            return n * n
        left = call.window if 0 <= call.window < n else n - 1
        return n * (left + 1) - left * (left + 1) // 2

    return sum(of(n) for n in call.queries)


def flops(call):
    """Those of five products; as the peers count them, causal calls of equal lengths have half."""
    dim, dim_v = call.dims()
    if call.causal and call.window < 0 and not call.packed:
        seen = len(call.queries) * call.queries[0] ** 2 / 2
    else:
        seen = pairs(call)
    return 2 * call.heads * seen * (3 * dim + 2 * dim_v)


def sequence(tensor, call, b):
    """The rows of sequence b: [tokens, heads, dim]."""
    begin = sum(call.queries[:b])
    return tensor[begin : begin + call.queries[b]] if call.packed else tensor[b]


def reference(call, q, k, v, dout):
    """dq, dk and dv in float64 of the query heads q [heads, n, dim] of one KV head k, v [n, dim], in chunks of queries."""
    scale = q.shape[-1] ** -0.5
    n = k.shape[0]
    step = max(1, min(n, CHUNK // n))
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    columns = torch.arange(n, device=q.device)
    for head in range(q.shape[0]):
        for at in range(0, n, step):
            rows = slice(at, min(n, at + step))
            scores = q[head, rows] @ k.T * scale
            slope = 1.0
            if call.soft_cap:
                scores = torch.tanh(scores / call.soft_cap)
                slope = 1 - scores * scores
                scores *= call.soft_cap
            position = torch.arange(rows.start, rows.stop, device=q.device)[:, None]
            if call.causal:
                scores.masked_fill_(columns > position, -math.inf)
            if call.window >= 0:
                scores.masked_fill_(columns < position - call.window, -math.inf)
            weights = torch.softmax(scores, -1)
            del scores
            dv += weights.T @ dout[head, rows]
            slopes = dout[head, rows] @ v.T
            slopes -= (weights * slopes).sum(-1, keepdim=True)
            slopes *= weights
            slopes *= slope
            del weights
            dq[head, rows] = slopes @ k * scale
            dk += slopes.T @ q[head, rows] * scale
            del slopes, slope
    return dq, dk, dv


def error(call, t, dout, results, truth):
    """The largest relative error of dq, dk and dv, of what `truth` holds."""
    b, head, expected = truth
    group = call.heads // call.heads_kv
    found = (
        sequence(results[0], call, b)[:, head * group : (head + 1) * group].transpose(0, 1),
        sequence(results[1], call, b)[:, head],
        sequence(results[2], call, b)[:, head],
    )
    return max(((one.double() - other).norm() / other.norm()).item() for one, other in zip(found, expected))


def expected(call, t, dout):
    """A random sequence and KV head, and what float64 makes of it."""
    b = int(torch.randint(len(call.queries), ()))
    head = int(torch.randint(call.heads_kv, ()))
    group = call.heads // call.heads_kv
    q, gradient = (
        sequence(tensor, call, b)[:, head * group : (head + 1) * group].transpose(0, 1).double() for tensor in (t.q, dout)
    )
    k, v = (sequence(tensor, call, b)[:, head].double() for tensor in (t.k, t.v))
    return b, head, reference(call, q, k, v, gradient)


class SwitchyardBackward(Switchyard):
    """attention_backward, of the results and the LSE of attention_forward, through the C API."""

    def __init__(self, path, deterministic=False):
        super().__init__(path)
        self.deterministic = deterministic
        self.forward = self.op
        self.op = self.opened("attention_backward")

    def prepare(self, call, t, dout):
        packed = call.packed
        out = torch.full((*t.q.shape[:-1], call.dims()[1]), math.nan, device="cuda", dtype=t.q.dtype)
        rows = (call.heads, sum(call.queries)) if packed else (len(call.queries), call.heads, call.queries[0])
        lse = torch.full(rows, math.nan, device="cuda", dtype=torch.float32)
        given = {"q": t.q, "k": t.k, "v": t.v, "out": out, "lse": lse, "mask": "causal_bottom_right" if call.causal else "none"}
        if packed:
            longest = max(call.queries)
            given |= {"cu_seqlens_q": t.cu_q, "cu_seqlens_k": t.cu_k, "longest_q": longest, "longest_k": longest}
        if call.window >= 0:
            given["window_left"] = call.window
        if call.soft_cap:
            given["soft_cap"] = call.soft_cap

        def made_of(tensors):
            t.kept.append(tensors)
            return arguments(
                **{name: view(value) if isinstance(value, torch.Tensor) else value for name, value in tensors.items()}
            )

        made = made_of(given)
        self.require(self.library.switchyard_call(self.forward, stream(), made, len(made)))
        results = tuple(torch.full_like(tensor, math.nan) for tensor in (t.q, t.k, t.v))
        given |= {"deterministic": self.deterministic, "dout": dout} | dict(zip(("dq", "dk", "dv"), results))
        made = made_of(given)

        def run():
            self.require(self.library.switchyard_call(self.op, stream(), made, len(made)))
            return results

        text = ctypes.create_string_buffer(4096)
        self.require(self.library.switchyard_explain(self.op, None, made, len(made), text, len(text), None))
        return run, text.value.decode()


class Autograd:
    """A peer whose forward is differentiated by PyTorch; `attend` computes it of leaves [.., tokens, heads, dim]."""

    def prepare(self, call, t, dout):
        leaves = [tensor.detach().requires_grad_() for tensor in (t.q, t.k, t.v)]
        out = self.attend(call, t, *leaves)
        return lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True), ""


class FlashAttention4(Autograd):
    """flash-attn-4 (CuTe DSL)."""

    name = "FlashAttention-4"

    deterministic = False

    def __init__(self):
        from flash_attn.cute import flash_attn_func, flash_attn_varlen_func

        self.dense, self.packed = flash_attn_func, flash_attn_varlen_func

    def attend(self, call, t, q, k, v):
        options = {"causal": call.causal, "deterministic": self.deterministic}
        if call.window >= 0:
            options |= {"window_size": (call.window, 0)}
        if call.soft_cap:
            options |= {"softcap": call.soft_cap}
        if call.packed:
            longest = max(call.queries)
            return first(
                self.packed(
                    q, k, v, cu_seqlens_q=t.cu_q, cu_seqlens_k=t.cu_k, max_seqlen_q=longest, max_seqlen_k=longest, **options
                )
            )
        return first(self.dense(q, k, v, **options))


class DeterministicFlashAttention4(FlashAttention4):
    deterministic = True


class Cudnn(Autograd):
    """cuDNN through PyTorch: dense calls without windows or caps."""

    name = "cuDNN"

    def attend(self, call, t, q, k, v):
        if call.packed or call.window >= 0 or call.soft_cap:
            raise RuntimeError("not served")
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(
                *(tensor.transpose(1, 2) for tensor in (q, k, v)), is_causal=call.causal, enable_gqa=call.heads != call.heads_kv
            ).transpose(1, 2)


def require_same_bits(run, results):
    """Throws where another run's results are not these."""
    before = [result.clone() for result in results]
    if not all(torch.equal(one, other) for one, other in zip(before, run())):
        raise RuntimeError("two runs differ")


def keep_memory():
    """Lets the device's memory pool keep what is given back to it."""
    driver = ctypes.CDLL("libcuda.so.1")
    pool, most = ctypes.c_void_p(), ctypes.c_uint64(2**64 - 1)
    release_threshold = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    if driver.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0) or driver.cuMemPoolSetAttribute(
        pool, release_threshold, ctypes.byref(most)
    ):
        sys.exit("the device's memory pool cannot be told to keep memory")


def main():
    options = options_of(__doc__, deterministic="the modes that give the same bits in every run")
    torch.zeros(1, device="cuda")
    keep_memory()
    with stream_of(options):
        return compare(options)


def compare(options):
    meter = energy.Meter(torch.cuda.current_device())
    peers = available(*([DeterministicFlashAttention4] if options.deterministic else [FlashAttention4, Cudnn]))
    contenders = [SwitchyardBackward(options.library, options.deterministic), *peers]
    records, wrong = [], 0
    for call in chosen(options, calls()):
        torch.manual_seed(len(records))
        t = make(call, TYPES[options.dtype])
        dout = torch.randn(*t.q.shape[:-1], call.dims()[1], device="cuda", dtype=t.q.dtype)
        runs, why, problems, errors = {}, "", {}, {}
        truth = expected(call, t, dout)
        for contender in contenders:
            try:
                run, text = contender.prepare(call, t, dout)
                results = run()
                errors[contender.name] = error(call, t, dout, results, truth)
                if options.deterministic:
                    require_same_bits(run, results)
                del results
                torch.cuda.synchronize()
                runs[contender.name] = run
                why = why or text
            except Exception as problem:  # pylint: disable=broad-except  (each peer has errors of its own)
                problems[contender.name] = (str(problem) or type(problem).__name__).splitlines()[0][:160]
        del truth
        torch.cuda.empty_cache()
        samples = measure(runs, options.rounds)
        times = {name: statistics.median(values) for name, values in samples.items()}
        late = behind(samples)
        wrong += not all(error < 0.01 for error in errors.values()) or "Switchyard" not in times
        records.append(
            {
                "call": call.name,
                "us": times,
                "rounds": samples,
                "errors": errors,
                "behind": late,
                "why": why,
                "tflops": {name: flops(call) / time / 1e6 for name, time in times.items()},
                "problems": problems,
            }
        )
        ratios = [time / times["Switchyard"] for name, time in times.items() if name != "Switchyard" and "Switchyard" in times]
        print(
            f"{call.name:50} "
            + " ".join(f"{name} {flops(call) / time / 1e6:6.1f}" for name, time in times.items())
            + f"  {min(ratios, default=math.nan):5.2f}  "
            + " ".join(f"{error:.1e}" for error in errors.values())
            + f"  {'behind ' + ', '.join(late) if late else ''}  {why or problems.get('Switchyard', '')}",
            flush=True,
        )
        records[-1]["sustained"] = report_load(options, runs, times, meter)
        del t, dout, runs
    for peer in ("FlashAttention-4", "cuDNN"):
        found = [(r["us"][peer] / r["us"]["Switchyard"], r["call"]) for r in records if {peer, "Switchyard"} <= r["us"].keys()]
        if found:
            mean = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
            print(
                f"{peer}: {len(found)} calls, {mean:.3f} of our time in the geometric mean, least {min(found)[0]:.3f} at "
                f"{min(found)[1]}; ours behind in {sum(peer in r['behind'] for r in records)}"
            )
    save(options, records, meter)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
