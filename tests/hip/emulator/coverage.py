#!/usr/bin/env python3
"""Says how much of what is shipped was emulated: coverage.py <kernels> <architecture> <counts> <operator>...

Reads what the emulator's runs of the operators wrote. Fails where less than LEAST of their kernels were run.
"""

import json
import pathlib
import sys

LEAST = 0.9  # which of its kernels a variant launches depends on the calls that are drawn


def kernels_of(operator, data, architecture):
    manifest = data / "kernels" / operator / f"hip-{architecture}" / "manifest.json"
    if not manifest.exists():
        return set()
    found = set()

    def walk(value):
        if isinstance(value, dict):
            if isinstance(value.get("kernel"), str):
                found.add(value["kernel"])
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(json.loads(manifest.read_text(encoding="utf-8")))
    return found


def main():
    data, architecture, counts, operators = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4:]
    shipped = {operator: kernels_of(operator, data, architecture) for operator in operators}
    if not any(shipped.values()):
        print(f"skipped: no kernels for {architecture}")
        return 77
    run, kinds, occurring = set(), set(), set()
    for operator in operators:
        file = counts / f"{operator}.txt"
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            what, name = line.split()[:2]
            {"kernel": run, "instruction": kinds, "occurs": occurring}[what].add(name)
    missing = sorted(name for names in shipped.values() for name in names - run)
    total = sum(map(len, shipped.values()))
    print(f"{architecture}: {total - len(missing)} of {total} kernels run, "
          f"{len(kinds & occurring)} of {len(occurring)} kinds of instruction that occur in them")
    print("kinds of instruction not run:", " ".join(sorted(occurring - kinds)) or "none")
    for name in missing:
        print(f"not run: {name}")
    print(f"{total} checks")
    return 1 if len(missing) > (1 - LEAST) * total else 0


if __name__ == "__main__":
    sys.exit(main())
