# SPDX-License-Identifier: MIT
"""Contenders under load, in turns: each keeps the device busy for seconds, back to back, so that it is as warm and as limited in
power as in an engine that serves. For each turn: microseconds and millijoules of a call, watts, and the clock. A power limit lowers
clocks under load, so this may rank contenders otherwise than short runs with pauses do.
"""

import argparse
import collections
import contextlib
import statistics
import time
from dataclasses import dataclass

from energy import Unavailable

CHUNK_US = 20e3  # of work that is given to the device at once
AHEAD = 3  # chunks that wait in its queue
SETTLE_S = 0.3  # until clocks and the counter follow the load


@dataclass
class Stretch:
    """One turn of a contender."""

    us: float  # of a call
    watts: float = None
    mj: float = None  # of a call
    mhz: float = 0
    why: str = ""  # there is no energy


def launched(launch, count):
    """Gives the device a chunk, `count` launches on PyTorch's current stream: a function that waits for it, and returns
    its milliseconds."""
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        launch()
    end.record()

    def wait():
        end.synchronize()
        return begin.elapsed_time(end)

    return wait


class GraphWork:
    """Calls on a CUDA device of PyTorch, as a graph where they can be captured. A chunk is a number of them."""

    def __init__(self, run, warm_us):
        import torch

        self.call, self.is_graph = run, True
        per_graph = max(1, min(16, round(200 / max(warm_us, 1))))  # a graph's launch shall not count
        try:
            graph = torch.cuda.CUDAGraph()
            stream = torch.cuda.current_stream()  # a backward runs on the stream of its forward
            if stream == torch.cuda.default_stream():
                raise RuntimeError("the default stream cannot be captured")
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                for _ in range(per_graph):
                    run()
            self.graph, self.call = graph, graph.replay
        except Exception:  # pylint: disable=broad-except  (what cannot be captured is launched)
            torch.cuda.synchronize()
            self.is_graph, per_graph = False, 1
        self.launches = max(1, round(CHUNK_US / max(warm_us * per_graph, 1)))
        self.calls = self.launches * per_graph

    def enqueue(self):
        return launched(self.call, self.launches)


def stretch(work, seconds, meter):
    """One turn. `work.enqueue()` gives the device `work.calls` calls, and returns what waits for them."""
    queue, chunks = collections.deque(), []

    def finish():
        begun, wait = queue.popleft()
        milliseconds = wait()
        chunks.append((begun, time.monotonic(), milliseconds))

    with meter.watch() as seen:
        begin = time.monotonic()
        while time.monotonic() < begin + SETTLE_S + seconds:
            queue.append((time.monotonic(), work.enqueue()))
            if len(queue) >= AHEAD:
                finish()
        end = time.monotonic()  # the device has work beyond this
        while queue:
            finish()
    settled = [ms for begun, done, ms in chunks if begun >= begin + SETTLE_S and done <= end]
    counted = settled or [ms for _, _, ms in chunks]
    out = Stretch(1e3 * statistics.fmean(counted) / work.calls, mhz=seen.clock(begin + SETTLE_S, end))
    try:
        out.watts = seen.power(begin + SETTLE_S, end)
        out.mj = out.watts * out.us / 1e3
    except Unavailable as problem:
        out.why = str(problem)
    return out


def in_turns(works, rounds, seconds, meter):
    """The turns of each contender. Every round begins with another one."""
    out = {name: [] for name in works}
    names = list(works)
    for i in range(rounds):
        first = i % max(1, len(names))
        for name in names[first:] + names[:first]:
            out[name].append(stretch(works[name], seconds, meter))
    return out


def spread(values):
    """Half of the range, as a share of the median."""
    return (max(values) - min(values)) / 2 / statistics.median(values)


def summary(turns):
    """Medians over turns, and their spread; energy only where each turn has it."""
    out = {"us": statistics.median(turn.us for turn in turns), "us_spread": spread([turn.us for turn in turns])}
    if mhz := [turn.mhz for turn in turns if turn.mhz]:
        out["mhz"] = statistics.median(mhz)
    if why := next((turn.why for turn in turns if turn.why), ""):
        return out | {"no_energy": why}
    return out | {
        "mj": statistics.median(turn.mj for turn in turns),
        "mj_spread": spread([turn.mj for turn in turns]),
        "watts": statistics.median(turn.watts for turn in turns),
    }


def text_of(summaries, ours="Switchyard"):
    """A line: each contender's figures, and the best peer's time and energy over ours."""
    parts = []
    for name, found in summaries.items():
        name += "" if found.get("graph", True) else " (no graph)"
        part = f"{name} {found['us']:.1f} us (+-{100 * found['us_spread']:.1f} %)"
        if "mj" in found:
            part += f" {found['mj']:.4g} mJ (+-{100 * found['mj_spread']:.1f} %) {found['watts']:.0f} W"
        if "mhz" in found:
            part += f" {found['mhz']:.0f} MHz"
        parts.append(part)
    line = "sustained: " + ", ".join(parts)
    for what, unit in (("us", "time"), ("mj", "energy")):
        peers = [found[what] for name, found in summaries.items() if name != ours and what in found]
        if peers and what in summaries.get(ours, {}):
            line += f"; best peer's {unit} over ours {min(peers) / summaries[ours][what]:.3f}"
    if why := sorted({found["no_energy"] for found in summaries.values() if "no_energy" in found}):
        line += "; no energy: " + "; ".join(why)
    return line


def figures(options, runs, us, meter):
    """What contenders do under load, and whether their calls are replayed from a graph; nothing unless `options` ask for it.
    `us`: about what their calls take."""
    if not options.sustained:
        return {}
    works = {name: GraphWork(run, us[name]) for name, run in runs.items()}
    turns = in_turns(works, options.turns, options.sustained, meter)
    return {name: summary(turns[name]) | {"graph": work.is_graph} for name, work in works.items()}


def seconds_of(text):
    with contextlib.suppress(ValueError):
        if 0 <= float(text) <= 3600:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected 0 to 3600 seconds, got '{text}'")


def count_of(text):
    with contextlib.suppress(ValueError):
        if int(text) >= 1:
            return int(text)
    raise argparse.ArgumentTypeError(f"expected 1 or more, got '{text}'")


def add_options(parser):
    parser.add_argument("--sustained", type=seconds_of, default=0, metavar="SECONDS", help="of a turn under load; 0: none")
    parser.add_argument("--turns", type=count_of, default=3, help="of each contender under load")
