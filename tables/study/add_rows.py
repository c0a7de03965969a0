# SPDX-License-Identifier: MIT
"""Adds calls that models.py measured to the tables of a device, where their rows choose badly.

    add_rows.py OUTPUT TABLES [--over 1.03] [--device nvidia-h200]

A call gets a row if the variant chosen with rows took more than --over times the best time, and a group of the tables was
measured with the call's type. TABLES is the folder with one folder an operator;
--device names the file there.
"""

import argparse
import glob
import json
import os

from make_tables import VARIANTS, formatted
from models import read


def value_of(text):
    return {"true": True, "false": False}.get(text, int(text) if text.isdigit() else text)


def problem_of(line):
    """The axes of a measured call."""
    return {name: value_of(text) for name, text in (word.split("=", 1) for word in line["problem"].split())}


def holds(group, problem):
    """Whether the rows of a group were measured with the type of a problem."""
    wanted = {**group.get("measured_with", {}), **group["type"]}
    return "measured_with" in group and all(
        problem[axis] in value if isinstance(value, list) else problem[axis] == value for axis, value in wanted.items()
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("tables")
    parser.add_argument("--over", type=float, default=1.03)
    parser.add_argument("--device", default="nvidia-h200", help="name of the tables' files, of the device that was measured")
    options = parser.parse_args()
    calls = [each for each in read(options.output)[0] if each.get("times")]
    for path in glob.glob(os.path.join(options.tables, "*", options.device + ".json")):
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
        if table.get("schema") != "switchyard.table/1":
            continue
        added = 0
        for call in calls:
            times = sorted(call["times"].items(), key=lambda pair: pair[1])
            chosen = call["times"].get(call["chosen"][0]["variant"], times[-1][1])
            if call["study"] != table["operator"] or chosen <= options.over * times[0][1]:
                continue
            problem = problem_of(call)
            for group in table["groups"]:
                at = [problem[axis] for axis in group["axes"]] if holds(group, problem) else None
                if at and all(row["at"] != at for row in group["rows"]):
                    group["rows"].append({"at": at, "times_us": {v: float(f"{t:.4g}") for v, t in times[:VARIANTS]}})
                    added += 1
                    print(table["operator"], group["type"], at, f"{chosen / times[0][1]:.3f}")
        if added:
            with open(path, "w", encoding="utf-8") as file:
                file.write(formatted(table))


if __name__ == "__main__":
    main()
