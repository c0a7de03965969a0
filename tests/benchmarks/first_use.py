# SPDX-License-Identifier: MIT
"""Measures an operator's first use in fresh processes, on generated sets, and prints each figure beside its bound;
exit status 1 when one is missed.

  first_use.py PROGRAM BLOB

Figures are medians of seven processes.
"""

import pathlib
import statistics
import subprocess
import sys
import tempfile

GENERATOR = pathlib.Path(__file__).with_name("large_set.py")
PROCESSES = 7
NAMES = {
    "large": "6,598 variants of 432 types, 21,600 rows",
    "repeated": "the same, each variant with its own parameter list",
    "small": "40 variants, 10 rows",
    "fitting": "1,000 variants",
    "foreign": "the same, and 4,000 variants for other targets",
}
BOUNDS = {
    ("large", "first call, CPU"): 20,
    ("large", "first call, memory"): 20,
    ("large", "reload after a new table, CPU"): 20,
    ("large", "live after the reload over before"): 1.1,
    ("small", "first call, CPU"): 1,
}


def measure(program, blob, folder, kind, types):
    root = pathlib.Path(folder) / kind
    subprocess.run([sys.executable, GENERATOR, kind, root, blob], check=True)
    figures = {}
    for _ in range(PROCESSES):
        run = subprocess.run([program, root, str(types)], check=True, text=True, stdout=subprocess.PIPE)
        for line in run.stdout.splitlines():
            name, value, unit = line.split("|")
            figures.setdefault((name, unit), []).append(float(value))
    return {name: statistics.median(values) for name, values in figures.items()}


def main():
    program, blob = sys.argv[1:]
    missed = []
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, title in NAMES.items():
            found[kind] = measure(program, blob, folder, kind, 1 if kind == "small" else 100)
            print(title)
            for (name, unit), value in found[kind].items():
                bound = BOUNDS.get((kind, name))
                if kind == "foreign" and name.startswith("first call"):
                    bound = 1.2 * found["fitting"][name, unit]  # as without them
                verdict = "" if bound is None else f"<= {bound:.3g}" + ("" if value <= bound else "  MISSED")
                if bound is not None and value > bound:
                    missed.append(f"{title}: {name}")
                print(f"  {name:<50} {value:>10.3f} {unit:<3} {verdict}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
