# SPDX-License-Identifier: MIT
"""switchyard bench, as a user runs it, over tables of CPU kernels of which some have changed since.

test_bench.py TOOL KERNELS FOLDER
"""

import json
import os
import re
import subprocess
import sys

import cases
from cases import check

TOOL, KERNELS, FOLDER = sys.argv[1:]
# The kernels differ by a factor of a hundred and more: a busy machine does not change who wins.
LOOSE = ["--confidence", "50%", "--samples", "6", "--drift", "90%", "--devices", "host"]


def make_root(name, kernels):
    return cases.make_root(os.path.join(FOLDER, name), KERNELS, kernels)


def run(root, command, *words, status=0):
    done = subprocess.run([TOOL, "--root", root, command, *words], capture_output=True, text=True, timeout=120, check=False)
    check(
        done.returncode == status,
        f"{command} {words}: exit status {done.returncode}, expected {status}\n{done.stdout}{done.stderr}",
    )
    return done


def bench(root, *words, status=0):
    return json.loads(run(root, "bench", *words, *LOOSE, "--json", status=status).stdout)


def make_table(root, name="t.json"):
    """Tuned with the kernels as they are now; in the root's tables or beside them."""
    table = os.path.join(root, name)
    os.makedirs(os.path.dirname(table), exist_ok=True)
    run(root, "tune", "softmax", "dtype=f32", "rows=2,8", "columns=16,64", "-o", table, *LOOSE)
    return table


def edit(table, change):
    with open(table, encoding="utf-8") as file:
        document = json.load(file)
    change(document)
    with open(table, "w", encoding="utf-8") as file:
        json.dump(document, file)


def shapes(found):
    return {shape["shape"]: shape for shape in found["shapes"]}


RIGHT = {"quick": "right", "lazy": "slow"}
SWAPPED = {"quick": "slow", "lazy": "right"}


def test_right_table():
    root = make_root("right", RIGHT)
    table = make_table(root)
    found = bench(root, table)
    check(found["status"] == 0 and found["within"] == 4 and found["behind"] == 0, found)
    check(found["geometric_mean"] == 1 and found["p99"] == 1 and "worst" not in found, found)
    check(found["flips"] == {"faster": 0, "beyond_uncertainty": 0, "tune_would_choose": 0}, found["flips"])
    check(len(shapes(found)) == 4, found)
    for shape in found["shapes"]:
        check(shape["chosen"] == shape["best"] == "quick" and shape["reason"] == "exact", shape)
        check(shape["variants_measured"] == shape["variants_serving"] == 2, shape)
        check(shape["recorded_us"] > 0 and shape["drift"]["low"] <= shape["drift"]["value"] <= shape["drift"]["high"], shape)
    text = run(root, "bench", table, *LOOSE).stdout
    check(
        len(
            re.findall(
                r"^within  dtype=f32 rows=\d columns=\d+: quick [\d.e-]+ us wins, 2 of 2 variants measured; "
                r"recorded [\d.e-]+ us ",
                text,
                re.MULTILINE,
            )
        )
        == 4,
        text,
    )
    check("of 4 shapes, 4 are within 5 % of the best, 0 unclear, 0 behind, 0 failed, 0 left out" in text, text)
    # A table that the search path has by itself is asked as an engine would ask it.
    installed = make_table(root, "tables/softmax/this.json")
    check(bench(root, installed)["within"] == 4, "an installed table")


def test_swapped_kernels():
    root = make_root("swapped", RIGHT)
    table = make_table(root)
    make_root("swapped", SWAPPED)
    found = bench(root, table, status=1)
    check(found["behind"] == 4 and found["within"] == 0 and found["worst"] in shapes(found), found)
    check(found["flips"] == {"faster": 4, "beyond_uncertainty": 4, "tune_would_choose": 4}, found["flips"])
    for shape in found["shapes"]:
        check(shape["outcome"] == "behind" and shape["chosen"] == "quick" and shape["best"] == "lazy", shape)
        ratio = shape["ratio"]
        check(5 < ratio["low"] <= ratio["value"] <= ratio["high"], ratio)
        check(abs(ratio["value"] * shape["best_us"] / shape["chosen_us"] - 1) < 1e-9, shape)
        check(shape["tune_would_choose"] == "lazy" and shape["drifted"], shape)
    worst = max(found["shapes"], key=lambda shape: shape["ratio"]["value"])
    check(worst["shape"] == found["worst"] and found["p99"] == worst["ratio"]["value"], found["worst"])
    product = 1
    for shape in found["shapes"]:
        product *= shape["ratio"]["value"]
    check(abs(found["geometric_mean"] / product**0.25 - 1) < 1e-9, found["geometric_mean"])
    text = run(root, "bench", table, *LOOSE, status=1).stdout
    check(
        re.search(
            r"^behind  dtype=f32 rows=\d columns=\d+: quick \d+ us, best lazy [\d.e-]+ us, ratio "
            r"\d+\.\d{3} \(\d+\.\d{3} to \d+\.\d{3}\); recorded .* no longer holds",
            text,
            re.MULTILINE,
        ),
        text,
    )
    check(re.search(r"^worst: dtype=f32 rows=\d columns=\d+: quick behind lazy, ratio \d", text, re.MULTILINE), text)
    check(bench(root, table, "--threshold", "1e9%")["within"] == 4, "the threshold does not count")


def test_bad_winner():
    root = make_root("bad", {**RIGHT, "third": "off"})
    table = make_table(root)
    found = bench(root, table, "--exhaustive")  # a rival that is wrong is told, and costs nothing else
    check(found["within"] == 4 and all("third: wrong results" in shape["failures"][0] for shape in found["shapes"]), found)
    for kernel, reason in [
        ("off", "quick: wrong results"),
        ("crash", r"quick: .*died of signal 11"),
        ("fading", "quick: right before it was timed, wrong results afterwards"),
    ]:
        make_root("bad", {"quick": kernel, "lazy": "slow"})
        found = bench(root, table, "--rows", "1", status=1)
        check(found["failed"] == 1 and re.search(reason, found["shapes"][0]["why"]), found)


def test_which_shapes():
    root = make_root("which", {**RIGHT, "other": "slow", "another": "slow"})
    table = make_table(root)
    check(len(bench(root, table, "--rows", "3")["shapes"]) == 3, "--rows 3")
    found = shapes(bench(root, table, "rows=2", "dtype=f32", "columns=64"))
    check(list(found) == ["dtype=f32 rows=2 columns=64"], f"filtered: {list(found)}")
    check(found["dtype=f32 rows=2 columns=64"]["variants_measured"] == 4, found)
    one = bench(root, table, "--rows", "1", "--candidates", "1")["shapes"][0]
    check(one["variants_measured"] == 2 and one["variants_serving"] == 4, one)
    found = bench(root, table, "--between")
    rows = {shape["shape"] for shape in found["shapes"] if not shape["between"]}
    between = {shape["shape"]: shape for shape in found["shapes"] if shape["between"]}
    check(len(rows) == 4, rows)
    check(
        between.keys()
        == {
            "dtype=f32 rows=4 columns=16",
            "dtype=f32 rows=4 columns=64",
            "dtype=f32 rows=2 columns=32",
            "dtype=f32 rows=8 columns=32",
        },
        list(between),
    )
    for shape in between.values():
        check(shape["chosen"] == "quick" and shape["reason"] == "interpolated" and "drift" not in shape, shape)


def test_recorded_times():
    root = make_root("recorded", RIGHT)
    table = make_table(root)

    def spoil(document):
        for row in document["groups"][0]["rows"]:
            row["times_us"] = {"quick": 123456.0, "lazy": 234567.0}
            row["uncertainty"] = 0.5

    edit(table, spoil)
    found = bench(root, table)
    check(found["drifted"] == 4 and all(shape["drift"]["high"] < 0.1 for shape in found["shapes"]), found)

    def other_layout(document):
        document["groups"][0]["type"]["alignment"] = 8
        document["groups"][0].get("measured_with", {}).pop("alignment", None)

    edit(table, other_layout)
    done = run(root, "bench", table, *LOOSE, status=2)
    check("left out" in done.stdout and "where 8 is asked for" in done.stdout, done.stdout)


def test_messages():
    root = make_root("messages", RIGHT)
    table = make_table(root)
    for words, status, expected in [
        ([table, "--threshold", "1.05"], 64, "--threshold: expected a share such as 5% or 0.05, got '1.05'"),
        ([table, "--threshold", "x"], 64, "--threshold"),
        ([table, "--candidates", "0"], 64, "--candidates"),
        ([table, "--rows", "0"], 64, "--rows"),
        ([table, "--confidence", "2"], 64, "--confidence: expected a share such as 1% or 0.01, got '2'"),
        ([table, "--limit", "soon"], 64, "--limit: expected a time such as 90s, 10m or 2h, got 'soon'"),
        ([table, "row=2"], 64, "did you mean 'rows'?"),
        ([table, "rows=3"], 64, "has no row with rows=3; leave a filter out"),
        ([table, "--devices", "99"], 64, "there is no device 99; this machine has"),
        ([], 64, "table is required"),
        ([os.path.join(root, "none.json")], 2, "none.json"),
    ]:
        done = run(root, "bench", *words, status=status)
        check(expected in done.stderr + done.stdout, f"{words}: expected '{expected}', got: {done.stderr}")
    edit(table, lambda document: document["device"].update(name="Another"))
    done = run(root, "bench", table, *LOOSE, status=2)
    check("was measured on Another, and this is" in done.stderr, done.stderr)
    edit(table, lambda document: document.update(groups=[]))
    check("has no rows to measure" in run(root, "bench", table, *LOOSE, status=64).stderr, "an empty table")


if __name__ == "__main__":
    sys.exit(cases.run_all(globals(), FOLDER, together=6))  # their slow kernels sleep
