# SPDX-License-Identifier: MIT
"""Predicts the times of a shape from rows, as the library does where variants have no costs, and keeps the rows that matter."""

import math

from manifests import evaluate
from plan import benchmarked
from studies import match_of

VARIANTS = 8
UNSEEN_MARGIN, MOST_UNSEEN, LEAST_DISTANCE = 0.1, 0.35, 0.05  # as in group_query.hpp


def placing(study):
    """The place of sizes in the metric of the study's tables."""
    rules = match_of(study.operator)
    quantities = []
    for key in list(study.axes) + [key for key in rules if key not in study.axes]:
        how = rules.get(key, "log")
        if how == "ignore":
            continue
        kind, unit = (how, 1) if isinstance(how, str) else next(iter(how.items()))
        quantities.append((key, kind, unit))

    def place(at):
        names = dict(zip(study.axes, at))
        out = []
        for key, kind, unit in quantities:
            value = int(evaluate(key, names, {}, set()))
            out.append(math.log2(max(1, value)) / unit if kind == "log" else value / unit)
        return out

    return place


def row_of(place, shape):
    """A row as predict() reads it: its place, its fastest variants' times as logarithms, and the variants that serve it."""
    return place(shape.at), sorted(shape.logs.items(), key=lambda pair: pair[1])[:VARIANTS], set(shape.logs)


def nearest(rows, here):
    """(weight, times, variants that serve) of the nearest rows."""
    near = sorted((sum((a - b) ** 2 for a, b in zip(here, row[0])), i) for i, row in enumerate(rows))[:8]
    return [(1 / (squared + LEAST_DISTANCE) ** 2, *rows[i][1:]) for squared, i in near]


def predict(near, allowed):
    """As group_query.hpp does where variants have no costs: slowdowns over the nearest rows' best, by 1 / distance^4, over the
    rows that a variant serves."""
    counted = []
    for weight, times, served in near:
        kept = {v: t for v, t in times if v in allowed}
        if kept:
            best, last = min(kept.values()), max(kept.values())
            slowdowns = {v: t - best for v, t in kept.items()}
            counted.append((weight, slowdowns, min(MOST_UNSEEN, last - best + UNSEEN_MARGIN), served))

    def score(variant):
        rows = [(weight, slow.get(variant, unseen)) for weight, slow, unseen, served in counted if variant in served]
        return sum(weight * value for weight, value in rows) / sum(weight for weight, _ in rows)

    seen = {variant: None for _, slow, _, _ in counted for variant in slow}
    return min(seen, key=score) if seen else None


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
