# SPDX-License-Identifier: MIT
"""switchyard diff, and what tables say of the runs that measured them.   test_diff.py PROGRAM FOLDER"""

import json
import sys

from invented import run
from invented_tables import install, main, table


def test_measured(program, folder, checks):
    """What tables say of the runs that measured them: joined by merge, in words by diff and report."""

    common = {
        "date": "2026-11-21",
        "tool": "switchyard 0.1.0",
        "driver": 12080,
        "statistic": "median",
        "samples": {"least": 15, "most": 40},
        "precision": 0.01,
        "drift": 0.03,
        "cache": {"state": "rotating", "bytes": 125829120},
        "launches": "device",
        "sustained": 2,
    }

    def shard(name, seqlen, **more):
        return folder.table(name, {(1, seqlen): {"a": 2.0}}, measured={**common, **more})

    one = shard(
        "shard1.json",
        64,
        clocks={"mhz": {"least": 1900, "most": 1980}, "celsius": {"least": 30, "most": 40}},
        checks={"reference": "f64", "whole": 1},
        laser={"colour": "red"},
    )
    two = shard(
        "shard2.json",
        128,
        clocks={"mhz": {"least": 1950, "most": 1985}, "limited_by": ["power"]},
        checks={"reference": "f64", "rows": 1, "smaller": 2, "unchecked": 3},
        laser={"colour": "red"},
    )
    status, _, problem = run(program, "merge", one, two, "-o", folder.name("shards.json"))
    checks.equal((status, problem), (0, ""), "merge of shards")
    measured = folder.read_json("shards.json")["measured"]
    checks.equal(
        measured,
        {
            **common,
            "clocks": {"mhz": {"least": 1900, "most": 1985}, "celsius": {"least": 30, "most": 40}, "limited_by": ["power"]},
            "checks": {"reference": "f64", "whole": 1, "rows": 1, "smaller": 2, "unchecked": 3},
            "merged": {"tables": 2},
            "laser": {"colour": "red"},
        },
        "merge: shards of one run are one run",
    )
    words = (
        "2026-11-21; switchyard 0.1.0; driver 12080; medians of 15 to 40 samples, sampled until 95 % certain to 1 %; "
        "drift up to 3 %; tensors rotated past the cache, 120 MB; of the device alone, under load of 2 s each; clocks 1900 to 1985 MHz, 30 to 40 C, at times limited "
        "by power; results checked against f64: 1 problem in full, 1 problem by a sample of rows, 2 problems by a "
        'smaller one, 3 problems not at all; merged from 2 tables; laser: {"colour":"red"}'
    )
    old = folder.table(
        "old_texts.json",
        {(1, 64): {"a": 2.0}},
        measured={"driver": "12080", "date": "2026-11-20", "repeat": "medians", "rows": "7", "note": "by hand\u0007"},
    )
    status, out, _ = run(program, "diff", old, folder.name("shards.json"))
    checks.contains(out, "old: 2026-11-20; 7 rows; driver 12080; ", "diff: texts of older files are notes")
    checks.contains(out, "repeat: medians", "diff: texts of older files are notes")
    checks.equal("\x07" in out, False, "diff: no control character is printed")
    checks.contains(out, f"new: {words}\n", "diff: how rows were measured")
    _, out, _ = run(program, "--json", "diff", old, folder.name("shards.json"))
    checks.equal(json.loads(out)["new_measured"], measured, "diff --json: how rows were measured")
    checks.equal(json.loads(out)["old_measured"]["rows"], 7, "diff --json: a number that was a text")
    status, _, problem = run(program, "report", folder.name("shards.json"), "-o", folder.name("shards.html"))
    checks.equal(status, 0, f"report: {problem}")
    checks.contains(folder.read("shards.html").replace("&quot;", '"'), f"; measured: {words}", "report: how rows were measured")
    # Of values of another kind nothing is lost, and nothing breaks.
    odd = folder.table(
        "odd.json",
        {(1, 64): {"a": 2.0}},
        measured={
            "date": 7,
            "samples": 9,
            "clocks": [1],
            "cache": "cold",
            "rows": -3,
            "checks": {"whole": "x"},
            "before": [1, {}],
        },
    )
    status, _, problem = run(program, "merge", odd, "-o", folder.name("odd_merged.json"))
    checks.that(
        status == 0 and problem.count("\n") == 1 and "/measured/date: expected a string, got 7" in problem,
        f"merge of odd values: {problem}",
    )
    found = folder.read_json("odd_merged.json")["measured"]
    checks.equal(
        {key: found.get(key) for key in ("date", "samples", "clocks", "note")},
        {"date": 7, "samples": 9, "clocks": [1], "note": "cache: cold"},
        "merge of odd values",
    )


def test_diff(program, folder, checks):
    old = folder.table(
        "before.json",
        {
            (1, 64): {"a": 2.0, "b": 2.1},
            (1, 128): {"a": 4.0, "b": 3.0},
            (1, 256): {"a": 8.0, "b": 4.0},
            (1, 512): {"a": 10.0, "b": 10.1},
            (1, 1024): {"a": 20.0, "b": 21.0},
            (1, 1 << 20): {"a": 5000.0},
        },
    )
    new = folder.table(
        "after.json",
        {
            (1, 64): {"a": 2.5, "b": 2.6},
            (1, 128): {"a": 3.9, "b": 2.5},
            (1, 256): {"a": 3.9, "b": 4.4},
            (1, 512): {"a": 10.1, "b": 10.0},
            (2, 64): {"a": 3.0},
        },
    )

    def diff(*words):
        status, out, problem = run(program, "diff", *words)
        checks.equal(problem, "", f"diff {words}")
        return status, out

    status, out = diff(old, new)
    checks.equal(status, 1, "diff: status")
    lines = out.splitlines()
    checks.equal(lines[:2], ["old: 2026-11-21; repeat: 7", "new: 2026-11-21; repeat: 7"], "diff: how the tables were measured")
    checks.equal(lines[2], "lost     dtype=bf16 batch=1 seqlen=1048576: 5000 us, a", "diff: lost")
    checks.equal(lines[3], "slower   dtype=bf16 batch=1 seqlen=64: 2 us -> 2.5 us (+25.0 %), a", "diff: slower")
    checks.equal(lines[4], "changed  dtype=bf16 batch=1 seqlen=256: 4 us -> 3.9 us (-2.5 %), b -> a", "diff: changed")
    checks.equal(lines[5], "faster   dtype=bf16 batch=1 seqlen=128: 3 us -> 2.5 us (-16.7 %), b", "diff: faster")
    checks.equal(lines[6], "gained   dtype=bf16 batch=2 seqlen=64: 3 us, a", "diff: gained")
    checks.that(lines[7].startswith("thinned  dtype=bf16 batch=1 seqlen=1024: 20 us -> "), f"diff: thinned {lines[7]}")
    checks.equal(
        lines[8],
        "rotary on Invented H200: of 4 shapes in both, 1 are slower, 1 faster (by more than 5 %), "
        "1 have another winner that is clearly better than the old one, 1 are the same; ratio of new to old time 1.0039 in the mean",
        "diff: sum",
    )
    checks.contains(lines[9], "1 shapes are lost, 1 thinned out but still decided, 1 gained;", "diff: coverage")

    status, out = diff(old, new, "--json", "--all", "--threshold", "30%")
    found = json.loads(out)
    checks.equal(
        (status, found["status"], found["slower"], found["lost"], found["same"]), (1, 1, 0, 1, 4), "diff: a wider threshold"
    )
    same = [shape for shape in found["shapes"] if shape["shape"] == "dtype=bf16 batch=1 seqlen=64"]
    checks.equal(
        same,
        [
            {
                "verdict": "same",
                "shape": "dtype=bf16 batch=1 seqlen=64",
                "old_winner": "a",
                "new_winner": "a",
                "old_us": 2.0,
                "new_us": 2.5,
            }
        ],
        "diff --json --all",
    )

    # Nothing is worse: 0; a changed winner is a finding only under --strict.
    checks.equal(diff(old, old)[0], 0, "diff with itself")
    kept = folder.table("kept.json", {(1, 256): {"a": 8.0, "b": 4.0}})
    flipped = folder.table("flipped.json", {(1, 256): {"a": 3.9, "b": 4.4}})
    checks.equal((diff(kept, flipped)[0], diff(kept, flipped, "--strict")[0]), (0, 1), "diff --strict")

    # A thinned table whose prediction is wrong where the old one knew better.
    wrong = folder.table("wrong.json", {(1, 128): {"a": 1.0, "b": 2.0}})
    status, out = diff(kept, wrong)
    checks.equal(status, 1, "diff: a wrong prediction")
    checks.contains(out, "slower   dtype=bf16 batch=1 seqlen=256: 4 us -> 8 us (+100.0 %), b -> a", "diff: predicted")

    # The same where manifests say what times grow with: a's would be 4 us, b's 3 us.
    root = install(folder, "rotary", {"a": "seqlen * seqlen", "b": "seqlen + 128"})
    status, out = diff(kept, wrong, "--root", root)
    checks.equal(status, 0, "diff: costs")
    checks.contains(out, "thinned  dtype=bf16 batch=1 seqlen=256: 4 us -> 4 us (+0.0 %), b\n", "diff: costs")

    other = folder.table("elsewhere.json", {}, device={"backend": "cuda", "arch": "sm_90", "name": "X"})
    status, _, problem = run(program, "diff", old, other)
    checks.equal(status, 2, "diff: another device")
    checks.contains(problem, "their times are not comparable", "diff: another device")
    broken = folder.write("broken.json", "{")
    status, _, problem = run(program, "diff", old, broken)
    checks.equal(status, 2, "diff: a broken file")
    checks.contains(problem, "is not JSON", "diff: a broken file")
    status, _, _ = run(program, "diff", old)
    checks.equal(status, 64, "diff: one table")


def test_diff_of_winners(program, folder, checks):
    """Winners that the new table did not measure, and shapes that it decides without a row."""

    def diff(old, new, *words):
        status, out, problem = run(
            program, "--json", "diff", folder.write("then.json", old), folder.write("now.json", new), *words
        )
        checks.equal(problem, "", "diff")
        return status, {shape["shape"].split()[-1]: shape for shape in json.loads(out)["shapes"]}

    # As fast, by another variant; what the old one takes now is not known, clearly more, or hardly more.
    for again, verdict in ((None, "changed"), (4.4, "changed"), (4.1, "same"), (4.2, "same")):
        times = {"a": 4.0} if again is None else {"a": 4.0, "b": again}
        _, shapes = diff(table({(1, 64): {"a": 6.0, "b": 4.0}}), table({(1, 64): times}), "--all")
        checks.equal(shapes["seqlen=64"]["verdict"], verdict, f"diff: the old winner takes {again}")

    # Exactly the threshold is no change.
    for time, verdict in ((4.2, "same"), (4.21, "slower")):
        status, shapes = diff(table({(1, 64): {"a": 4.0}}), table({(1, 64): {"a": time}}), "--all")
        checks.equal((status, shapes["seqlen=64"]["verdict"]), (int(verdict == "slower"), verdict), f"diff: {time} us")
    for time, verdict in ((4.0, "same"), (3.99, "faster")):
        _, shapes = diff(table({(1, 64): {"a": 4.2}}), table({(1, 64): {"a": time}}), "--all")
        checks.equal(shapes["seqlen=64"]["verdict"], verdict, f"diff: down to {time} us")

    # A pin decides what has no row, however far rows are.
    old = table({(1, 64): {"a": 2.0, "b": 3.0}, (1, 1 << 20): {"a": 900.0, "b": 500.0}})
    new = table({(1, 64): {"a": 2.0, "b": 3.0}})
    status, shapes = diff(old, new)
    checks.equal((status, shapes["seqlen=1048576"]["verdict"]), (1, "lost"), "diff: without a pin")
    for variant, verdict, status in (("b", "thinned", 0), ("a", "slower", 1)):
        found = diff(old, dict(new, pin=[{"variant": variant, "at": {"seqlen": 1 << 20}}]))
        checks.equal((found[0], found[1]["seqlen=1048576"]["verdict"]), (status, verdict), f"diff: {variant} is pinned")


def test_diff_as_data(program, folder, checks):
    """What diff --json says of each shape, and of all of them."""

    def diff(old, new, *words):
        status, out, problem = run(
            program, "--json", "diff", folder.write("old_data.json", old), folder.write("new_data.json", new), *words
        )
        checks.equal(problem, "", "diff --json")
        return status, json.loads(out)

    def shape(verdict, seqlen, **more):
        return {"verdict": verdict, "shape": f"dtype=bf16 batch=1 seqlen={seqlen}", **more}

    old = table({(1, 64): {"a": 2.0}, (1, 128): {"a": 4.0, "b": 5.0}, (1, 1 << 20): {"c": 900.0}})
    new = table({(1, 64): {"a": 4.0}, (1, 128): {"b": 2.0, "a": 3.0}, (1, 4096): {"d": 7.0}})
    status, found = diff(old, new, "--all")
    sums = dict(status=1, threshold=0.05, shapes_in_both=2, mean_ratio=1.0, other_winners=1)
    sums.update(lost=1, slower=1, changed=0, faster=1, gained=1, thinned=0, same=0)
    checks.equal((status, {key: found[key] for key in sums}), (1, sums), "diff --json: sums")
    checks.equal(
        found["shapes"],
        [
            shape("lost", 1 << 20, old_winner="c", old_us=900.0),
            shape("slower", 64, old_winner="a", new_winner="a", old_us=2.0, new_us=4.0),
            shape("faster", 128, old_winner="a", new_winner="b", old_us=4.0, new_us=2.0),
            shape("gained", 4096, new_winner="d", new_us=7.0),
        ],
        "diff --json: shapes",
    )

    # A shape that nearby rows decide has a time only where the old table measured the variant there.
    old = table({(1, 64): {"a": 2.0}, (1, 80): {"a": 2.5, "b": 2.5625}})
    for winner, more in (("a", {"new_us": 2.5}), ("b", {"new_us": 2.5625}), ("c", {})):
        status, found = diff(old, table({(1, 64): {winner: 2.0}}))
        thinned = [entry for entry in found["shapes"] if entry["verdict"] == "thinned"]
        checks.equal(
            (status, thinned),
            (0, [shape("thinned", 80, old_winner="a", new_winner=winner, old_us=2.5, **more)]),
            f"diff --json: thinned, decided for {winner}",
        )
        # At 64 there is another winner as well, unless it is a.
        checks.equal(found["other_winners"], 0 if winner == "a" else 2, "diff --json: other winners")
    # By exactly the threshold it is not slower.
    for time, verdict in ((5.0, "thinned"), (5.01, "slower")):
        old = table({(1, 64): {"b": 2.0}, (1, 80): {"a": 4.0, "b": time}})
        checks.equal(
            diff(old, table({(1, 64): {"b": 2.0}}), "--threshold", "25%")[1][verdict], 1, f"diff: {time} us where 4 us were"
        )

    # Shapes that stayed the same are shown where all are asked for.
    once = table({(1, 64): {"a": 2.0}})
    checks.equal(diff(once, once)[1]["shapes"], [], "diff --json: nothing to show")
    for words, count in (((), 0), (("--all",), 1)):
        status, out, _ = run(program, "diff", folder.write("once.json", once), folder.name("once.json"), *words)
        checks.equal(
            (status, out.count("same     dtype=bf16 batch=1 seqlen=64: 2 us -> 2 us (+0.0 %), a\n")),
            (0, count),
            f"diff {words}: what stayed the same",
        )

    # Nothing in both: no ratio. The same in another order of axes: nothing changed.
    status, found = diff(table({(1, 64): {"a": 2.0}}), table({(1, 1 << 20): {"a": 2.0}}))
    checks.equal((found["shapes_in_both"], found["mean_ratio"]), (0, 1), "diff: no shape in both")
    turned = table({})
    turned["groups"] = [
        {"type": {"dtype": "bf16"}, "axes": ["seqlen", "batch"], "rows": [{"at": [64, 1], "times_us": {"a": 2.0}}]}
    ]
    status, found = diff(table({(1, 64): {"a": 2.0}}), turned, "--all")
    checks.equal(
        (status, found["same"], found["shapes_in_both"], found["shapes"]),
        (0, 1, 1, [shape("same", 64, old_winner="a", new_winner="a", old_us=2.0, new_us=2.0)]),
        "diff: axes in another order",
    )
    # Of two groups with a row of one shape the first speaks.
    twice = table({(1, 64): {"a": 2.0}})
    twice["groups"].append(
        {"type": {"dtype": "bf16"}, "axes": ["seqlen", "batch"], "rows": [{"at": [64, 1], "times_us": {"a": 9.0}}]}
    )
    checks.equal(diff(twice, table({(1, 64): {"a": 2.0}}))[1]["same"], 1, "diff: a shape that a table has twice")


if __name__ == "__main__":
    sys.exit(main(globals()))
