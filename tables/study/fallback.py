# SPDX-License-Identifier: MIT
"""What the choice without rows costs: for each row of the shipped tables, as if it and all others were missing.

    fallback.py [--worst N] [--json FILE] TABLE|OUTPUT... KERNELS

Each row that times several variants is a problem, and so is each call in an OUTPUT of models.py, of an H200. Its times say what the variant costs that the manifest's costs and order
would choose there (rule 5 of the guide), over the best one that was timed. A choice that the row does not time is counted
apart, and judged by the next one that it does: nothing is known of its time. By device and operator; --worst names the
problems of the greatest loss, --json writes all of them.
"""

import argparse
import json
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from fit_terms import value_of
from judging import read
from manifests import manifest_of, number
from rules import summary

GOAL = 1.5
H200 = {"backend": "cuda", "arch": "sm_90", "multiprocessors": 132}


def chosen(serving):
    """As selector::heuristic: the first, or the least time where the first states one."""
    first = serving[0]
    if first[1] is None:
        return first[0]
    return min((candidate for candidate in serving if candidate[1] is not None), key=lambda candidate: candidate[1])[0]


def rows_of(path):
    """(operator, device, text, axes, times in us) of what was measured."""
    if path.endswith(".xz"):
        for call in read(path)[0]:
            axes = dict(word.split("=", 1) for word in call["problem"].split())
            yield call["study"], H200, call["problem"], {key: value_of(text) for key, text in axes.items()}, call["times"]
        return
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    for group in table["groups"]:
        recorded = {}
        for axis, value in group.get("measured_with", {}).items():
            if not isinstance(value, list) or axis == "alignment":  # tensors of the tuner are aligned as well as they can be
                recorded[axis] = max(value) if isinstance(value, list) else value
        for row in group["rows"]:
            own = {**group["type"], **dict(zip(group["axes"], row["at"]))}
            axes = {key: number(value) for key, value in {**recorded, **own}.items()}
            text = " ".join(f"{key}={value}" for key, value in own.items())
            yield table["operator"], table["device"], text, axes, row.get("times_us", {})


def judge(path, kernels):
    """(text of the problem, chosen, is it timed, loss, best) of each problem with several times."""
    for operator, device, text, axes, times in rows_of(path):
        target = f"{device['backend']}-{device['arch']}"
        serving = list(manifest_of(kernels, operator, target).serving_on(device, axes)) if len(times) > 1 else []
        timed = [candidate for candidate in serving if candidate[0] in times]
        if not timed:
            continue
        best = min(timed, key=lambda candidate: times[candidate[0]])[0]
        choice = chosen(timed)
        yield text, choice, chosen(serving) in times, times[choice] / times[best], best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worst", type=int, default=0)
    parser.add_argument("--json")
    parser.add_argument("tables", nargs="+")
    parser.add_argument("kernels")
    given = parser.parse_args()
    everything = []
    for path in given.tables:
        found = sorted(judge(path, given.kernels), key=lambda result: result[3])
        name = os.path.join(os.path.basename(os.path.dirname(path)), os.path.basename(path))
        everything += [[name, *result] for result in found]
        if not found:
            continue
        lost = [result[3] for result in found]
        mean, p99, worst = summary(lost)
        print(
            f"{name:58} {len(lost):5} problems, mean {mean:.3f}, p90 {lost[int(0.9 * len(lost))]:.2f}, "
            f"p99 {p99:.2f}, worst {worst:.2f}, {sum(ratio > GOAL for ratio in lost)} above {GOAL}, "
            f"{sum(not result[2] for result in found)} choices not timed"
        )
        for text, choice, _, loss, best in found[::-1][: given.worst]:
            print(f"    {loss:.2f}  {choice} for {best}: {text}")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(everything, file)


if __name__ == "__main__":
    main()
