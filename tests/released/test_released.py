# SPDX-License-Identifier: MIT
"""Files that a released version wrote, read by this one.   test_released.py SOURCE PROGRAM WORK

Each folder beside this file belongs to a version. Its files never change: SHA256SUMS has their hashes. A version that
no longer reads one breaks the promise of .github/VERSIONS.md. Until a version is released its files change with its
formats: `sha256sum` over all of them but SHA256SUMS, sorted by name, writes the hashes anew.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
from invented import DEVICE, Checks, run


def hashes(folder):
    """Of all files but SHA256SUMS, as sha256sum prints them."""
    lines = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if name != "SHA256SUMS":
                with open(path, "rb") as file:
                    lines.append(f"{hashlib.sha256(file.read()).hexdigest()}  {os.path.relpath(path, folder)}\n")
    return "".join(sorted(lines, key=lambda line: line[66:]))


def check_root(checks, program, root):
    """Manifests, blobs and tables: no complaint, and the choices of the time."""
    status, out, problem = run(program, "check", root)
    checks.equal((status, problem), (0, ""), f"check: {out}")
    checks.contains(out, "0 errors, 0 warnings", "check")
    sizes = ("batch=1", "heads=32", "heads_kv=8", "head_dim=128")
    for words, variant, exact in (
        (("dtype=bf16", "seqlen=64"), "small", True),
        (("dtype=bf16", "seqlen=1024"), "large", True),
        (("dtype=bf16", "seqlen=700"), "large", False),
        (("dtype=f16", "seqlen=64"), "small", True),
    ):
        status, out, problem = run(
            program, "--root", root, "explain", "rotary", *sizes, *words, "alignment=16", "--device", DEVICE, "--json"
        )
        checks.equal((status, problem), (0, ""), f"explain {words}")
        found = json.loads(out)
        choice = found["choice"]
        checks.equal((choice["variant"], choice["reason"] == "exact"), (variant, exact), f"explain {words}: {choice}")


def check_overlay(checks, program, root, overlay):
    """Denials and pins, which stand in tables for people to write."""
    sizes = ("batch=1", "heads=32", "heads_kv=8", "head_dim=128", "alignment=16")

    def explain(*words):
        _, out, problem = run(
            program, "--root", root, "--tables", overlay, "explain", "rotary", *sizes, *words, "--device", DEVICE, "--json"
        )
        checks.equal(problem, "", f"explain {words} by the overlay")
        found = json.loads(out)
        return found["choice"], {candidate["variant"]: candidate.get("obstacle", "") for candidate in found["candidates"]}

    choice, _ = explain("dtype=bf16", "seqlen=64")
    checks.equal((choice["variant"], choice["reason"]), ("large", "pinned"), "a pin")
    choice, _ = explain("dtype=bf16", "seqlen=65")
    checks.that(choice["reason"] != "pinned", "beside a pin")
    _, obstacles = explain("dtype=f16", "seqlen=64")
    checks.contains(obstacles["small"], "a hang", "a denial")


def check_described(checks, program, root):
    """A manifest with every field that there was: what it says of variants decides as it did."""
    status, out, problem = run(program, "--root", root, "list", "softmax", "--variants", "--json")
    checks.equal((status, problem), (0, ""), "list")
    variants = json.loads(out)["operators"][0]["targets"][0]["variants"]
    checks.equal([variant["id"] for variant in variants], ["two_passes", "priced"], "list: variants")
    # By 'cost' and 'cost_us', by 'cost_ns', and by 'requires'.
    for rows, columns, variant in ((1, 64, "two_passes"), (64, 4096, "priced"), (1, 32, "priced")):
        sizes = ("dtype=bf16", f"rows={rows}", f"columns={columns}", "alignment=16", "--device", "cuda:sm_90")
        _, out, problem = run(program, "--root", root, "explain", "softmax", *sizes, "--json")
        checks.equal(problem, "", f"explain {sizes}")
        found = json.loads(out)
        checks.equal((found["choice"] or {}).get("variant"), variant, f"explain {sizes}: {found}")


def check_table(checks, program, table, work):
    """A table that was measured: merged alone it keeps its rows."""
    merged = os.path.join(work, "merged.json")
    status, _, problem = run(program, "merge", table, "-o", merged)
    checks.equal((status, problem), (0, ""), "merge")
    both = []
    for path in (table, merged):
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        both.append((content["device"]["name"], [group["rows"] for group in content["groups"]]))
    checks.equal(both[1], both[0], "merge: rows")
    checks.equal(run(program, "report", table, "-o", os.path.join(work, "report.html"))[0], 0, "report")


def check_problems(checks, program, problems, work):
    kept = os.path.join(work, "kept.jsonl")
    status, _, problem = run(program, "record", problems, "-o", kept)
    checks.equal((status, problem), (0, ""), "record")
    with open(kept, encoding="utf-8") as file:
        checks.equal(sorted(json.loads(line)["count"] for line in file), [6, 12], "record: counts")


def check_space(checks, source, space):
    tool = os.path.join(source, "cmake/switchyard_kernels.py")
    done = subprocess.run(
        [sys.executable, tool, "expand", space, "--all-toolchains"], text=True, capture_output=True, check=False
    )
    checks.equal((done.returncode, done.stderr), (0, ""), "expand")
    for name in ("avx2_t4096", "avx2_t65536", "baseline_t4096", "baseline_t65536"):
        checks.contains(done.stdout, f'"{name}"', "expand")


def main():
    source, program, work = sys.argv[1:]
    checks = Checks()
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    versions = sorted(name for name in os.listdir(HERE) if os.path.isdir(os.path.join(HERE, name)) and name[0].isdigit())
    checks.that(versions, "there is a version")
    for version in versions:
        folder = os.path.join(HERE, version)
        with open(os.path.join(folder, "SHA256SUMS"), encoding="utf-8") as file:
            checks.equal(hashes(folder), file.read(), f"the files of {version}, which never change")
        check_root(checks, program, os.path.join(folder, "root"))
        check_overlay(checks, program, os.path.join(folder, "root"), os.path.join(folder, "overlay.json"))
        check_described(checks, program, os.path.join(folder, "described"))
        check_table(checks, program, os.path.join(folder, "softmax-nvidia-h200.json"), work)
        check_problems(checks, program, os.path.join(folder, "problems.jsonl"), work)
        check_space(checks, source, os.path.join(folder, "scaled_sum.host.json"))
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
