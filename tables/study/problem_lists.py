# SPDX-License-Identifier: MIT
"""Reads problem lists: ../README.md#problem-lists."""

import itertools
from typing import NamedTuple


class Problem(NamedTuple):
    operator: str
    axes: dict  # the values of the axes that are named, but for those after `with`
    options: dict  # what follows `with`, and what the problem's own line adds to its columns


class Line(NamedTuple):
    text: str  # whole
    head: str  # the line that names the operator: this one or one above; empty if this line is no part of a problem
    comment: str
    problems: list


def value_of(text):
    digits = text.removeprefix("-")
    return {"true": True, "false": False}.get(text, int(text) if digits.isdigit() else text)


def values_of(text):
    """The values of an axis: 1,4..16*2 gives 1, 4, 8 and 16, and f16,bf16 both."""
    for part in text.split(","):
        first, _, step = part.partition("..")
        if not step:
            yield value_of(part)
            continue
        last, by = next(((step.split(sign), sign) for sign in "*+" if sign in step), ([step, "1"], "+"))
        value = int(first)
        while value <= int(last[0]):
            yield value
            value = value * int(last[1]) if by == "*" else value + int(last[1])


def combinations(names, values):
    """All combinations of the names' values, each as text such as 1,4..16*2."""
    for chosen in itertools.product(*(list(values_of(text)) for text in values)):
        yield dict(zip(names, chosen))


def options_of(words):
    return {name: value_of(value) for name, value in (word.split("=", 1) for word in words)}


def lines_of(path):
    """The lines of a list. A line with columns has no problems itself; those below it have."""
    head, operator, common, options, columns = "", "", [], {}, []
    with open(path, encoding="utf-8") as file:
        for text in file:
            content, _, comment = (part.strip() for part in text.partition("#"))
            words, found = content.split(), []
            if words and not text.startswith(" "):
                head = text.rstrip("\n")
                named, _, below = content.partition(" : ")
                before, _, after = named.partition(" with ")
                (operator, *axes), columns = before.split(), below.split()
                axes, options = dict(word.split("=", 1) for word in axes), options_of(after.split())
                common = list(combinations(axes, axes.values()))
                found = [] if columns else [Problem(operator, axes, options) for axes in common]
            elif words:
                own = options_of(word for word in words if "=" in word)
                sizes = list(combinations(columns, (word for word in words if "=" not in word)))
                found = [Problem(operator, {**axes, **at}, {**options, **own}) for axes in common for at in sizes]
            yield Line(text, head if words else "", comment, found)


def problems_of(path):
    for line in lines_of(path):
        yield from line.problems
