# SPDX-License-Identifier: MIT
"""switchyard merge of tables that were measured again in part, and of whole folders.   test_merge_folders.py PROGRAM FOLDER"""

import json
import os
import sys

from invented import run
from invented_tables import main, merge, table

OLD, NEW, NEWEST = "0" * 16, "1" * 16, "2" * 16


def rows(document):
    return {tuple(row["at"]): row["times_us"] for group in document["groups"] for row in group["rows"]}


def test_keep_stale(program, folder, checks):
    """Rows that were not measured again keep their times, and all times of a kernel are stale until the last one is new."""
    old = folder.table(
        "old.json",
        {(1, 64): {"a": 2.0, "b": 4.0}, (4, 64): {"a": 1.0, "b": 2.0}, (8, 64): {"a": 3.0}, (9, 64): {"b": 3.0}},
        blobs={"a": OLD, "b": OLD},
    )
    one = folder.table("one.json", {(1, 64): {"a": 9.0}}, blobs={"a": NEW})
    words = ("--conflict", "newest", "--keep-stale")
    out, document = merge(program, folder, checks, old, one, *words)
    wanted = {(1, 64): {"a": 9}, (4, 64): {"a": 1, "b": 2}, (8, 64): {"a": 3}, (9, 64): {"b": 3}}
    checks.equal(rows(document), wanted, "merge --keep-stale: rows")
    checks.equal(document["groups"][0]["blobs"], {"a": OLD, "b": OLD}, "merge --keep-stale: blobs")
    checks.contains(out, "2 times of kernels that were rebuilt since were kept, marked as stale", "merge --keep-stale")
    checks.that("dropped" not in out, f"merge --keep-stale: {out}")

    # Once more, with what came later: nothing is stale where no old time is left.
    partly = folder.write("partly.json", document)
    two = folder.table("two.json", {(4, 64): {"a": 8.0}, (8, 64): {"a": 7.0}, (1, 64): {"a": 6.0}}, blobs={"a": NEWEST})
    out, document = merge(program, folder, checks, partly, one, two, *words)
    wanted = {(1, 64): {"a": 6}, (4, 64): {"a": 8}, (8, 64): {"a": 7}, (9, 64): {"b": 3}}
    checks.equal(rows(document), wanted, "merge --keep-stale again: rows")
    checks.equal(document["groups"][0]["blobs"], {"a": NEWEST, "b": OLD}, "merge --keep-stale again: blobs")
    checks.that("kept" not in out, f"merge --keep-stale again: {out}")
    # Of three builds the oldest whose times are left.
    two = folder.table("two.json", {(4, 64): {"a": 8.0}}, blobs={"a": NEWEST})
    middle = folder.table("middle.json", {(1, 64): {"a": 9.0}, (8, 64): {"a": 9.5}}, blobs={"a": NEW})
    out, document = merge(program, folder, checks, old, middle, two, *words)
    checks.equal(document["groups"][0]["blobs"]["a"], NEW, "merge --keep-stale: the oldest build")
    # A change that was taken back: what was measured in between is stale, what was measured before is not.
    back = folder.table("back.json", {(4, 64): {"a": 8.0}}, blobs={"a": OLD})
    between = folder.table("between.json", {(1, 64): {"a": 9.0}}, blobs={"a": NEW})
    out, document = merge(program, folder, checks, old, between, back, *words)
    checks.equal(document["groups"][0]["blobs"]["a"], NEW, "merge --keep-stale: a change that was taken back")
    checks.contains(out, "1 times of kernels that were rebuilt since were kept", "merge --keep-stale: taken back")
    # Without the option, the older times go; without --conflict newest, it means nothing.
    out, document = merge(program, folder, checks, old, one, "--conflict", "newest")
    checks.equal(rows(document), {(1, 64): {"a": 9}, (4, 64): {"b": 2}, (9, 64): {"b": 3}}, "merge: older times")
    status, _, problem = run(program, "merge", old, one, "--keep-stale", "-o", folder.name("merged.json"))
    checks.equal(status, 64, "merge --keep-stale alone")
    checks.contains(
        problem, "--keep-stale: older times are kept beside newer rows: pass --conflict newest", "merge --keep-stale"
    )
    status, out, _ = run(program, "--json", "merge", old, one, *words, "-o", folder.name("merged.json"))
    checks.equal(json.loads(out)["kept_stale_times"], 2, "merge --keep-stale --json")


def test_windows(program, folder, checks):
    """A window that is merged each time something was added to it: the same as one merge in the end. The runs of old rows are
    named until the last of them was measured again."""
    for name in ("whole/rotary", "window/rotary"):
        os.makedirs(folder.name(name))
    before = {"date": "2026-11-20", "tool": "another"}
    run_of_today = {"date": "2026-11-21", "tool": "switchyard 0.1.0"}
    rows_of_old = {(at, 64): {"a": 50.0 + at, "b": 60.0} for at in range(1, 7)}
    new = {(at, 64): {"a": 10.0 + at, "b": 9.0} for at in range(1, 8)}
    target = "whole/rotary/h200.json"
    folder.table(target, rows_of_old, measured=before)
    words = (folder.name("whole"), folder.name("window"), "--conflict", "newest", "--keep-stale", "-o", folder.name("whole"))
    for count in (2, 5, 5, 7, 7):
        folder.table("window/rotary/h200.json", dict(list(new.items())[:count]), measured=run_of_today)
        status, out, problem = run(program, "merge", *words)
        checks.equal((status, problem), (0, ""), f"a window of {count} rows")
        document = folder.read_json(target)
        checks.equal(rows(document), {**rows_of_old, **dict(list(new.items())[:count])}, f"a window of {count} rows")
        measured = document["measured"]
        found = (measured["date"], measured.get("rows", 7), [past["date"] for past in measured.get("before", [])])
        checks.equal(found, ("2026-11-21", count, ["2026-11-20"] if count < 7 else []), f"a window of {count} rows: runs")
    again = folder.read(target)
    run(program, "merge", *words)
    checks.equal(folder.read(target), again, "merged once more")


def test_folders(program, folder, checks):
    """Tables of one operator and device in several folders; what is no table, and what only the target has, stays as it is."""
    for name in ("base/rotary", "base/softmax", "base/schema", "run/rotary", "run/layer_norm"):
        os.makedirs(folder.name(name))
    folder.table("base/rotary/h200.json", {(1, 64): {"a": 2.0}, (2, 64): {"a": 2.5}})
    softmax = dict(table({}), operator="softmax", match={"rows": "log"}, groups=[])
    folder.write("base/softmax/h200.json", softmax)
    folder.write("base/schema/match.json", {"rows": "log"})
    folder.write("base/schema/list.json", [1])
    folder.write("base/kernels.json", {"schema": "switchyard.table/1"})
    folder.table("run/rotary/h200.json", {(1, 64): {"a": 3.0}})
    folder.table("run/rotary/h200.shard-0-of-2.json", {(3, 64): {"a": 5.0}})
    folder.table("run/rotary/h200.shard-1-of-2.json", {(4, 64): {"a": 6.0}})
    folder.write("run/rotary/h200.json.tuning.jsonl", "{}")
    folder.write("run/layer_norm/h200.json", dict(softmax, operator="layer_norm"))
    base, part = folder.name("base"), folder.name("run")
    before = folder.read("base/softmax/h200.json")
    status, out, problem = run(program, "merge", base, part, "--conflict", "newest", "-o", base)
    checks.equal((status, problem), (0, ""), "merge of folders")
    checks.equal(
        rows(folder.read_json("base/rotary/h200.json")),
        {(1, 64): {"a": 3}, (2, 64): {"a": 2.5}, (3, 64): {"a": 5}, (4, 64): {"a": 6}},
        "merge of folders: rows",
    )
    checks.contains(
        out, "base/rotary/h200.json: 4 rows in 1 groups, 0 denials and 0 pins of 4 tables of rotary", "merge of folders"
    )
    checks.equal(folder.read_json("base/layer_norm/h200.json")["operator"], "layer_norm", "merge of folders: a new table")
    checks.equal(folder.read("base/softmax/h200.json"), before, "merge of folders: a table that one folder has")
    checks.equal(sorted(os.listdir(folder.name("base/rotary"))), ["h200.json"], "merge of folders: files")
    checks.equal(folder.read("base/schema/match.json"), '{"rows": "log"}', "merge of folders: what is no table")

    # A table of a minor version is one; one of a version that is not known is refused before anything is written.
    os.makedirs(folder.name("minor/rotary"))
    for version, wanted in (("1.7", 0), ("9", 2)):
        folder.table("minor/rotary/h200.json", {(9, 64): {"a": 3.0}}, schema=f"switchyard.table/{version}")
        status, out, problem = run(program, "merge", base, folder.name("minor"), "-o", folder.name("minor_out"))
        checks.equal(status, wanted, f"merge of folders: version {version}: {out}{problem}")
        checks.that(wanted == 0 or "is of a version this library does not read" in problem, problem)
    checks.equal(len(rows(folder.read_json("minor_out/rotary/h200.json"))), 5, "merge of folders: a minor version")

    # Into a third folder, all of them.
    status, out, problem = run(program, "--json", "merge", base, part, "--conflict", "newest", "-o", folder.name("whole/new"))
    checks.equal(status, 0, f"merge into a new folder: {problem}")
    checks.equal(
        sorted(entry["operator"] for entry in json.loads(out)), ["layer_norm", "rotary", "softmax"], "merge into a new folder"
    )
    checks.equal(len(rows(folder.read_json("whole/new/rotary/h200.json"))), 4, "merge into a new folder")
    one = folder.name("base/rotary/h200.json")
    for words, said in (
        ((base, one), "name tables or folders of tables, not both"),
        ((base, part, "--match", one), "--match: names one table; folders have many"),
        ((base, folder.name("no_such")), "no_such: no such file or folder"),
        ((folder.name("base/schema"),), "base/schema: no tables; a folder of tables has OPERATOR/DEVICE.json"),
    ):
        status, _, problem = run(program, "merge", *words, "-o", folder.name("out"))
        checks.equal(status, 2 if "no " in said else 64, f"merge {words}")
        checks.contains(problem, said, f"merge {words}")
    checks.that(not os.path.exists(folder.name("out")), "a refused merge leaves a folder")
    status, _, problem = run(program, "merge", base, part, "--conflict", "newest", "-o", one)
    checks.equal(status, 2, "merge of folders into a file")
    checks.contains(problem, "base/rotary/h200.json", "merge of folders into a file")


if __name__ == "__main__":
    sys.exit(main(globals()))
