# SPDX-License-Identifier: MIT
"""For models.py: roots with the same kernels and other tables, which tell what a device's choices cost with its own rows, with those
of another device, and without any."""

import glob
import json
import os

ALL, OWN, LEFT_OUT, NONE = "all tables", "own table", "own, without the calls' rows", "no rows"


def value_text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def tables_of(root):
    """(path below the root, table) of each table."""
    for path in sorted(glob.glob(os.path.join(root, "tables", "*", "*.json"))):
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
        if isinstance(table, dict) and table.get("schema") == "switchyard.table/1":
            yield os.path.relpath(path, root), table


def has_table_of(root, device):
    return any(table.get("device", {}).get("name") == device[1] for _, table in tables_of(root))


def kept_rows(table, keeps):
    """The table with the rows for which `keeps(group, row)`, and the groups that have some."""
    groups = []
    for group in table.get("groups", []):
        rows = [row for row in group["rows"] if keeps(group, row)]
        if rows:
            groups.append({**group, "rows": rows})
    return {**table, "groups": groups}


def without_rows(table, problems):
    """The table without the rows of these problems, each a dict of words. Rows of other values of a type stay."""

    def is_of(group, row, problem):
        wanted = {**group["type"], **dict(zip(group["axes"], row["at"]))}
        return all(problem.get(axis, value_text(value)) == value_text(value) for axis, value in wanted.items())

    return kept_rows(table, lambda group, row: not any(is_of(group, row, problem) for problem in problems))


def make_roots(root, folder, device, problems):
    """Roots by the name of their set. `device`: the backend and the name of what was measured; `problems`: by operator, a dict of
    words each. A set without a table is left out, but for none at all."""
    sets = {ALL: {}, OWN: {}, LEFT_OUT: {}}
    backend, name = device
    for path, table in tables_of(root):
        of = table.get("device", {})
        sets[ALL][path] = table
        if of.get("name") == name:
            sets[OWN][path] = table
            sets[LEFT_OUT][path] = without_rows(table, problems.get(table["operator"], []))
        elif of.get("backend") == backend and of.get("name"):
            sets.setdefault(f"{of['name']} alone", {})[path] = table
    out = {}
    own = next((table["device"] for table in sets[OWN].values()), None)
    for i, (which, tables) in enumerate([*sets.items(), (NONE, {})]):
        if not tables and which != NONE:
            continue
        served = {table["operator"] for table in tables.values() if table.get("device", {}).get("name") == name}
        if own:  # a table without rows tells what the device is, where it is not here and `explain` only has its name
            empty = {"schema": "switchyard.table/1", "device": own, "groups": []}
            names = {f"tables/{operator}/empty.json": operator for operator in set(problems) - served}
            tables = {**tables, **{path: {**empty, "operator": operator} for path, operator in names.items()}}
        place = os.path.join(folder, f"set-{i}")
        os.makedirs(place)
        os.symlink(os.path.join(os.path.abspath(root), "kernels"), os.path.join(place, "kernels"))
        for path, table in tables.items():
            os.makedirs(os.path.dirname(os.path.join(place, path)), exist_ok=True)
            with open(os.path.join(place, path), "w", encoding="utf-8") as file:
                json.dump(table, file)
        out[which] = place
    return out
