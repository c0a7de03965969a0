# SPDX-License-Identifier: MIT
"""switchyard merge, over tables made here.   test_merge.py PROGRAM FOLDER"""

import json
import os
import shutil
import subprocess
import sys

from invented import run
from invented_tables import main, merge, table


def test_merge(program, folder, checks):
    denied = {"variant": "c", "reason": "a hang", "type": {"dtype": "bf16"}}
    pinned = {"variant": "a", "reason": "by hand", "type": {"dtype": "bf16"}, "at": {"batch": 1, "seqlen": [1, 64]}}
    one = folder.table("one.json", {(1, 64): {"a": 2.0, "b": 4.0}, (1, 128): {"a": 3.0}}, deny=[denied])
    two = folder.table(
        "two.json",
        {(1, 64): {"a": 4.0, "b": 3.0, "d": 9.0}, (2, 64): {"b": 5.0}},
        deny=[denied, {"variant": "e", "reason": "wrong"}],
        pin=[pinned],
    )
    three = folder.table("three.json", {(1, 64): {"a": 2.5}}, measured={"date": "2026-11-20", "clocks": "1980 MHz"})

    def merged(*words):
        return merge(program, folder, checks, *words)

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
    _, document = merged(doubtful, folder.table("sure.json", {(4, 64): {"a": 1.0}}))
    row = [row for row in document["groups"][0]["rows"] if row["at"] == [1, 64]][0]
    checks.equal((row.get("first"), row.get("uncertainty")), ("b", 0.02), "merge: preference and uncertainty")

    # It may replace one of its inputs, and tables of one merge again to themselves.
    status, out, _ = run(program, "merge", folder.name("merged.json"), one, "-o", folder.name("merged.json"), "--json")
    checks.equal((status, json.loads(out)["rows"], json.loads(out)["repeated"]), (0, 3, 2), "merge --json")
    status, _, problem = run(program, "check", folder.name("merged.json"), "--root", folder.path)
    checks.equal(status, 0, f"check of what merge wrote: {problem}")

    # Blobs that were built anew.
    old = folder.table(
        "old.json",
        {(1, 64): {"a": 2.0, "b": 4.0}, (4, 64): {"a": 1.0, "b": 2.0}, (8, 64): {"a": 3.0}},
        blobs={"a": "0" * 16, "b": "2" * 16},
    )
    new = folder.table("new.json", {(1, 64): {"a": 1.0}}, blobs={"a": "1" * 16})

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
    alone = folder.table("alone.json", {(1, 64): {"a": 1.0}}, other_devices=False)
    for words in ((alone,), (alone, one), (one, alone)):
        checks.equal(merged(*words)[1].get("other_devices"), False, f"merge {words}: other devices")

    other = folder.table(
        "other.json",
        {(1, 64): {"a": 1.0}},
        device={"backend": "cuda", "arch": "sm_90", "name": "NVIDIA H100", "multiprocessors": 132},
    )
    refused(
        2,
        (one, other),
        "is of Invented H200 (cuda sm_90, 132 multiprocessors)",
        "of NVIDIA H100",
        "times of different devices are not comparable",
    )
    # Neither architectures without a name, nor CPUs of one name with other instruction sets.
    first = {"backend": "cuda", "arch": "sm_90"}
    second = {"backend": "cuda", "arch": "sm_80"}
    words = [folder.table(f"arch_{i}.json", {(i, 64): {"a": 1.0}}, device=d) for i, d in enumerate((first, second))]
    refused(2, words, "is of any cuda sm_90 device", "of any cuda sm_80 device")
    plain = {"backend": "host", "arch": "x86_64", "name": "A CPU", "multiprocessors": 2}
    wide, narrow = {**plain, "avx2": 1, "avx512f": 1}, {**plain, "avx2": 1}
    words = [folder.table(f"cpu_{i}.json", {(i, 64): {"a": 1.0}}, device=d) for i, d in enumerate((plain, wide, narrow))]
    refused(2, words[1:], "is of A CPU (host x86_64, 2 multiprocessors, avx2 avx512f)", "2 multiprocessors, avx2)")
    merged(*words[:2])  # whose author did not say
    softmax = folder.write("softmax.json", {"schema": "switchyard.table/1", "operator": "softmax", "device": {}})
    refused(2, (one, softmax), "is of operator 'softmax', but", "merge the tables of one operator")
    contrary = folder.table("contrary.json", {(1, 64): {"a": 1.0}}, pin=[dict(pinned, variant="b")])
    refused(2, (two, contrary), "pins 'b' where another table of 'rotary' pins 'a'")
    refused(64, (one, two, "--conflict", "best"), "--conflict")
    stranger = folder.table("stranger.json", {}, operator="axpy")
    refused(2, (one, stranger), "is of operator 'axpy', but", "merge the tables of one operator")

    # An operator that nothing describes: its tables say enough.
    def own(name, rows):
        return folder.table(name, rows, operator="axpy")

    status, _, problem = run(
        program,
        "merge",
        own("own1.json", {(1, 64): {"a": 2.0}}),
        own("own2.json", {(1, 128): {"b": 3.0}}),
        "-o",
        folder.name("own.json"),
    )
    checks.equal((status, problem), (0, ""), "merge of another program's operator")
    found = folder.read_json("own.json")
    checks.equal(
        (found["operator"], found["groups"][0]["axes"], [row["at"] for row in found["groups"][0]["rows"]]),
        ("axpy", ["batch", "seqlen"], [[1, 64], [1, 128]]),
        "merge of another program's operator",
    )


def test_rules_of_matching(program, folder, checks):
    """Tables with different rules: the result has that of the first one named, or of the one named by --match."""
    usual = folder.table("usual.json", {(1, 64): {"a": 2.0}}, measured={"date": "2026-11-21"})
    few = folder.table("few.json", {(2, 64): {"a": 1.0}}, neighbours=2, measured={"date": "2026-11-20"})
    other = {"match": {"batch": "exact", "seqlen": "log", "batch * seqlen": "log"}, "envelope": 0.5}
    far = folder.table("far.json", {(4, 64): {"a": 3.0}}, measured={"date": "2026-11-22"}, **other)

    def merged(*words):
        out, document = merge(program, folder, checks, *words)
        found = {key: document[key] for key in ("neighbours", "envelope")}
        found["match"] = {key: rule for key, rule in document["match"].items() if key in ("batch", "batch * seqlen")}
        checks.equal(len(document["groups"][0]["rows"]), 3, f"merge {words}: rows")
        return out, found

    rules = {
        usual: {"neighbours": 4, "envelope": 1.5, "match": {"batch": "log"}},
        few: {"neighbours": 2, "envelope": 1.5, "match": {"batch": "log"}},
        far: {"neighbours": 4, "envelope": 0.5, "match": {"batch": "exact", "batch * seqlen": "log"}},
    }
    # The order counts, the dates do not.
    for words in ((usual, few, far), (few, far, usual), (far, usual, few)):
        out, found = merged(*words)
        checks.equal(found, rules[words[0]], f"merge {words}: the first one's rule")
        out, found = merged(*words, "--match", words[2], "--conflict", "newest")
        checks.equal(found, rules[words[2]], f"merge {words}: the named one's rule")
        checks.that(words[2] + ": its" not in out, f"merge {words}: {out}")
    out, _ = merged(usual, few, far)
    of = f" from that of {usual}, which the result has"
    checks.contains(out, f"{few}: its 'neighbours' (2, not 4) differs{of}", "merge: what differs")
    checks.contains(out, f"{far}: its 'match', 'envelope' (0.5, not 1.5) differ{of}", "merge: what differs")
    checks.that(f"{usual}: its" not in out, f"merge: what does not differ: {out}")
    # One that is not merged; in JSON; none at all.
    status, out, _ = run(program, "merge", usual, few, "--match", far, "-o", folder.name("merged.json"), "--json")
    checks.equal((status, len(json.loads(out)["other_matches"])), (0, 2), "merge --match of a third table")
    checks.equal(folder.read_json("merged.json")["envelope"], 0.5, "merge --match of a third table")
    softmax = folder.write("softmax.json", {"schema": "switchyard.table/1", "operator": "softmax", "device": {}})
    before = folder.read("merged.json")
    for path, text in (
        (softmax, "softmax.json: is of operator 'softmax', but the tables to merge are of 'rotary'"),
        (folder.name("none.json"), "none.json: cannot be opened"),
    ):
        status, _, problem = run(program, "merge", usual, few, "--match", path, "-o", folder.name("merged.json"))
        checks.equal((status, folder.read("merged.json")), (2, before), f"merge --match {path}")
        checks.contains(problem, text, f"merge --match {path}")


def test_merge_of_notes(program, folder, checks):
    """What rows and tables say of their measuring, where several tables say it."""

    def merged(*words):
        return merge(program, folder, checks, *words)[1]

    def doubtful(name, uncertainty, times, first=None, **more):
        content = table({(1, 64): times}, **more)
        content["groups"][0]["rows"][0].update(
            {"uncertainty": uncertainty} if uncertainty else {}, **({"first": first} if first else {})
        )
        return folder.write(name, content)

    def row(document):
        return document["groups"][0]["rows"][0]

    # Both times may be off by the uncertainty, as where the tuner settles ties: 2 us and up to 2.08 us are a tie.
    sure = folder.table("elsewhere.json", {(4, 64): {"a": 1.0}})
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
        content["measured"] = {"date": date, "before": [{"date": day, "runs": 2} for day in before]}
        return folder.write(name, content)

    one = noted("one_noted.json", "2026-11-20", "2026-11-12", "2026-11-10")
    two = noted("two_noted.json", "2026-11-21", "2026-11-13", "2026-11-12", "2026-11-09")
    for words in ((one, two), (two, one)):
        document = merged(*words)
        checks.equal(
            [past["date"] for past in document["measured"]["before"]],
            ["2026-11-20", "2026-11-13", "2026-11-12", "2026-11-10", "2026-11-09"],
            f"merge: earlier runs of {words}",
        )
        checks.equal(document["measured"]["date"], "2026-11-21", f"merge: the date of {words}")
        # All rows of one were measured again: its runs go with them.
        document = merged(*words, "--conflict", "newest")
        checks.equal(
            [past["date"] for past in document["measured"]["before"]],
            ["2026-11-13", "2026-11-12", "2026-11-09"],
            f"merge: earlier runs of the newest rows of {words}",
        )
    more = folder.write(
        "more_noted.json", {**table({(1, 64): {"a": 2.0}, (2, 64): {"a": 2.0}}), "measured": {"date": "2026-11-20"}}
    )
    document = merged(more, two, "--conflict", "newest")
    checks.equal(
        [past["date"] for past in document["measured"]["before"]],
        ["2026-11-20", "2026-11-13", "2026-11-12", "2026-11-09"],
        "merge: earlier runs of a table with another row",
    )


def test_merge_of_pins(program, folder, checks):
    """Denials and pins: each once, those of other places side by side."""

    def merged(*entries):
        paths = [folder.table(f"pins{i}.json", {(1, 64): {"a": 2.0}}, **entry) for i, entry in enumerate(entries)]
        return merge(program, folder, checks, *paths)[1]

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


def test_output(program, folder, checks):
    """However many write a table at once, and whatever stands beside it, readers find a whole one."""
    one = folder.table("left.json", {(n, 64): {"a": 2.0, "b": 4.0} for n in range(1, 200)})
    two = folder.table("right.json", {(n, 128): {"a": 3.0} for n in range(1, 200)})
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
    checks.that(not [name for name in os.listdir(folder.path) if name.startswith(".switchyard")], "parallel merges: litter")

    # A link is followed, and a pipe is no table.
    os.symlink("out.json", folder.name("link.json"))
    status, _, _ = run(program, "merge", one, "-o", folder.name("link.json"))
    checks.equal(
        (status, os.path.islink(folder.name("link.json")), len(folder.read_json("out.json")["groups"][0]["rows"])),
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


if __name__ == "__main__":
    sys.exit(main(globals()))
