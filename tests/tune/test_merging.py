# SPDX-License-Identifier: MIT
"""A table that is tuned anew merges with the one that is installed for its device, on a CPU and on CUDA devices that are
invented.   test_merging.py TOOL KERNELS TIMED_CUDA FAKE_CUDA FOLDER
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys

import cases
from cases import check

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from cubin import cubin

TOOL, KERNELS, TIMED_CUDA, FAKE_CUDA, FOLDER = sys.argv[1:]

# Rules that tables may state, each unlike the default.
NARROW = {"match": {"rows": "log", "columns": "log"}, "neighbours": 8, "envelope": 0.5}
WIDE = {
    "match": {"rows": {"log": 2}, "columns": "log", "columns % 4 != 0": {"linear": 2.5}},
    "neighbours": 6,
    "envelope": 2,
}
DEFAULT = {"match": {"rows": "log", "columns": "log"}, "neighbours": 8, "envelope": 1.5}


def cuda_root(name):
    """A tree with two variants for sm_90, of 40 and 50 us, on machines with two devices; and its environment."""
    root = os.path.join(FOLDER, name)
    folder = os.path.join(root, "kernels", "softmax", "cuda-sm_90")
    os.makedirs(folder)
    blob = cubin({"take_8_8_4": {"parameters": [8, 8, 4], "max_threads": 256}})
    with open(os.path.join(folder, "k.cubin"), "wb") as file:
        file.write(blob)
    launch = {
        "blob": "k.cubin",
        "sha256": hashlib.sha256(blob).hexdigest(),
        "kernel": "take_8_8_4",
        "grid": ["rows", 1, 1],
        "block": [128, 1, 1],
        "parameters": ["x", "out", {"i32": "columns"}],
    }
    variants = [
        {"id": f"of_{time}_us", "type": {"dtype": "f32"}, "launches": [{**launch, "shared_bytes": time}]} for time in (40, 50)
    ]
    manifest = {
        "schema": "switchyard.manifest/1",
        "operator": "softmax",
        "target": {"backend": "cuda", "arch": "sm_90"},
        "variants": variants,
    }
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    library = os.path.join(root, "lib")
    os.makedirs(library)
    os.symlink(TIMED_CUDA, os.path.join(library, "libcuda.so.1"))
    return root, {"LD_LIBRARY_PATH": library, "FAKE_CUDA_LIBRARY": FAKE_CUDA}


def run(*words, status=0, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
    done = subprocess.run(
        [TOOL, *words], capture_output=True, text=True, timeout=120, env={**environment, **variables}, check=False
    )
    check(done.returncode == status, f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def tune(root, table, rows, *words, **variables):
    loose = ["--confidence", "50%", "--samples", "6", "--drift", "90%", "--limit", "20s", "--checks", "never"]
    done = run(
        "--root", root, "tune", "softmax", "dtype=f32", f"rows={rows}", "columns=64", "-o", table, *loose, *words, **variables
    )
    return done, read(table)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def rule(table):
    return {key: table[key] for key in DEFAULT}


def install(root, name, device, rule, **more):
    """A table of one row, in the root."""
    path = os.path.join(root, "tables", "softmax", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    rows = [{"at": [999, 64], "times_us": {"of_40_us": 41.0}}]
    group = {"type": {"dtype": "f32"}, "axes": ["rows", "columns"], "rows": rows}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(
            {"schema": "switchyard.table/1", "operator": "softmax", "device": device, **rule, "groups": [group], **more}, file
        )
    return path


def rows_of(table):
    return {row["at"][0] for group in table["groups"] for row in group["rows"]}


def test_cuda():
    root, variables = cuda_root("cuda")
    fresh = os.path.join(root, "fresh.json")
    _, table = tune(root, fresh, "4,8", "--devices", "all", **variables)
    check(rule(table) == DEFAULT, f"without any table: {rule(table)}")
    check(
        {tuple(row["times_us"].items()) for row in table["groups"][0]["rows"]} == {(("of_40_us", 40), ("of_50_us", 50))}, table
    )
    shutil.copy(fresh, fresh + ".default")
    device = table["device"]

    # Of another card, whose name sorts first; of this card; a list of pins for any card, which states no rule.
    other = {**device, "name": "NVIDIA H100"}
    install(root, "nvidia-h100.json", other, NARROW)
    pins = install(root, "any.json", {}, {}, groups=[], pin=[{"variant": "of_50_us", "reason": "a test"}])
    _, table = tune(root, fresh, "4,8", "--again", **variables)
    check(rule(table) == NARROW, f"with a table of the nearest card: {rule(table)}")
    shipped = install(root, "nvidia-h200.json", device, WIDE)
    _, table = tune(root, fresh, "4,8", "--again", "--devices", "all", **variables)
    check(rule(table) == WIDE, f"with a table of this card: {rule(table)}")
    check(os.path.exists(pins), "the list of pins is there")

    # The one that was tuned anew into the one that ships, without a word about either's rule.
    merged = os.path.join(root, "merged.json")
    done = run("merge", shipped, fresh, "-o", merged)
    check(rule(read(merged)) == WIDE and rows_of(read(merged)) == {4, 8, 999}, read(merged))
    check("differ" not in done.stdout, done.stdout)
    # A table of before there was one to begin with: the rule of the first one named stays.
    done = run("merge", shipped, fresh + ".default", "-o", merged)
    check(rule(read(merged)) == WIDE and rows_of(read(merged)) == {4, 8, 999}, read(merged))
    said = "its 'match', 'neighbours' (8, not 6), 'envelope' (1.5, not 2) differ from that of"
    check(f"{fresh}.default: {said} {shipped}, which the result has" in done.stdout, done.stdout)
    # The library serves what was merged.
    shutil.copy(merged, shipped)
    os.remove(pins)
    done = run(
        "--root", root, "explain", "softmax", "dtype=f32", "alignment=16", "rows=8", "columns=64", "--device", "NVIDIA H200"
    )
    check("of_40_us" in done.stdout and "exact" in done.stdout, done.stdout)


def test_host():
    root = cases.make_root(os.path.join(FOLDER, "host"), KERNELS, {"right": "right", "slow": "slow"})
    fresh = os.path.join(root, "fresh.json")
    _, table = tune(root, fresh, "4,8", "--devices", "host")
    check(rule(table) == DEFAULT, f"without any table: {rule(table)}")
    install(root, "a.json", {**table["device"], "name": "Another CPU"}, NARROW)
    shipped = install(root, "z.json", table["device"], WIDE)
    _, table = tune(root, fresh, "4,8", "--devices", "host", "--again")
    check(rule(table) == WIDE, f"with a table of this CPU: {rule(table)}")
    done = run("merge", fresh, shipped, "-o", fresh)
    check(rows_of(read(fresh)) == {4, 8, 999} and "differ" not in done.stdout, done.stdout)
    # A table that is continued keeps its own.
    install(root, "z.json", table["device"], NARROW)
    _, table = tune(root, fresh, "16", "--devices", "host")
    check(rule(table) == WIDE and rows_of(table) == {4, 8, 16, 999}, table)


if __name__ == "__main__":
    sys.exit(cases.run_all(globals(), FOLDER))
