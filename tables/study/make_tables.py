# SPDX-License-Identifier: MIT
"""Makes the tables of a device from measured times.   make_tables.py KERNELS FOLDER [--rows ROWS] [DATA...]

KERNELS is the folder of the manifests that were measured: their blobs' hashes go along. FOLDER has the tables, one
folder an operator; groups of types that were not measured stay as they are. DATA are folders that pack.py has filled
(`data` beside this file by default). Of each grid the ROWS rows are kept (at most; 160 by default) that the others would
predict worst, and whatever a benchmark asks for; ties are settled by both runs of a study.
"""

import argparse
import datetime
import glob
import json
import math
import os

from plan import benchmarked
from real import type_of
from studies import DATA, match_of, studies

VARIANTS = 6
UNSEEN_MARGIN = 0.1  # as in select.hpp


def next_pow2(value):
    return 1 << max(0, (value - 1).bit_length())


def placing(study):
    """The place of sizes in the metric of the study's tables."""
    rules = match_of(study.operator)
    quantities = []
    for key in list(study.axes) + [key for key in rules if key not in study.axes]:
        how = rules.get(key, "log")
        if how == "ignore":
            continue
        kind, unit = (how, 1) if isinstance(how, str) else next(iter(how.items()))
        code = compile(key, key, "eval")
        quantities.append((code, kind, unit))

    def place(at):
        names = dict(zip(study.axes, at), next_pow2=next_pow2, max=max, ceil_div=lambda a, b: -(-a // b))
        out = []
        for code, kind, unit in quantities:
            value = int(eval(code, {"__builtins__": {}}, names))  # of this project's own match.json
            out.append(math.log2(max(1, value)) / unit if kind == "log" else value / unit)
        return out

    return place


def row_of(place, shape):
    """A row as predict() reads it: its place, and its fastest variants' times as logarithms."""
    return place(shape.at), sorted(shape.logs.items(), key=lambda pair: pair[1])[:VARIANTS]


def nearest(rows, here):
    """(weight, times) of the nearest rows."""
    near = sorted((sum((a - b) ** 2 for a, b in zip(here, place)), i) for i, (place, _) in enumerate(rows))[:8]
    return [(1 / (squared + 1e-3) ** 2, rows[i][1]) for squared, i in near]


def predict(near, allowed):
    """As select.hpp does where variants have no costs: slowdowns over the nearest rows' best, by 1 / distance^4."""
    totals = {}
    for weight, times in near:
        kept = [(v, t) for v, t in times if v in allowed][:VARIANTS]
        if not kept:
            continue
        last = kept[-1][1] - kept[0][1] + UNSEEN_MARGIN
        for variant, time in kept:
            totals[variant] = totals.get(variant, 0.0) + weight * (time - kept[0][1] - last)
    return min(totals, key=totals.get) if totals else None


def thin(study, most):
    """The shapes of the grid whose rows are kept."""
    place = placing(study)
    rows = {id(shape): row_of(place, shape) for shape in study.grid}
    asked = benchmarked(study.operator, study.type)
    kept = [shape for shape in study.grid if shape.at in asked]
    kept += [shape for shape in study.grid[:: max(1, len(study.grid) // (most // 3))][: most // 3] if shape not in kept]
    while len(kept) < min(most, len(study.grid)):
        left = [shape for shape in study.grid if shape not in kept]
        regrets = []
        for shape in left:
            variant = predict(nearest([rows[id(each)] for each in kept], rows[id(shape)][0]), shape.times)
            regrets.append((shape.regret(variant) if variant else 2.0, shape))
        regrets.sort(key=lambda pair: -pair[0])
        if regrets[0][0] < 1.01:
            break
        kept = kept + [shape for _, shape in regrets[: max(1, (most - len(kept)) // 6)]]
    return kept


def fingerprints(kernels, operator):
    out = {}
    for path in glob.glob(os.path.join(kernels, operator, "cuda-*", "manifest.json")):
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        shared = manifest.get("shared", {})
        for variant in manifest["variants"]:
            launches = [{**shared.get(each.get("like"), {}), **each} for each in variant["launches"]]
            hashes = "".join(each["sha256"][:16] for each in launches if "blob" in each)
            out.setdefault(variant["id"], []).append((variant["type"], hashes))
    return out


def blob_of(found, variant, type_):
    for has, hashes in found.get(variant, []):
        if all(has.get(axis, value) == value for axis, value in type_.items()):
            return hashes
    return None


def formatted(table):
    """As write_table.hpp writes it: groups and rows sorted, one row a line."""
    lines = []
    for key in ("schema", "operator", "device", "measured", "match", "neighbours", "envelope", "deny", "pin"):
        if key in table:
            lines.append(f"  {json.dumps(key)}: {json.dumps(table[key])}")
    groups = []
    for group in sorted(table["groups"], key=lambda each: json.dumps(each["type"])):
        out = [f'{{"type": {json.dumps(group["type"])}', f'     "axes": {json.dumps(group["axes"])}']
        if group.get("measured_with"):
            out.append(f'     "measured_with": {json.dumps(group["measured_with"])}')
        if group.get("blobs"):
            out.append(f'     "blobs": {json.dumps(dict(sorted(group["blobs"].items())))}')
        rows = [
            json.dumps(dict(row, times_us=dict(sorted(row["times_us"].items()))))
            for row in sorted(group["rows"], key=lambda row: row["at"])
        ]
        out.append('     "rows": [\n       ' + ",\n       ".join(rows) + "]}")
        groups.append(",\n".join(out))
    lines.append('  "groups": [\n    ' + ",\n    ".join(groups) + "\n  ]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels")
    parser.add_argument("folder")
    parser.add_argument("data", nargs="*", default=[DATA])
    parser.add_argument("--rows", type=int, default=160)
    options = parser.parse_args()
    kernels, folder, most = options.kernels, options.folder, options.rows
    by_operator = {}
    for study in (study for data in options.data for study in studies(data).values()):
        type_ = {axis: value for axis, value in type_of(study).items() if axis != "in_place" and value is not False}
        key = (study.operator, json.dumps(type_))
        by_operator.setdefault(study.operator, {}).setdefault(key, (type_, []))[1].append(study)
    for operator, groups in by_operator.items():
        path = os.path.join(folder, operator, "nvidia-h200.json")
        table = {"schema": "switchyard.table/1", "operator": operator, "groups": []}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                table = json.load(file)
        found = fingerprints(kernels, operator)
        for type_, members in groups.values():
            axes, rows, blobs = members[0].axes, {}, {}
            for study in members:
                for shape in thin(study, most):
                    there = [pair for pair in shape.times.items() if pair[0] in found]  # some are gone since
                    best = sorted(there, key=lambda pair: pair[1])[:VARIANTS]
                    if not best:
                        continue
                    rows[tuple(shape.at)] = {v: float(f"{t:.4g}") for v, t in best}
                    for variant, _ in best:
                        if hashes := blob_of(found, variant, type_):
                            blobs[variant] = hashes
            before = [each for each in table["groups"] if each["type"] == type_]
            table["groups"] = [each for each in table["groups"] if each["type"] != type_]
            # The workloads that measure.cpp calls give a type's other axes the same values every time.
            recorded = {key: each[key] for each in before for key in ("measured_with",) if key in each}
            table["groups"].append(
                {
                    "type": type_,
                    "axes": axes,
                    **recorded,
                    "blobs": blobs,
                    "rows": [{"at": list(at), "times_us": times} for at, times in rows.items()],
                }
            )
            print(operator, type_, len(rows), "rows")
        device = next(iter(groups.values()))[1][0].device
        table["device"] = {key: device[key] for key in ("backend", "arch", "name", "multiprocessors", "memory_bandwidth")}
        table["measured"] = {
            "date": datetime.date.today().isoformat(),
            "runs": 2,
            "statistic": "median",
            "samples": {"least": 5, "most": 15},
            "cache": {"state": "rotating"},
            "note": "samples of the variants in turns, behind a fill",
        }
        table["match"], table["neighbours"], table["envelope"] = match_of(operator), 8, 2
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(formatted(table))


if __name__ == "__main__":
    main()
