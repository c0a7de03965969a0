# SPDX-License-Identifier: MIT
"""The studies that were measured, and what the real selector's choices cost on them."""

import functools
import glob
import json
import os

from real import choose
from rules import Study, Table

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data")


@functools.cache
def metrics():
    with open(os.path.join(HERE, "match.json"), encoding="utf-8") as file:
        return json.load(file)


def metric_of(operator):
    """The name of its metric: its own, that of its forward pass, or that of operators over rows."""
    return next((name for name in (operator, operator.removesuffix("_backward")) if name in metrics()), "rows")


def match_of(operator):
    return metrics()[metric_of(operator)]


def studies(folder=DATA):
    return {
        os.path.basename(path)[: -len(".json.xz")]: Study(path) for path in sorted(glob.glob(os.path.join(folder, "*.json.xz")))
    }


def held_out(study):
    """The one division of a study's shapes that is judged: a table of the grid, asked for what is held out."""
    return [(study.grid, study.held_out)]


def lines_left_out(study):
    """The grid divided for cross-validation: all shapes of one line are left out of the table and asked for, as held-out
    shapes lie beside the lines. Ends of an axis stay, and at a power of two of columns there are variants for that number
    alone, which a shape held out hardly ever has. Rows beside the lines are in all tables."""
    if "rows" in study.axes:
        keys, ends = (lambda at: at[0], lambda at: at[1]), True
    elif study.operator == "rotary":
        keys, ends = (lambda at: tuple(at[:2]), lambda at: tuple(at[2:])), False
    else:
        keys, ends = (lambda at: tuple(at[:3]), lambda at: tuple(at[3:])), False
    for key in keys:
        lines = {}
        for shape in study.grid:
            lines.setdefault(key(shape.at), []).append(shape)
        for value in sorted(lines)[1:-1] if ends else sorted(lines):
            asked = lines[value]
            if len(asked) < 4:
                continue
            kept = [shape for shape in study.grid if key(shape.at) != value]
            if ends:
                asked = [shape for shape in asked if shape.at[1] & (shape.at[1] - 1)]
            if asked:
                yield kept, asked


def measure(
    program,
    folder,
    all_studies,
    match=match_of,
    shapes=lambda study: study.grid,
    most=8,
    neighbours=8,
    with_costs=True,
    divisions=held_out,
):
    """For each study the (regret, shape) of every shape that is asked for."""
    asked, names = [], []
    for name, study in all_studies.items():
        for grid, queries in divisions(study):
            kept = grid if divisions is not held_out else shapes(study)
            names.append(name)
            asked.append(
                (
                    study,
                    Table(kept, most),
                    queries,
                    {"match": match(study.operator), "neighbours": neighbours, "with_costs": with_costs},
                )
            )
    out = {name: [] for name in all_studies}
    for name, (_, _, queries, _), answers in zip(names, asked, choose(program, folder, asked)):
        out[name] += [(query.regret(answer["variant"] or query.first), query) for query, answer in zip(queries, answers)]
    return out
