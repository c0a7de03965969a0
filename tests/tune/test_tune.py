# SPDX-License-Identifier: MIT
"""switchyard tune, as a user runs it: resuming, budgets, shards, lists, and what its tables say."""

import glob
import json
import os
import re
import signal
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


def test_outliers():
    # A kernel that is held up now and then: whatever wins has been sampled like its rivals, and its row says how far it
    # may be off.
    root, table = make_root_and_table("outliers", ["held_up", "plodding", "slow"])
    done = run(root, "softmax", "dtype=f32", "rows=1", "columns=16", "-o", table, *LOOSE)
    for at, row in rows(read_table(table)).items():
        check(0 < row.get("uncertainty", 0) < 1, f"{at} does not say how far it may be off: {row}")
        check({"held_up", "plodding"} <= set(row["times_us"]), f"{at} has times of {list(row['times_us'])}")
        check(row["times_us"]["plodding"] >= 2000, f"{at}: {row}")
    check("+- 0 %" not in done.stderr and "+- 100" not in done.stderr, done.stderr)


def test_stopping():
    root = make_root("stopping", ["right", "slow"])
    grid = ["softmax", "dtype=f32", "rows=1..24+1", "columns=16", *LOOSE, "--exhaustive"]
    every = {(n, 16) for n in range(1, 25)}

    def start(table):
        return subprocess.Popen(command(root, *grid, "-o", table), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for(table, count, process):
        """Waits for that many rows; the table is whole at every moment."""
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            if os.path.exists(table) and len(rows(read_json(table))) >= count:
                return True
            time.sleep(0.002)
        return False

    # Killed: nothing that was in the table is measured again, and what was half done is gone on with.
    table = os.path.join(root, "killed.json")
    process = start(table)
    check(wait_for(table, 4, process), "the table does not grow while it is tuned")
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = rows(read_table(table))
    check(4 <= len(before) < 24, f"{len(before)} rows when it was killed: too late to say anything")
    time.sleep(0.3)
    leftover = [words for words in map(command_line, os.listdir("/proc")) if root in words]
    check(not leftover, f"workers outlive the tuner: {leftover}")
    done = run(root, *grid, "-o", table)
    after = rows(read_table(table))
    check(after.keys() == every, f"rows after going on: {sorted(after)}")
    check(all(after[at]["times_us"] == row["times_us"] for at, row in before.items()), "a row was measured again")
    check(re.search(rf"24 problems, {len(before)} measured before", done.stderr), done.stderr.splitlines()[0])

    # Killed in the middle of a journal line: the torn line is cut off.
    journal = table + ".tuning.jsonl"
    with open(journal, "a", encoding="utf-8") as file:
        file.write('{"problem": "dtype=f32 rows=')
    run(root, "softmax", "dtype=f32", "rows=30", "columns=16", "-o", table, *LOOSE)
    with open(journal, encoding="utf-8") as file:
        check(all(json.loads(line) is not None for line in file), "the journal keeps a torn line")

    # Interrupted: says so, and how to go on.
    for number, status in [(signal.SIGINT, 130), (signal.SIGTERM, 143)]:
        table = os.path.join(root, f"{status}.json")
        process = start(table)
        check(wait_for(table, 2, process), "the table does not grow")
        begin = time.monotonic()
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
        check(time.monotonic() - begin < 5, "an interruption takes long")
        check(process.returncode == status, f"exit status {process.returncode} after signal {number}")
        check("remaining (interrupted; the same command resumes)" in out, out)
        check(len(rows(read_table(table))) >= 2, "an interruption loses rows")

    # Two at a time: the second one is told.
    table = os.path.join(root, "twice.json")
    process = start(table)
    check(wait_for(table, 1, process), "the table does not grow")
    second = run(root, *grid, "-o", table, status=2)
    check("another process is tuning this table" in second.stderr, second.stderr)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


def test_budget():
    root, table = make_root_and_table("budget", ["slow"])
    begin = time.monotonic()
    done = run(root, "softmax", "dtype=f32", "rows=1..300+1", "columns=16", "-o", table, *LOOSE, "--budget", "4s")
    took = time.monotonic() - begin
    check(took < 12, f"a budget of 4 s took {took:.1f} s")
    found = sorted(rows(read_table(table)))
    check(0 < len(found) < 300, f"{len(found)} rows in 4 s")
    check("the budget is used up; the same command resumes" in done.stdout, done.stdout)
    # Coarse first: what was measured spreads over the whole range, in factors.
    check(found[0] == (1, 16) and found[-1] == (300, 16), f"rows {found}")
    gaps = [b[0] / a[0] for a, b in zip(found, found[1:])]
    check(len(found) < 6 or max(gaps) < 5, f"rows {found} leave gaps")

    # A kernel that hangs does not outlast the budget either.
    root, table = make_root_and_table("budget_hang", ["hang", "right"])
    begin = time.monotonic()
    words = ["softmax", "dtype=f32", "rows=4", "columns=16", "-o", table, *LOOSE]
    run(root, *words, "--budget", "1s", "--limit", "100s")
    check(time.monotonic() - begin < 12, "a hang outlasts the budget")


def test_budget_of_several():
    # Each operator of a recording is begun, however seldom it is called.
    root = make_root("budget_several", ["slow"])
    recording = os.path.join(root, "record.jsonl")
    lines = [
        dict(operator="softmax", device="x", count=1000000, problem=dict(dtype="f32", alignment="16", rows=n, columns=16))
        for n in range(1, 200)
    ]
    seldom = {
        "rms_norm": {"dtype": "f32", "with_gamma": True, "rows": 4, "columns": 16},
        "gated_activation": {"dtype": "f32", "function": "gelu_tanh", "packed": False, "rows": 4, "columns": 16},
        "attention_forward": dict(dtype="f32", mask="none", head_dim=16, batch=1, heads=2, heads_kv=2, seqlen_q=3, seqlen_k=3),
    }
    for operator, problem in seldom.items():
        cases.make_faulty_root(root, FAULTY_KERNELS, operator, ["right"])
        lines.append({"operator": operator, "device": "x", "count": 1, "problem": problem})
    with open(recording, "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
    out = os.path.join(root, "tables") + "/"
    begin = time.monotonic()
    done = run(root, "--problems", recording, "-o", out, *LOOSE, "--budget", "24s")
    check(time.monotonic() - begin < 40, f"a budget of 24 s took {time.monotonic() - begin:.1f} s")
    for operator in [*seldom, "softmax"]:
        tables = glob.glob(os.path.join(out, operator, "*.json"))
        check(tables and rows(read_table(tables[0])), f"{operator} was not begun:\n{done.stdout}")


def test_shards():
    root, table = make_root_and_table("shards", ["right"])
    grid = ["softmax", "dtype=f32", "rows=1..10+1", "columns=8,16", "-o", table, *LOOSE]
    every = {(n, m) for n in range(1, 11) for m in (8, 16)}
    for rank, size in [
        ("SLURM_PROCID", "SLURM_NTASKS"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("RANK", "WORLD_SIZE"),
    ]:
        shards = []
        for k in range(3):
            done = run(root, *grid, env={rank: str(k), size: "3"})
            check(f"of shard {k} of 3 ({rank} and {size})" in done.stderr, done.stderr.splitlines()[0])
            path = os.path.join(root, f"t.shard-{k}-of-3.json")
            shards.append(set(rows(read_table(path))))
        check(
            set.union(*shards) == every and sum(map(len, shards)) == len(every),
            f"{rank}: the shards are no partition: {shards}",
        )
        merged = os.path.join(root, "merged.json")
        done = subprocess.run(
            [TOOL, "merge", *[os.path.join(root, f"t.shard-{k}-of-3.json") for k in range(3)], "-o", merged],
            capture_output=True,
            text=True,
            check=False,
        )
        check(done.returncode == 0 and set(rows(read_table(merged))) == every, f"merge: {done.stderr}")
        for name in os.listdir(root):
            if name.startswith(("t.", "merged")):
                os.remove(os.path.join(root, name))
    done = run(root, *grid, "--shard", "1/4")
    check(len(rows(read_table(os.path.join(root, "t.shard-1-of-4.json")))) == 5, "--shard 1/4 of 20 problems")


def test_several_workers():
    root, table = make_root_and_table("several", ["slow", "right", "late"])
    done = run(root, "softmax", "dtype=f32", "rows=1..12+1", "columns=16", "-o", table, *LOOSE, "--devices", "host,host,host")
    check(len(rows(read_table(table))) == 12, f"rows {list(rows(read_table(table)))}")
    check("(3 of them): 12 problems" in done.stderr, done.stderr.splitlines()[0])
    check(
        all(set(row["times_us"]) == {"slow", "right"} for row in rows(read_table(table)).values()),
        "a bad variant is in a row of another worker",
    )
    check(len(re.findall(r"^\d+/12", done.stderr, re.MULTILINE)) == 12, "a problem was measured twice, or lost")


def test_refresh():
    root, table = make_root_and_table("refresh", ["right", "slow"])
    run(root, "softmax", "dtype=f32", "rows=2,4,8", "columns=16", "-o", table, *LOOSE)
    old = read_table(table)
    for row in old["groups"][0]["rows"]:
        row["times_us"] = {"gone": 1.0, "right": 12345.0}
    old["pin"] = [{"variant": "right", "reason": "by hand"}]
    write_json(table, old)
    run(root, "--refresh", table, *LOOSE)
    new = read_table(table)
    check(rows(new).keys() == rows(old).keys(), "a refresh changes the rows")
    check(
        all(set(row["times_us"]) == {"right", "slow"} and row["times_us"]["right"] < 12345 for row in rows(new).values()),
        f"not measured again: {rows(new)}",
    )
    check(new.get("pin") == old["pin"], "a refresh loses pins")
    check(new["groups"][0]["type"] == {"dtype": "f32"}, "a refresh changes the type")


def test_measured():
    # Each row keeps the word of how it was measured, though several commands measured the table.
    root, table = make_root_and_table("measured", ["right", "slow"])

    def tune(rows_of, samples, *words):
        limits = ["--confidence", "50%", "--drift", "90%", "--samples", str(samples)]
        run(root, "softmax", "dtype=f32", f"rows={rows_of}", "columns=16", "-o", table, *limits, *words)
        return read_table(table)["measured"]

    first = tune("2,4", 6)
    check("before" not in first and "rows" not in first, first)
    check(first["statistic"] == "median" and first["samples"]["most"] >= first["samples"]["least"] > 0, first)
    check((first["precision"], first["drift"], first["cache"]["state"]) == (0.5, 0.9, "rotating"), first)
    check(re.fullmatch(r"\d{4}-\d\d-\d\d", first["date"]) and re.fullmatch(r"switchyard \d+\.\d+\.\d+", first["tool"]), first)
    check(first["checks"] == {"reference": "f64", "whole": 2}, first)
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = set(file.read().split())
    for name in ["avx2", "avx512f"]:
        check(read_table(table)["device"].get(name, 0) == (1 if name in flags else 0), f"{name}: {read_table(table)['device']}")
    # The same command with more to do goes on with what it began.
    second = tune("2,4,8", 6)
    check("before" not in second and second["checks"]["whole"] == 3, second)
    third = tune("16", 20)
    check(third["samples"]["most"] == 20 and third["rows"] == 1 and third["checks"]["whole"] == 1, third)
    check(third.get("before") == [dict(second, rows=3)], third)
    fourth = tune("32,64", 30)
    check(fourth["rows"] == 2 and [past["rows"] for past in fourth.get("before", [])] == [1, 3], fourth)
    check(fourth["before"][1] == dict(second, rows=3) and "before" not in fourth["before"][0], fourth)
    # What is measured again by none of them says nothing any more, and a merged table loses nothing.
    done = subprocess.run([TOOL, "merge", table, "-o", table + ".merged"], capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stderr)
    check(read_table(table + ".merged")["measured"]["before"] == fourth["before"], "merging loses how rows were measured")
    run(root, "--refresh", table, *LOOSE)
    check("before" not in read_table(table)["measured"], "no row is as old as what is said of it")
    check("before" not in tune("2", 7, "--again"), "a new table says how another was measured")


def test_recording():
    root = make_root("recording", ["right"])
    recording = os.path.join(root, "record.jsonl")
    line = {
        "operator": "softmax",
        "device": "x",
        "problem": {"dtype": "f32", "alignment": "16", "rows": 4, "columns": 16},
        "count": 2,
    }
    odd = {**line, "problem": {**line["problem"], "alignment": "8"}}
    often = {**line, "problem": {**line["problem"], "rows": 64}, "count": 1000}
    with open(recording, "w", encoding="utf-8") as file:
        for entry in [line, odd, often, line, {"operator": "so\033ft", "problem": {}, "count": -9}]:
            file.write(json.dumps(entry) + "\n")
        file.write("torn {\n")
        file.write(json.dumps({**line, "count": 1e300}) + "\n")
        file.write(json.dumps({**line, "problem": {**line["problem"], "rows": -4}}) + "\n")
    table = os.path.join(root, "t.json")
    done = run(root, "--problems", recording, "-o", table, *LOOSE, status=1)
    found = read_table(table)
    check(rows(found).keys() == {(4, 16), (64, 16)}, f"rows {list(rows(found))}")
    check(found["groups"][0]["type"] == {"dtype": "f32", "alignment": 16}, found["groups"][0]["type"])
    order = re.findall(r"rows=(\d+)", "\n".join(done.stderr.splitlines()))
    check(order and order[0] == "64", f"what is called most does not come first: {order}")
    check("calls have alignment=16 where 8 is asked for" in done.stdout, done.stdout)
    check("3 lines were skipped; line 6: is not a JSON object" in done.stderr, done.stderr)
    check("operator 'so\\u001bft' of the recording cannot be measured" in done.stderr, done.stderr)


def test_axes_that_files_add():
    """Conditions on arguments are measured as the workload's calls have them, and recorded."""
    root = make_root("conditions", ["right", "slow"])
    path = manifest_of(root)
    manifest = read_json(path)
    manifest["variants"][0]["requires"] = ["x_stride_row == columns"]
    manifest["variants"][1]["requires"] = ["x_stride_row > 4 * columns"]
    manifest["variants"].append({**manifest["variants"][1], "id": "any", "requires": []})
    write_json(path, manifest)
    table = os.path.join(FOLDER, "conditions.json")
    run(root, "softmax", "dtype=f32", "rows=8", "columns=64,128", "-o", table, *LOOSE)
    found = read_table(table)
    check(len(found["groups"]) == 1, f"one group: {found}")
    group = found["groups"][0]
    check(group["axes"] == ["rows", "columns"], f"axes {group['axes']}")
    check(rows(found).keys() == {(8, 64), (8, 128)}, f"rows {rows(found).keys()}")
    check(all(set(row["times_us"]) == {"right", "any"} for row in rows(found).values()), f"variants {found}")
    measured = group["measured_with"]
    check(
        measured.get("x_stride_row==columns") is True and measured.get("x_stride_row>4*columns") is False,
        f"measured with {measured}",
    )
    # The same again measures nothing; a call of another layout is none that the workload makes.
    before = read_json(table)
    run(root, "softmax", "dtype=f32", "rows=8", "columns=64,128", "-o", table, *LOOSE)
    check(rows(read_json(table)) == rows(before), "the rows are kept")
    words = ["softmax", "dtype=f32", "rows=8", "columns=64", "x_stride_row==columns=false"]
    done = run(root, *words, "-o", os.path.join(FOLDER, "other.json"), *LOOSE, status=2)
    check(
        "the tuner's calls have x_stride_row==columns=true where false is asked for" in done.stdout + done.stderr,
        f"a layout that is not made: {done.stdout}{done.stderr}",
    )


def test_lists():
    # Problems as a file has them: an operator's words, and the values of the axes behind a colon.
    root = make_root("lists", ["right", "slow"])
    path = os.path.join(root, "problems.txt")
    table = os.path.join(root, "t.json")

    def write(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    write(
        "# of a test\n\nsoftmax dtype=f32 : rows columns\n  1,2 16  # two of them\n\n  4..16*2 8 calls=100\n"
        "softmax dtype=f32 rows=3 columns=24\nsoftmax with dtype=f32 : columns rows\n\t32 5\nrms_norm dtype=f32 rows=1 columns=8\n"
    )
    done = run(root, "softmax", "--problems", path, "-o", table, *LOOSE)
    found = read_table(table)
    groups = {json.dumps(group["type"]): {tuple(row["at"]) for row in group["rows"]} for group in found["groups"]}
    check(groups == {'{"dtype": "f32"}': {(1, 16), (2, 16), (4, 8), (8, 8), (16, 8), (3, 24)}, "{}": {(5, 32)}}, groups)
    check(
        found["groups"][0].get("measured_with", found["groups"][1].get("measured_with"))["dtype"] == "f32",
        "what was asked for beside the type is not recorded",
    )
    order = re.findall(r"^\d+/7.*: dtype=f32 rows=(\d+)", done.stderr, re.MULTILINE)
    check({order[0], order[1], order[2]} == {"4", "8", "16"}, f"what is called most does not come first: {order}")
    check(rows(found) == rows(read_table(table)), "a list is measured again")
    for text, expected in [
        ("softmax dtype=f32 : rows columns\n  1\n", "line 2: no value of columns"),
        ("softmax dtype=f32 : rows\n  1 2\n", "line 2: more values than the 1 axes"),
        ("  1 2\n", "line 1: an indented line gives the values of axes that a line before names after a colon"),
        ("softmax dtype=f32 :\n  1\n", "line 1: no axes after the colon"),
        ("softmax dtype=f32 row=1\n", "line 1: operator 'softmax' has no axis 'row'"),
        ("softmax dtype=f32 rows=1 calls=0\n", "line 1: expected calls=NUMBER above 0, at most 1e20, got 'calls=0'"),
        ("softmax dtype=f32 rows=1 calls=inf\n", "line 1: expected calls=NUMBER above 0, at most 1e20, got 'calls=inf'"),
        ("softmax dtype=f32 rows=1 calls=nan\n", "got 'calls=nan'"),
        ("softmax dtype=f32 rows=1 columns=8 with sparkle=1.5\n", "'1.5' is not an integer"),
    ]:
        write(text)
        done = run(root, "softmax", "--problems", path, "-o", os.path.join(root, "no.json"), *LOOSE, status=64)
        check(expected in done.stderr, f"{text!r}: expected '{expected}', got: {done.stderr}")
        # The same where the list alone says which operators there are.
        done = run(root, "--problems", path, "-o", os.path.join(root, "no.json"), *LOOSE, status=64)
        check(
            f"{path}: line" in done.stderr and expected in done.stderr, f"{text!r}: expected '{expected}', got: {done.stderr}"
        )
    # A workload is asked for what it knows alone.
    write("softmax dtype=f32 rows=1 columns=8 with sparkle=1\n")
    done = run(root, "softmax", "--problems", path, "-o", os.path.join(root, "no.json"), *LOOSE, status=2)
    check("'sparkle' is no axis of softmax, and its workload takes none of that name" in done.stdout, done.stdout)


def test_implied_axes():
    # A type has what it implies, in the table as in the tuner: the table is read again, and continued.
    root = cases.make_faulty_root(os.path.join(FOLDER, "implied"), FAULTY_KERNELS, "attention_forward", ["right"])
    table = os.path.join(root, "t.json")
    sizes = ["head_dim=16", "batch=1", "heads=2", "heads_kv=2", "seqlen_q=3", "seqlen_k=3"]
    words = ["attention_forward", "dtype=f32", "mask=none", *sizes, "-o", table, *LOOSE]
    run(root, *words)
    group = read_table(table)["groups"][0]
    check(group["type"].get("kv_dtype") == "f32" and "kv_dtype" not in group["measured_with"], group)
    done = run(root, *words)
    check("1 problems, 1 measured before" in done.stderr and "switchyard.107" not in done.stderr, done.stderr)


def test_conditions_of_measuring():
    # What times were taken under is said in the table, and makes them others' times.
    root, table = make_root_and_table("under", ["right", "slow"])
    grid = ["softmax", "dtype=f32", "rows=2,4", "columns=16", "-o", table, *LOOSE]
    run(root, *grid)
    usual = read_table(table)["measured"]
    check(usual["launches"] == "device" and "sustained" not in usual, usual)
    done = run(root, *grid, "--again", "--launches", "stream", "--cache", "warm", "--sustained", "0.02")
    measured = read_table(table)["measured"]
    check((measured["launches"], measured["cache"]["state"], measured["sustained"]) == ("stream", "warm", 0.02), measured)
    check("before" not in measured and "2 of 2 problems measured" in done.stdout, done.stdout)
    for words, expected in [
        (["--launches", "sideways"], "--launches"),
        (["--sustained", "long"], "--sustained: expected a time"),
    ]:
        check(expected in run(root, *grid, *words, status=64).stderr, words)


def test_checks_once():
    # A kernel that was right at its type's first problem is not checked at the others, and the table says so.
    root, table = make_root_and_table("checks", ["right", "slow", "off"])
    grid = ["softmax", "dtype=f32", "rows=2,4,8", "columns=16", "-o", table, *LOOSE]
    done = run(root, *grid, "--checks", "first")
    found = read_table(table)
    check(found["measured"]["checks"] == {"reference": "f64", "whole": 1, "unchecked": 2}, found["measured"]["checks"])
    check(all(set(row["times_us"]) == {"right", "slow"} for row in rows(found).values()), rows(found))
    check(re.search(r"^off at .*wrong results", done.stderr, re.MULTILINE), done.stderr)
    run(root, *grid, "--checks", "never", "--again", "--retry-bad")
    found = read_table(table)
    check(found["measured"]["checks"] == {"reference": "f64", "unchecked": 3}, found["measured"]["checks"])
    check(all("off" in row["times_us"] for row in rows(found).values()), "a kernel was checked that is trusted")


def test_rebuilt_kernels():
    # Only rows of rebuilt kernels are measured again, and rows are as old as their oldest time.
    root, table = make_root_and_table("rebuilt", ["right", "slow"])
    run(root, "softmax", "dtype=f32", "rows=2,4,8", "columns=16", "-o", table, *LOOSE)
    old = read_table(table)
    blobs = dict(old["groups"][0]["blobs"])

    def spoil():
        document = json.loads(json.dumps(old))
        group = document["groups"][0]
        group["blobs"]["slow"] = "0123456789abcdef"
        for row in group["rows"]:
            row["times_us"] = {"right": 7777.0, "slow": 8888.0} if row["at"] != [4, 16] else {"right": 7777.0}
        write_json(table, document)

    spoil()
    run(root, "softmax", "dtype=f32", "rows=6", "columns=16", "-o", table, *LOOSE)
    check(
        read_table(table)["groups"][0]["blobs"]["slow"] == "0123456789abcdef",
        "a row that was added makes older times look like those of the new kernel",
    )
    spoil()
    run(root, "--refresh", table, "--stale", *LOOSE)
    new = read_table(table)
    check({at for at, row in rows(new).items() if row["times_us"]["right"] == 7777} == {(4, 16)}, rows(new))
    check(new["groups"][0]["blobs"] == blobs, f"blobs {new['groups'][0]['blobs']}, expected {blobs}")
    done = run(root, "--refresh", table, "--stale", *LOOSE)
    check("no row has times of kernels that were rebuilt since" in done.stderr, done.stderr)
    run(root, "--refresh", table, "--variant", "nothing", *LOOSE)
    check(rows(read_table(table)) == rows(new), "a row was measured again")
    run(root, "--refresh", table, "--variant", "righ", *LOOSE)
    check(all(row["times_us"]["right"] < 7777 for row in rows(read_table(table)).values()), rows(read_table(table)))
    done = run(root, "softmax", "dtype=f32", "rows=2", "columns=16", "-o", table, "--stale", *LOOSE, status=64)
    check("--stale and --variant choose among the rows of a table: name it with --refresh" in done.stderr, done.stderr)


def test_progress_in_a_log():
    root = make_root("log", ["right", "off"])
    words = ["softmax", "dtype=f32", "rows=1..6+1", "columns=16", "--drift", "90%"]
    lines = run(root, *words, *LOOSE[:4], "-o", os.path.join(root, "lines.json")).stderr
    check("\x1b" not in lines and "\r" not in lines, "a log file gets control characters")
    check(len(re.findall(r"^\d/6", lines, re.MULTILINE)) == 6, f"not a line for each problem:\n{lines}")
    check(
        re.search(r"^3/6, 1 failure, about .* left: dtype=f32 rows=\d columns=16: right [\d.]+ us", lines, re.MULTILINE), lines
    )


def test_messages():
    root, table = make_root_and_table("messages", ["right"])
    cases = [
        (["softmax", "rows=1"], "--output: name the table to write"),
        (["softmax", "-o", table], "nothing to measure: name axes and values"),
        (["softmx", "rows=1", "-o", table], "did you mean 'softmax'?"),
        (["softmax", "row=1", "-o", table], "did you mean 'rows'?"),
        (["softmax", "rows=", "-o", table], "axis 'rows' has no value ''"),
        (["softmax", "rows=1..8", "-o", table], "the range '1..8' needs a step: first..last*factor"),
        (["softmax", "rows=8..1*2", "-o", table], "ends before it begins"),
        (["softmax", "rows=1..8*1", "-o", table], "the factor must be a number above 1, got '1'"),
        (["softmax", "rows=1..x*2", "-o", table], "'x' is not an integer"),
        (["softmax", "rows=-4", "-o", table], "axis 'rows' has no value -4; a size is 0 or more"),
        (["softmax", "rows=-4..4+1", "-o", table], "the range '-4..4+1' has negative values; a size is 0 or more"),
        (["softmax", "rows=1", "rows=2", "-o", table], "axis 'rows' is given twice"),
        (["softmax", "rows=1..999999+1", "-o", table], "more than 20000 problems"),
        (["softmax", "rows=1", "-o", table, "--budget", "soon"], "--budget: expected a time such as 90s, 10m or 2h"),
        (["softmax", "rows=1", "-o", table, "--budget", "inf"], "or 2h, got 'inf'"),
        (["softmax", "rows=1", "-o", table, "--budget", "1e300h"], "or 2h, got '1e300h'"),
        (["softmax", "rows=1", "-o", table, "--confidence", "2"], "--confidence: expected a share such as 1%"),
        (["softmax", "rows=1", "-o", table, "--shard", "4/4"], "--shard: expected K/N with K below N"),
        (["softmax", "rows=1", "-o", table, "--devices", "99"], "there is no device 99; this machine has"),
        (["softmax", "rows=1", "-o", table, "--devices", "a"], "--devices: expected 'all', 'host' or numbers"),
    ]
    for words, expected in cases:
        done = run(root, *words, status=64)
        check(expected in done.stderr, f"{words}: expected '{expected}', got: {done.stderr}")
    for huge in ["rows=4611686018427387904", "columns=4611686018427387904", "rows=9223372036854775807"]:
        done = run(root, "softmax", "dtype=f32", huge, "-o", table, "--devices", "host", status=2)
        check(
            re.search(
                r"left out: \[switchyard.210\] a tensor of \d+ x \d+ elements is too large: .* bytes of memory; "
                r"measure a smaller problem",
                done.stderr,
            ),
            f"{huge}: {done.stdout}{done.stderr}",
        )
    done = run(root, "softmax", "dtype=f16", "rows=1", "columns=8", "-o", table, "--devices", "host", status=2)
    check("no variant may serve it" in done.stdout, done.stdout)
    other = os.path.join(root, "other.json")
    write_json(
        other,
        {
            "schema": "switchyard.table/1",
            "operator": "softmax",
            "device": {"backend": "host", "arch": "x", "name": "Another"},
            "groups": [],
        },
    )
    done = run(root, "softmax", "dtype=f32", "rows=1", "columns=8", "-o", other, "--devices", "host", status=64)
    check("was measured on Another, and this is" in done.stderr and "--again" in done.stderr, done.stderr)
    done = run(root, "softmax", "dtype=f32", "rows=1", "columns=8", "-o", "/nowhere/t.json", status=2)
    check("/nowhere/t.json" in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(cases.run_all(globals(), FOLDER, together=4))  # their slow kernels sleep
