# SPDX-License-Identifier: MIT
"""Times models as benchmark.py does, with the peers in turns: each is a process of its own, which has compiled and warmed
up before the first is timed.

    python tests/torch/benchmark_turns.py --out results.jsonl [--models llama,qwen3] [--peers "switchyard,compile is_causal"]
        [--cells prefill:512,decode:1] [--rounds 12] [--runs 4] [--ready-s 240] [--sustained SECONDS]
        [--turns 3]

Launching kernels bounds short prompts, and a virtual machine's processors change their speed from minute to minute by
more than peers differ. --out gets benchmark.py's lines, one for each cell and peer: medians of all rounds.
A peer that fails, or is not ready in time, is named. With --sustained, each peer also keeps the device busy for so many seconds a
turn, back to back; the line's "sustained" has the milliseconds of a run then, its energy, the power and the clock, as
tests/benchmarks/under_load.py takes them. --small measures tiny models on the CPU, to test this program.
"""

import argparse
import contextlib
import json
import os
import select
import statistics
import subprocess
import sys
import time
import types

from benchmark import names

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "benchmarks"))
import energy
import under_load


class Runs:
    """A function as work for under_load.py."""

    def __init__(self, bench, function):
        self.bench, self.function = bench, function
        self.calls = max(1, round(under_load.CHUNK_US / 1e3 / max(bench.once(function)[0], 1e-3)))

    def enqueue(self):
        if not self.bench.small:
            return under_load.launched(self.function, self.calls)
        begin = time.perf_counter()
        for _ in range(self.calls):
            self.function()
        took = (time.perf_counter() - begin) * 1e3
        return lambda: took


def child(given) -> None:
    """One peer: prepares its cells, then answers 'run CELL N', 'sustain CELL SECONDS' and 'kernels CELL' by a line of JSON."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    import benchmark
    import benchmark_models as known

    bench = benchmark.Bench(types.SimpleNamespace(small=given.small, out=os.devnull, budget_s=0))
    prepared, problems = {}, {}

    def answer(what) -> None:
        answers.write(json.dumps(what) + "\n")

    config = known.configurations(given.small)[given.models[0]]
    make, is_compiled, _ = known.PEERS[given.peers[0]]
    with known.restored_module(config), bench.cudnn_first():
        try:
            model = make(config, bench.device)
            run = bench.compiled(model) if is_compiled else model
        except Exception as failure:
            problems = dict.fromkeys(given.cells, f"{type(failure).__name__}: {failure}"[:160])
        for cell in () if problems else given.cells:

            def keep(function, repeats, cell=cell):  # in place of Bench.measure
                for _ in range(4):
                    function()
                bench.synchronize()
                prepared[cell] = function
                return {}

            bench.measure = keep
            part, size = cell.split(":")
            try:
                getattr(bench, part)(run, int(size))
            except Exception as failure:
                problems[cell] = f"{type(failure).__name__}: {failure}"[:160]
        meter = energy.Meter(None if given.small else bench.torch.cuda.current_device())
        answer(problems)
        for line in sys.stdin:
            what, cell, *count = line.split()
            function = prepared[cell]
            if what == "run":
                function()
                answer([bench.once(function) for _ in range(int(count[0]))])
            elif what == "sustain":
                answer(vars(under_load.stretch(Runs(bench, function), float(count[0]), meter)))
            else:
                answer({"peak_gib": bench.peak(function), "kernels": bench.kernels(function)})


class Peer:
    """A child, seen from the parent."""

    def __init__(self, given, model: str, peer: str):
        command = [sys.executable, __file__, "--child", "--models", model, "--peers", peer, "--cells", ",".join(given.cells)]
        self.what = {"kind": "model", "model": model, "peer": peer}
        self.process = subprocess.Popen(
            command + ["--small"] * given.small, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question: str, seconds: float):
        """The child's answer; None, and the child is ended, where it has none in time."""
        with contextlib.suppress(OSError, ValueError):
            if question:
                self.process.stdin.write(question + "\n")
                self.process.stdin.flush()
            if select.select([self.process.stdout], [], [], seconds)[0]:
                return json.loads(self.process.stdout.readline())
        self.process.kill()
        return None


def sustained(given, peers, cell: str) -> list:
    """The turns under load of each peer; none unless they are asked for, or where one fails."""
    out = [[] for _ in peers]
    for i in range(given.turns if given.sustained else 0):
        for n in range(len(peers)):
            which = (i + n) % len(peers)
            turn = peers[which].ask(f"sustain {cell} {given.sustained}", 60 + 2 * given.sustained)
            out[which] += [under_load.Stretch(**turn)] if turn else []
    return out


def measure(given, write) -> None:
    peers = [Peer(given, model, peer) for model in given.models for peer in given.peers]
    try:
        end = time.monotonic() + given.ready_s
        cells = {}
        for peer in peers:
            problems = peer.ask("", max(0.1, end - time.monotonic()))
            if problems is None:
                problems = dict.fromkeys(given.cells, f"not ready in {given.ready_s:g} s")
            for cell in given.cells:
                part, size = cell.split(":")
                if cell in problems:
                    write(**peer.what, part=part, size=int(size), failed=problems[cell])
                else:
                    cells.setdefault((peer.what["model"], part, int(size)), []).append(peer)
        for (_, part, size), able in cells.items():
            found = [[] for _ in able]
            for _ in range(given.rounds):
                for peer, runs in zip(able, found, strict=True):
                    runs += peer.ask(f"run {part}:{size} {given.runs}", 60) or []
            load = sustained(given, able, f"{part}:{size}")
            for peer, runs, turns in zip(able, found, load, strict=True):
                seen = peer.ask(f"kernels {part}:{size}", 60) if runs else None
                if seen is None:
                    write(**peer.what, part=part, size=size, failed="its process ended")
                else:
                    ms, host = map(statistics.median, zip(*runs, strict=True))
                    if turns:
                        seen["sustained"] = under_load.summary(turns)
                        print("   ", under_load.text_of({peer.what["peer"]: seen["sustained"]}, ""))
                    write(**peer.what, part=part, size=size, ms=ms, host_ms=host, **seen)
    finally:
        for peer in peers:
            peer.process.kill()
            peer.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=names, default=["llama", "qwen3"])
    parser.add_argument(
        "--peers", type=names, default=["compile is_causal", "liger", "switchyard", "switchyard merged", "switchyard compile"]
    )
    parser.add_argument(
        "--cells", type=names, default=["prefill:512"], help="parts and sizes, for example prefill:512,decode:1"
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--runs", type=int, default=4, help="single runs of a peer in each round")
    parser.add_argument("--ready-s", type=float, default=240.0, help="how long peers may take until they are ready")
    under_load.add_options(parser)
    parser.add_argument("--out", default="benchmark.jsonl", help="JSON lines are appended")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given)
        return
    import benchmark

    bench = benchmark.Bench(given)
    bench.machine()
    measure(given, bench.write)


if __name__ == "__main__":
    main()
