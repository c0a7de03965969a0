# SPDX-License-Identifier: MIT
"""switchyard record, over recordings made here.   test_record.py PROGRAM FOLDER"""

import json
import os
import sys

from invented import run
from invented_tables import main

AXES = {"dtype": "bf16", "alignment": 16, "rows": 4, "columns": 8}


def test_record(program, folder, checks):
    checks.contains(run(program, "record", "--help")[1], "most frequent first", "record --help")

    def line(count, device="one", **sizes):
        problem = dict(AXES, **sizes)
        return json.dumps({"operator": "softmax", "device": device, "problem": problem, "count": count}, separators=(",", ":"))

    first = folder.write("host1.jsonl", line(3, rows=4) + "\n" + line(5, rows=8) + "\n" + line(1, rows=16)[:40])
    second = folder.write(
        "host2.jsonl",
        line(9, rows=4)
        + "\n"
        + line(2, "two", rows=4)
        + "\n"
        + line(1, rows=32)[:50]
        + line(4, rows=64)
        + "\n"
        + '{"operator":"axpy","device":"one","problem":{"n":7},"count":6}\n',
    )
    status, out, problem = run(program, "record", first, second, "-o", folder.name("all.jsonl"))
    checks.equal((status, problem), (0, ""), "record")
    checks.contains(out, "2 incomplete lines were skipped", "record: torn lines")
    checks.contains(out, "3 problems, 21 calls on one", "record: populations")
    found = [json.loads(text) for text in folder.read("all.jsonl").splitlines()]
    checks.equal(
        [(entry["operator"], entry["device"], entry["problem"].get("rows"), entry["count"]) for entry in found],
        [
            ("axpy", "one", None, 6),
            ("softmax", "one", 4, 12),
            ("softmax", "one", 8, 5),
            ("softmax", "one", 64, 4),
            ("softmax", "two", 4, 2),
        ],
        "record: counts added",
    )
    checks.equal(found[1]["problem"], dict(AXES, rows=4), "record: a problem as it was recorded")

    # Its output is its input, and counts add up.
    words = "--operator softmax --device on".split()
    status, _, _ = run(program, "record", folder.name("all.jsonl"), first, "-o", folder.name("all.jsonl"), *words)
    counts = [json.loads(text)["count"] for text in folder.read("all.jsonl").splitlines()]
    checks.equal((status, counts), (0, [15, 10, 4]), "record: again, filtered")

    # A file that is given twice counts once, by whatever name.
    again = folder.name("again.jsonl")
    os.symlink(first, again)
    status, out, problem = run(program, "record", first, again, first, "-o", folder.name("once.jsonl"))
    counts = [json.loads(text)["count"] for text in folder.read("once.jsonl").splitlines()]
    checks.equal((status, counts), (0, [5, 3]), "record: a repeated file")
    checks.equal(
        problem,
        "".join(f"switchyard: {path}: skipped: it is the same file as {first}\n" for path in (again, first)),
        "record: a repeated file",
    )
    checks.contains(out, "2 problems of 2 lines in 1 files", "record: a repeated file")

    # The most frequent problems, as JSON.
    words = "--operator softmax --device one --share 75".split()
    status, out, _ = run(program, "--json", "record", second, first, "-o", folder.name("most.jsonl"), *words)
    report = json.loads(out)
    checks.equal(
        (status, report["problems"], report["lines"], report["torn"], report["left_out"]), (0, 2, 6, 2, 0), "record --share"
    )
    checks.equal(
        report["operators"],
        [{"operator": "softmax", "device": "one", "problems": 3, "kept": 2, "calls": 21.0, "kept_calls": 17.0}],
        "record --json",
    )

    # What cannot be used is named and left out; the rest serves.
    bad = folder.write(
        "bad.jsonl",
        "\n".join(
            [
                line(1, rows=4),
                "garbage",
                line(0, rows=4),
                line(1, rows="many"),
                line(1, depth=3),
                '{"operator":"softmax","device":"one","problem":{"rows":4},"count":1}',
                '{"operator":"softmax","device":"one","problem":[],"count":1}',
                '{"device":"one"}',
            ]
        )
        + "\n",
    )
    status, out, problem = run(program, "record", bad, "-o", folder.name("out.jsonl"))
    checks.equal(status, 0, "record: status with bad lines")
    for text in (
        f"{bad}:2: skipped: is not a JSON object",
        ":3: skipped: 'count' is not a positive integer",
        ":4: skipped: axis 'rows' has no value 'many'; it takes an integer",
        ":5: skipped: operator 'softmax' has no axis 'depth'",
        ":6: skipped: axis 'dtype' of operator 'softmax' is missing: the recording engine used another version",
        ":7: skipped: 'problem' is not an object",
        ":8: skipped: 'operator' is missing",
        "7 lines were skipped in total",
    ):
        checks.contains(problem, text, "record: bad lines")
    worse = folder.write(
        "worse.jsonl",
        "\n".join(
            [
                line(1, rows=4),
                line(1, rows=-4),
                line(1, rows=4)[:-1] + ',"count":7}',
                line(1, rows=4) + "\0x",
                line(1, "a\nforged", rows=4),
                "[" * 100,
            ]
        )
        + "\n",
    )
    status, out, problem = run(program, "record", worse, "-o", folder.name("out.jsonl"))
    checks.equal(status, 0, "record: status with worse lines")
    for text in (
        ":2: skipped: axis 'rows' has no value -4; a size is 0 or more",
        ":3: skipped: /count: the key is repeated",
        ":4: skipped: is not a JSON object",
        ":5: skipped: 'device' has a control character, U+000A",
        ":6: skipped: is not a JSON object",
        "5 lines were skipped in total",
    ):
        checks.contains(problem, text, "record: worse lines")

    empty = folder.write("empty.jsonl", "")
    status, _, problem = run(program, "record", empty, "-o", folder.name("none.jsonl"))
    checks.equal((status, os.path.exists(folder.name("none.jsonl"))), (2, False), "record: nothing recorded")
    checks.contains(
        problem,
        "the files contain no recorded problem. Run an engine with SWITCHYARD_RECORD=FILE first",
        "record: nothing recorded",
    )
    status, _, problem = run(program, "record", first, "-o", folder.name("none.jsonl"), "--device", "three")
    checks.equal(status, 2, "record: no such device")
    checks.contains(problem, "2 lines were read; none has this operator and device", "record: no such device")
    status, _, problem = run(program, "record", folder.name("absent"), "-o", folder.name("none.jsonl"))
    checks.equal(status, 2, "record: no file")
    checks.contains(problem, "absent: cannot be opened", "record: no file")
    status, _, problem = run(program, "record", first, "-o", folder.name("none.jsonl"), "--operator", "sofmax")
    checks.equal(status, 64, "record: no such operator")
    checks.contains(problem, "did you mean 'softmax'?", "record: no such operator")


if __name__ == "__main__":
    sys.exit(main(globals()))
