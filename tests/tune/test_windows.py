# SPDX-License-Identifier: MIT
"""Tunes that are stopped and go on: by a signal, with another kernel, on another device, in shards, without time. On CUDA
devices that are invented.   test_windows.py TOOL KERNELS TIMED_CUDA FAKE_CUDA FOLDER
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import cases
import test_merging as merging
from cases import check
from test_merging import KERNELS
from test_replaces import FOLDER, LOOSE, PROBLEMS, made, read, write


def times_of(table):
    return {row["at"][0]: row["times_us"] for group in table["groups"] for row in group["rows"]}


def test_signal():
    # Ctrl-C reaches the script and the program: what was measured is merged, and the same command goes on.
    project = made("signal")
    project.table("softmax", {at: {"slow": 9.0} for at in range(1, 601)}, old=["slow"])
    write(project.path("tables/problems/some.txt"), "softmax dtype=f32 : rows columns\n  1..600+1 64\n")
    old = project.path("tables/softmax/nvidia-h200.json")
    command = [project.path(".ci/tables"), project.path("window/"), *LOOSE, "--devices", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=project.environment(), start_new_session=True
    )
    new = project.path("window/softmax/nvidia-h200.json")
    for _ in range(600):
        if os.path.exists(new) and len(times_of(read(new))) > 3:
            break
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    check(process.returncode == 130, f"exit status {process.returncode}\n{out}")
    measured = times_of(read(new))
    check(3 < len(measured) < 600 and "interrupted; the same command resumes" in out, f"{len(measured)} rows\n{out}")
    merged = times_of(read(old))
    check(len(merged) == 600 and all(merged[at] == times for at, times in measured.items()), "what was measured is not merged")


def test_nothing():
    # Neither old tables nor new rows: there is nothing to merge, and the exit status is that of the tuner.
    project = made("nothing_measured")
    for folder in ("root/kernels", "tables/softmax", "tables/softmax_backward"):
        shutil.rmtree(project.path(folder))
    done = project.run(project.path("window"), "--devices", "0", "--budget", "9s", status=1)
    check("problems were left out" in done.stdout and "no tables" not in done.stderr, done.stderr)


def test_another_part():
    # A part of a GPU may have the name of the whole: its times are of another device.
    root, variables = merging.cuda_root("part")
    fresh = os.path.join(root, "fresh.json")
    merging.tune(root, fresh, "4", "--devices", "0", **variables)
    table = read(fresh)
    name, whole = table["device"]["name"], table["device"]["multiprocessors"]
    table["device"]["multiprocessors"] = 7
    write(fresh, table)
    words = ["--root", root, "tune", "softmax", "dtype=f32", "rows=4,8", "columns=64", "-o", fresh, "--devices", "0", *LOOSE]
    done = merging.run(*words, status=64, **variables)
    said = f"was measured on {name} (cuda sm_90, 7 multiprocessors), and this is {name} (cuda sm_90, {whole} multiprocessors)"
    check(said in done.stderr and "name another file, or pass --again to start over" in done.stderr, done.stderr)
    check(read(fresh) == table, "the table of another device was changed")
    done = merging.run("--root", root, "bench", fresh, "--devices", "0", status=2, **variables)
    check(said in done.stderr, done.stderr)
    # Nor is it measured what could not be merged.
    project = made("part_replaced")
    device = {"backend": "cuda", "arch": "sm_90", "name": "NVIDIA H200", "multiprocessors": 7}
    project.table("softmax", {4: {"fast": 41.0}}, device=device)
    done = project.run(project.path("window"), "--devices", "0", status=64)
    check(f"--replaces: tables/softmax/nvidia-h200.json {said}; its rows are none of this device" in done.stderr, done.stderr)
    # Nor are times that an interrupted run on it has noted.
    table["groups"] = []
    os.remove(fresh)
    with open(fresh + ".tuning.jsonl", encoding="utf-8") as file:
        lines = file.read().replace(f"{whole} multiprocessors", "7 multiprocessors").splitlines()
    lines = [line for line in lines if "finished" not in line and '"done"' not in line]
    with open(fresh + ".tuning.jsonl", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    done = merging.run(*words, **variables)
    check("resuming" not in done.stderr, done.stderr)


def test_plan():
    # Of a shard, its problems; of a window with rows of kernels that were rebuilt since, how many there are.
    project = made("plan")
    window = project.path("window")
    whole = project.plan("window")
    shards = []
    for shard in ("0/2", "1/2"):
        out = project.run(window, "--plan", "--shard", shard).stdout
        shards.append(re.findall(r"^  .*dtype=(\w+).* rows=(\d+)", out, re.MULTILINE))
    check(all(shards) and sorted(shards[0] + shards[1]) == sorted(entry[2:] for entry in whole), shards)
    project.run(window, "--devices", "0")
    done = project.run(window, "--plan")
    check(done.stderr == "", done.stderr)
    path = project.path("window/softmax/nvidia-h200.json")
    table = read(path)
    for group in table["groups"]:
        if group["type"]["dtype"] == "f32":
            group["blobs"]["slow"] = "0" * 16
    write(path, table)
    done = project.run(window, "--plan")
    said = f"{path}: 3 rows have times of kernels that were rebuilt since, and are not measured again"
    check(said in done.stderr and "--refresh TABLE --stale" in done.stderr, done.stderr)
    check(project.plan("window") == [], "rows that are there are measured again")


def test_stale_rows():
    # Rows of a kernel that was rebuilt, refreshed with an interruption between them: none is stale in the end.
    root, variables = merging.cuda_root("stale")
    table = os.path.join(root, "t.json")
    merging.tune(root, table, "4,8,16", **variables)
    blobs = read(table)["groups"][0]["blobs"]
    stale = read(table)
    stale["groups"][0]["blobs"] = dict.fromkeys(blobs, "0" * 16)
    words = ["--root", root, "tune", "--refresh", table, "--stale", *LOOSE]
    write(table, stale)
    merging.run(*words, **variables)
    check(read(table)["groups"][0]["blobs"] == blobs, read(table)["groups"][0]["blobs"])
    with open(table + ".tuning.jsonl", encoding="utf-8") as file:
        lines = file.read().splitlines()
    done = [i for i, line in enumerate(lines) if '"done"' in line]
    for other, wanted in ((False, blobs), (True, dict.fromkeys(blobs, "0" * 16))):
        write(table, stale)
        with open(table + ".tuning.jsonl", "w", encoding="utf-8") as file:
            text = "\n".join(lines[: done[-3] + 1]) + "\n"  # of the last run, the first row
            for blob in blobs.values():
                text = text.replace(blob, "1" * 16) if other else text
            file.write(text)
        found = merging.run(*words, **variables)
        check("3 problems, 1 measured before" in found.stderr, found.stderr)
        # A row that was done with yet another build is not of this one.
        check(read(table)["groups"][0]["blobs"] == wanted, f"{other}: {read(table)['groups'][0]['blobs']}")


def test_no_time():
    # Operators that no time is left for, since a kernel hung, are not begun, and named.
    root = cases.make_root(os.path.join(FOLDER, "no_time_left"), KERNELS, {"hang": "hang"})
    path = write(os.path.join(root, "some.txt"), PROBLEMS)
    words = ["--root", root, "tune", "--problems", path, "-o", os.path.join(root, "x/"), *LOOSE]
    words += ["--devices", "host", "--budget", "0.1s"]
    done = merging.run(*words)
    check(done.stdout.count(" problems measured in ") == 1, done.stdout)
    check("not begun, since the budget is used up (the same command resumes): softmax_backward\n" in done.stdout, done.stdout)
    check(not os.path.exists(os.path.join(root, "x/softmax_backward")), "a folder of what was not begun")
    found = json.loads(merging.run("--json", *words).stdout)
    named = [(entry["operator"], entry["out_of_time"]) for entry in found]
    check(named == [("softmax", True), ("softmax_backward", True)], found)
    check(found[1]["problems"] == 2 and "/x/softmax_backward/" in found[1]["table"], found)


def test_calls_of_all_sizes():
    # An operator that is called 1e20 times as seldom as the one before has time as well.
    project = made("sizes")
    path = write(os.path.join(project.folder, "sizes.txt"), PROBLEMS.replace("columns=64\n", "columns=64 calls=1e20\n"))
    words = ["--root", project.path("root"), "tune", "--problems", path, "-o", project.path("x/"), *LOOSE, "--devices", "0"]
    done = merging.run(*words, "--budget", "30s", **project.variables)
    found = re.findall(r"/x/(\w+)/nvidia-h200.json: (\d+ of \d+)", done.stdout)
    check(found == [("softmax", "4 of 4"), ("softmax_backward", "2 of 2")], done.stdout)


def test_bad_files():
    project = made("bad")
    path = write(project.path("tables/kernels.json"), "")
    for content, said in (
        ("", "kernels.json: "),
        ("[1]", "kernels.json: expected an object, got"),
        ('{"pending": {}}', "/pending: expected an array, got"),
        ('{"pending": [1]}', "/pending/0: "),
        ('{"pending": [{"since": "2026-11-26"}]}', "/pending/0: "),
        ('{"pending": [{"kernel": 7}]}', "/pending/0/kernel: expected a string, got"),
        ('{"measured": [1]}', "/measured: expected an object, got"),
        ("[" * 100000, "kernels.json: "),
        ("\xff", "kernels.json: "),
    ):
        with open(path, "w", encoding="latin-1") as file:
            file.write(content)
        done = project.run(project.path("window"), "--plan", status=2)
        check(re.search(r"\[switchyard\.\d+\]", done.stderr) and said in done.stderr, f"{content[:40]}: {done.stderr[:400]}")


if __name__ == "__main__":
    sys.exit(cases.run_all(globals(), FOLDER))
