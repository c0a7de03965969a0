# SPDX-License-Identifier: MIT
"""Measures again what tables hold of kernels that were rebuilt since.

    refresh.py plan TABLES KERNELS PLAN [--device nvidia-h200] [--only OPERATOR...]
    refresh.py write TABLES KERNELS PLAN LINES [--device nvidia-h200]

TABLES is the folder with one folder an operator, KERNELS the folder of the installed manifests. `plan` lists the rows of
every group that has times of a blob that KERNELS has no more, as a PLAN for measure. `write` replaces the rows of these
groups by what measure wrote to LINES. A group of which a row was not measured stays as it is, since old and new times must
not be compared.
"""

import argparse
import datetime
import glob
import json
import os

from add_rows import problem_of
from make_tables import VARIANTS, blob_of, fingerprints, formatted
from models import read


def is_stale(found, group):
    """Whether the rows have times of a variant whose blobs are others now."""
    return any(
        variant in found and all(has != hashes for _, has in found[variant])
        for variant, hashes in group.get("blobs", {}).items()
    )


def study_of(operator, number, group):
    """Rows of a group as a study; what the group was measured with goes into the type."""
    recorded = {
        axis: value
        for axis, value in group.get("measured_with", {}).items()
        if axis != "alignment" and not isinstance(value, list)
    }
    shapes = [row["at"] for row in group["rows"]]
    # Where nothing is held out, measure skips what was hopeless at the shape before.
    return {
        "name": f"{operator}/{number}",
        "operator": operator,
        "type": {**recorded, **group["type"]},
        "axes": group["axes"],
        "shapes": shapes,
        "held_out": [1] * len(shapes),
    }


def tables_of(folder, device):
    for path in sorted(glob.glob(os.path.join(folder, "*", device + ".json"))):
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
        if table.get("schema") == "switchyard.table/1":
            yield path, table


def plan(options):
    studies = []
    for _, table in tables_of(options.tables, options.device):
        operator = table["operator"]
        if options.only and operator not in options.only:
            continue
        found = fingerprints(options.kernels, operator)
        studies += [study_of(operator, number, group) for number, group in enumerate(table["groups"]) if is_stale(found, group)]
    for each in studies:
        print(len(each["shapes"]), each["name"], each["type"])
    with open(options.plan, "w", encoding="utf-8") as file:
        json.dump({"studies": studies}, file)


def write(options):
    with open(options.plan, encoding="utf-8") as file:
        studies = {each["name"]: each for each in json.load(file)["studies"]}
    measured = {}
    for line in read(options.lines)[0]:
        study = studies[line["study"]]
        measured.setdefault(line["study"], {})[tuple(study["shapes"][line["shape"]])] = line
    for path, table in tables_of(options.tables, options.device):
        found = fingerprints(options.kernels, table["operator"])
        changed = False
        for number, group in enumerate(table["groups"]):
            name = f"{table['operator']}/{number}"
            if name not in studies:
                continue
            lines = measured.get(name, {})
            missing = [row["at"] for row in group["rows"] if not lines.get(tuple(row["at"]), {}).get("times")]
            if studies[name]["shapes"] != [row["at"] for row in group["rows"]] or missing:
                print(
                    f"{name}: left as it is, {len(missing)} of {len(group['rows'])} rows were not measured, first {missing[:1]}"
                )
                continue
            replace(found, group, lines)
            changed = True
            print(f"{name}: {len(group['rows'])} rows {group['type']}")
        if changed:
            table["measured"] = {**table["measured"], "date": datetime.date.today().isoformat()}
            with open(path, "w", encoding="utf-8") as file:
                file.write(formatted(table))


def replace(found, group, lines):
    blobs = {}
    for row in group["rows"]:
        line = lines[tuple(row["at"])]
        problem = problem_of(line)
        best = sorted(line["times"].items(), key=lambda pair: pair[1])[:VARIANTS]
        row["times_us"] = {variant: float(f"{time:.4g}") for variant, time in best}
        for variant, _ in best:
            if hashes := blob_of(found, variant, problem):
                blobs[variant] = hashes
    group["blobs"] = blobs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("plan", "write"))
    parser.add_argument("tables")
    parser.add_argument("kernels")
    parser.add_argument("plan")
    parser.add_argument("lines", nargs="?")
    parser.add_argument("--device", default="nvidia-h200", help="name of the tables' files, of the device that was measured")
    parser.add_argument("--only", nargs="+")
    options = parser.parse_args()
    if options.mode == "write" and not options.lines:
        parser.error("LINES are needed")
    (plan if options.mode == "plan" else write)(options)


if __name__ == "__main__":
    main()
