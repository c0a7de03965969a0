# SPDX-License-Identifier: MIT
"""For models.py and the fits: reads what was measured, and judges what the choices cost."""

import json
import lzma
import math

from table_sets import ALL, LEFT_OUT, NONE, OWN

GOALS = {OWN: {"mean": 1.01, "worst": 1.10}, LEFT_OUT: {"mean": 1.02}}  # what choices may cost
OTHER_CARD = {"mean": 1.02}


def combined(first, second):
    """Two runs' time of a variant: their mean, or the smaller where a hiccup made one of them long."""
    return math.sqrt(first * second) if max(first, second) < 1.15 * min(first, second) else min(first, second)


def opened(path, mode="r", place=None):
    """A file of measurements, compressed if its name says so. `place`: where it is for now."""
    return (lzma.open if path.endswith(".xz") else open)(place or path, mode + "t", encoding="utf-8")


def read(path):
    """Measured calls, each with the times of both passes as one; and the number of calls planned."""
    calls, planned = {}, 0
    with opened(path) as file:
        for line in map(json.loads, file):
            planned = line.get("planned", planned)
            if "study" not in line:
                continue
            key = (line["study"], line["shape"])
            if key not in calls:
                calls[key] = line
            else:
                times = calls[key].get("times", {})
                for variant, time in line.get("times", {}).items():
                    times[variant] = combined(times[variant], time) if variant in times else time
    return list(calls.values()), planned


def judge(path, bound, goals=False):
    """Prints what the choices cost; returns whether all calls were measured and are within the bound."""
    calls, planned = read(path)
    failures = 0 if len(calls) == planned else 1
    if failures:
        print(f"FAILED: {len(calls)} of {planned} calls were measured; allow more --seconds")
    results = []
    for measured in calls:
        call = measured["call"]
        name = f"{call['model']}: {call['phase']}, {call['operator']}"
        if not measured.get("times"):
            failures += 1
            print(f"FAILED: {name} {measured.get('problem', call)}: {measured.get('failed', 'no variant serves it')}")
            continue
        choices = measured.get("chosen")
        if not choices:
            failures += 1
            print(f"FAILED: {name}: nothing was chosen yet; models.py --choose {path} does it")
            continue
        best = min(measured["times"].values())
        if isinstance(choices, list):  # of older files
            choices = dict(zip((ALL, NONE), choices))
        over = {which: measured["times"].get(choice["variant"], math.inf) / best for which, choice in choices.items()}
        bounded = max(over[which] for which in (ALL, NONE) if which in over)
        results.append((bounded, over, best, name, measured, choices))
    results.sort(key=lambda result: -result[0])
    sets = list(dict.fromkeys(which for _, over, *_ in results for which in over))
    for i, which in enumerate(sets):
        print(f"({i + 1}) {which}")
    print("".join(f"{f'({i + 1})':>8}" for i in range(len(sets))) + "   best us  variants  call")
    for worst, over, best, name, measured, choices in results:
        cells = "".join(f"{over[which]:8.3f}" if which in over else f"{'':8}" for which in sets)
        print(f"{cells} {best:9.1f} {len(measured['times']):9}  {name} {{{measured['problem']}}}")
        if worst > bound:
            failures += 1
            print(
                f"  FAILED: above {bound}: best {min(measured['times'], key=measured['times'].get)}; chosen "
                + "; ".join(f"{choice['variant']} ({choice['reason']})" for choice in choices.values())
            )
    for which in sets:
        ratios = sorted(over[which] for _, over, *_ in results if which in over)
        missed = summarize(which, ratios, bound)
        if which == OWN:
            apart = [over[OWN] for *_, over, _, _, _, choices in results if choices[OWN]["reason"] != "exact"]
            summarize("own table, calls without a row", sorted(apart), bound)
        failures += bool(missed) and goals
    print(f"{len(results)} calls, {failures} failed")
    return failures == 0 and bool(results)


def goals_of(which):
    return GOALS.get(which, OTHER_CARD if which.endswith(" alone") else {})


def summarize(which, ratios, bound):
    """Prints mean and extremes of sorted ratios; returns the goals that they do not meet."""
    if not ratios:
        return []
    if ratios[-1] == math.inf:
        print(f"{which}: {ratios.count(math.inf)} of {len(ratios)} choices are of variants without a time: no mean")
        return list(goals_of(which))
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    found = {"mean": mean, "worst": ratios[-1]}
    missed = [f"{name} {limit}" for name, limit in goals_of(which).items() if found[name] > limit]
    print(
        f"{which}: {len(ratios)} calls, geometric mean {mean:.4f}, p99 {ratios[math.ceil(0.99 * len(ratios)) - 1]:.3f}, "
        f"worst {ratios[-1]:.3f}, {sum(ratio > bound for ratio in ratios)} above {bound}"
        + (f"; goal missed: {', '.join(missed)}" if missed else "")
    )
    return missed
