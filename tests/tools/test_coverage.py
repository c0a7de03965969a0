# SPDX-License-Identifier: MIT
"""switchyard check --coverage, and explain under limits, over an invented tree.   test_coverage.py PROGRAM FOLDER"""

import json
import os
import sys

from invented import DEVICE, Checks, Tree, run

LIST = """# a comment
rotary dtype=bf16 head_dim=128 : batch seqlen heads heads_kv
  1 64 32 8
  1 500 32 8
rotary dtype=f16 head_dim=128 : batch seqlen heads heads_kv
  1 64 32 8 calls=7
"""
SIZES = ("batch=1", "heads=32", "heads_kv=8", "head_dim=128", "dtype=bf16", "seqlen=1024")


def saved(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def check_lists(checks, program, folder):
    tree = Tree(folder)
    tree.table["groups"].pop()
    tree.write()
    path = saved(folder, "list.txt", LIST)

    def coverage(*words):
        return run(program, "--root", tree.folder, "check", "--coverage", path, *words)

    status, out, problem = coverage()
    checks.equal((status, problem), (1, ""), "a call that no row decides")
    lines = out.splitlines()
    checks.equal(len(lines), 3, f"lines: {out}")
    checks.equal(lines[0], f"{DEVICE} (cuda sm_90)", "the device that the table names")
    checks.contains(lines[1], "3 calls: 1 exact, 1 interpolated, 1 heuristic", "counts")
    checks.contains(lines[2], "no row decides rotary dtype=f16 head_dim=128 batch=1 seqlen=64", "the call")
    checks.contains(lines[2], "called 7 times: no table has rows for it; first admissible variant", "the call")

    status, out, _ = coverage("--device", DEVICE, "--device", "cuda:sm_90")
    checks.equal(status, 1, "two devices")
    checks.contains(out, "cuda:sm_90 (cuda sm_90)", "two devices")
    checks.contains(out, "2 other_device, 1 heuristic", "rows of another device")
    status, out, _ = run(program, "--root", tree.folder, "--json", "check", "--coverage", path)
    found = json.loads(out)["devices"]
    checks.equal([device["device"] for device in found], [f"{DEVICE} (cuda sm_90)"], "JSON")
    counts = found[0]["operators"][0]
    checks.equal((counts["operator"], counts["exact"], counts["heuristic"]), ("rotary", 1, 1), "JSON")
    checks.equal([(call["calls"], call["operator"]) for call in found[0]["undecided"]], [(7, "rotary")], "JSON")

    # The roots may be named as paths, and kernels need not be installed: then tables alone count.
    os.remove(tree.manifest_path)
    bare = run(program, "check", "--coverage", path, tree.folder)
    checks.equal(bare[0], 1, "without kernels")
    checks.contains(bare[1], "3 calls: 1 exact, 1 interpolated, 1 none", "without kernels")
    tree.write()

    problem_of = {"batch": 1, "seqlen": 64, "heads": 32, "heads_kv": 8, "head_dim": 128, "rotary_dim": 128, "dtype": "bf16"}
    lines = [
        json.dumps({"operator": "rotary", "device": "x", "problem": problem_of, "count": 3}),
        '{"operator": "rotary"}',
    ]
    path = saved(folder, "recording.jsonl", "\n".join(lines) + "\n")
    status, out, problem = coverage()
    checks.equal(status, 0, "a recording of which rows decide all")
    checks.contains(out, "1 call: 1 exact", "a recording")
    checks.contains(problem, "1 lines were skipped; line 2: 'operator' or 'problem' is missing", "a line that is none")

    path = saved(folder, "sparse.txt", "rotary dtype=bf16 batch=1 head_dim=128\n")
    status, out, _ = coverage()
    checks.equal(status, 0, "a call that the list does not give whole")
    checks.contains(out, "1 not judged: the list does not give seqlen, heads", "a call that the list does not give whole")


def check_misuse(checks, program, folder):
    tree = Tree(folder).write()
    path = saved(folder, "list.txt", LIST)
    unknown = saved(folder, "unknown.txt", "rotari dtype=bf16\n")
    empty = saved(folder, "empty.txt", "# nothing\n")
    wrong = saved(folder, "wrong.txt", "rotary dtype=bf17\n")
    for words, status, part in (
        (("--coverage", unknown), 64, "did you mean 'rotary'?"),
        (("--coverage", empty), 64, "lists no calls"),
        (("--coverage", wrong), 64, "line 1: "),
        (("--coverage", os.path.join(folder, "none.txt")), 2, "none.txt"),
        (("--coverage", path, "--run"), 64, "--coverage and --run are two checks"),
        (("--coverage", path, "--device", "no such"), 64, "no table was measured on a device 'no such'"),
        (("--device", DEVICE, tree.folder), 64, "--device belongs to --coverage"),
        ((), 64, "check: name roots, folders or files"),
    ):
        found = run(program, "--root", tree.folder, "check", *words)
        checks.equal(found[0], status, f"check {words}")
        checks.contains(found[2], part, f"check {words}")


def check_limits(checks, program, folder):
    tree = Tree(folder)
    large, small = tree.manifest["variants"][:2]
    large["workspace"] = {"scratch": "4 * seqlen"}
    small.update(max_error=0.5, reproducible="rows")
    tree.write()

    def explain(*words):
        status, out, _ = run(program, "--root", tree.folder, "--json", "explain", "rotary", *SIZES, "--device", DEVICE, *words)
        return status, json.loads(out)

    for words, chosen in (
        ((), "large"),
        (("--workspace-limit", "4096"), "large"),
        (("--workspace-limit", "4095"), "small"),
        (("--max-error", "0.5"), "small"),
        (("--reproducible", "rows"), "small"),
    ):
        status, found = explain(*words)
        checks.equal((status, found["choice"]["variant"]), (0, chosen), f"explain {words}")
    obstacles = {
        candidate["variant"]: candidate.get("obstacle") for candidate in explain("--workspace-limit", "0")[1]["candidates"]
    }
    checks.equal(obstacles["large"], "needs 4096 bytes of workspace, more than the limit of 0", "the reason")
    status, found = explain("--max-error", "0.1")
    checks.equal((status, found["choice"]), (1, None), "nothing left")
    checks.contains(found["failure"], "may be off by 0.5 of the tolerance, more than the limit of 0.1", "nothing left")
    for words in (("--workspace-limit", "-1"), ("--max-error", "0")):
        checks.that(run(program, "--root", tree.folder, "explain", "rotary", *SIZES, *words)[0] != 0, f"explain {words}")


def main():
    program, folder = sys.argv[1:3]
    checks = Checks()
    check_lists(checks, program, folder + "-lists")
    check_misuse(checks, program, folder + "-misuse")
    check_limits(checks, program, folder + "-limits")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
