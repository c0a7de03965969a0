# SPDX-License-Identifier: MIT
"""Prints the instructions of making a call's arguments from tensors beside their bounds; exit status 1 when one is missed.

  call_instructions.py PROGRAM

`views`: from tensors that lie in memory. `in_place`: from tensors made in the call from addresses, sizes and strides. An
allocation ends the program.
"""

import glob
import re
import subprocess
import sys
import tempfile

CALLS = 1600
BOUND = 150
PAGED = 200  # keys and values in pages


def main():
    (program,) = sys.argv[1:]
    costs = {}
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}/counts", program], check=True)
        for path in glob.glob(f"{out}/counts.*"):
            with open(path) as dump:
                text = dump.read()
            label = re.search(r"desc: Trigger: Client Request: (\S+) (made|empty)", text)
            if label is not None:
                costs.setdefault(label.group(1), {})[label.group(2)] = (
                    int(re.search(r"^(?:totals|summary): (\d+)", text, re.M).group(1)) / CALLS
                )
    missed = 0
    for name, parts in sorted(costs.items()):
        cost = parts["made"] - parts["empty"]
        bound = PAGED if name.endswith(".paged") else BOUND
        missed += cost > bound
        print(f"{name:<40} {cost:>8.0f}  <= {bound}{'' if cost <= bound else '  MISSED'}")
    print(f"{missed} of {len(costs)} missed")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
