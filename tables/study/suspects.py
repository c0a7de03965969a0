# SPDX-License-Identifier: MIT
"""Rows that lack a variant which should be among their fastest: it came later than they did, or was passed over.

    suspects.py [--over 1.2] [--costs 0.6] [--list FILE] TABLE...

A row is suspect where a row of another of the TABLEs, of the same operator, type and sizes, has such a variant: there it is more
than --over times as fast as what the row prefers. With --costs, rows are also suspect where the time that a variant's manifest
states, by the scale of the row's other variants, is below this share of the row's best time; that is a hint, as stated times
are estimates. --list writes the problems, in the format of tables/problems, to be measured again.
"""

import argparse
import json
import math
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from leave_out import problems
from manifests import manifest_of, number
from real import KERNELS
from table_sets import value_text


def words_of(values):
    return " ".join(f"{axis}={value_text(value)}" for axis, value in values.items())


def rows_of(path):
    """The table, and (problem as a list has it, axes with what was measured, times) of its rows with times."""
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    found = []
    for (group, row), own, times in problems(table, least=1):
        rows = table["groups"][group]
        sizes = dict(zip(rows["axes"], rows["rows"][row]["at"]))
        others = {axis: own[axis] for axis in rows.get("measured_with", {}) if axis != "alignment"}
        with_others = f" with {words_of(others)}" if others else ""
        found.append((f"{table['operator']} {words_of({**rows['type'], **sizes})}", with_others, own, times))
    return table, found


def by_others(times, others):
    """(factor, variant) by which another device's row says that the row lacks a faster one."""
    best = min(times, key=times.get)
    found = (1.0, "")
    for other in others:
        fastest = min(other, key=other.get)
        if fastest not in times and best in other:
            found = max(found, (other[best] / other[fastest], fastest))
    return found


def by_costs(manifest, own, times, device):
    """(share of the best time, variant) that stated times give the fastest variant which the row lacks."""
    axes = {key: number(value) for key, value in own.items()}
    stated = {variant: time for variant, time in manifest.serving_on(device, axes) if time}
    scales = sorted(math.log(1000 * times[variant] / stated[variant]) for variant in times if variant in stated)
    missing = [(time, variant) for variant, time in stated.items() if variant not in times]
    if not scales or not missing:
        return 1.0, ""
    time, variant = min(missing)
    return time * math.exp(scales[len(scales) // 2]) / 1000 / min(times.values()), variant


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--over", type=float, default=1.2)
    parser.add_argument("--costs", type=float)
    parser.add_argument("--list")
    parser.add_argument("tables", nargs="+")
    given = parser.parse_args()
    tables = [(path, *rows_of(path)) for path in given.tables]
    listed = []
    for path, table, rows in tables:
        device = table["device"]
        others = {}
        for other, that, its_rows in tables:
            if other != path and that["operator"] == table["operator"] and that["device"].get("arch") == device.get("arch"):
                for problem, _, _, times in its_rows:
                    others.setdefault(problem, []).append(times)
        manifest = manifest_of(KERNELS, table["operator"], f"{device['backend']}-{device.get('arch')}")
        found = []
        for problem, measured, own, times in rows:
            factor, variant = by_others(times, others.get(problem, []))
            if factor > given.over:
                found.append((factor, variant, "another device", problem + measured, times))
            elif given.costs:
                share, variant = by_costs(manifest, own, times, device)
                if variant and share < given.costs:
                    found.append((1 / share, variant, "its cost", problem + measured, times))
        name = os.path.join(*os.path.abspath(path).split(os.sep)[-2:])
        print(f"{name:58} {len(rows):5} rows, {len(found)} suspect")
        for factor, variant, why, problem, times in sorted(found, key=lambda entry: -entry[0]):
            best = min(times, key=times.get)
            print(f"    {factor:.2f}  lacks {variant} (by {why}), prefers {best}, {times[best]} us: {problem}")
            listed.append(problem + "\n")
    print(f"{sum(len(rows) for _, _, rows in tables)} rows, {len(listed)} suspect")
    if given.list:
        with open(given.list, "w", encoding="utf-8") as file:
            file.writelines(listed)


if __name__ == "__main__":
    main()
