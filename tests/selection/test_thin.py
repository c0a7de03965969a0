# SPDX-License-Identifier: MIT
"""thin.py drops rows that the others predict, and their problems from the list, and nothing that another list holds.

test_thin.py STUDY CHOOSE TOOL FOLDER TABLE...
"""

import json
import os
import shutil
import subprocess
import sys

STUDY, CHOOSE, TOOL, FOLDER, *TABLES = sys.argv[1:]
sys.dont_write_bytecode = True
sys.path.insert(0, STUDY)

from leave_out import judge
from problem_lists import problems_of, values_of


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    return {(json.dumps(group["type"], sort_keys=True), tuple(row["at"])) for group in table["groups"] for row in group["rows"]}


def names_of(path):
    return {name_of(problem) for problem in problems_of(path)}


def name_of(problem):
    return json.dumps([problem.operator, problem.axes], sort_keys=True)


def main():
    assert list(values_of("1,4..16*2,100..300+100,7..8")) == [1, 4, 8, 16, 100, 200, 300, 7, 8]
    assert list(values_of("f16,true")) == ["f16", True]
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    tables = [os.path.join(FOLDER, os.path.basename(path)) for path in TABLES]
    for path, copy in zip(TABLES, tables):
        shutil.copy(path, copy)
    listed, stay = (os.path.join(FOLDER, name) for name in ("listed.txt", "stay.txt"))
    shutil.copy(os.path.join(STUDY, "..", "problems", "softmax_backward.txt"), listed)
    all_problems = names_of(listed)
    kept = list(problems_of(listed))[:20]
    with open(stay, "w", encoding="utf-8") as file:
        for problem in kept:
            file.write(" ".join([problem.operator, *(f"{axis}={value}" for axis, value in problem.axes.items())]) + "\n")
    before = [rows_of(path) for path in tables]
    words = [os.path.join(STUDY, "thin.py"), CHOOSE, TOOL, "--keep", "0.5", "--limit", "1.02", "--stay", stay, "--write"]
    done = subprocess.run([sys.executable, *words, listed, *tables], text=True, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAILED: thin.py: {done.stdout}{done.stderr}")
    after = [rows_of(path) for path in tables]
    gone = [old - new for old, new in zip(before, after)]
    assert all(new <= old for old, new in zip(before, after)) and all(len(rows) > 50 for rows in gone), gone
    left = names_of(listed)
    assert left < all_problems and set(map(name_of, kept)) <= left
    # A problem that went from the list has no row in any table, and the rows that are left choose well there.
    for _, problem in map(json.loads, all_problems - left):
        at = (problem["rows"], problem["columns"])
        for group, sizes in set().union(*after):
            assert sizes != at or json.loads(group)["dtype"] != problem["dtype"], problem
    for path, table in zip(TABLES, tables):
        lost = [loss for loss, *_ in judge(CHOOSE, path, by=table)]
        assert max(lost) <= 1.021, max(lost)
    print(f"{sum(map(len, before))} problems, {sum(map(len, after))} left")


main()
