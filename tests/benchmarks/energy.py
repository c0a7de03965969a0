# SPDX-License-Identifier: MIT
"""The energy that a GPU takes, by the counter that NVML reads (millijoules since the driver was loaded), with clocks and the power
limit. libnvidia-ml is opened by ctypes. Where it is missing, or the device has no counter, `Meter.problem` says so and nothing is
measured; times are measured all the same.
"""

import contextlib
import ctypes
import statistics
import threading
import time
import uuid
from dataclasses import dataclass, field

POLL_S = 0.004  # far below the counter's period, which is 20 to 100 ms
LEAST_PERIODS = 10  # of the counter, in what is measured: its edges are known to a poll, so that the power is known to 2 %
SM_CLOCK = 1  # NVML_CLOCK_SM
LIMITS = {"power": 0x4 | 0x80, "temperature": 0x20 | 0x40}  # nvmlClocksThrottleReason...: caps of software and of hardware


class Unavailable(Exception):
    """Why the energy cannot be measured."""


def opened(name):
    try:
        return ctypes.CDLL(name)
    except OSError as problem:
        raise Unavailable(f"{name} cannot be opened: {problem}") from None


def uuid_of(driver, ordinal):
    """The device that CUDA counts as `ordinal`, behind CUDA_VISIBLE_DEVICES, as NVML names it."""
    device, number = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    for call, arguments in (("cuInit", (0,)), ("cuDeviceGet", (ctypes.byref(device), ordinal))):
        if code := getattr(driver, call)(*arguments):
            raise Unavailable(f"{call} answers {code}")
    if code := driver.cuDeviceGetUuid_v2(ctypes.byref(number), device):
        raise Unavailable(f"cuDeviceGetUuid answers {code}")
    return f"GPU-{uuid.UUID(bytes=bytes(number))}"


@dataclass
class Watch:
    """What was read while work ran: the counter's edges, and clocks."""

    edges: list = field(default_factory=list)  # (seconds, millijoules) when the counter changed
    mhz: list = field(default_factory=list)  # (seconds, clock)
    problem: str = ""

    def power(self, begin, end):
        """Watts between the first and the last edge in this time. Throws Unavailable."""
        if self.problem:
            raise Unavailable(self.problem)
        inside = [edge for edge in self.edges if begin <= edge[0] <= end]
        if len(inside) < 2:
            raise Unavailable(f"the energy counter changed {len(inside)} times in {end - begin:.2g} s")
        periods = [b[0] - a[0] for a, b in zip(inside, inside[1:])]
        (first, from_mj), (last, to_mj) = inside[0], inside[-1]
        if last - first < LEAST_PERIODS * statistics.median(periods):
            raise Unavailable(
                f"{end - begin:.2g} s are too short for a counter that changes each {1e3 * statistics.median(periods):.0f} ms"
            )
        if to_mj <= from_mj:
            raise Unavailable("the energy counter runs backwards: the driver was loaded again")
        return (to_mj - from_mj) / 1e3 / (last - first)

    def clock(self, begin, end):
        """The median clock of the multiprocessors in this time; 0 if unknown."""
        return statistics.median([mhz for at, mhz in self.mhz if begin <= at <= end] or [0])


class Meter:
    """The counter of one GPU, by CUDA's number; none: the CPU. `problem` says why nothing is read."""

    def __init__(self, ordinal=0, management="libnvidia-ml.so.1", driver="libcuda.so.1"):
        self.problem = ""
        try:
            if ordinal is None:
                raise Unavailable("the energy of a CPU is not measured")
            self.library = opened(management)
            self.ask("nvmlInit_v2")
            self.handle = ctypes.c_void_p()
            self.uuid = uuid_of(opened(driver), ordinal)
            self.ask("nvmlDeviceGetHandleByUUID", self.uuid.encode(), ctypes.byref(self.handle))
            self.millijoules()
        except (Unavailable, AttributeError) as problem:  # ctypes names a function that a library lacks
            self.problem = str(problem)

    def ask(self, function, *arguments):
        if code := getattr(self.library, function)(*arguments):
            text = getattr(self.library, "nvmlErrorString", None)
            if text is not None:
                text.restype = ctypes.c_char_p
                text = text(code).decode()
            raise Unavailable(f"{function}: {text or code}")

    def millijoules(self):
        value = ctypes.c_ulonglong()
        self.ask("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(value))
        return value.value

    def read(self, function, *arguments, kind=ctypes.c_uint):
        """A number that not every device tells; none where it does not."""
        value = kind()
        with contextlib.suppress(Unavailable, AttributeError):
            self.ask(function, self.handle, *arguments, ctypes.byref(value))
            return value.value
        return None

    def clock(self):
        return self.read("nvmlDeviceGetClockInfo", SM_CLOCK)

    def limit_watts(self):
        """What the device may take; none if unknown."""
        limit = None if self.problem else self.read("nvmlDeviceGetEnforcedPowerLimit")
        return limit / 1e3 if limit else None

    def limited_by(self):
        """What holds the clocks down now."""
        bits = 0 if self.problem else self.read("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)
        return [name for name, of in LIMITS.items() if (bits or 0) & of]

    @contextlib.contextmanager
    def watch(self):
        """Reads the counter in a thread of its own, as long as the block runs."""
        out, stop = Watch(problem=self.problem), threading.Event()

        def poll():
            last = None
            while not stop.wait(POLL_S):
                try:
                    now = self.millijoules()
                except Unavailable as problem:
                    out.problem = str(problem)
                    return
                at = time.monotonic()
                if now != last:
                    if last is not None:  # when the first value came is not known
                        out.edges.append((at, now))
                    last = now
                    clock = self.clock()
                    if clock:
                        out.mhz.append((at, clock))

        thread = None if self.problem else threading.Thread(target=poll, daemon=True)
        if thread:
            thread.start()
        try:
            yield out
        finally:
            stop.set()
            if thread:
                thread.join()
