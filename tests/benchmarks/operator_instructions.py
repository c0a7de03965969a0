"""Prints the instructions of a warm call of every shipped operator beside their bounds; exit status 1 when one is missed.

  operator_instructions.py PROGRAM FOLDER [OPERATOR]

What is printed is one call through the dispatcher less the same launches by the driver's entry point. A variant of
several launches is divided by their number. FAKE_CUDA_LIBRARY names the driver, FOLDER has built kernels.
"""

import glob
import re
import subprocess
import sys
import tempfile

CALLS = 1600
IN_PLACE = 290  # the least of an operator's lists of launches, and `fifty`
ANY = 495
CONDITIONS = 950  # `fifty` where files name conditions on arguments


def main():
    program, folder, *operator = sys.argv[1:]
    costs = {}
    with tempfile.TemporaryDirectory() as out:
        counted = subprocess.run(["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}/counts", program,
                                  folder, *operator])
        for path in glob.glob(f"{out}/counts.*"):
            with open(path) as dump:
                text = dump.read()
            label = re.search(r"desc: Trigger: Client Request: (\S+) (\S+) (\S+) (\d+)", text)
            if label is None:
                continue
            name, variant, part, launches = label.groups()
            total = int(re.search(r"^(?:totals|summary): (\d+)", text, re.M).group(1))
            costs.setdefault((name, variant, int(launches)), {})[part] = total / CALLS
    missed = 0
    least = {}
    for (name, variant, launches), parts in sorted(costs.items()):
        over = (parts["dispatched"] - parts["bare"]) / launches
        least[name] = min(over, least.get(name, over))
        bound = IN_PLACE if variant == "fifty" else CONDITIONS if "condition" in variant else ANY
        missed += over > bound
        what = f"{name} {variant}" + (f", each of {launches} launches" if launches > 1 else "")
        print(f"{what:<90} {over:>8.0f}  <= {bound}{'' if over <= bound else '  MISSED'}")
    for name, over in sorted(least.items()):
        missed += over > IN_PLACE
        print(f"{name + ', least of its variants':<90} {over:>8.0f}  <= {IN_PLACE}{'' if over <= IN_PLACE else '  MISSED'}")
    print(f"{missed} of the bounds missed")
    if counted.returncode != 0:
        print("some lists of launches could not be counted: the messages are above")
    return bool(missed) or counted.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
