# SPDX-License-Identifier: MIT
"""switchyard record, merge and diff over files made here.   test_tables.py PROGRAM FOLDER"""

import json
import os
import shutil
import subprocess
import sys

from invented import BLOBS, DEVICE, Checks, run, sha256


def table(rows, **more):
    """A table of rotary in bf16. `rows`: {(batch, seqlen): {variant: us}}."""
    return {
        "schema": "switchyard.table/1",
        "operator": "rotary",
        "device": {"backend": "cuda", "arch": "sm_90", "name": DEVICE, "multiprocessors": 132},
        "measured": {"date": "2026-11-21", "repeat": "7"},
        "match": {"batch": "log", "seqlen": "log"},
        "neighbours": 4,
        "envelope": 1.5,
        "groups": [
            {
                "type": {"dtype": "bf16"},
                "axes": ["batch", "seqlen"],
                "rows": [{"at": list(at), "times_us": times} for at, times in rows.items()],
            }
        ],
        **more,
    }


class Folder:
    def __init__(self, path):
        self.path = path
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)

    def name(self, name):
        return os.path.join(self.path, name)

    def write(self, name, content):
        with open(self.name(name), "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return self.name(name)

    def read(self, name):
        with open(self.name(name), encoding="utf-8") as file:
            return file.read()


def install(folder, operator, costs):
    """A root with a manifest whose variants state these costs; nothing is ever loaded."""
    root = folder.name(operator + "_root")
    kernels = os.path.join(root, "kernels", operator, "cuda-sm_90a")
    os.makedirs(kernels)
    with open(os.path.join(kernels, "small.cubin"), "wb") as file:
        file.write(BLOBS["small.cubin"])
    launch = {
        "blob": "small.cubin",
        "sha256": sha256(BLOBS["small.cubin"]),
        "kernel": "k",
        "grid": [1, 1, 1],
        "block": [1, 1, 1],
        "parameters": [],
    }
    with open(os.path.join(kernels, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(
            {
                "schema": "switchyard.manifest/1",
                "operator": operator,
                "target": {"backend": "cuda", "arch": "sm_90a"},
                "variants": [
                    {"id": name, "type": {"dtype": "bf16"}, "cost": cost, "launches": [launch]} for name, cost in costs.items()
                ],
            },
            file,
        )
    return root


def test_record(program, folder, checks, axes):
    def line(count, device="one", **sizes):
        problem = dict(axes, **sizes)
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
    found = [json.loads(each) for each in folder.read("all.jsonl").splitlines()]
    checks.equal(
        [(each["operator"], each["device"], each["problem"].get("rows"), each["count"]) for each in found],
        [
            ("axpy", "one", None, 6),
            ("softmax", "one", 4, 12),
            ("softmax", "one", 8, 5),
            ("softmax", "one", 64, 4),
            ("softmax", "two", 4, 2),
        ],
        "record: counts added",
    )
    checks.equal(found[1]["problem"], dict(axes, rows=4), "record: a problem as it was recorded")

    # Its output is its input, and counts add up.
    status, _, _ = run(
        program,
        "record",
        folder.name("all.jsonl"),
        first,
        "-o",
        folder.name("all.jsonl"),
        "--operator",
        "softmax",
        "--device",
        "on",
    )
    counts = [json.loads(each)["count"] for each in folder.read("all.jsonl").splitlines()]
    checks.equal((status, counts), (0, [15, 10, 4]), "record: again, filtered")

    # A file that is given twice counts once, by whatever name.
    again = folder.name("again.jsonl")
    os.symlink(first, again)
    status, out, problem = run(program, "record", first, again, first, "-o", folder.name("once.jsonl"))
    counts = [json.loads(each)["count"] for each in folder.read("once.jsonl").splitlines()]
    checks.equal((status, counts), (0, [5, 3]), "record: a repeated file")
    checks.equal(
        problem,
        "".join(f"switchyard: {each}: skipped: it is the same file as {first}\n" for each in (again, first)),
        "record: a repeated file",
    )
    checks.contains(out, "2 problems of 2 lines in 1 files", "record: a repeated file")

    # The most frequent problems, as JSON.
    status, out, _ = run(
        program,
        "--json",
        "record",
        second,
        first,
        "-o",
        folder.name("most.jsonl"),
        "--operator",
        "softmax",
        "--device",
        "one",
        "--share",
        "75",
    )
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


def test_merge(program, folder, checks):
    denied = {"variant": "c", "reason": "a hang", "type": {"dtype": "bf16"}}
    pinned = {"variant": "a", "reason": "by hand", "type": {"dtype": "bf16"}, "at": {"batch": 1, "seqlen": [1, 64]}}
    one = folder.write("one.json", table({(1, 64): {"a": 2.0, "b": 4.0}, (1, 128): {"a": 3.0}}, deny=[denied]))
    two = folder.write(
        "two.json",
        table(
            {(1, 64): {"a": 4.0, "b": 3.0, "d": 9.0}, (2, 64): {"b": 5.0}},
            deny=[denied, {"variant": "e", "reason": "wrong"}],
            pin=[pinned],
        ),
    )
    three = folder.write(
        "three.json", dict(table({(1, 64): {"a": 2.5}}), measured={"date": "2026-11-20", "clocks": "1980 MHz"})
    )

    def merged(*words):
        status, out, problem = run(program, "merge", *words, "-o", folder.name("merged.json"))
        checks.equal((status, problem), (0, ""), f"merge {words}")
        return out, json.loads(folder.read("merged.json"))

    def rows(document):
        return {tuple(row["at"]): row["times_us"] for group in document["groups"] for row in group["rows"]}

    out, document = merged(one, two, three)
    checks.equal(
        rows(document), {(1, 64): {"a": 2.5, "b": 3.5, "d": 9}, (1, 128): {"a": 3}, (2, 64): {"b": 5}}, "merge: medians"
    )
    checks.equal(document["deny"], [denied, {"variant": "e", "reason": "wrong"}], "merge: denials are united")
    checks.equal(document["pin"], [pinned], "merge: pins are kept")
    checks.equal(
        document["measured"],
        {
            "date": "2026-11-21",
            "rows": 3,
            "note": "repeat: 7",
            "merged": {"tables": 3, "repeated_rows": 1, "conflict": "median"},
            "before": [{"date": "2026-11-20", "rows": 1, "note": "clocks: 1980 MHz"}],
        },
        "merge: how rows were measured",
    )
    checks.contains(out, "3 rows in 1 groups, 2 denials and 1 pins of 3 tables of rotary", "merge")
    checks.contains(
        out,
        "1 rows were measured more than once: each variant's median is used; the times differ by at most "
        "100.0 % (a at dtype=bf16 batch=1 seqlen=64)",
        "merge: spread",
    )

    # By date, then by order: three is older though it is named last.
    out, document = merged(one, two, three, "--conflict", "newest")
    checks.equal(rows(document)[1, 64], {"a": 4, "b": 3, "d": 9}, "merge: newest")
    checks.contains(out, "the newest row is used", "merge: newest")
    _, document = merged(two, one, "--conflict", "newest")
    checks.equal(rows(document)[1, 64], {"a": 2, "b": 4}, "merge: newest of one day")

    # What a row says of its times, and which of those that cannot be told apart it prefers, is kept.
    doubtful = table({(1, 64): {"a": 2.0, "b": 2.02, "c": 3.0}, (1, 128): {"a": 3.0}})
    doubtful["groups"][0]["rows"][0].update(uncertainty=0.02, first="b")
    doubtful = folder.write("doubtful.json", doubtful)
    _, document = merged(doubtful, folder.write("sure.json", table({(4, 64): {"a": 1.0}})))
    row = [row for row in document["groups"][0]["rows"] if row["at"] == [1, 64]][0]
    checks.equal((row.get("first"), row.get("uncertainty")), ("b", 0.02), "merge: preference and uncertainty")

    # It may replace one of its inputs, and tables of one merge again to themselves.
    status, out, _ = run(program, "merge", folder.name("merged.json"), one, "-o", folder.name("merged.json"), "--json")
    checks.equal((status, json.loads(out)["rows"], json.loads(out)["repeated"]), (0, 3, 2), "merge --json")
    status, _, problem = run(program, "check", folder.name("merged.json"), "--root", folder.path)
    checks.equal(status, 0, f"check of what merge wrote: {problem}")

    # Blobs that were built anew.
    old = folder.write(
        "old.json",
        dict(
            table({(1, 64): {"a": 2.0, "b": 4.0}, (4, 64): {"a": 1.0, "b": 2.0}, (8, 64): {"a": 3.0}}),
            blobs={"a": "0" * 16, "b": "2" * 16},
        ),
    )
    new = folder.write("new.json", dict(table({(1, 64): {"a": 1.0}}), blobs={"a": "1" * 16}))

    def refused(status, words, *texts):
        before = folder.read("merged.json")
        found, _, problem = run(program, "merge", *words, "-o", folder.name("merged.json"))
        checks.equal(found, status, f"merge {words}: status")
        checks.equal(folder.read("merged.json"), before, f"merge {words}: the output stays as it was")
        for text in texts:
            checks.contains(problem, text, f"merge {words}")

    refused(
        2,
        (old, new),
        "[switchyard.206]",
        "variant 'a' was measured with another build of its kernel",
        "pass --conflict newest to drop the older times",
    )
    out, document = merged(old, new, "--conflict", "newest")
    checks.equal(rows(document), {(1, 64): {"a": 1}, (4, 64): {"b": 2}}, "merge: stale times are dropped")
    checks.equal(document["groups"][0]["blobs"], {"a": "1" * 16, "b": "2" * 16}, "merge: blobs")
    checks.contains(out, "3 times of kernels that were rebuilt since were dropped", "merge: stale times")
    _, document = merged(new, "--without-blobs")
    checks.equal(("blobs" in document["groups"][0], rows(document)), (False, {(1, 64): {"a": 1}}), "merge --without-blobs")

    # Rows that are for one device alone stay so.
    alone = folder.write("alone.json", table({(1, 64): {"a": 1.0}}, other_devices=False))
    for words in ((alone,), (alone, one), (one, alone)):
        checks.equal(merged(*words)[1].get("other_devices"), False, f"merge {words}: other devices")

    other = folder.write(
        "other.json",
        dict(
            table({(1, 64): {"a": 1.0}}),
            device={"backend": "cuda", "arch": "sm_90", "name": "NVIDIA H100", "multiprocessors": 132},
        ),
    )
    refused(
        2,
        (one, other),
        "is of Invented H200 (cuda sm_90, 132 multiprocessors)",
        "of NVIDIA H100",
        "times of different devices are not comparable",
    )
    softmax = folder.write("softmax.json", {"schema": "switchyard.table/1", "operator": "softmax", "device": {}})
    refused(2, (one, softmax), "is of operator 'softmax', but", "merge the tables of one operator")
    linear = folder.write("linear.json", table({(1, 64): {"a": 1.0}}, neighbours=2))
    refused(2, (one, linear), "/match: 'match', 'neighbours' or 'envelope' differs", "make them agree first")
    contrary = folder.write("contrary.json", table({(1, 64): {"a": 1.0}}, pin=[dict(pinned, variant="b")]))
    refused(2, (two, contrary), "pins 'b' where another table of 'rotary' pins 'a'")
    refused(64, (one, two, "--conflict", "best"), "--conflict")
    stranger = folder.write("stranger.json", dict(table({}), operator="axpy"))
    refused(2, (one, stranger), "is of operator 'axpy', but", "merge the tables of one operator")

    # An operator that nothing describes: its tables say enough.
    def own(name, rows):
        return folder.write(name, dict(table(rows), operator="axpy"))

    status, _, problem = run(
        program,
        "merge",
        own("own1.json", {(1, 64): {"a": 2.0}}),
        own("own2.json", {(1, 128): {"b": 3.0}}),
        "-o",
        folder.name("own.json"),
    )
    checks.equal((status, problem), (0, ""), "merge of another program's operator")
    found = json.loads(folder.read("own.json"))
    checks.equal(
        (found["operator"], found["groups"][0]["axes"], [row["at"] for row in found["groups"][0]["rows"]]),
        ("axpy", ["batch", "seqlen"], [[1, 64], [1, 128]]),
        "merge of another program's operator",
    )


def test_merge_of_notes(program, folder, checks):
    """What rows and tables say of their measuring, where several tables say it."""

    def merged(*words):
        status, _, problem = run(program, "merge", *words, "-o", folder.name("noted.json"))
        checks.equal((status, problem), (0, ""), f"merge {words}")
        return json.loads(folder.read("noted.json"))

    def doubtful(name, uncertainty, times, first=None, **more):
        content = table({(1, 64): times}, **more)
        content["groups"][0]["rows"][0].update(
            {"uncertainty": uncertainty} if uncertainty else {}, **({"first": first} if first else {})
        )
        return folder.write(name, content)

    def row(document):
        return document["groups"][0]["rows"][0]

    # Both times may be off by the uncertainty, as where the tuner settles ties: 2 us and up to 2.08 us are a tie.
    sure = folder.write("elsewhere.json", table({(4, 64): {"a": 1.0}}))
    for time, kept in ((2.06, "b"), (2.08, "b"), (2.09, None)):
        document = merged(doubtful("tied.json", 0.02, {"a": 2.0, "b": time}, "b" if time < 2.09 else None), sure)
        checks.equal(row(document).get("first"), kept, f"merge: a preference for {time} us")
    # A second table moves the median out of the tie.
    apart = doubtful("apart.json", 0.02, {"a": 2.0, "b": 2.2})
    tied = doubtful("tied.json", 0.02, {"a": 2.0, "b": 2.06}, "b")
    for words in ((tied, apart), (apart, tied)):
        document = merged(*words)
        checks.equal(
            (row(document).get("first"), row(document)["times_us"]),
            (None, {"a": 2, "b": 2.13}),
            f"merge: a preference that the median contradicts, {words}",
        )

    # The larger uncertainty of those whose median is taken, in either order; the newest row's own.
    small, large = (doubtful(f"{share}.json", share, {"a": 2.0, "b": 3.0}) for share in (0.02, 0.05))
    for words in ((small, large), (large, small)):
        checks.equal(row(merged(*words)).get("uncertainty"), 0.05, f"merge: uncertainty of {words}")
        checks.equal(
            row(merged(*words, "--conflict", "newest")).get("uncertainty"),
            0.05 if words[1] == large else 0.02,
            f"merge: uncertainty of the newest of {words}",
        )

    # Earlier runs, newest first, each once.
    def noted(name, date, *before):
        content = table({(1, 64): {"a": 2.0}})
        content["measured"] = {"date": date, "before": [{"date": each, "runs": 2} for each in before]}
        return folder.write(name, content)

    one = noted("one_noted.json", "2026-11-20", "2026-11-12", "2026-11-10")
    two = noted("two_noted.json", "2026-11-21", "2026-11-13", "2026-11-12", "2026-11-09")
    for words in ((one, two), (two, one)):
        document = merged(*words)
        checks.equal(
            [each["date"] for each in document["measured"]["before"]],
            ["2026-11-20", "2026-11-13", "2026-11-12", "2026-11-10", "2026-11-09"],
            f"merge: earlier runs of {words}",
        )
        checks.equal(document["measured"]["date"], "2026-11-21", f"merge: the date of {words}")


def test_merge_of_rows(program, folder, checks):
    """Which rows meet, and what is said of those that do."""

    def merged(*words):
        status, out, problem = run(program, "merge", *words, "-o", folder.name("rows.json"))
        checks.equal((status, problem), (0, ""), f"merge {words}")
        return out, json.loads(folder.read("rows.json"))

    def of_groups(name, *groups, **more):
        return folder.write(name, dict(table({}), groups=list(groups), **more))

    def group(dtype, axes, *rows):
        return {"type": {"dtype": dtype}, "axes": axes, "rows": list(rows)}

    def timed(at, **times):
        return {"at": at, "times_us": times}

    def listed(at, *winners):
        return {"at": at, "winners": list(winners)}

    def rows(document):
        return [
            (each["type"]["dtype"], each["axes"], [(row["at"], row.get("times_us") or row["winners"]) for row in each["rows"]])
            for each in document["groups"]
        ]

    # Rows of other types stay apart, those whose axes come in another order do not.
    plain = of_groups("plain.json", group("bf16", ["batch", "seqlen"], timed([1, 64], a=2.0)))
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
    one = of_groups("one_list.json", group("bf16", ["batch", "seqlen"], listed([1, 64], "a", "b")))
    two = of_groups("two_list.json", group("bf16", ["batch", "seqlen"], listed([1, 64], "b", "a"), listed([2, 64], "c")))
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
    empty = of_groups("no_rows.json", group("bf16", ["batch", "seqlen"]))
    out, document = merged(empty, plain)
    checks.equal(len(document["groups"]), 1, "merge: a group without rows")
    checks.equal(out.splitlines()[1:], [], "merge: nothing to say of rows")
    out, _ = merged(empty)
    checks.contains(out, "0 rows in 0 groups", "merge: no rows at all")
    same = of_groups(
        "same_times.json", group("bf16", ["batch", "seqlen"], timed([1, 64], a=2.0)), measured={"date": "2026-11-20"}
    )
    out, _ = merged(plain, same)
    checks.equal(
        out.splitlines()[1:], ["1 rows were measured more than once: each variant's median is used"], "merge: the same times"
    )
    anywhere = of_groups("anywhere.json", device={})
    checks.contains(merged(anywhere)[0], "of 1 tables of rotary on any device", "merge: any device")

    # Of four the mean of the middle two; the largest difference of all is shown.
    shards = [
        of_groups(f"of_four_{i}.json", group("bf16", ["batch", "seqlen"], timed([1, 64], a=a, b=10.0), timed([2, 64], a=b)))
        for i, (a, b) in enumerate(((8.0, 1.0), (4.0, 1.5), (5.0, 1.25), (7.0, 1.0)))
    ]
    out, document = merged(*shards)
    checks.equal(rows(document)[0][2], [([1, 64], {"a": 6, "b": 10}), ([2, 64], {"a": 1.125})], "merge: four tables")
    checks.contains(out, "differ by at most 100.0 % (a at dtype=bf16 batch=1 seqlen=64)", "merge: four tables")
    out, _ = merged(
        *[
            of_groups(
                f"later_{i}.json",
                group("bf16", ["batch", "seqlen"], timed([1, 64], a=4.0, b=time), timed([2, 64], a=time / 2 + 2, c=time)),
            )
            for i, time in enumerate((4.0, 5.0))
        ]
    )
    checks.contains(out, "differ by at most 25.0 % (b at dtype=bf16 batch=1 seqlen=64)", "merge: the largest difference")
    status, out, _ = run(program, "--json", "merge", *shards, "-o", folder.name("rows.json"))
    checks.equal(
        (status, json.loads(out)),
        (
            0,
            {
                "output": folder.name("rows.json"),
                "operator": "rotary",
                "device": DEVICE,
                "tables": 4,
                "dropped": [],
                "groups": 1,
                "rows": 2,
                "repeated": 2,
                "conflict": "median",
                "widest_ratio": 2.0,
                "stale_times": 0,
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
    older = of_groups(
        "older.json",
        group("bf16", ["batch", "seqlen"], dict(timed([1, 64], a=2.1, b=1.98), uncertainty=0.05)),
        measured={"date": "2026-11-20"},
    )
    newer = of_groups("newer.json", group("bf16", ["batch", "seqlen"], dict(timed([1, 64], a=2.0, b=2.02), uncertainty=0.05)))
    row = merged(older, newer)[1]["groups"][0]["rows"][0]
    checks.equal((row["times_us"], row.get("first")), ({"a": 2.05, "b": 2}, None), "merge: no preference")

    # What only some rows say stays theirs.
    some = of_groups(
        "some.json",
        group(
            "bf16",
            ["batch", "seqlen"],
            timed([1, 64], a=2.0),
            dict(timed([1, 128], a=3.0), uncertainty=0.03),
            timed([1, 256], a=4.0),
        ),
    )
    checks.equal(
        [row.get("uncertainty") for row in merged(some)[1]["groups"][0]["rows"]],
        [None, 0.03, None],
        "merge: the uncertainty of one row",
    )

    # Blobs that one table names, or both alike, are kept.
    def built(name, at, blobs):
        return of_groups(name, group("bf16", ["batch", "seqlen"], timed(at, a=2.0, b=3.0)), blobs=blobs)

    _, document = merged(
        built("b1.json", [1, 64], {"a": "0" * 16}),
        built("b2.json", [2, 64], {"a": "0" * 16, "b": "1" * 16}),
        built("b3.json", [4, 64], {}),
    )
    checks.equal(document["groups"][0]["blobs"], {"a": "0" * 16, "b": "1" * 16}, "merge: blobs of some tables")


def test_merge_of_the_same(program, folder, checks):
    """What is given twice, or is in another table, counts once."""

    def merged(*words):
        status, out, problem = run(program, "merge", *words, "-o", folder.name("same.json"))
        checks.equal((status, problem), (0, ""), f"merge {words}")
        return out, folder.read("same.json")

    def shard(name, seqlens, date="2026-11-21", before=(), **more):
        run_of = {
            "date": date,
            "statistic": "median",
            "checks": {"reference": "f64", "whole": len(seqlens), "rows": 1},
            "before": list(before),
            **more,
        }
        return folder.write(name, table({(1, seqlen): {"a": 2.0, "b": 3.0} for seqlen in seqlens}, measured=run_of))

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
    bare = folder.write(
        "bare.json",
        dict(
            table(
                {},
                measured={"date": "2026-11-21", "checks": {"reference": "f64", "whole": 3}},
                deny=[{"variant": "b", "reason": "wrong"}],
            ),
            groups=[],
        ),
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
    denied = folder.write(
        "denied.json", dict(json.loads(folder.read("same1.json")), deny=[{"variant": "b", "reason": "wrong"}])
    )
    checks.equal(json.loads(merged(denied, one)[1])["deny"], [{"variant": "b", "reason": "wrong"}], "merge: a denial of a part")
    # In between lies a table whose rows would win over the first's, but not over the last's.
    middle = folder.write("middle.json", folder.read("same1.json").replace("2.0", "9.0"))
    wider = shard("wider.json", (64, 128, 1024))
    _, found = merged(wider, middle, one, "--conflict", "newest")
    checks.equal(
        json.loads(found)["groups"][0]["rows"][0]["times_us"], {"a": 2, "b": 3}, "merge --conflict newest: the last one wins"
    )


def test_merge_of_pins(program, folder, checks):
    """Denials and pins: each once, those of other places side by side."""

    def merged(*entries):
        paths = [folder.write(f"pins{i}.json", dict(table({(1, 64): {"a": 2.0}}), **entry)) for i, entry in enumerate(entries)]
        status, _, problem = run(program, "merge", *paths, "-o", folder.name("pinned.json"))
        checks.equal((status, problem), (0, ""), f"merge {entries}")
        return json.loads(folder.read("pinned.json"))

    def pin(variant, dtype, at):
        return {"variant": variant, "reason": "by hand", "type": {"dtype": dtype}, "at": at}

    here = pin("a", "bf16", {"batch": 1, "seqlen": [1, 64]})
    checks.equal(merged({"pin": [here]}, {"pin": [dict(here, reason="again")]})["pin"], [here], "merge: a pin of both")
    for other in (
        pin("b", "f16", {"batch": 1, "seqlen": [1, 64]}),
        pin("b", "bf16", {"batch": 2, "seqlen": [1, 64]}),
        pin("b", "bf16", {"batch": 1, "seqlen": [2, 64]}),
        pin("b", "bf16", {"batch": 1, "seqlen": [1, 65]}),
        pin("b", "bf16", {"batch": 1}),
        pin("b", "bf16", {"batch": 1, "heads": [1, 64]}),
    ):
        checks.equal(merged({"pin": [here]}, {"pin": [other]})["pin"], [here, other], "merge: pins of two places")

    denied = {"variant": "c", "reason": "a hang", "type": {"dtype": "bf16"}}
    for other in (dict(denied, variant="d"), dict(denied, type={"dtype": "f16"})):
        checks.equal(merged({"deny": [denied]}, {"deny": [other, denied]})["deny"], [denied, other], "merge: denials")


def test_measured(program, folder, checks):
    """What tables say of the runs that measured them: joined by merge, in words by diff and report."""

    def shard(name, seqlen, **more):
        run_of = {
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
            **more,
        }
        return folder.write(name, dict(table({(1, seqlen): {"a": 2.0}}), measured=run_of))

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
    measured = json.loads(folder.read("shards.json"))["measured"]
    checks.equal(
        measured,
        {
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
    old = folder.write(
        "old_texts.json",
        dict(
            table({(1, 64): {"a": 2.0}}),
            measured={"driver": "12080", "date": "2026-11-20", "repeat": "medians", "rows": "7", "note": "by hand\u0007"},
        ),
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
    odd = folder.write(
        "odd.json",
        dict(
            table({(1, 64): {"a": 2.0}}),
            measured={
                "date": 7,
                "samples": 9,
                "clocks": [1],
                "cache": "cold",
                "rows": -3,
                "checks": {"whole": "x"},
                "before": [1, {}],
            },
        ),
    )
    status, _, problem = run(program, "merge", odd, "-o", folder.name("odd_merged.json"))
    checks.that(
        status == 0 and problem.count("\n") == 1 and "/measured/date: expected a string, got 7" in problem,
        f"merge of odd values: {problem}",
    )
    found = json.loads(folder.read("odd_merged.json"))["measured"]
    checks.equal(
        {key: found.get(key) for key in ("date", "samples", "clocks", "note")},
        {"date": 7, "samples": 9, "clocks": [1], "note": "cache: cold"},
        "merge of odd values",
    )


def test_diff_of_winners(program, folder, checks):
    """Winners that the new table did not measure, and shapes that it decides without a row."""

    def diff(old, new, *words):
        status, out, problem = run(
            program, "--json", "diff", folder.write("then.json", old), folder.write("now.json", new), *words
        )
        checks.equal(problem, "", "diff")
        return status, {each["shape"].split()[-1]: each for each in json.loads(out)["shapes"]}

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


def test_diff(program, folder, checks):
    old = folder.write(
        "before.json",
        table(
            {
                (1, 64): {"a": 2.0, "b": 2.1},
                (1, 128): {"a": 4.0, "b": 3.0},
                (1, 256): {"a": 8.0, "b": 4.0},
                (1, 512): {"a": 10.0, "b": 10.1},
                (1, 1024): {"a": 20.0, "b": 21.0},
                (1, 1 << 20): {"a": 5000.0},
            }
        ),
    )
    new = folder.write(
        "after.json",
        table(
            {
                (1, 64): {"a": 2.5, "b": 2.6},
                (1, 128): {"a": 3.9, "b": 2.5},
                (1, 256): {"a": 3.9, "b": 4.4},
                (1, 512): {"a": 10.1, "b": 10.0},
                (2, 64): {"a": 3.0},
            }
        ),
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
    same = [each for each in found["shapes"] if each["shape"] == "dtype=bf16 batch=1 seqlen=64"]
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
    kept = folder.write("kept.json", table({(1, 256): {"a": 8.0, "b": 4.0}}))
    flipped = folder.write("flipped.json", table({(1, 256): {"a": 3.9, "b": 4.4}}))
    checks.equal((diff(kept, flipped)[0], diff(kept, flipped, "--strict")[0]), (0, 1), "diff --strict")

    # A thinned table whose prediction is wrong where the old one knew better.
    wrong = folder.write("wrong.json", table({(1, 128): {"a": 1.0, "b": 2.0}}))
    status, out = diff(kept, wrong)
    checks.equal(status, 1, "diff: a wrong prediction")
    checks.contains(out, "slower   dtype=bf16 batch=1 seqlen=256: 4 us -> 8 us (+100.0 %), b -> a", "diff: predicted")

    # The same where manifests say what times grow with: a's would be 4 us, b's 3 us.
    root = install(folder, "rotary", {"a": "seqlen * seqlen", "b": "seqlen + 128"})
    status, out = diff(kept, wrong, "--root", root)
    checks.equal(status, 0, "diff: costs")
    checks.contains(out, "thinned  dtype=bf16 batch=1 seqlen=256: 4 us -> 4 us (+0.0 %), b\n", "diff: costs")

    other = folder.write("elsewhere.json", dict(table({}), device={"backend": "cuda", "arch": "sm_90", "name": "X"}))
    status, _, problem = run(program, "diff", old, other)
    checks.equal(status, 2, "diff: another device")
    checks.contains(problem, "their times are not comparable", "diff: another device")
    broken = folder.write("broken.json", "{")
    status, _, problem = run(program, "diff", old, broken)
    checks.equal(status, 2, "diff: a broken file")
    checks.contains(problem, "is not JSON", "diff: a broken file")
    status, _, _ = run(program, "diff", old)
    checks.equal(status, 64, "diff: one table")


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
    checks.equal(
        (
            status,
            {
                key: found[key]
                for key in (
                    "status",
                    "threshold",
                    "shapes_in_both",
                    "mean_ratio",
                    "other_winners",
                    "lost",
                    "slower",
                    "changed",
                    "faster",
                    "gained",
                    "thinned",
                    "same",
                )
            },
        ),
        (
            1,
            {
                "status": 1,
                "threshold": 0.05,
                "shapes_in_both": 2,
                "mean_ratio": 1.0,
                "other_winners": 1,
                "lost": 1,
                "slower": 1,
                "changed": 0,
                "faster": 1,
                "gained": 1,
                "thinned": 0,
                "same": 0,
            },
        ),
        "diff --json: sums",
    )
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
        thinned = [each for each in found["shapes"] if each["verdict"] == "thinned"]
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


def test_output(program, folder, checks):
    """However many write a table at once, and whatever stands beside it, readers find a whole one."""
    one = folder.write("left.json", table({(n, 64): {"a": 2.0, "b": 4.0} for n in range(1, 200)}))
    two = folder.write("right.json", table({(n, 128): {"a": 3.0} for n in range(1, 200)}))
    out = folder.name("out.json")
    shutil.copy(one, out)
    os.chmod(out, 0o640)
    precious = folder.write("precious", "precious")
    os.symlink(precious, out + ".partial")
    writers = [
        subprocess.Popen(
            ["sh", "-c", 'for i in 1 2 3 4 5 6; do "$0" merge "$1" "$2" -o "$3" >&2 || exit 1; done', program, one, two, out],
            stderr=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        text = folder.read("out.json")
        try:
            seen.add(len(json.loads(text)["groups"][0]["rows"]))
        except (ValueError, LookupError):
            seen.add(text[:40])
    checks.equal([writer.wait() for writer in writers], [0] * 4, "parallel merges: statuses")
    checks.that(seen <= {199, 398}, f"parallel merges: a reader found {seen}")
    checks.equal(os.stat(out).st_mode & 0o777, 0o640, "parallel merges: the table's mode")
    checks.equal(folder.read("precious"), "precious", "parallel merges: a link that is planted")
    checks.that(not [each for each in os.listdir(folder.path) if each.startswith(".switchyard")], "parallel merges: litter")

    # A link is followed, and a pipe is no table.
    os.symlink("out.json", folder.name("link.json"))
    status, _, _ = run(program, "merge", one, "-o", folder.name("link.json"))
    checks.equal(
        (status, os.path.islink(folder.name("link.json")), len(json.loads(folder.read("out.json"))["groups"][0]["rows"])),
        (0, True, 199),
        "a table that is a link",
    )
    os.mkfifo(folder.name("pipe"))
    status, _, problem = run(program, "merge", one, "-o", folder.name("pipe"))
    checks.equal(status, 2, "a pipe as output")
    checks.contains(problem, "pipe: is not a regular file, so it is not replaced; name another file", "a pipe as output")

    # Nothing that a path is called commands a terminal.
    status, _, problem = run(program, "merge", folder.name("none\n\x1b[2Jswitchyard: forged"), "-o", out)
    checks.equal(status, 2, "a path with control characters")
    checks.contains(problem, "none\\u000a\\u001b[2Jswitchyard: forged: cannot be opened", "a path with control characters")


def main():
    program, path = sys.argv[1:]
    folder = Folder(path)
    checks = Checks()
    _, out, _ = run(program, "record", "--help")
    checks.contains(out, "most frequent first", "record --help")
    axes = {"dtype": "bf16", "alignment": 16, "rows": 4, "columns": 8}
    test_record(program, folder, checks, axes)
    test_merge(program, folder, checks)
    test_merge_of_notes(program, folder, checks)
    test_merge_of_rows(program, folder, checks)
    test_merge_of_the_same(program, folder, checks)
    test_merge_of_pins(program, folder, checks)
    test_measured(program, folder, checks)
    test_diff(program, folder, checks)
    test_diff_of_winners(program, folder, checks)
    test_diff_as_data(program, folder, checks)
    test_output(program, folder, checks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
