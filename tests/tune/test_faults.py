# SPDX-License-Identifier: MIT
"""switchyard tune and check --run over CPU kernels of which some crash, hang, lie or leave."""

import json
import os
import re
import subprocess
import sys
import time

import cases
from cases import check, manifest_of
from tuning import (
    FAULTY_KERNELS,
    FOLDER,
    LOOSE,
    TOOL,
    check_reasons,
    check_times,
    command,
    command_line,
    make_root,
    make_root_and_table,
    read_json,
    read_table,
    rows,
    run,
    write_json,
)

BAD = {
    "crash": r"died of signal 11 \(SIGSEGV\); it said: about to read where nothing is",
    "hang": r"no answer within 3 s; it was killed",
    "leave": r"it exited with status 3",
    "babble": r"wrote an invalid answer: 'not JSON",
    "partial": r"wrong results: out: \d+ of \d+ compared values are wrong; element \d+ is NaN where",
    "off": r"wrong results: out: \d+ of \d+ compared values are wrong; element \d+ is 0\.\d+ where 0\.\d+ belongs",
    "not_a_number": r"wrong results: out: 1 of \d+ compared values are wrong; element \d+ is NaN",
    "overrun": r"writes past the end of a tensor of \d+ bytes, 0 bytes behind it",
    "spoil": r"changes an input, a tensor of \d+ bytes",
    "late": r"died of signal 6 \(SIGABRT\)",
}


def test_failures():
    root, table = make_root_and_table(
        "failures",
        ["crash", "right", "hang", "leave", "babble", "partial", "off", "not_a_number", "overrun", "spoil", "late", "slow"],
    )
    words = ["softmax", "dtype=f32", "rows=3,8", "columns=40", "-o", table, *LOOSE, "--limit", "3s"]
    done = run(root, *words)
    found = read_table(table)
    check(set(rows(found)) == {(3, 40), (8, 40)}, f"rows: {list(rows(found))}")
    check_times(found, {"right", "slow"})
    check_reasons(done, BAD)
    for name in BAD:
        check(re.search(rf"^  {name}: ", done.stdout, re.MULTILINE), f"the summary does not name '{name}'")
        lines = re.findall(rf"^{name} at ", done.stderr, re.MULTILINE)
        check(len(lines) == 1, f"'{name}' was tried {len(lines)} times, though it was known to be bad")
    check("deny" not in found, "denials were written without --deny")

    # What is known to be bad is remembered, and denied on request: without running it again.
    begin = time.monotonic()
    run(root, "softmax", "dtype=f32", "rows=5", "columns=40", "-o", table, *LOOSE, "--limit", "30s", "--deny")
    check(time.monotonic() - begin < 25, "a variant known to hang was run again")
    found = read_table(table)
    check({denial["variant"] for denial in found.get("deny", [])} == set(BAD), f"denied: {found.get('deny')}")
    check(
        all(denial.get("reason") and denial["type"] == {"dtype": "f32"} for denial in found["deny"]),
        "a denial lacks its reason or type",
    )
    check(len(rows(found)) == 3, "the rows that were there are gone")
    again = run(root, *words, "--retry-bad", "--again")
    check(re.search("^crash at ", again.stderr, re.MULTILINE), "--retry-bad did not try again")

    # A time of a variant that turns out to be bad later leaves the table.
    later = make_root("later", ["right", "late"])
    table = os.path.join(later, "t.json")
    write_json(
        table,
        {
            **found,
            "deny": [],
            "groups": [
                {
                    "type": {"dtype": "f32"},
                    "axes": ["rows", "columns"],
                    "rows": [
                        {"at": [1, 1], "times_us": {"late": 1.0}},
                        {"at": [2, 2], "times_us": {"late": 1.0, "right": 2.0}},
                    ],
                }
            ],
        },
    )
    done = run(later, "softmax", "dtype=f32", "rows=3", "columns=40", "-o", table, *LOOSE)
    check(rows(read_table(table)).keys() == {(2, 2), (3, 40)}, f"rows: {list(rows(read_table(table)))}")
    check("late was removed from 2 rows" in done.stderr, done.stderr)


def test_right_at_first():
    # Kernels with state and races are right once. None of them may win, and the reason says when it showed.
    root, table = make_root_and_table("right_at_first", ["fading", "right", "blinking"])
    done = run(root, "softmax", "dtype=f32", "rows=3,8", "columns=40", "-o", table, *LOOSE, "--deny")
    found = read_table(table)
    check_times(found, {"right"})
    late = "right before it was timed, wrong results afterwards: out: "
    check_reasons(done, {"fading": late, "blinking": late})
    check({denial["variant"] for denial in found["deny"]} == {"fading", "blinking"}, f"denied: {found.get('deny')}")


def test_right_on_usual_calls():
    # Kernels that are right for dense rows of moderate values at the default scale, on memory full of NaN. None may win.
    bad = {
        "reading_poison": r"\(results held finite numbers before the run\)",
        "naive": r"with values up to 1000, rows apart, options off defaults: out: .* is NaN where",
        "dense": r"with values up to 1000, rows apart, options off defaults: out: ",
        "unscaled": r"options off defaults: out: ",
        "rarely": r"out: \d+ of \d+ compared values are wrong",
        "underrun": r"writes before the beginning of a tensor of \d+ bytes, 1 bytes before it",
    }
    root, table = make_root_and_table("right_on_usual_calls", [*bad, "right"])
    done = run(root, "softmax", "dtype=f32", "rows=3,8,11", "columns=40,77", "-o", table, *LOOSE, "--deny")
    found = read_table(table)
    check(len(rows(found)) == 6, f"rows: {list(rows(found))}")
    check_times(found, {"right"})
    check_reasons(done, bad)


def test_right_on_usual_calls_of_others():
    # The same of other operators: strides, options, values that overflow a plain form, and addresses.
    reasons = {
        "dense": "rows apart",
        "options": "options off defaults",
        "overflow": "with values up to",
        "aligned": "unaligned",
    }
    for operator, (_, _, words, faults) in cases.FAULTY.items():
        root = cases.make_faulty_root(os.path.join(FOLDER, "usual_" + operator), FAULTY_KERNELS, operator, [*faults, "right"])
        table = os.path.join(root, "t.json")
        done = run(root, operator, "dtype=f32", *words, "-o", table, *LOOSE)
        check(rows(read_table(table)), f"{operator}: no rows")
        check_times(read_table(table), {"right"})
        late = "right before it was timed, wrong results afterwards: "
        check_reasons(done, {name: f"{late}.*{reasons[name]}.*: " for name in faults})


def test_process_state():
    # What a kernel changes about its process costs itself its place, and no other one.
    bad = {
        "limiting": r"changes the state of its process: RLIMIT_FSIZE was \S+, now 0",
        "blocking": r"changes the state of its process: the mask of blocked signals was \w+, now \w+",
        "moving": r"changes the state of its process: the working folder was /\S+, now /",
        "arming": r"changes the state of its process: ITIMER_REAL was stopped, now running",
        "late_crash": r"a thread that it left running: it died of signal 6 \(SIGABRT\)",
        "late_change": r"a thread that it left running changes the state of its process: the umask was \d+, now 0777",
    }
    for extra in [[], ["slow"]]:
        root, table = make_root_and_table("process_state" + "".join(extra), [*bad, "right", *extra])
        done = run(root, "softmax", "dtype=f32", "rows=3,8", "columns=40", "-o", table, *LOOSE, "--deny")
        found = read_table(table)
        check_times(found, {"right", *extra})
        check({denial["variant"] for denial in found.get("deny", [])} == set(bad), f"denied: {found.get('deny')}")
        check_reasons(done, bad)


def check_run(*words, status):
    done = subprocess.run([TOOL, "check", "--run", *words], capture_output=True, text=True, timeout=120, check=False)
    check(
        done.returncode == status,
        f"check --run {words}: exit status {done.returncode}, expected {status}\n{done.stdout}{done.stderr}",
    )
    return done.stdout + done.stderr


def check_faulty(path, manifest, bad):
    """Runs the manifest's variants `bad`, each with its reason, and `right`."""
    said = check_run(path, "--limit", "3s", status=2)
    for name, reason in bad.items():
        lines = re.findall(
            rf"^error: {manifest}: variant '{name}', run at dtype=f32 .*{reason}.*; fix its kernel", said, re.MULTILINE
        )
        check(len(lines) == 1, f"{path}: {len(lines)} lines say what is wrong with '{name}':\n{said}")
    check(f"{len(bad) + 1} variants were run, {len(bad)} of them are faulty; 0 were not run" in said, said)
    check(not re.search(r"^error: .*'right'", said, re.MULTILINE), said)
    check(re.search(r"^the largest error is 0\.\d+ of the tolerance: variant 'right' of ", said, re.MULTILINE), said)


def test_check_run():
    # The same judging without a table: of a root, a folder and a manifest by itself, wherever it lies.
    good = make_root("run_good", ["right", "slow"])
    said = check_run(good, status=0)
    check("2 variants were run, 0 of them are faulty; 0 were not run" in said, said)
    check("0 errors" in said, said)
    bad = {
        "naive": r"with values up to 1000, rows apart, options off defaults: out: .* is NaN where",
        "off": "out: ",
        "crash": r"died of signal 11",
        "rarely": "out: ",
        "underrun": "writes before the beginning of a tensor",
        "limiting": "RLIMIT_FSIZE",
        "late_crash": r"died of signal 6",
        "hang": "no answer within 3 s",
    }
    root = make_root("run_bad", [*bad, "right"])
    check_faulty(root, manifest_of(root), bad)
    # A folder, and a manifest by itself, wherever it lies.
    few = {name: bad[name] for name in ("naive", "underrun")}
    manifest = manifest_of(make_root("run_few", [*few, "right"]))
    check_faulty(os.path.dirname(manifest), manifest, few)
    check_faulty(manifest, manifest, few)
    # A variant that is right at one problem and wrong at a later one leaves no error behind.
    said = check_run(make_root("run_ragged", ["ragged", "right"]), status=2)
    check(re.search("variant 'ragged', run at dtype=f32 rows=64 columns=64, wrong results", said), said)
    check(re.search("^the largest error is .*: variant 'right' of ", said, re.MULTILINE), said)
    renamed = os.path.join(FOLDER, "run_renamed")
    os.makedirs(renamed)
    for name in os.listdir(os.path.dirname(manifest)):
        os.link(
            os.path.join(os.path.dirname(manifest), name),
            os.path.join(renamed, "mine.json" if name == "manifest.json" else name),
        )
    said = check_run(os.path.join(renamed, "mine.json"), "--at", "rows=5", "--at", "columns=33", "--limit", "3s", status=2)
    check(re.search(r"mine.json: variant 'naive', run at dtype=f32 rows=5 columns=33, ", said), said)
    done = subprocess.run([TOOL, "--json", "check", "--run", good], capture_output=True, text=True, timeout=60, check=False)
    ran = json.loads(done.stdout)["run"]
    errors = ran.pop("errors")
    check(ran == {"judged": 2, "faulty": 0, "not_run": 0}, done.stdout)
    check(len(errors) == 2 and all(0 < error["share"] <= 1 and "rows=" in error["problem"] for error in errors), done.stdout)
    for operator, (_, _, words, faults) in cases.FAULTY.items():
        root = cases.make_faulty_root(os.path.join(FOLDER, "run_" + operator), FAULTY_KERNELS, operator, [*faults, "right"])
        given = [part for word in words for part in ("--at", word)] if operator == "rotary" else []
        said = check_run(root, *given, status=2)
        check(f"{len(faults) + 1} variants were run, {len(faults)} of them are faulty; 0 were not run" in said, said)
        check(not re.search(r"^error: .*'right'", said, re.MULTILINE), said)
    # What cannot be run is said, and does not look right.
    picky = make_root("run_picky", ["right"])
    path = manifest_of(picky)
    held = read_json(path)
    held["variants"][0]["requires"] = ["columns == 12345"]
    write_json(path, held)
    said = check_run(picky, "--strict", status=1)
    check(
        "variant 'right' was not run: it serves no problem that was tried; name one that it serves with --at axis=value"
        in said,
        said,
    )
    said = check_run(picky, "--at", "rows=2", "--at", "columns=12345", status=0)
    check("1 variants were run, 0 of them are faulty; 0 were not run" in said, said)


def test_check_run_holds_classes_to_their_bits():
    root = make_root("run_class", ["wavering", "right"])
    check_run(root, status=0)  # other bits within the tolerance are right, unless a class is stated
    path = manifest_of(root)
    held = read_json(path)
    for variant in held["variants"]:
        variant["reproducible"] = "rows"
    write_json(path, held)
    said = check_run(root, status=2)
    reason = "results have other bits than those of the first run, though the manifest states the reproducible class 'rows'"
    check(
        re.search(rf"^error: {path}: variant 'wavering', run at dtype=f32 .*{reason}; fix its kernel", said, re.MULTILINE), said
    )
    check("2 variants were run, 1 of them are faulty; 0 were not run" in said, said)


def test_bad_neighbour():
    # What one variant does to its process costs no other one.
    root, table = make_root_and_table("bad_neighbour", ["spoiling", "stumbling", "flushing", "delicate", "right"])
    done = run(root, "softmax", "dtype=f32", "rows=3,8", "columns=40", "-o", table, *LOOSE, "--deny")
    found = read_table(table)
    check(
        "deny" not in found and not re.search(r"^\w+ at ", done.stderr, re.MULTILINE),
        f"condemned for a neighbour: {done.stderr}",
    )
    for at, row in rows(found).items():
        check(len(row["times_us"]) == 5, f"{at} has times of {list(row['times_us'])}")


def shared_memory():
    with open("/proc/meminfo", encoding="utf-8") as file:
        return int(re.search(r"^Shmem: *(\d+) kB", file.read(), re.MULTILINE)[1]) << 10


def test_worker_and_its_children():
    # However much a kernel prints, little of it is kept.
    root, table = make_root_and_table("flooding", ["flooding", "right"])
    before = shared_memory()
    with subprocess.Popen(
        command(root, "softmax", "dtype=f32", "rows=3", "columns=40", "-o", table, *LOOSE, "--limit", "2s"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        most = 0
        while process.poll() is None:
            with open(f"/proc/{process.pid}/statm", encoding="utf-8") as file:
                resident = int((file.read().split() + ["0", "0"])[1]) * os.sysconf("SC_PAGE_SIZE")
            most = max(most, shared_memory() - before, resident)
            time.sleep(0.02)
        said = process.stderr.read()
    check(most < 300 << 20, f"what a kernel prints takes {most >> 20} MB")
    check("flooding at " in said and "no answer within 2 s; it was killed; it said: a line of " in said, said)
    check(set(rows(read_table(table))[3, 40]["times_us"]) == {"right"}, "a row of a kernel that floods")

    # An unfinished last line does not hide the whole one before it.
    root = make_root("unfinished", ["unfinished", "right"])
    done = run(root, "softmax", "dtype=f32", "rows=3", "columns=40", "-o", os.path.join(root, "t.json"), *LOOSE)
    check("; it said: the reason / at b\n" in done.stderr, done.stderr)

    # What kernels start ends with their worker, and does not hide that it is dead.
    for name, reason in [("lingering", None), ("parting", r"died of signal 6 \(SIGABRT\)")]:
        root, table = make_root_and_table(name, [name, "right"])
        begin = time.monotonic()
        done = run(root, "softmax", "dtype=f32", "rows=3", "columns=40", "-o", table, *LOOSE, "--limit", "60s")
        check(time.monotonic() - begin < 30, f"'{name}' took {time.monotonic() - begin:.0f} s")
        leftover = [words for words in map(command_line, os.listdir("/proc")) if root in words]
        check(not leftover, f"'{name}' leaves processes behind: {leftover}")
        check(reason is None or re.search(rf"^{name} at .*{reason}", done.stderr, re.MULTILINE), done.stderr)


def test_nothing_right():
    root, table = make_root_and_table("nothing_right", ["off", "crash"])
    done = run(root, "softmax", "dtype=f32", "rows=3", "columns=40", "-o", table, *LOOSE, status=2)
    check("none of its 2 variants could be measured" in done.stdout, done.stdout)
    check(not os.path.exists(table) or not rows(read_table(table)), "a row without a right variant")


if __name__ == "__main__":
    sys.exit(cases.run_all(globals(), FOLDER, together=4))  # their slow kernels sleep
