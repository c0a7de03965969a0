# SPDX-License-Identifier: MIT
"""What the real selector's choices cost on shapes that no table has.   test_regret.py STUDY CHOOSE FOLDER [--update]

STUDY is the folder tables/study. For each of its studies a table is made of the dense grid, the program CHOOSE asks the
real selector for every shape held out, and the time of its choice is divided by the best time of the exhaustive
measurement. bounds.json has what was found when the rule was last changed; a change that makes it worse fails here.
--update rewrites it.
"""

import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])

from rules import summary
from studies import measure, studies

BOUNDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bounds.json")


def main():
    _, program, folder, *words = sys.argv[1:]
    all_studies = studies()
    found = measure(program, folder, all_studies)
    found["all"] = [regret for one in found.values() for regret in one]
    found["all of 4 us and more"] = [regret for regret in found["all"] if regret[1].best >= 4]
    with open(BOUNDS, encoding="utf-8") as file:
        bounds = json.load(file)
    failures = 0
    print(f"{'study':34} shapes    mean     p99   worst at")
    for name, regrets in found.items():
        mean, p99, worst = summary([regret for regret, _ in regrets])
        shape = max(regrets, key=lambda regret: regret[0])[1]
        print(f"{name:34} {len(regrets):6}  {mean:.4f}  {p99:6.3f}  {worst:6.3f} {shape.at}, {shape.best:.1f} us")
        if "--update" in words:
            bounds[name] = {"mean": round(mean, 4), "p99": round(p99, 3)}
            continue
        # The last digit may depend on the order in which equal distances are met.
        bound = bounds.get(name)
        if bound is None or mean > bound["mean"] + 0.0005 or p99 > bound["p99"] + 0.005:
            print(f"  FAILED: expected at most {bound}")
            failures += 1
    missing = set(bounds) - set(found)
    if missing and "--update" not in words:
        print("FAILED: no data of", ", ".join(sorted(missing)))
        failures += 1
    if "--update" in words:
        with open(BOUNDS, "w", encoding="utf-8") as file:
            json.dump({name: bounds[name] for name in found}, file, indent=1)
            file.write("\n")
    print(f"{len(found)} cases, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
