"""What the real selector's choices cost on shapes that no table has.   regret_test.py CHOOSE FOLDER [--update]

For each study in data/ a table is made of the dense grid, the program CHOOSE asks the real selector for every shape
held out, and what it chooses is held against the best of the exhaustive measurement. bounds.json has what was found
when the rule was last changed; a change that makes it worse fails here. --update writes it anew.
"""

import glob
import json
import os
import sys

from real import choose
from rules import Study, Table, summary

HERE = os.path.dirname(os.path.abspath(__file__))
BOUNDS = os.path.join(HERE, "bounds.json")


def match_of(operator):
    with open(os.path.join(HERE, "match.json"), encoding="utf-8") as file:
        rules = json.load(file)
    family = "attention" if operator.startswith("attention") else operator
    return rules.get(family, rules["rows"])


def studies():
    return {os.path.basename(path)[:-len(".json.xz")]: Study(path)
            for path in sorted(glob.glob(os.path.join(HERE, "data", "*.json.xz")))}


def measure(program, folder, all_studies, match=match_of, shapes=lambda study: study.grid, most=8, neighbours=8):
    """For each study the (regret, shape) of every shape held out."""
    asked = [(study, Table(shapes(study), most), study.held_out,
              {"match": match(study.operator), "neighbours": neighbours}) for study in all_studies.values()]
    out = {}
    for name, (study, _, queries, _), answers in zip(all_studies, asked, choose(program, folder, asked)):
        out[name] = [(query.regret(answer["variant"] or query.first), query) for query, answer in zip(queries, answers)]
    return out


def main():
    program, folder, *words = sys.argv[1:]
    all_studies = studies()
    found = measure(program, folder, all_studies)
    found["all"] = [each for one in found.values() for each in one]
    found["all of 4 us and more"] = [each for each in found["all"] if each[1].best >= 4]
    with open(BOUNDS, encoding="utf-8") as file:
        bounds = json.load(file)
    failures = 0
    print(f"{'study':34} shapes    mean     p99   worst at")
    for name, regrets in found.items():
        mean, p99, worst = summary([regret for regret, _ in regrets])
        shape = max(regrets, key=lambda each: each[0])[1]
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
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
