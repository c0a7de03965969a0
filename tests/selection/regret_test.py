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
DATA = os.path.join(HERE, "data")


def match_of(operator):
    with open(os.path.join(HERE, "match.json"), encoding="utf-8") as file:
        rules = json.load(file)
    family = "attention" if operator.startswith("attention") else "rows"
    return rules.get(operator, rules[family])


def studies(folder=DATA):
    return {os.path.basename(path)[:-len(".json.xz")]: Study(path)
            for path in sorted(glob.glob(os.path.join(folder, "*.json.xz")))}


def held_out(study):
    """The one division of a study's shapes that is judged: a table of the grid, asked for what is held out."""
    return [(study.grid, study.held_out)]


def lines_left_out(study):
    """The grid divided for cross-validation: all shapes of one line are left out of the table and asked for, as held-out
    shapes lie beside the lines. Ends of an axis stay, and at a power of two of columns there are variants for that number
    alone, which a shape held out hardly ever has. Rows beside the lines are in all tables."""
    if "rows" in study.axes:
        keys, ends = (lambda at: at[0], lambda at: at[1]), True
    elif study.operator == "rotary":
        keys, ends = (lambda at: tuple(at[:2]), lambda at: tuple(at[2:])), False
    else:
        keys, ends = (lambda at: tuple(at[:3]), lambda at: tuple(at[3:])), False
    for key in keys:
        lines = {}
        for shape in study.grid:
            lines.setdefault(key(shape.at), []).append(shape)
        for value in sorted(lines)[1:-1] if ends else sorted(lines):
            asked = lines[value]
            if len(asked) < 4:
                continue
            kept = [shape for shape in study.grid if key(shape.at) != value]
            if ends:
                asked = [shape for shape in asked if shape.at[1] & (shape.at[1] - 1)]
            if asked:
                yield kept, asked


def measure(program, folder, all_studies, match=match_of, shapes=lambda study: study.grid, most=8, neighbours=8,
            with_costs=True, divisions=held_out):
    """For each study the (regret, shape) of every shape that is asked for."""
    asked, names = [], []
    for name, study in all_studies.items():
        for grid, queries in divisions(study):
            kept = grid if divisions is not held_out else shapes(study)
            names.append(name)
            asked.append((study, Table(kept, most), queries,
                          {"match": match(study.operator), "neighbours": neighbours, "with_costs": with_costs}))
    out = {name: [] for name in all_studies}
    for name, (_, _, queries, _), answers in zip(names, asked, choose(program, folder, asked)):
        out[name] += [(query.regret(answer["variant"] or query.first), query) for query, answer in zip(queries, answers)]
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
