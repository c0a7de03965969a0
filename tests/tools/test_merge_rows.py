# SPDX-License-Identifier: MIT
"""Which rows switchyard merge joins.   test_merge_rows.py PROGRAM FOLDER"""

import json
import sys

from invented import DEVICE, run
from invented_tables import main, merge, table


def test_merge_of_rows(program, folder, checks):
    """Which rows meet, and what is said of those that do."""

    def merged(*words):
        return merge(program, folder, checks, *words)

    def of_groups(name, *groups, **more):
        return folder.table(name, {}, groups=list(groups), **more)

    def group(dtype, axes, *rows):
        return {"type": {"dtype": dtype}, "axes": axes, "rows": list(rows)}

    def of_rows(name, *rows, **more):
        return of_groups(name, group("bf16", ["batch", "seqlen"], *rows), **more)

    def timed(at, **times):
        return {"at": at, "times_us": times}

    def listed(at, *winners):
        return {"at": at, "winners": list(winners)}

    def rows(document):
        return [
            (
                entry["type"]["dtype"],
                entry["axes"],
                [(row["at"], row.get("times_us") or row["winners"]) for row in entry["rows"]],
            )
            for entry in document["groups"]
        ]

    # Rows of other types stay apart, those whose axes come in another order do not.
    plain = of_rows("plain.json", timed([1, 64], a=2.0))
    turned = of_groups("turned.json", group("bf16", ["seqlen", "batch"], timed([64, 1], a=4.0), timed([1, 64], a=9.0)))
    halves = of_groups("halves.json", group("f16", ["batch", "seqlen"], timed([1, 64], a=6.0)))
    out, document = merged(plain, turned, halves)
    checks.equal(
        rows(document),
        [
            ("f16", ["batch", "seqlen"], [([1, 64], {"a": 6})]),
            ("bf16", ["batch", "seqlen"], [([1, 64], {"a": 3}), ([64, 1], {"a": 9})]),
        ],
        "merge: which rows meet",
    )
    checks.contains(out, "3 rows in 2 groups, 0 denials and 0 pins of 3 tables of rotary on Invented H200\n", "merge: sums")
    checks.contains(out, "1 rows were measured more than once", "merge: sums")
    # So do rows over other sizes.
    wider = of_groups("wider.json", group("bf16", ["batch", "seqlen", "heads"], timed([1, 64, 8], a=5.0)))
    checks.equal(
        rows(merged(plain, wider)[1]),
        [
            ("bf16", ["batch", "seqlen"], [([1, 64], {"a": 2})]),
            ("bf16", ["batch", "seqlen", "heads"], [([1, 64, 8], {"a": 5})]),
        ],
        "merge: rows over other sizes",
    )
    # So do rows without times, of which nothing is said that only times could tell.
    one = of_rows("one_list.json", listed([1, 64], "a", "b"))
    two = of_rows("two_list.json", listed([1, 64], "b", "a"), listed([2, 64], "c"))
    out, document = merged(one, two, plain)
    checks.equal(
        rows(document),
        [
            ("bf16", ["batch", "seqlen"], [([1, 64], ["a", "b"]), ([2, 64], ["c"])]),
            ("bf16", ["batch", "seqlen"], [([1, 64], {"a": 2})]),
        ],
        "merge: lists of winners",
    )
    checks.contains(out, "1 rows were measured more than once: each variant's median is used\n", "merge: lists of winners")

    # A table without rows adds none, and rows that say the same do not differ.
    empty = of_rows("no_rows.json")
    out, document = merged(empty, plain)
    checks.equal(len(document["groups"]), 1, "merge: a group without rows")
    checks.equal(out.splitlines()[1:], [], "merge: nothing to say of rows")
    out, _ = merged(empty)
    checks.contains(out, "0 rows in 0 groups", "merge: no rows at all")
    same = of_rows("same_times.json", timed([1, 64], a=2.0), measured={"date": "2026-11-20"})
    out, _ = merged(plain, same)
    checks.equal(
        out.splitlines()[1:], ["1 rows were measured more than once: each variant's median is used"], "merge: the same times"
    )
    anywhere = of_groups("anywhere.json", device={})
    checks.contains(merged(anywhere)[0], "of 1 tables of rotary on any device", "merge: any device")

    # Of four the mean of the middle two; the largest difference of all is shown.
    shards = [
        of_rows(f"of_four_{i}.json", timed([1, 64], a=a, b=10.0), timed([2, 64], a=b))
        for i, (a, b) in enumerate(((8.0, 1.0), (4.0, 1.5), (5.0, 1.25), (7.0, 1.0)))
    ]
    out, document = merged(*shards)
    checks.equal(rows(document)[0][2], [([1, 64], {"a": 6, "b": 10}), ([2, 64], {"a": 1.125})], "merge: four tables")
    checks.contains(out, "differ by at most 100.0 % (a at dtype=bf16 batch=1 seqlen=64)", "merge: four tables")
    out, _ = merged(
        *[
            of_rows(f"later_{i}.json", timed([1, 64], a=4.0, b=time), timed([2, 64], a=time / 2 + 2, c=time))
            for i, time in enumerate((4.0, 5.0))
        ]
    )
    checks.contains(out, "differ by at most 25.0 % (b at dtype=bf16 batch=1 seqlen=64)", "merge: the largest difference")
    status, out, _ = run(program, "--json", "merge", *shards, "-o", folder.name("merged.json"))
    checks.equal(
        (status, json.loads(out)),
        (
            0,
            {
                "output": folder.name("merged.json"),
                "operator": "rotary",
                "device": DEVICE,
                "tables": 4,
                "dropped": [],
                "other_matches": [],
                "groups": 1,
                "rows": 2,
                "repeated": 2,
                "conflict": "median",
                "widest_ratio": 2.0,
                "stale_times": 0,
                "kept_stale_times": 0,
                "denials": 0,
                "pins": 0,
            },
        ),
        "merge --json",
    )

    # Tables that say nothing of how they were measured are merged, too.
    silent = [
        folder.write(
            f"silent{i}.json", {key: value for key, value in table({(i + 1, 64): {"a": 2.0}}).items() if key != "measured"}
        )
        for i in range(2)
    ]
    checks.equal(merged(*silent)[1]["measured"], {"merged": {"tables": 2}}, "merge: tables that say nothing")

    # A preference is what a row says, not what comes first: a is the fastest of the newer row, b of both.
    older = of_rows("older.json", dict(timed([1, 64], a=2.1, b=1.98), uncertainty=0.05), measured={"date": "2026-11-20"})
    newer = of_rows("newer.json", dict(timed([1, 64], a=2.0, b=2.02), uncertainty=0.05))
    row = merged(older, newer)[1]["groups"][0]["rows"][0]
    checks.equal((row["times_us"], row.get("first")), ({"a": 2.05, "b": 2}, None), "merge: no preference")

    # What only some rows say stays theirs.
    some = of_rows("some.json", timed([1, 64], a=2.0), dict(timed([1, 128], a=3.0), uncertainty=0.03), timed([1, 256], a=4.0))
    checks.equal(
        [row.get("uncertainty") for row in merged(some)[1]["groups"][0]["rows"]],
        [None, 0.03, None],
        "merge: the uncertainty of one row",
    )

    # Blobs that one table names, or both alike, are kept.
    def built(name, at, blobs):
        return of_rows(name, timed(at, a=2.0, b=3.0), blobs=blobs)

    _, document = merged(
        built("b1.json", [1, 64], {"a": "0" * 16}),
        built("b2.json", [2, 64], {"a": "0" * 16, "b": "1" * 16}),
        built("b3.json", [4, 64], {}),
    )
    checks.equal(document["groups"][0]["blobs"], {"a": "0" * 16, "b": "1" * 16}, "merge: blobs of some tables")


def test_merge_of_the_same(program, folder, checks):
    """What is given twice, or is in another table, counts once."""

    def merged(*words):
        out, _ = merge(program, folder, checks, *words)
        return out, folder.read("merged.json")

    def shard(name, seqlens, date="2026-11-21", before=(), **more):
        run_of = {
            "date": date,
            "statistic": "median",
            "checks": {"reference": "f64", "whole": len(seqlens), "rows": 1},
            "before": list(before),
            **more,
        }
        return folder.table(name, {(1, seqlen): {"a": 2.0, "b": 3.0} for seqlen in seqlens}, measured=run_of)

    one, two = shard("same1.json", (64, 128)), shard("same2.json", (256,))
    for conflict in ((), ("--conflict", "newest")):
        # A table with itself, under one name or two, is that table as it is written.
        copied = folder.write("copy.json", folder.read("same1.json"))
        _, alone = merged(one, *conflict)
        checks.equal(
            json.loads(alone)["measured"],
            {"date": "2026-11-21", "statistic": "median", "checks": {"reference": "f64", "whole": 2, "rows": 1}},
            "merge of one table: what it says of its run",
        )
        for words in ((one, one), (one, copied), (copied, one, one)):
            out, found = merged(*words, *conflict)
            checks.equal(found, alone, f"merge {words}")
            checks.contains(out, "its rows are in", f"merge {words}")
            checks.equal("measured more than once" in out, False, f"merge {words}: nothing was")
        # A merge is its own fixed point, with itself and with each of its parts.
        _, both = merged(one, two, *conflict)
        checks.equal(
            json.loads(both)["measured"],
            {
                "date": "2026-11-21",
                "statistic": "median",
                "checks": {"reference": "f64", "whole": 3, "rows": 2},
                "merged": {"tables": 2},
            },
            "merge of two shards of one run",
        )
        whole = folder.write("whole.json", both)
        for words in ((whole, whole), (whole, one), (one, whole), (one, whole, two), (two, one, one)):
            checks.equal(merged(*words, *conflict)[1], both, f"merge {words}")
        # So is a table that was continued on another day, with the table it was before.
        older = shard("older_run.json", (64, 128), "2026-11-20")
        later = shard(
            "later_run.json",
            (64, 128, 512),
            rows=1,
            before=[{"date": "2026-11-20", "statistic": "median", "checks": {"reference": "f64"}, "rows": 2}],
        )
        _, alone = merged(later, *conflict)
        for words in ((older, later), (later, older)):
            checks.equal(merged(*words, *conflict)[1], alone, f"merge {words}")
        # Tables of one run that have some rows in common: checks are not counted twice, nor rows.
        part = shard("part.json", (128, 256))
        found = json.loads(merged(one, part, *conflict)[1])
        checks.equal(
            (found["measured"]["checks"], len(found["groups"][0]["rows"]), found["measured"].get("rows")),
            ({"reference": "f64", "whole": 2, "rows": 1}, 3, None),
            "merge of shards that overlap",
        )
    # Denials alone are no rows.
    bare = folder.table(
        "bare.json",
        {},
        measured={"date": "2026-11-21", "checks": {"reference": "f64", "whole": 3}},
        deny=[{"variant": "b", "reason": "wrong"}],
        groups=[],
    )
    out, alone = merged(bare, bare)
    checks.equal(
        (out.count("\n"), json.loads(alone)["measured"]["checks"], alone),
        (1, {"reference": "f64", "whole": 3}, merged(bare)[1]),
        "merge of denials",
    )
    # Other times, another run, or a denial: nothing is lost.
    other = folder.write("other_times.json", folder.read("same1.json").replace("2.0", "4.0"))
    checks.equal(
        json.loads(merged(one, other)[1])["groups"][0]["rows"][0]["times_us"], {"a": 3, "b": 3}, "merge of other times"
    )
    again = shard("again.json", (64, 128), "2026-11-22")
    checks.equal(json.loads(merged(one, again)[1])["measured"]["before"][0]["date"], "2026-11-21", "merge of another run")
    denied = folder.write("denied.json", dict(folder.read_json("same1.json"), deny=[{"variant": "b", "reason": "wrong"}]))
    checks.equal(json.loads(merged(denied, one)[1])["deny"], [{"variant": "b", "reason": "wrong"}], "merge: a denial of a part")
    # In between lies a table whose rows would win over the first's, but not over the last's.
    middle = folder.write("middle.json", folder.read("same1.json").replace("2.0", "9.0"))
    wider = shard("wider.json", (64, 128, 1024))
    _, found = merged(wider, middle, one, "--conflict", "newest")
    checks.equal(
        json.loads(found)["groups"][0]["rows"][0]["times_us"], {"a": 2, "b": 3}, "merge --conflict newest: the last one wins"
    )


if __name__ == "__main__":
    sys.exit(main(globals()))
