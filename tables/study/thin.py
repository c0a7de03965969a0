# SPDX-License-Identifier: MIT
"""Drops the rows of tables that the other rows predict, and their problems from a list.

    thin.py CHOOSE TOOL [--limit 1.01] [--keep 0.4] [--stay LIST]... [--write] LIST TABLE...

The TABLEs are of one operator, on several devices. Each round drops rows whose problems hardly lose without them, from all tables
at once, and brings back those whose problem now loses more than --limit on some device. The rounds end when the share --keep of
the rows is left, or when no row can go. Problems of the lists after --stay keep their rows. --write shortens LIST and the TABLEs,
which TOOL, the program `switchyard`, writes. Without it, the program only says how many rows can go.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from leave_out import problems, todays_variants
from problem_lists import lines_of, problems_of
from real import answers_to, write_manifest
from rules import summary
from table_sets import kept_rows, value_text


class Rows:
    """The rows of an operator's tables, by what identifies their problem on every device."""

    def __init__(self, paths, folder):
        self.folder = folder
        self.tables = []
        for path in paths:
            with open(path, encoding="utf-8") as file:
                self.tables.append(json.load(file))
        self.operator = self.tables[0]["operator"]
        self.of_device = []
        for i, table in enumerate(self.tables):
            found = list(problems(table, least=1))
            write_manifest(self.manifest(i), self.operator, table["device"], todays_variants(table, found))
            names = {}
            for (group, row), own, times in found:
                names[self.name(table["groups"][group], table["groups"][group]["rows"][row])] = (own, times)
            self.of_device.append(names)
        self.own = {name: own for names in self.of_device for name, (own, _) in names.items()}

    def manifest(self, device):
        return os.path.join(self.folder, f"manifest{device}.json")

    @staticmethod
    def name(group, row):
        return json.dumps([group["type"], group.get("measured_with", {}), group["axes"], row["at"]], sort_keys=True)

    def without(self, device, gone):
        """The device's table without the rows of these names."""
        return kept_rows(self.tables[device], lambda group, row: self.name(group, row) not in gone)

    def losses(self, program, gone):
        """What each problem's choice costs, on the device where it costs most. A row does not decide its own problem."""
        out = dict.fromkeys(self.own, 1.0)
        for device, names in enumerate(self.of_device):
            table = self.without(device, gone)
            places = {
                self.name(group, row): [i, j] for i, group in enumerate(table["groups"]) for j, row in enumerate(group["rows"])
            }
            path = os.path.join(self.folder, "table.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(table, file)
            lines = [json.dumps({"table": path, "manifest": self.manifest(device)})]
            for name, (own, _) in names.items():
                lines.append(json.dumps({"problem": own, **({"without": places[name]} if name in places else {})}))
            for (name, (_, times)), answer in zip(names.items(), answers_to(program, self.folder, lines)):
                chosen = times.get(answer["variant"], 1.05 * max(times.values()))
                out[name] = max(out[name], chosen / min(times.values()))
        return out

    def of_problem(self, problem):
        """The names of the rows that a list's problem has: those of the types with the fewest axes that it does not name."""
        if problem.operator != self.operator:
            return []
        wanted = {axis: value_text(value) for axis, value in problem.axes.items()}
        found = {}
        for name, own in self.own.items():
            if all(value_text(own.get(axis, value)) == value for axis, value in wanted.items()):
                found.setdefault(len(json.loads(name)[0].keys() - wanted.keys()), []).append(name)
        return found[min(found)] if found else []


def thinned(rows, program, stay, limit, enough):
    """The names of the rows that can go."""
    chance = random.Random(1)
    gone, fixed = set(), set(stay)
    while True:
        lost = rows.losses(program, gone)
        back = {name for name in gone if lost[name] > limit}
        gone -= back
        fixed |= back
        left = len(rows.own) - len(gone)
        print(f"{left} of {len(rows.own)} rows left, {len(back)} came back", file=sys.stderr)
        idle = [name for name in rows.own if name not in gone | fixed and lost[name] <= (1 + limit) / 2]
        count = min(len(idle), left - enough, left // 5)
        if count > 0:
            gone.update(chance.sample(idle, count))
        elif not back:
            mean, p99, worst = summary([lost[name] for name in gone] or [1.0])
            print(
                f"{len(gone)} rows can go: there the others lose {mean:.4f} in the mean, {p99:.3f} at p99, {worst:.3f} at worst"
            )
            return gone


def write_list(path, is_gone):
    """The list without some problems. Those that differ in the last column alone share a line again."""
    out, written, line_of = [], None, None
    for line in lines_of(path):
        columns = line.head.partition(" : ")[2].split()
        if not columns or not line.text.startswith(" "):
            if not columns and not (line.problems and all(map(is_gone, line.problems))):
                out.append(line.text)
            line_of = None
            continue
        words = line.text.partition("#")[0].split()
        more = [word for word in words if "=" in word] + ([f"# {line.comment}"] if line.comment else [])
        left = [problem for problem in line.problems if not is_gone(problem)]
        for *first, last in dict.fromkeys(tuple(value_text(problem.axes[axis]) for axis in columns) for problem in left):
            if written != line.head:
                out.append(line.head + "\n")
                written, line_of = line.head, None
            if line_of == first and not more:
                out[-1] = f"{out[-1][:-1]},{last}\n"
                continue
            out.append("  " + " ".join([*first, last, *more]) + "\n")
            line_of = None if more else first
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("choose")
    parser.add_argument("tool")
    parser.add_argument("--limit", type=float, default=1.01)
    parser.add_argument("--keep", type=float, default=0.4)
    parser.add_argument("--stay", action="append", default=[], metavar="LIST")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("list")
    parser.add_argument("tables", nargs="+")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = Rows(given.tables, folder)
        stay = [name for path in given.stay for problem in problems_of(path) for name in rows.of_problem(problem)]
        gone = thinned(rows, given.choose, stay, given.limit, int(given.keep * len(rows.own)))
        if not given.write:
            return

        def is_gone(problem):
            found = rows.of_problem(problem)
            return bool(found) and gone.issuperset(found)

        for device, path in enumerate(given.tables):
            shorter = os.path.join(folder, "shorter.json")
            with open(shorter, "w", encoding="utf-8") as file:
                json.dump(rows.without(device, gone), file)
            subprocess.run([given.tool, "merge", shorter, "-o", path], check=True)
        write_list(given.list, is_gone)


if __name__ == "__main__":
    main()
