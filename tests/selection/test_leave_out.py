# SPDX-License-Identifier: MIT
"""The studies of a table's own rows.   test_leave_out.py STUDY CHOOSE TABLE...

Another device's rows find the rows that lack a variant. The program CHOOSE answers for an invented table as its rows
say. On the given tables of the project, whose rows differ in which variants could serve them, the choices do not
become more expensive.
"""

import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])

from leave_out import judge
from rules import summary
from suspects import by_others

BOUND = 1.03


def invented(folder, rows):
    path = os.path.join(folder, "softmax", "invented.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    table = {
        "schema": "switchyard.table/1",
        "operator": "softmax",
        "device": {"backend": "cuda", "arch": "sm_90", "name": "Invented", "multiprocessors": 132},
        "match": {"rows": "log", "columns": "log"},
        "groups": [
            {
                "type": {"dtype": "f32"},
                "axes": ["rows", "columns"],
                "measured_with": {"alignment": 16},
                "rows": [{"at": at, "times_us": times} for at, times in rows],
            }
        ],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(table, file)
    return path


def main():
    _, _, program, *tables = sys.argv
    cases, failures = 0, 0

    def check(holds, message):
        nonlocal cases, failures
        cases += 1
        if not holds:
            failures += 1
            print("FAILED:", message)

    fast, slow, other = "stream_t256_u2_b4", "any", "stream_t512_u2_b2"
    with tempfile.TemporaryDirectory() as folder:
        path = invented(
            folder,
            [
                ([64, 4096], {fast: 1.0, slow: 3.0}),
                ([128, 4096], {fast: 2.0, slow: 5.0}),
                ([256, 4096], {slow: 2.0, fast: 2.5}),
                ([65536, 4096], {other: 10.0, slow: 30.0}),
            ],
        )
        found = {own["rows"]: (loss, is_listed, chosen) for loss, is_listed, chosen, _, own in judge(program, path)}
    check(found.get(64) == (1, True, fast), f"a row that its neighbours decide rightly: {found.get(64)}")
    check(found.get(256) == (1.25, True, fast), f"one that they decide wrongly: {found.get(256)}")
    loss, is_listed, _ = found.get(65536, (0, True, ""))
    check(loss == 3 and not is_listed, f"a choice that the row does not list: {found.get(65536)}")
    with tempfile.TemporaryDirectory() as folder:
        path, other = (invented(os.path.join(folder, name), rows) for name, rows in (
            ("this", [([64, 4096], {fast: 1.0, slow: 3.0}), ([256, 4096], {slow: 2.0, fast: 2.5})]),
            ("other", [([64, 4096], {slow: 1.0, fast: 1.1})]),
        ))  # fmt: skip
        found = {own["rows"]: (loss, chosen) for loss, _, chosen, _, own in judge(program, path, other)}
    check(found == {64: (3, slow), 256: (1, slow)}, f"another device's rows, whole: {found}")
    for times, others, wanted in (
        ({slow: 9.0}, [{fast: 1.0, slow: 3.0}], (3, fast)),
        ({slow: 9.0, fast: 9.5}, [{fast: 1.0, slow: 3.0}], (1, "")),
        ({slow: 9.0}, [{fast: 1.0, other: 3.0}], (1, "")),
        ({slow: 9.0}, [{slow: 2.0, fast: 1.0}, {slow: 5.0, other: 1.0}], (5, other)),
        ({slow: 9.0}, [], (1, "")),
    ):
        check(by_others(times, others) == wanted, f"a row of {times} beside {others}: {by_others(times, others)}")
    for path in tables:
        losses = [loss for loss, is_listed, *_ in judge(program, path) if is_listed]
        mean, _, _ = summary(losses)
        print(f"{path}: {len(losses)} rows, mean {mean:.4f}")
        check(len(losses) > 200 and mean <= BOUND, f"{path}: {mean} is above {BOUND}, or rows are missing")
    print(f"{cases} cases, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
