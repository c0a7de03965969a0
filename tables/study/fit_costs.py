# SPDX-License-Identifier: MIT
"""Fits what a unit of each variant's cost takes on a device, so that costs choose where no rows do.

    fit_costs.py TARGET OUTPUT... SPACE...
    fit_costs.py TARGET OUTPUT... --terms KERNELS TABLES [OPERATOR...]

OUTPUT are files that models.py wrote, or tables, SPACE the search spaces of one operator; TARGET is the target of the device,
such as cuda-sm_90a. The studies of the operator in data/ count too. A variant's unit begins as the median of its times over
its costs; then each is moved where this makes the choices by least cost cheaper, choices above 1.15 times the best counting
five times. The spaces' `cost_us` of the target is replaced, and the cost of the choices printed.

With --terms, the variants of all spaces below KERNELS whose rules list terms in `cost_ns` get factors for these, see
fit_terms.py, from the studies, the rows of the tables below TABLES of that architecture, and OUTPUT.
"""

import glob
import json
import math
import os
import re
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import fit_terms
from fallback import rows_of
from fit_terms import value_of
from judging import read
from manifests import WORDS, evaluate, expand
from studies import studies

STEPS = (-0.4, -0.25, -0.15, -0.08, -0.04, 0.04, 0.08, 0.15, 0.25, 0.4)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def problems(outputs, operator):
    """(group, problem, times) of everything that was measured; a study counts by 250 of its shapes, at even steps."""
    for path in outputs:
        if path.endswith(".json"):
            yield from ((os.path.basename(path), axes, times) for _, _, _, axes, times in rows_of(path) if len(times) > 1)
            continue
        for call in read(path)[0]:
            if call["study"] == operator and call.get("times"):
                axes = dict(word.split("=", 1) for word in call["problem"].split())
                yield os.path.basename(path), {key: value_of(text) for key, text in axes.items()}, call["times"]
    for name, study in studies().items():
        if study.operator != operator:
            continue
        for shape in study.shapes[:: max(1, len(study.shapes) // 250)]:
            flags = {"window": 0, "dropout": 0, "soft_capped": 0}
            yield name, {**flags, **study.type, **dict(zip(study.axes, shape.at))}, shape.times


def fit(measured):
    """The units' logarithms; `measured` has (variant, log cost, log time) of each problem."""
    ratios, uses = {}, {}
    for i, entries in enumerate(measured):
        for variant, cost, time in entries:
            ratios.setdefault(variant, []).append(time - cost)
            uses.setdefault(variant, []).append(i)
    units = {variant: sorted(values)[len(values) // 2] for variant, values in ratios.items()}

    def loss(i):
        lost = regret(measured[i], units)
        return lost + max(0.0, 4 * (lost - math.log(1.15)))

    losses = [loss(i) for i in range(len(measured))]
    for _ in range(8):
        changed = False
        for variant in sorted(units):
            start, best = units[variant], None
            least = sum(losses[i] for i in uses[variant]) - 1e-9
            for step in STEPS:
                units[variant] = start + step
                total = sum(map(loss, uses[variant])) + 0.01 * abs(step)  # no move for nothing
                if total < least:
                    least, best = total, start + step
            units[variant] = start if best is None else best
            if best is not None:
                changed = True
                for i in uses[variant]:
                    losses[i] = loss(i)
        if not changed:
            break
    return units


def regret(entries, units):
    chosen = min(entries, key=lambda entry: entry[1] + units[entry[0]])
    return chosen[2] - min(time for _, _, time in entries)


def write(path, target, units):
    """Replaces the line of `cost_us`, or puts one before `define`."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    kept = json.loads(text).get("cost_us", {})
    kept[target] = {variant: float(f"{math.exp(unit):.3g}") for variant, unit in sorted(units.items())}
    lines = [
        f"  {json.dumps(name)}: {{\n" + ",\n".join(f"   {json.dumps(key)}: {value}" for key, value in costs.items()) + "\n  }"
        for name, costs in sorted(kept.items())
    ]
    text = re.sub(r' "cost_us": \{.*?\n \},\n', "", text, flags=re.DOTALL)
    text = text.replace(' "define": {', ' "cost_us": {\n' + ",\n".join(lines) + '\n },\n "define": {', 1)
    json.loads(text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def fit_all_terms(target, paths):
    at = paths.index("--terms")
    outputs, (kernels, tables, *operators) = paths[:at], paths[at + 1 :]
    for operator, spaces in fit_terms.spaces_with_terms(kernels).items():
        if operators and operator not in operators:
            continue
        found = []
        for path in sorted(glob.glob(os.path.join(tables, operator, "*.json"))):
            with open(path, encoding="utf-8") as file:
                device = json.load(file)["device"]
            if target.startswith(f"{device['backend']}-{device['arch']}"):
                found.append(path)
        fit_terms.fit(operator, spaces, found, outputs, target)


def main():
    target, *paths = sys.argv[1:]
    if "--terms" in paths:
        fit_all_terms(target, paths)
        return
    spaces = [path for path in paths if path.endswith(".json") and "variants" in read_json(path)]
    outputs = [path for path in paths if path not in spaces]
    plans = {path: [plan for plan in expand([path])[0] if plan["target"] == target] for path in spaces}
    found = {
        variant["id"]: variant
        for plans_of_file in plans.values()
        for plan in plans_of_file
        for variant in plan["variants"]
        if "cost" in variant
    }
    operator = next(plan["operator"] for plans_of_file in plans.values() for plan in plans_of_file)
    multiprocessors = next(study.device["multiprocessors"] for study in studies().values() if study.operator == operator)
    groups, measured = [], []
    for group, problem, times in problems(outputs, operator):
        entries = []
        for name in sorted(set(times) & set(found)):
            names = {**found[name]["config"], **problem, "multiprocessors": multiprocessors}
            cost = evaluate(found[name]["cost"], names, {}, WORDS)
            entries.append((name, math.log(max(1, cost)), math.log(times[name])))
        if entries:
            groups.append(group)
            measured.append(entries)
    units = fit(measured)
    for group in sorted(set(groups)):
        lost = sorted(
            math.exp(regret(entries, units)) for entries_group, entries in zip(groups, measured) if entries_group == group
        )
        mean = math.exp(sum(map(math.log, lost)) / len(lost))
        print(
            f"{group:36} {len(lost):5} problems, mean {mean:.4f}, p99 {lost[int(0.99 * len(lost))]:.3f}, worst {lost[-1]:.3f}, "
            f"{sum(ratio > 1.25 for ratio in lost)} above 1.25"
        )
    for path in spaces:
        own = {variant["id"] for plan in plans[path] for variant in plan["variants"]}
        write(path, target, {name: unit for name, unit in units.items() if name in own})


if __name__ == "__main__":
    main()
