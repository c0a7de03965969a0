# SPDX-License-Identifier: MIT
"""What the choice costs at a problem that its table has no row of: each row of tables in turn, as if it alone were missing.

    leave_out.py CHOOSE [--worst N] [--by DEVICE] TABLE...

The real selector chooses, by the program CHOOSE, with the other rows of the table and with the conditions and costs of today's
search spaces. The row's times say what the choice costs, over the best variant there. A choice that the row does not list was
not among the fastest, or was never compared there; such choices are counted apart, and judged by the slowest that the row lists.
With --by, the table DEVICE.json beside each TABLE chooses, whole: what another device's rows cost.
"""

import argparse
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from manifests import manifest_of, number
from real import KERNELS, answers_to, stated, write_manifest
from rules import summary


def problems(table, least=2):
    """(the row's place in the file, its axes, its times) of each row with so many times."""
    for number_of_group, group in enumerate(table["groups"]):
        measured = {}
        for axis, values in group.get("measured_with", {}).items():
            measured[axis] = values if not isinstance(values, list) else max(values) if axis == "alignment" else values[0]
        for number_of_row, row in enumerate(group["rows"]):
            if len(row.get("times_us", {})) >= least:
                own = {**measured, **group["type"], **dict(zip(group["axes"], row["at"]))}
                yield [number_of_group, number_of_row], own, row["times_us"]


def todays_variants(table, rows):
    """All variants of the table's operator and target, as the search spaces state them."""
    device = table["device"]
    names = {key: value for key, value in device.items() if isinstance(value, int)}
    for _, own, _ in rows:
        for axis, value in own.items():
            names.setdefault(axis, number(value))
    names.setdefault("head_dim_v", names.get("head_dim", 0))
    manifest = manifest_of(KERNELS, table["operator"], f"{device['backend']}-{device['arch']}")
    return [stated(manifest, variant, names) for variant in manifest.variants]


def judge(program, path, by=None):
    """(loss, whether the row lists the choice, the choice, the best, the problem) of each row, the worst first. `by`: the path of
    the table that chooses, whole, instead of this one without the row. It must decide: where it does not, nothing is judged."""
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    rows = list(problems(table))
    with tempfile.TemporaryDirectory() as folder:
        manifest = os.path.join(folder, "manifest.json")
        write_manifest(manifest, table["operator"], table["device"], todays_variants(table, rows))
        lines = [json.dumps({"table": os.path.abspath(by or path), "manifest": manifest})]
        lines += [json.dumps({"problem": own, **({} if by else {"without": place})}) for place, own, _ in rows]
        answers = answers_to(program, folder, lines)
    found = []
    for (_, own, times), answer in zip(rows, answers):
        if by and answer["reason"] == "heuristic":
            continue
        chosen, best = answer["variant"], min(times, key=times.get)
        is_listed = chosen in times
        found.append(
            (times[chosen] / times[best] if is_listed else max(times.values()) / times[best], is_listed, chosen, best, own)
        )
    return sorted(found, key=lambda result: -result[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worst", type=int, default=0, help="name the problems of the greatest loss")
    parser.add_argument("--by", metavar="DEVICE", help="the table of this device chooses, such as nvidia-h200")
    parser.add_argument("choose")
    parser.add_argument("tables", nargs="+")
    given = parser.parse_args()
    everything = []
    for path in given.tables:
        by = given.by and os.path.join(os.path.dirname(path), given.by + ".json")
        found = judge(given.choose, path, by) if not by or os.path.exists(by) else []
        name = os.path.join(*os.path.abspath(path).split(os.sep)[-2:])
        listed = [result for result in found if result[1]]
        if not listed:
            continue
        lost = [result[0] for result in listed]
        everything += lost
        mean, p99, worst = summary(lost)
        print(
            f"{name:58} {len(found):5} rows, mean {mean:.4f}, p99 {p99:.2f}, worst {worst:.2f}, "
            f"{100 * sum(loss > 1.05 for loss in lost) / len(lost):.1f} % above 1.05, {len(found) - len(listed)} not listed"
        )
        for loss, _, chosen, best, own in listed[: given.worst]:
            print(f"    {loss:.2f}  {chosen} for {best}: {' '.join(f'{axis}={value}' for axis, value in own.items())}")
    if everything:
        mean, p99, worst = summary(everything)
        print(f"{len(everything)} rows that list the choice: mean {mean:.4f}, p99 {p99:.2f}, worst {worst:.2f}")


if __name__ == "__main__":
    main()
