# SPDX-License-Identifier: MIT
"""Predicts the times of a shape from rows, as the library does where variants have no costs, and keeps the rows that matter."""

import math

from plan import benchmarked
from studies import match_of

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
            variant = predict(nearest([rows[id(other)] for other in kept], rows[id(shape)][0]), shape.times)
            regrets.append((shape.regret(variant) if variant else 2.0, shape))
        regrets.sort(key=lambda pair: -pair[0])
        if regrets[0][0] < 1.01:
            break
        kept = kept + [shape for _, shape in regrets[: max(1, (most - len(kept)) // 6)]]
    return kept
