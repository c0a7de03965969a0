# SPDX-License-Identifier: MIT
"""The energy of contenders under load, over an NVML of two invented devices and works that sleep.   test_energy.py FAKE_NVML"""

import argparse
import contextlib
import os
import subprocess
import sys
import time
import types

import energy
import under_load
from under_load import Stretch

LIBRARY = sys.argv[1]
failures, checked = [], [0]


def check(holds, description):
    checked[0] += 1
    if not holds:
        failures.append(description)
        print("FAILED:", description)


def near(found, wanted, share):
    return found is not None and abs(found - wanted) <= share * wanted


class Sleeper:
    """Work of so many calls a chunk, each of some microseconds. Nothing runs ahead: a chunk begins when the one before ends."""

    def __init__(self, us, calls=20, chunks=None):
        self.us, self.calls, self.free_at, self.chunks = us, calls, 0.0, 0 if chunks is None else chunks

    def enqueue(self):
        begin = max(time.monotonic(), self.free_at)
        self.free_at = end = begin + self.us * self.calls / 1e6
        self.chunks += 1

        def wait():
            time.sleep(max(0.0, end - time.monotonic()))
            return (end - begin) * 1e3

        return wait


def meter(ordinal=0):
    return energy.Meter(ordinal, LIBRARY, LIBRARY)


def under(how, code, **variables):
    """What a program prints under another environment; a library's state lasts as long as its process."""
    head = f"import energy, under_load, sys; sys.argv = ['', {LIBRARY!r}]\nfrom test_energy import *\n"
    environment = {**os.environ, "FAKE_NVML": how, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)), **variables}
    done = subprocess.run([sys.executable, "-c", head + code], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() + done.stderr.strip()


def test_energy_of_a_call():
    for ordinal, watts in ((0, 100), (1, 400)):
        one = meter(ordinal)
        check(one.problem == "", one.problem)
        turn = under_load.stretch(Sleeper(1000), 1.0, one)
        check(near(turn.us, 1000, 0.02), f"device {ordinal}: {turn}")
        check(near(turn.watts, watts, 0.1) and near(turn.mj, watts, 0.1), f"device {ordinal}: {turn}")
        check(turn.mhz == 1410 and turn.why == "", f"device {ordinal}: {turn}")
        check((one.limit_watts(), one.limited_by()) == (700, ["power"]), one.limit_watts())
    # By UUID: what CUDA calls 0 may be NVML's 1.
    code = "print(round(under_load.stretch(Sleeper(1000), 0.6, meter()).watts / 40))"
    check(under("", code, CUDA_VISIBLE_DEVICES="1") == "10", "another device was read than CUDA's")


def test_turns():
    works = {"Switchyard": Sleeper(1000), "peer": Sleeper(2000, calls=10), "other": Sleeper(500)}
    order = []
    for name, work in works.items():
        plain = work.enqueue
        work.enqueue = lambda name=name, plain=plain: order.append(name) or plain()
    turns = under_load.in_turns(works, 3, 0.3, meter(1))
    check([len(of) for of in turns.values()] == [3, 3, 3], turns)
    began = [name for before, name in zip([None, *order], order) if name != before]
    check(began == ["Switchyard", "peer", "other", "peer", "other", "Switchyard", "other", "Switchyard", "peer"], began)
    found = {name: under_load.summary(of) for name, of in turns.items()}
    check(near(found["peer"]["us"] / found["Switchyard"]["us"], 2, 0.04), found)
    check(all(near(one["watts"], 400, 0.1) for one in found.values()), found)
    text = under_load.text_of(found)
    check("best peer's time over ours 0.5" in text and "best peer's energy over ours 0." in text, text)
    check(" mJ (+-" in text and " W 1410 MHz" in text and "no energy" not in text, text)


def test_summary():
    turns = [Stretch(10, 500, 5.0, 1400), Stretch(12, 520, 6.24, 1300), Stretch(11, 510, 5.61, 1500)]
    found = under_load.summary(turns)
    check((found["us"], found["mj"], found["watts"], found["mhz"]) == (11, 5.61, 510, 1400), found)
    check(near(found["us_spread"], 1 / 11, 1e-9) and near(found["mj_spread"], 0.62 / 5.61, 1e-9), found)
    # A turn without energy leaves the figure empty, with the reason; times stay.
    found = under_load.summary([*turns, Stretch(11, why="the GPU went away")])
    check("mj" not in found and found["no_energy"] == "the GPU went away" and found["us"] == 11, found)
    text = under_load.text_of({"Switchyard": found, "peer": under_load.summary(turns)})
    check("energy over ours" not in text and text.endswith("; no energy: the GPU went away"), text)
    check("Switchyard 11.0 us (+-9.1 %) 1400 MHz" in text, text)


def test_without_energy():
    missing = energy.Meter(0, "libno-such-nvml.so.1", LIBRARY)
    check("libno-such-nvml.so.1 cannot be opened" in missing.problem, missing.problem)
    turn = under_load.stretch(Sleeper(1000), 0.2, missing)
    check(near(turn.us, 1000, 0.03) and turn.mj is None and turn.watts is None and turn.why == missing.problem, turn)
    check((missing.limit_watts(), missing.limited_by(), turn.mhz) == (None, [], 0), turn)
    check(energy.Meter(None).problem == "the energy of a CPU is not measured", "a CPU")
    lacking = energy.Meter(0, "libc.so.6", LIBRARY)
    check("nvmlInit_v2" in lacking.problem, lacking.problem)
    check("libno-such-cuda.so.1 cannot be opened" in energy.Meter(0, LIBRARY, "libno-such-cuda.so.1").problem, "no driver")
    check("cuDeviceGet answers 101" in meter(2).problem, "no such device")
    for how, said in (
        ("no_init", "nvmlInit_v2: Uninitialized"),
        ("stranger", "nvmlDeviceGetHandleByUUID: Not Found"),
        ("no_counter", "nvmlDeviceGetTotalEnergyConsumption: Not Supported"),
    ):
        found = under(how, "print(meter().problem)")
        check(found == said, f"{how}: {found}")
    for how, said in (
        ("frozen", "the energy counter changed 0 times in 1.2 s"),
        ("lost", "nvmlDeviceGetTotalEnergyConsumption: GPU is lost"),
        ("restarted", "the energy counter runs backwards"),
    ):
        found = under(
            how, "turn = under_load.stretch(Sleeper(1000), 1.2, meter()); print(turn.mj, round(turn.us, -2), turn.why)"
        )
        check(found.startswith("None 1000.0 " + said), f"{how}: {found}")
    found = under("", "turn = under_load.stretch(Sleeper(1000), 0.12, meter()); print(turn.mj, turn.why)")
    check(found.startswith("None 0.12 s are too short for a counter that changes each "), found)
    found = under(
        "taciturn",
        "turn = under_load.stretch(Sleeper(1000), 0.6, meter()); print(turn.mhz, meter().limit_watts(), turn.mj > 0)",
    )
    check(found == "0 None True", found)


def test_options():
    parser = argparse.ArgumentParser(exit_on_error=False)
    under_load.add_options(parser)
    found = parser.parse_args(["--sustained", "2.5", "--turns", "4"])
    check((found.sustained, found.turns) == (2.5, 4), found)
    for words, said in (
        (("--sustained", "-1"), "expected 0 to 3600 seconds, got '-1'"),
        (("--sustained", "nan"), "expected 0 to 3600 seconds, got 'nan'"),
        (("--sustained", "2s"), "expected 0 to 3600 seconds, got '2s'"),
        (("--turns", "0"), "expected 1 or more, got '0'"),
        (("--turns", "two"), "expected 1 or more, got 'two'"),
    ):
        try:
            check(False, f"{words} gives {parser.parse_args(words)}")
        except argparse.ArgumentError as problem:
            check(said in str(problem), f"{words}: {problem}")


class Event:
    """Of a torch whose time passes as calls are made."""

    now = 0.0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = Event.now

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return end.at - self.at


def fake_torch(stream, can_capture=True):
    graphs = []

    class Graph:
        def __init__(self):
            self.milliseconds = 0.0
            graphs.append(self)

        def replay(self):
            Event.now += self.milliseconds

    @contextlib.contextmanager
    def capture(graph, stream):
        assert stream == "side"
        if not can_capture:
            raise RuntimeError("operation not permitted when stream is capturing")
        begin = Event.now
        yield
        graph.milliseconds, Event.now = Event.now - begin, begin

    cuda = types.SimpleNamespace(Event=Event, CUDAGraph=Graph, graph=capture, synchronize=lambda: None,
                                 current_stream=lambda: stream, default_stream=lambda: "default")  # fmt: skip
    return types.SimpleNamespace(cuda=cuda), graphs


def test_graphs():
    calls = []

    def run(us):
        calls.append(us)
        Event.now += us / 1e3

    for us, stream, can_capture, is_graph, launches, each in (
        (500.0, "side", True, True, 40, 1),
        (10.0, "side", True, True, 125, 16),
        (100000.0, "side", True, True, 1, 1),
        (10.0, "side", False, False, 2000, 1),
        (10.0, "default", True, False, 2000, 1),
    ):
        sys.modules["torch"], graphs = fake_torch(stream, can_capture)
        calls.clear()
        work = under_load.GraphWork(lambda us=us: run(us), us)
        check((work.is_graph, work.launches, work.calls) == (is_graph, launches, launches * each), f"{us}: {vars(work)}")
        captured = len(calls)
        check(captured == (each if is_graph else 0), f"{us}: {captured} calls were captured")
        milliseconds = work.enqueue()()
        check(near(milliseconds * 1e3 / work.calls, us, 1e-6), f"{us}: {milliseconds} ms of {work.calls} calls")
        check(len(calls) - captured == (0 if is_graph else work.calls), f"{us}: {len(calls)} calls")
    # All of it, as the benchmarks call it: nothing unless it is asked for, and what was not captured is named.
    sys.modules["torch"], _ = fake_torch("side")
    works = {name: Sleeper(us) for name, us in (("Switchyard", 1000), ("peer", 3000))}
    made = []

    def graph_work(run, us):
        made.append((run, us))
        works[run].is_graph = run == "peer"
        return works[run]

    real, under_load.GraphWork = under_load.GraphWork, graph_work
    runs, times = {"Switchyard": "Switchyard", "peer": "peer"}, {"Switchyard": 990.0, "peer": 2990.0}
    options = types.SimpleNamespace(sustained=0, turns=2)
    check(under_load.figures(options, runs, times, meter()) == {} and not made, "what nobody asked for")
    options.sustained = 0.3
    found = under_load.figures(options, runs, times, meter())
    check(made == [("Switchyard", 990.0), ("peer", 2990.0)], made)
    check([one["graph"] for one in found.values()] == [False, True] and all("mj" in one for one in found.values()), found)
    check("Switchyard (no graph) 1000.0 us" in under_load.text_of(found), under_load.text_of(found))
    under_load.GraphWork = real
    del sys.modules["torch"]


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
    print(f"{checked[0]} checks, {len(failures)} failed")
    sys.exit(1 if failures else 0)
