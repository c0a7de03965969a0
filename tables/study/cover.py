# SPDX-License-Identifier: MIT
"""Which variants a search space needs, by what was measured.   cover.py [--target TARGET] [OPERATOR...]

Over all rows of tables/ and all shapes of data/, each operator's variants are put in the order in which they gain
most, with what is lost against the best of those that the space has once only that many are kept. The last line holds
the whole space against the best of all that was ever measured. A row of a table names only its fastest variants: one
that it does not name does not serve it here.

Variants at the end of the list, or not in it, may go where nothing unmeasured depends on them: other types, sizes that
no other variant serves, devices with no table.
"""

import argparse
import glob
import json
import math
import os
import sys

from rules import summary
from studies import studies

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "cmake"))
sys.dont_write_bytecode = True

from kernel_tools.space import TOOLCHAINS, expand

NOT_SERVED = 2.0


def measured(target):
    """(operator, type, {variant: time}) of everything there is of the target's backend."""
    for path in sorted(glob.glob(os.path.join(ROOT, "tables", "*", "*.json"))):
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
        if table.get("device", {}).get("backend") != target.split("-")[0]:
            continue
        for group in table.get("groups", []):
            for row in group["rows"]:
                yield table["operator"], group["type"], row["times_us"]
    for study in studies().values():
        for shape in study.shapes:
            yield study.operator, study.type, shape.times


def spaces(target):
    """{operator: [(id, type)]} in heuristic order."""
    plans, _ = expand(
        sorted(glob.glob(os.path.join(ROOT, "kernels", "*", "*.json"))), None, [target], list(TOOLCHAINS), "x86_64"
    )
    return {plan["operator"]: [(variant["id"], variant["type"]) for variant in plan["variants"]] for plan in plans}


def serving(variants, kind):
    return {id for id, own in variants if all(own.get(axis, value) == value for axis, value in kind.items())}


def order(rows):
    """(variant, regrets of all rows once it is kept too), by gain in the sum of logarithms."""
    left = set().union(*rows)
    regrets = [NOT_SERVED] * len(rows)
    logs = [{id: math.log(time / min(row.values())) for id, time in row.items()} for row in rows]
    now = [math.log(NOT_SERVED)] * len(rows)
    while left:
        gains = {id: sum(max(0.0, now[i] - row[id]) for i, row in enumerate(logs) if id in row) for id in sorted(left)}
        best = max(gains, key=gains.get)
        if gains[best] <= 0:
            return
        left.discard(best)
        now = [min(old, row.get(best, old)) for old, row in zip(now, logs)]
        regrets = [math.exp(log) for log in now]
        yield best, regrets


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--target", default="cuda-sm_90a")
    args = parser.parse_args()
    there = spaces(args.target)
    everything = list(measured(args.target))
    for operator in args.operators or sorted({measurement[0] for measurement in everything} & set(there)):
        if operator not in there:
            raise SystemExit(f"{operator} has no variants for {args.target}; there are {', '.join(sorted(there))}")
        rows, whole = [], []
        for _, kind, times in (measurement for measurement in everything if measurement[0] == operator):
            ids = serving(there[operator], kind)
            kept = {id: time for id, time in times.items() if id in ids}
            if kept:
                rows.append(kept)
                whole.append(min(kept.values()) / min(times.values()))
        if not rows:
            print(f"\n{operator}: nothing was measured")
            continue
        names = {id for id, _ in there[operator]}
        print(f"\n{operator}: {len(names)} names of variants, {len(rows)} shapes\n      mean    p99  worst  keeping also")
        seen = set()
        for count, (id, regrets) in enumerate(order(rows), 1):
            seen.add(id)
            print("{:3} {:.4f} {:6.3f} {:6.3f}  {}".format(count, *summary(regrets), id))
        print("not needed:", ", ".join(sorted(names - seen)) or "none")
        print(
            "the space against all that was measured: mean {:.4f}, p99 {:.3f}, worst {:.3f}".format(*summary(whole))
            + f"; {sum(ratio > 1 for ratio in whole)} shapes were won by what it lacks"
        )


if __name__ == "__main__":
    main()
