# SPDX-License-Identifier: MIT
"""Fits how many nanoseconds each term of a variant's cost_ns takes on a device; see fit_costs.py.

A variant's time is a constant and a sum of its terms, with factors that are not negative. They are first fitted to the
variant's measured times, mostly to those near the best; then each is moved where this makes the choices cheaper. Of the
studies' shapes the grid is fitted to, of a table's rows three in four, of the calls of models all; what is left only judges.
"""

import json
import math
import os
import re

from judging import read
from leave_out import problems
from manifests import WORDS, evaluate, expand, number
from studies import studies

STEPS = (0.6, 0.75, 0.85, 0.92, 0.96, 1.04, 1.08, 1.15, 1.3, 1.6)
FEWEST = 8  # a variant with fewer times gets no factors, unless it is the first of a manifest


class Problem:
    """A measured problem: the group it is reported with, whether it is fitted to, and (terms' values, time in ns) of variants."""

    def __init__(self, group, is_fitted, axes, times, multiprocessors, weight=1.0):
        self.group, self.is_fitted, self.axes, self.times, self.weight = group, is_fitted, axes, times, weight
        self.multiprocessors = multiprocessors
        self.entries = {}


def value_of(text):
    return {"true": 1, "false": 0}.get(text, int(text) if re.fullmatch(r"-?\d+", text) else text)


def measured(operator, outputs, tables):
    multiprocessors = 0
    for name, study in studies().items():
        if study.operator == operator:
            multiprocessors = study.device["multiprocessors"]
            for shape in study.shapes:
                yield Problem(
                    name + (", held out" if shape.held_out else ""),
                    not shape.held_out,
                    {**study.type, **dict(zip(study.axes, shape.at))},
                    shape.times,
                    multiprocessors,
                )
    for path in tables:
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
        multiprocessors = table["device"]["multiprocessors"]
        for (_, row), axes, times in problems(table, least=1):
            yield Problem(
                "rows" + (", held out" if row % 4 == 3 else ""),
                row % 4 != 3,
                {key: number(value) for key, value in axes.items()},
                times,
                multiprocessors,
            )
    for path in outputs:
        for call in read(path)[0]:
            if call["study"] == operator and call.get("times"):
                axes = dict(word.split("=", 1) for word in call["problem"].split())
                yield Problem(
                    "calls of models",
                    True,
                    {key: value_of(text) for key, text in axes.items()},
                    call["times"],
                    multiprocessors,
                    5.0,
                )


def variants_of(spaces, target):
    """By id the variants of all spaces, in the manifest's order."""
    out, order = {}, 0
    plans = [plan for plan in expand(spaces)[0] if plan["target"] == target]
    for variant in (entry for plan in plans for entry in plan["variants"]):
        out.setdefault(variant["id"], []).append((order, variant))
        order += 1
    return out


def bind(problem, variants):
    """Fills in the terms of the variants, each as the first that serves the problem states them."""
    names = {
        "window": 0,
        "dropout": 0,
        "soft_capped": 0,
        "with_residual": 0,
        "multiprocessors": problem.multiprocessors,
        **problem.axes,
    }
    for key in ("rotary_dim", "head_dim_v"):
        names.setdefault(key, names.get("head_dim", 0))
    for name, time in problem.times.items():
        for order, variant in variants.get(name, ()):
            if all(
                int(value) == problem.axes.get(axis, int(value))
                if isinstance(value, bool)
                else value == problem.axes.get(axis, value)
                for axis, value in variant["type"].items()
            ):
                own = {**names, **variant["config"]}
                terms = [1.0]
                for text in variant.get("cost_terms", ()):
                    terms.append(float(evaluate(text, own, {}, WORDS)))
                problem.entries[variant.get("cost_key", name)] = (order, terms if len(terms) > 1 else None, 1000 * time)
                break


def nonnegative(rows, weights):
    """The x >= 0 with the least weighted sum of (row . x - 1)^2, by coordinate descent."""
    count = len(rows[0])
    scale = [max(row[i] for row in rows) or 1.0 for i in range(count)]  # so that all columns count alike
    matrix = [[0.0] * count for _ in range(count)]
    right = [0.0] * count
    for row, weight in zip(rows, weights):
        row = [value / unit for value, unit in zip(row, scale)]
        for i in range(count):
            right[i] += weight * row[i]
            for j in range(count):
                matrix[i][j] += weight * row[i] * row[j]
    x = [0.0] * count
    for _ in range(400):
        for i in range(count):
            if matrix[i][i] > 0:
                x[i] = max(0.0, (right[i] - sum(matrix[i][j] * x[j] for j in range(count) if j != i)) / matrix[i][i])
    return [value / unit for value, unit in zip(x, scale)]


def predicted(factors, terms):
    return sum(factor * term for factor, term in zip(factors, terms))


def not_too_short(samples):
    """Factors by (terms over time, weight) of each sample; those whose time comes out too short weigh more and more. Where a
    variant is slow its time says little of the choices there, but one that is far too short would be chosen elsewhere."""
    rows, weights = [row for row, _ in samples], [weight for _, weight in samples]
    if len(rows) < FEWEST:
        rows = [[0.0, *row[1:]] for row in rows]  # so few would be explained by a constant
    for _ in range(6):
        x = nonnegative(rows, weights)
        weights = [weight * (4 if predicted(x, row) < 0.85 else 1) for row, weight in zip(rows, weights)]
    return x


def start(problems):
    """Factors of each variant that is near the best somewhere, or the first of the manifest, by its own times."""
    near, firsts, samples = set(), set(), {}
    for problem in problems:
        timed = {name: time for name, (_, terms, time) in problem.entries.items() if terms}
        if not timed:
            continue
        best = min(timed.values())
        firsts.add(min(timed, key=lambda name: problem.entries[name][0]))  # it decides whether times do
        for name, time in timed.items():
            if len(timed) > 1 and time < 1.05 * best:
                near.add(name)
            if time < 5.5 * best:  # beyond, the data is cut
                weight = 1.0 if time < 1.15 * best else 0.3 if time < 1.5 * best else 0.03
                row = [term / time for term in problem.entries[name][1]]
                samples.setdefault(name, []).append((row, weight * problem.weight))
    return {
        name: not_too_short(rows)
        for name, rows in sorted(samples.items())
        if name in firsts or (name in near and len(rows) >= FEWEST)
    }


def loss(time, best):
    lost = math.log(time / best)
    return lost + max(0.0, 4 * (lost - math.log(1.15)))


def improve(problems, factors):
    """Moves one factor after the other, and all of a variant together, where the choices become cheaper."""
    problems = [problem for problem in problems if sum(name in factors for name in problem.entries) > 1]
    best = [min(time for _, _, time in problem.entries.values()) for problem in problems]
    known = [
        {name: (terms, loss(time, least)) for name, (_, terms, time) in problem.entries.items() if name in factors}
        for problem, least in zip(problems, best)
    ]
    times = [{name: predicted(factors[name], terms) for name, (terms, _) in entries.items()} for entries in known]
    uses = {}
    for i, entries in enumerate(known):
        for name in entries:
            uses.setdefault(name, []).append(i)
    for _ in range(6):
        is_moved = False
        for name, used in sorted(uses.items()):
            rivals = []
            for i in used:
                rival = min((time, other) for other, time in times[i].items() if other != name)
                rivals.append(
                    (
                        known[i][name][0],
                        problems[i].weight * known[i][name][1],
                        rival[0],
                        problems[i].weight * known[i][rival[1]][1],
                    )
                )

            def total(x):
                out = 0.0
                for terms, own, time, other in rivals:
                    out += own if predicted(x, terms) < time else other
                return out

            least = total(factors[name]) - 1e-9
            x = list(factors[name])
            for k in range(len(x) + 1):
                for step in STEPS:
                    moved = [value * step for value in x] if k == len(x) else x[:k] + [x[k] * step] + x[k + 1 :]
                    lost = total(moved) + 0.003 * abs(math.log(step)) if moved != x else least
                    if lost < least:
                        least, x = lost, moved
            if x != factors[name]:
                is_moved = True
                factors[name] = x
                for i in used:
                    times[i][name] = predicted(x, known[i][name][0])
        if not is_moved:
            break


def regrets(problem, factors):
    """What the first variant of the manifest costs, and what the choice by time costs."""
    best = min(time for _, _, time in problem.entries.values())
    first = min(problem.entries, key=lambda name: problem.entries[name][0])
    choice = first
    if first in factors:
        choice = min(
            (name for name in problem.entries if name in factors),
            key=lambda name: predicted(factors[name], problem.entries[name][1]),
        )
    return problem.entries[first][2] / best, problem.entries[choice][2] / best


def summary(values):
    values = sorted(values)
    mean = math.exp(sum(map(math.log, values)) / len(values))
    return f"mean {mean:.4f}, p99 {values[math.ceil(0.99 * len(values)) - 1]:.3f}, worst {values[-1]:.3f}"


def rounded(value):
    return float(f"{value:.3g}") if value >= 0.00001 else 0.0


def write(path, target, factors):
    """Replaces the file's cost_ns, or puts it before `define` or `blobs`."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    indent = re.search(r'\n( +)"blobs": \{', text)[1]
    kept = json.loads(text).get("cost_ns", {})
    kept[target] = {name: [rounded(value) for value in values] for name, values in sorted(factors.items())}
    if not factors:
        del kept[target]
    lines = []
    for name, target_factors in sorted(kept.items()):
        inner = ",\n".join(
            f"{3 * indent}{json.dumps(key)}: {json.dumps([int(v) if v == int(v) else v for v in value])}"
            for key, value in target_factors.items()
        )
        lines.append(f"{2 * indent}{json.dumps(name)}: {{\n{inner}\n{2 * indent}}}")
    text = re.sub(r'\n +"cost_ns": \{.*?\n' + indent + r"\},", "", text, flags=re.DOTALL)
    key = '"define"' if f'\n{indent}"define": {{' in text else '"blobs"'
    if kept:
        member = f'\n{indent}"cost_ns": {{\n' + ",\n".join(lines) + f"\n{indent}}},"
        text = text.replace(f"\n{indent}{key}: {{", f"{member}\n{indent}{key}: {{", 1)
    json.loads(text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def fit(operator, spaces, tables, outputs, target):
    for path in spaces:
        write(path, target, {})  # their terms may have changed
    variants = variants_of(spaces, target)
    problems = list(measured(operator, outputs, tables))
    for problem in problems:
        bind(problem, variants)
    problems = [problem for problem in problems if len(problem.entries) > 1]
    fitted = [problem for problem in problems if problem.is_fitted]
    factors = start(fitted)
    improve(fitted, factors)
    factors = {name: [rounded(value) for value in values] for name, values in factors.items()}
    for group in sorted({problem.group for problem in problems}):
        pairs = [regrets(problem, factors) for problem in problems if problem.group == group]
        print(
            f"{operator + ': ' + group:58} {len(pairs):4} by order: {summary([a for a, _ in pairs])}; "
            f"by time: {summary([b for _, b in pairs])}",
            flush=True,
        )
    for path in spaces:
        own = {
            variant.get("cost_key") for plan in expand([path])[0] if plan["target"] == target for variant in plan["variants"]
        }
        write(path, target, {name: values for name, values in factors.items() if name in own})


def spaces_with_terms(folder):
    """By operator the search spaces below a folder whose rules state terms."""
    out = {}
    for where, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if not name.endswith(".json"):
                continue
            path = os.path.join(where, name)
            with open(path, encoding="utf-8") as file:
                space = json.load(file)
            if any("cost_ns" in rule for rule in space.get("variants", ())):
                out.setdefault(space["operator"], []).append(path)
    return out
