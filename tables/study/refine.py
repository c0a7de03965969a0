# SPDX-License-Identifier: MIT
"""The shapes to measure next, by what is measured already.   refine.py DATA OUTPUT COUNT [PREFIX...]

For each study in DATA, COUNT more rows for its grid, where rows near each other
disagree: of many random shapes, drawn as held-out ones are but by another seed, those where the nearest rows expect
most to be lost by the variant that they choose together. Some fresh shapes are held out besides. OUTPUT is a
list for `switchyard tune`. PREFIX keeps what is named so.
"""

import sys

from plan import studies as planned
from plan import study, write_list
from predict import UNSEEN_MARGIN, nearest, placing, predict, row_of
from studies import studies as measured

CANDIDATES = 30  # times the usual number of held-out shapes
APART = 0.04  # squared distance at least, in units of the tables' metric


def expected_loss(near, variants):
    """By which factor (a logarithm of two) the choice of all the nearest rows is slower than each one's own best."""
    chosen = predict(near, variants)
    total = weights = 0.0
    for weight, times in near:
        (_, best), (_, last) = times[0], times[-1]
        total += weight * (dict(times).get(chosen, last + UNSEEN_MARGIN) - best)
        weights += weight
    return total / weights


def refined(known, candidates, count):
    """Of the candidates those that promise most, none beside another."""
    place = placing(known)
    rows = [row_of(place, shape) for shape in known.grid]
    variants = set(known.variants)
    present = [shape.at for shape in known.shapes]
    scored = sorted(
        ((expected_loss(nearest(rows, place(at)), variants), at) for at in candidates if at not in present),
        key=lambda pair: (-pair[0], pair[1]),
    )
    taken, places = [], [row[0] for row in rows]
    for _, at in scored:
        here = place(at)
        if all(sum((a - b) ** 2 for a, b in zip(here, other)) >= APART for other in places):
            taken.append(at)
            places.append(here)
            if len(taken) == count:
                break
    return taken


def main():
    data, output, count, *prefixes = sys.argv[1:]
    known = measured(data)
    fresh = {planned_study["name"]: planned_study for planned_study in planned(f"held out beside {count} more", 0.5)}
    out = []
    for planned_study in planned("candidates", CANDIDATES):
        name = planned_study["name"]
        if name not in known or (prefixes and not name.startswith(tuple(prefixes))):
            continue
        candidates = [at for at, held in zip(planned_study["shapes"], planned_study["held_out"]) if held]
        rows = refined(known[name], candidates, int(count))
        present = rows + [shape.at for shape in known[name].shapes]
        held_out = [at for at, held in zip(fresh[name]["shapes"], fresh[name]["held_out"]) if held and at not in present]
        out.append(study(name, planned_study["operator"], planned_study["type"], planned_study["axes"], (rows, held_out)))
        print(f"{name:40} {len(rows):4} grid {len(held_out):4} held out")
    write_list(output, out)


if __name__ == "__main__":
    main()
