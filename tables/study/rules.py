# SPDX-License-Identifier: MIT
"""Rules that choose a variant from a table's rows, as other projects have them and as this one does.

A table is a list of rows (sizes, {variant: microseconds}); a query has sizes and the set of variants that may serve
it. Every rule returns a variant, or None where it has nothing to say.
"""

import json
import lzma
import math


class Study:
    """What was measured of one operator and type: as in data."""

    def __init__(self, path):
        with lzma.open(path) as file:
            data = json.load(file)
        self.operator, self.type, self.axes, self.device = (data[key] for key in ("operator", "type", "axes", "device"))
        self.variants = data["variants"]
        n = len(self.axes)
        self.shapes = [
            Shape(row[:n], row[n], row[n + 1], self.variants[row[n + 2]] if row[n + 2] >= 0 else None, self._times(times))
            for row, times in zip(data["shapes"], data["times"])
        ]
        self.first_run = [dict(shape.times) for shape in self.shapes]
        self.second_run = [{} for _ in self.shapes]
        for row in data["again"]:
            self.second_run[row[0]] = self._times(row[1:])
        for shape, second in zip(self.shapes, self.second_run):
            shape.combine(second)
        self.grid = [shape for shape in self.shapes if not shape.held_out]
        self.held_out = [shape for shape in self.shapes if shape.held_out]

    def _times(self, code):
        best = code[0] / 1000
        return {self.variants[code[i]]: best * (1 + code[i + 1] / 1000) for i in range(1, len(code), 2)}


class Shape:
    def __init__(self, at, held_out, alignment, first, times):
        self.at, self.held_out, self.alignment, self.first = at, held_out, alignment, first
        self._set(times)

    def _set(self, times):
        self.times = times
        self.best = min(times.values())
        self.logs = {variant: math.log2(time) for variant, time in times.items()}

    def combine(self, second):
        """Two runs' times as one: their mean, or the smaller where a hiccup made one of them long."""
        both = dict(self.times)
        for variant, time in second.items():
            before = both.get(variant, time)
            both[variant] = math.sqrt(before * time) if max(before, time) < 1.15 * min(before, time) else min(before, time)
        self._set(both)

    def regret(self, variant):
        return self.times[variant] / self.best


class Table:
    """Rows of the shapes given, each with its `most` fastest variants."""

    def __init__(self, shapes, most=8, scale=None):
        self.rows = []
        for shape in shapes:
            kept = sorted(shape.logs.items(), key=lambda pair: pair[1])[:most]
            self.rows.append((shape.at, kept))
        self.scale = scale or [1.0] * len(shapes[0].at)

    def place(self, at):
        return [math.log2(max(x, 1)) * s for x, s in zip(at, self.scale)]

    def nearest(self, at, count):
        here = self.place(at)
        found = sorted((sum((a - b) ** 2 for a, b in zip(here, self.place(row[0]))), i) for i, row in enumerate(self.rows))
        return [(d, self.rows[i]) for d, i in found[:count]]


def best_of(row, allowed):
    for variant, _ in row[1]:
        if variant in allowed:
            return variant
    return None


def exact_or_default(table, query):
    for row in table.rows:
        if row[0] == query.at:
            return best_of(row, query.times) or query.first
    return query.first


def ceil_bin(table, query):
    """Each size rounded up to one that the table has (the largest beyond it), as AOTriton bins sequence lengths."""
    up = []
    for axis, value in enumerate(query.at):
        levels = sorted({row[0][axis] for row in table.rows})
        up.append(next((level for level in levels if level >= value), levels[-1]))
    for _, row in table.nearest(up, len(table.rows)):  # the bin itself, or the nearest where the grid has a hole
        if found := best_of(row, query.times):
            return found
    return None


def nearest_linear(table, query):
    """The row at the least distance in the sizes themselves, as vLLM takes the batch size."""
    for row in sorted(table.rows, key=lambda row: sum((a - b) ** 2 for a, b in zip(row[0], query.at))):
        if found := best_of(row, query.times):
            return found
    return None


def nearest_log(table, query):
    for _, row in table.nearest(query.at, len(table.rows)):
        if found := best_of(row, query.times):
            return found
    return None


def interpolated(neighbours=8, power=1.0, counted=6):
    """Slowdowns over each row's best, weighted by distance; a variant that a row lacks is as slow there as the slowest
    that the row has."""

    def rule(table, query):
        totals, slowest, weights = {}, 0.0, 0.0
        for squared, row in table.nearest(query.at, neighbours):
            kept = [(v, t) for v, t in row[1] if v in query.times][:counted]
            if not kept:
                continue
            weight = (1 / (squared + 1e-4)) ** power
            last = kept[-1][1] - kept[0][1]
            for variant, time in kept:
                totals[variant] = totals.get(variant, 0.0) + weight * (time - kept[0][1] - last)
            slowest += weight * last
            weights += weight
        return min(totals, key=totals.get) if totals else None

    return rule


def local_linear(neighbours=12, bandwidth=1.0, ridge=0.05, counted=64, prior=0.0):
    """A plane through each variant's slowdowns in the logarithms of the sizes, by weighted least squares with a ridge
    on its slopes."""

    def rule(table, query):
        here = table.place(query.at)
        rows = []
        for squared, row in table.nearest(query.at, neighbours):
            kept = [(v, t) for v, t in row[1] if v in query.times][:counted]
            if kept:
                rows.append(
                    (
                        squared,
                        [a - b for a, b in zip(table.place(row[0]), here)],
                        dict(kept),
                        kept[0][1],
                        kept[-1][1] - kept[0][1],
                    )
                )
        if not rows:
            return None
        reach = max(rows[-1][0], 1e-3) * bandwidth
        variants = {v for row in rows for v in row[2]}
        scores = {}
        for variant in variants:
            points = [
                (
                    math.exp(-2 * squared / reach) / (squared + 0.02),
                    offset,
                    times[variant] - best if variant in times else last + 0.03,
                )
                for squared, offset, times, best, last in rows
            ]
            scores[variant] = plane_at_zero(points, ridge)
        return min(scores, key=scores.get)

    return rule


def plane_at_zero(points, ridge):
    """Value at the origin of the plane that fits (weight, offset, value) best."""
    n = len(points[0][1]) + 1
    matrix = [[0.0] * (n + 1) for _ in range(n)]
    total = sum(w for w, _, _ in points)
    for weight, offset, value in points:
        x = [1.0] + offset
        for i in range(n):
            for j in range(n):
                matrix[i][j] += weight * x[i] * x[j]
            matrix[i][n] += weight * x[i] * value
    for i in range(1, n):
        matrix[i][i] += ridge * total
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(matrix[r][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        if abs(matrix[i][i]) < 1e-12:
            return sum(w * v for w, _, v in points) / total
        for r in range(n):
            if r != i:
                factor = matrix[r][i] / matrix[i][i]
                for c in range(i, n + 1):
                    matrix[r][c] -= factor * matrix[i][c]
    return matrix[0][n] / matrix[0][0]


RULES = {
    "exact or default": exact_or_default,
    "ceil binning": ceil_bin,
    "nearest, linear": nearest_linear,
    "nearest, log": nearest_log,
    "interpolated": interpolated(),
    "local plane": local_linear(),
}


def summary(regrets):
    """Geometric mean, p99, worst."""
    ordered = sorted(regrets)
    mean = math.exp(sum(map(math.log, ordered)) / len(ordered))
    return mean, ordered[min(len(ordered) - 1, math.ceil(0.99 * len(ordered)) - 1)], ordered[-1]
