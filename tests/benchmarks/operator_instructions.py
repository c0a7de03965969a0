# SPDX-License-Identifier: MIT
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
IN_PLACE = 300  # `fifty`
# The least of an operator's lists of launches: as measured with g++ 12, and 2 to 4 % more. No kernel of decode takes all its
# arguments as they are.
LEAST = {
    "attention_backward": 297,
    "attention_decode": 395,
    "attention_dropout_mask": 280,
    "attention_forward": 300,  # the budget
    "gated_activation": 155,
    "gated_activation_backward": 172,
    "layer_norm": 180,
    "layer_norm_backward": 187,
    "rms_norm": 175,
    "rms_norm_backward": 177,
    "rotary": 252,
    "softmax": 134,
    "softmax_backward": 140,
}
ANY = 500
CONDITIONS = 680  # `fifty` where files name conditions on arguments


def main():
    program, folder, *operator = sys.argv[1:]
    costs = {}
    with tempfile.TemporaryDirectory() as out:
        counted = subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}/counts", program, folder, *operator]
        )
        for path in sorted(glob.glob(f"{out}/counts.*"), key=lambda path: int(path.rpartition(".")[2])):
            with open(path) as dump:
                text = dump.read()
            label = re.search(r"desc: Trigger: Client Request: (\S+) (\S+) (\S+) (\d+)", text)
            if label is None:
                continue
            name, variant, part, launches = label.groups()
            total = int(re.search(r"^(?:totals|summary): (\d+)", text, re.M).group(1))
            if part == "dispatched":
                dispatched = total
                continue
            # Several lists may share a variant's name, as where an option adds parameters: the largest count stands for it.
            over = (dispatched - total) / CALLS / int(launches)
            key = (name, variant, int(launches))
            costs[key] = max(over, costs.get(key, over))
    missed = 0
    least = {}
    for (name, variant, launches), over in sorted(costs.items()):
        least[name] = min(over, least.get(name, over))
        bound = IN_PLACE if variant == "fifty" else CONDITIONS if "condition" in variant else ANY
        missed += over > bound
        what = f"{name} {variant}" + (f", each of {launches} launches" if launches > 1 else "")
        print(f"{what:<90} {over:>8.0f}  <= {bound}{'' if over <= bound else '  MISSED'}")
    for name, over in sorted(least.items()):
        bound = LEAST[name]
        missed += over > bound
        print(f"{name + ', least of its variants':<90} {over:>8.0f}  <= {bound}{'' if over <= bound else '  MISSED'}")
    print(f"{missed} of the bounds missed")
    if counted.returncode != 0:
        print("some lists of launches could not be counted: the messages are above")
    return bool(missed) or counted.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
