#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Says how much of what is shipped was emulated: coverage.py <kernels> <architecture> <counts> <least> <operator>...

Reads what the emulator and the tests wrote of their runs, names the kernels that were not compared in two orders and the
tests that failed. Fails where less than <least> per cent of the variants were run, each with all of its kernels.
"""

import json
import pathlib
import sys


def kernels_in(value):
    """The kernels that a part of a manifest launches: SHA-256 of the blob, and name."""
    if isinstance(value, dict):
        if "kernel" in value:
            yield value["sha256"], value["kernel"]
        for inner in value.values():
            yield from kernels_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from kernels_in(inner)


def variants_of(operator, data, architecture):
    manifest = data / "kernels" / operator / f"hip-{architecture}" / "manifest.json"
    if not manifest.exists():
        return []
    return [
        (operator, one["id"], frozenset(kernels_in(one)))
        for one in json.loads(manifest.read_text(encoding="utf-8"))["variants"]
    ]


def endings(counts, operators):
    """The tests that did not pass, each with how it ended."""
    found = {}
    for operator in ("shipped", *operators):
        file = counts / f"{operator}.status"
        ending = file.read_text(encoding="utf-8").strip() if file.exists() else "did not run to its end"
        if ending != "passed":
            found[operator] = ending
    return found


def main():
    data, architecture, counts = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    least, operators = float(sys.argv[4]) / 100, sys.argv[5:]
    shipped = [one for operator in operators for one in variants_of(operator, data, architecture)]
    if not shipped:
        print(f"skipped: no kernels for {architecture}")
        return 77
    not_passed = endings(counts, operators)
    if len(not_passed) == len(operators) + 1 and set(not_passed.values()) == {"did not run to its end"}:
        print(f"skipped: no test of {architecture} ran")
        return 77
    seen = {word: set() for word in ("kernel", "variant", "instruction", "occurs", "agrees", "uncompared")}
    for operator in ("shipped", *operators):
        for file in (counts / f"{operator}.txt", counts / f"{operator}.variants.txt"):
            for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
                word, *names = line.split()
                seen[word].add(names[0] if word in ("instruction", "occurs") else tuple(names[:2]))
    kernels = {kernel for _, _, launched in shipped for kernel in launched}
    missing = [one for one in shipped if one[:2] not in seen["variant"] or one[2] - seen["kernel"]]
    occurring, run = seen["occurs"], seen["instruction"] & seen["occurs"]
    print(
        f"{architecture}: {len(shipped) - len(missing)} of {len(shipped)} variants run, "
        f"{len(kernels & seen['kernel'])} of {len(kernels)} kernels, "
        f"{len(run)} of {len(occurring)} kinds of instruction that occur in what is shipped"
    )
    run_of_shipped = kernels & seen["kernel"]
    in_any_order = run_of_shipped & seen["uncompared"]
    in_one_order = run_of_shipped - seen["agrees"] - in_any_order
    print(
        f"{architecture}: {len(run_of_shipped & seen['agrees'])} of {len(run_of_shipped)} kernels write the same in two orders; "
        f"not compared: {len(in_any_order)} that sum floats in any order, {len(in_one_order)} that were launched with one wave"
    )
    for _, kernel in sorted(in_any_order | in_one_order):
        print("not compared:", kernel)
    for operator, ending in not_passed.items():
        print(f"emulator.{architecture}.{operator}: {ending}")
    print("kinds of instruction not run:", " ".join(sorted(occurring - run)) or "none")
    for operator, name, launched in missing:
        print(f"not run: {operator} {name}", *sorted({kernel for _, kernel in launched - seen["kernel"]}))
    print(f"{len(shipped)} checks")
    return 1 if len(missing) > (1 - least) * len(shipped) else 0


if __name__ == "__main__":
    sys.exit(main())
