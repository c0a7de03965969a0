# SPDX-License-Identifier: MIT
"""Which kernel serves a call, and why; loading it ahead of the call; whether a call is legal."""

import json
from collections.abc import Callable
from contextlib import contextmanager

from ._library import library

_LAUNCH, _EXPLAIN, _PREPARE, _CHECK = range(4)


@contextmanager
def _call_mode(value: int):
    library.switchyard_torch_set_call_mode(value)
    try:
        yield
    finally:
        library.switchyard_torch_set_call_mode(_LAUNCH)


def explain(op: Callable, *args, **kwargs) -> dict:
    """Returns which kernel would serve `op(*args, **kwargs)`, without running it.

    `op` is a function of `switchyard.torch` or an op of `torch.ops.switchyard`; the arguments are those of the
    call, with tensors on the device in question. The dict has: `operator`, `problem` (the call's axes), `device`,
    `variant`, `config`, `target`, `reason` (exact, interpolated, extrapolated, other_device, heuristic, forced,
    pinned, or none where nothing serves), `sentence`, `microseconds` (measured or predicted; 0: unknown),
    `manifest`, `reproducible` (the variant's class, see reproducible()), `table`, `row`, `launches`, and `candidates`, each
    with `reproducible`, `admissible` and the `obstacle` that excludes it. Raises RuntimeError for an illegal call,
    ValueError where `op` calls no operator.
    """
    with _call_mode(_EXPLAIN):
        op(*args, **kwargs)
        lines = library.switchyard_torch_explanations().decode().splitlines()
    if not lines:
        raise ValueError(f"{op} called no operator of Switchyard with these arguments")
    return json.loads(lines[-1])


def prepare(op: Callable, *args, **kwargs) -> None:
    """Loads what `op(*args, **kwargs)` needs, without running it. Use it before a CUDA graph capture or the first request.

    A call that has run once needs no preparation. Raises what the call would raise.
    """
    with _call_mode(_PREPARE):
        op(*args, **kwargs)


def check(op: Callable, *args, **kwargs) -> None:
    """Checks `op(*args, **kwargs)` without running it, as SWITCHYARD_CHECK=1 checks every call.

    Reads lengths, page numbers, positions, slots and ids from the device, and waits for them. Raises RuntimeError with what is
    wrong: `[switchyard.307]` where a number is illegal on a GPU, `[switchyard.301]` on the CPU.
    """
    with _call_mode(_CHECK):
        op(*args, **kwargs)


def generation() -> int:
    """A number that changes when the choice of kernels may have changed: capture CUDA graphs again then."""
    return library.switchyard_torch_generation()


def reload() -> None:
    """Reloads kernels and tables that changed on disk. Raises RuntimeError if some cannot be used."""
    if library.switchyard_torch_reload() != 0:
        raise RuntimeError("some files could not be used: their previous versions stay active, see the warnings")
