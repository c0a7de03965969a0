# SPDX-License-Identifier: MIT
"""The study of matching rules: writes the figures of README.md and regret.svg.   study.py CHOOSE FOLDER [--write]

CHOOSE is the program that asks the real selector; FOLDER takes its inputs. Without --write the figures are only
printed.
"""

import os
import random
import sys

from predict import VARIANTS, thin
from rules import RULES, Table, summary
from studies import lines_left_out, measure, metric_of, metrics, studies

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN, END = "<!-- figures: tables/study/study.py -->\n", "<!-- end of figures -->\n"


def logarithms(study_or_operator):
    """The metric of a table that says nothing: each axis' logarithm."""
    return {}


def table_of(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def figures(regrets):
    mean, p99, worst = summary(regrets)
    return [f"{mean:.4f}", f"{p99:.3f}", f"{worst:.2f}", f"{100 * sum(r > 1.05 for r in regrets) / len(regrets):.1f} %"]


def long_enough(pairs):
    return [regret for regret, shape in pairs if shape.best >= 4]


def compare_rules(program, folder, all_studies):
    """Every rule over the same rows: all regrets by rule, and those of each study."""
    by_rule = {}
    for name, rule in RULES.items():
        pairs = []
        for study in all_studies.values():
            table = Table(study.grid)
            for query in study.held_out:
                chosen = rule(table, query) or query.first
                pairs.append((query.regret(chosen), query))
        by_rule[name] = pairs
    real = measure(program, folder, all_studies, match=logarithms, with_costs=False)
    by_rule["this library, logarithms of the axes"] = [pair for one in real.values() for pair in one]
    real = measure(program, folder, all_studies, neighbours=1, with_costs=False)
    by_rule["nearest, the tables' metric"] = [pair for one in real.values() for pair in one]
    real = measure(program, folder, all_studies, with_costs=False)
    by_rule["this library, the tables' metric"] = [pair for one in real.values() for pair in one]
    real = measure(program, folder, all_studies)
    by_rule["this library, metric and costs"] = [pair for one in real.values() for pair in one]
    return by_rule, real


def cross_validated(program, folder, all_studies):
    """By family of operators, what rules lose on lines of the grid that are left out: what the rule was chosen by."""

    families = (
        ("rows", lambda s: "rows" in s.axes),
        ("rotary", lambda s: s.operator == "rotary"),
        ("attention forward", lambda s: s.operator == "attention_forward"),
        ("attention backward", lambda s: s.operator == "attention_backward"),
    )
    rows = []
    for family, is_in in families:
        chosen = {name: study for name, study in all_studies.items() if is_in(study)}
        rules = [
            ("logarithms of the axes", {"match": logarithms, "with_costs": False}),
            ("nearest, the tables' metric", {"neighbours": 1, "with_costs": False}),
            ("the tables' metric", {"with_costs": False}),
        ]
        if family == "attention forward":
            rules.append(("metric and costs", {}))
        for name, options in rules:
            found = measure(program, folder, chosen, divisions=lines_left_out, **options)
            pairs = [pair for one in found.values() for pair in one]
            rows.append([family, name, str(len(pairs))] + figures([r for r, _ in pairs]) + figures(pairs_of(pairs))[:1])
    rows_only = {name: study for name, study in all_studies.items() if "rows" in study.axes}
    for axis in ("rows", "columns"):

        def one_axis(study, axis=axis):
            place = study.axes.index(axis)
            return [(kept, asked) for kept, asked in lines_left_out(study) if len({shape.at[place] for shape in asked}) == 1]

        found = measure(program, folder, rows_only, divisions=one_axis)
        pairs = [pair for one in found.values() for pair in one]
        rows.append(
            ["rows", f"the tables' metric, lines of `{axis}` only", str(len(pairs))]
            + figures([r for r, _ in pairs])
            + figures(pairs_of(pairs))[:1]
        )
    return rows


def pairs_of(pairs):
    return long_enough(pairs) or [1.0]


def thinning(program, folder, all_studies):
    """Regret when only a share of the rows is kept, or fewer variants a row."""
    rows = []
    for share in (1, 0.5, 0.25, 0.125):

        def kept(study, share=share):
            shapes = list(study.grid)
            random.Random(1).shuffle(shapes)
            return shapes[: max(4, round(len(shapes) * share))]

        found = measure(program, folder, all_studies, shapes=kept)
        rows.append((f"{100 * share:g} % of the rows", [e for one in found.values() for e in one]))
    for most in (1, 2, 4, 8, 16):
        found = measure(program, folder, all_studies, most=most)
        rows.append((f"all rows, {most} variants in each", [e for one in found.values() for e in one]))
    for most in (80, 160, 320):
        found = measure(program, folder, all_studies, shapes=lambda study, most=most: thin(study, most), most=VARIANTS)
        rows.append(
            (
                f"{most} rows that the others predict worst, {VARIANTS} variants in each",
                [e for one in found.values() for e in one],
            )
        )
    return rows


def axes_that_matter(program, folder, all_studies):
    """Regret when the table ignores one axis or quantity."""
    rows = []
    for family, full in metrics().items():
        chosen = {name: study for name, study in all_studies.items() if metric_of(study.operator) == family}
        if not chosen:
            continue
        for left_out in [None] + [key for key, how in full.items() if how != "ignore"]:

            def match(_, left_out=left_out, full=full):
                return {key: "ignore" if key == left_out else how for key, how in full.items()}

            found = measure(program, folder, chosen, match=match)
            pairs = [e for one in found.values() for e in one]
            rows.append((family, left_out, pairs))
    return rows


def flips(all_studies):
    """How many winners a second run changes, and what the first run's winner costs there."""
    rows, all_costs = [], []
    for name, study in all_studies.items():
        count, changed, costs, kept = 0, 0, [], []
        for shape, first, second in zip(study.shapes, study.first_run, study.second_run):
            if not second:
                continue
            winner = min(first, key=first.get)
            if winner not in second or second[winner] > 1.5 * first[winner]:
                continue  # a hiccup of one run
            count += 1
            best = min(second.values())
            changed += second[winner] > best
            costs.append(second[winner] / best)
            all_costs.append((costs[-1], shape))
            # A tie, within 2 %, goes to the variant that the shape's neighbours like best: here, to the one with the
            # smallest mean of both runs, which is what more measuring would tell.
            ties = [v for v in first if first[v] <= 1.02 * first[winner] and v in second]
            settled = min(ties, key=lambda v, shape=shape: shape.times[v])
            kept.append(second[settled] / best)
        if count:
            rows.append((name, count, changed, summary(costs), summary(kept)))
    return rows, all_costs


def plot(by_rule):
    """Regret of each rule over the share of shapes, as SVG."""
    width, height, left, top, high = 640, 300, 60, 20, 1.3
    colours = ["#999999", "#e69f00", "#cc79a7", "#56b4e9", "#009e73", "#8c564b", "#b2a900", "#0072b2", "#f0a3ff", "#d55e00"]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 300} {height + 70}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
    ]

    def y_of(value):
        return top + height * (1 - (min(value, high) - 1) / (high - 1))

    for i in range(7):
        value = 1 + i * 0.05
        out.append(
            f'<line x1="{left}" x2="{left + width}" y1="{y_of(value):.1f}" y2="{y_of(value):.1f}" stroke="#ddd"/>'
            f'<text x="{left - 6}" y="{y_of(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>'
        )
    for share in (50, 60, 70, 80, 90, 95, 99, 100):
        x = left + width * (share - 50) / 50
        out.append(f'<text x="{x:.0f}" y="{top + height + 18}" text-anchor="middle">{share}</text>')
    out.append(
        f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">share of the shapes held out, %</text>'
    )
    out.append(
        f'<text x="16" y="{top + height / 2}" transform="rotate(-90 16 {top + height / 2})" '
        f'text-anchor="middle">chosen over best</text>'
    )
    for i, (name, pairs) in enumerate(by_rule.items()):
        ordered = sorted(long_enough(pairs))
        points = []
        for step in range(101):
            share = 0.5 + step / 200
            points.append(
                f"{left + width * step / 100:.1f},{y_of(ordered[min(len(ordered) - 1, int(share * len(ordered)))]):.1f}"
            )
        out.append(
            f'<polyline fill="none" stroke="{colours[i % 10]}" stroke-width="{3 if name.endswith("costs") else 2 if "metric" in name else 1.5}" '
            f'points="{" ".join(points)}"/>'
        )
        out.append(
            f'<rect x="{left + width + 14}" y="{top + 20 * i}" width="12" height="12" fill="{colours[i % 10]}"/>'
            f'<text x="{left + width + 32}" y="{top + 20 * i + 10}">{name}</text>'
        )
    return "\n".join(out) + "\n</svg>\n"


def main():
    program, folder, *words = sys.argv[1:]
    all_studies = studies()
    shapes = sum(len(s.held_out) for s in all_studies.values())
    grid = sum(len(s.grid) for s in all_studies.values())
    by_rule, real = compare_rules(program, folder, all_studies)
    text = (
        f"{len(all_studies)} studies of one operator and type each, {grid} shapes in their grids, {shapes} held out, "
        f"{sum(len(s.variants) for s in all_studies.values())} variants. Chosen over best, by the geometric mean:\n\n"
    )
    text += table_of(
        ["rule, over the same rows", "mean", "p99", "worst", "over 5 %", "mean, 4 us and longer", "p99"],
        [[name] + figures([r for r, _ in pairs]) + figures(long_enough(pairs))[:2] for name, pairs in by_rule.items()],
    )
    text += "\nThe last rule, by study:\n\n"
    text += table_of(
        ["study", "mean", "p99", "worst", "over 5 %", "the worst shape, and its best time"],
        [
            [name]
            + figures([r for r, _ in pairs])
            + [f"{max(pairs, key=lambda e: e[0])[1].at}, {max(pairs, key=lambda e: e[0])[1].best:.1f} us"]
            for name, pairs in real.items()
        ],
    )
    text += "\nFewer rows, and fewer variants in a row:\n\n"
    text += table_of(
        ["table", "mean", "p99", "worst", "over 5 %"],
        [[name] + figures([r for r, _ in pairs]) for name, pairs in thinning(program, folder, all_studies)],
    )
    text += "\nWithout one axis or quantity of the metric:\n\n"
    text += table_of(
        ["metric", "ignored", "mean", "p99", "worst", "over 5 %"],
        [
            [family, f"`{left_out}`" if left_out else "nothing"] + figures([r for r, _ in pairs])
            for family, left_out, pairs in axes_that_matter(program, folder, all_studies)
        ],
    )
    text += (
        "\nCross-validation within the grids: all shapes of one line are left out of the table, then queried. Metric, costs "
        "and weights were chosen by it:\n\n"
    )
    text += table_of(
        ["operators", "rule", "shapes", "mean", "p99", "worst", "over 5 %", "mean, 4 us and longer"],
        cross_validated(program, folder, all_studies),
    )
    text += (
        "\nRepeatability: every shape was measured exhaustively a second time. The table shows what the first run's winner "
        "costs in the second run:\n\n"
    )
    by_study, costs = flips(all_studies)
    text += table_of(
        ["study", "shapes", "other winners", "mean cost", "p99", "mean cost, ties within 2 % settled by both runs"],
        [
            [name, str(count), str(changed), f"{cost[0]:.4f}", f"{cost[1]:.3f}", f"{kept[0]:.4f}"]
            for name, count, changed, cost, kept in by_study
        ],
    )
    text += (
        "\nThis is the noise floor: choosing by the first run and being judged by the second loses this much, so no rule judged by one run "
        "can lose less. The studies judge by both runs together, which halves the variance of the noise.\n\n"
    )
    text += table_of(
        ["shapes", "count", "mean", "p99", "worst", "over 5 %"],
        [
            [label, str(len(regrets))] + figures(regrets)
            for label, regrets in (
                ("all", [r for r, _ in costs]),
                ("shorter than 4 us", [r for r, s in costs if s.best < 4]),
                ("4 us and longer", [r for r, s in costs if s.best >= 4]),
            )
        ],
    )
    print(text)
    if "--write" in words:
        path = os.path.join(HERE, "README.md")
        with open(path, encoding="utf-8") as file:
            readme = file.read()
        head, rest = readme.split(BEGIN)
        tail = rest.split(END)[1]
        with open(path, "w", encoding="utf-8") as file:
            file.write(head + BEGIN + "\n" + text + "\n" + END + tail)
        with open(os.path.join(HERE, "regret.svg"), "w", encoding="utf-8") as file:
            file.write(plot(by_rule))


if __name__ == "__main__":
    main()
