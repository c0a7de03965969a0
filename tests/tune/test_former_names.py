# SPDX-License-Identifier: MIT
"""Files of rotary from before its axes were renamed: kernels, a table, a recording, a problem list and a tuner's
journal with heads_q and heads_k work like those with heads and heads_kv.   test_former_names.py TOOL DATA FOLDER"""

import json
import os
import re
import shutil
import subprocess
import sys

TOOL, DATA, FOLDER = sys.argv[1:]
QUICK = ["--devices", "host", "--confidence", "50%", "--samples", "6", "--drift", "90%"]
PROBLEM = ["dtype=f32", "head_dim=64", "batch=1", "seqlen=16"]
checks = 0
failures = 0


def check(truth, text):
    global checks, failures
    checks += 1
    if not truth:
        failures += 1
        print(f"FAILED: {text}")


def run(*words, root=DATA, status=0, **env):
    done = subprocess.run(
        [TOOL, "--root", root, *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", **env},
    )
    if done.returncode != status:
        sys.exit(f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def before(text):
    """The text as it was before the renaming."""
    text = re.sub(r"\bheads\b", "heads_q", text)
    return re.sub(r"\bheads_kv\b", "heads_k", text)


def coordinates(path):
    """Axes and coordinates of a table's rows."""
    return sorted(
        tuple(sorted(zip(group["axes"], row["at"]))) for group in json.loads(read(path))["groups"] for row in group["rows"]
    )


def old_root():
    """A root with the kernels of before; their config has a name that is an axis today."""
    root = os.path.join(FOLDER, "root")
    shutil.copytree(os.path.join(DATA, "kernels", "rotary"), os.path.join(root, "kernels", "rotary"))
    for target in os.listdir(os.path.join(root, "kernels", "rotary")):
        path = os.path.join(root, "kernels", "rotary", target, "manifest.json")
        text = before(read(path))
        check("heads_q" in text, f"{path} does not name heads")
        manifest = json.loads(text)
        for variant in manifest["variants"]:
            variant.setdefault("config", {})["heads"] = 1
        os.chmod(path, 0o644)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(manifest, file)
    return root


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)

    # A problem list; the result has the names of today.
    table = os.path.join(FOLDER, "table.json")
    run("tune", "rotary", *PROBLEM, "heads_q=4,6", "heads_k=2", "-o", table, *QUICK)
    expected = [(("batch", 1), ("heads", heads), ("heads_kv", 2), ("seqlen", 16)) for heads in (4, 6)]
    check(coordinates(table) == expected, f"rows {coordinates(table)}")
    said = run("tune", "rotary", *PROBLEM, "heads_q=4", "heads=6", "-o", table, *QUICK, status=64).stderr
    check("axis 'heads' is given twice, the second time in 'heads=6'" in said, said)
    said = run("explain", "rotary", *PROBLEM, "heads=4", "heads_q=6", status=64).stderr
    check("axis 'heads' is given twice, the second time in 'heads_q=6'" in said, said)

    # Old kernels run, and their results are right: the tuner checks each.
    root = old_root()
    other = os.path.join(FOLDER, "of_old_kernels.json")
    words = [*PROBLEM, "heads=3", "heads_kv=1", "in_place=true,false", "-o", other, *QUICK]
    done = run("--json", "tune", "rotary", *words, root=root)
    (outcome,) = json.loads(done.stdout)
    check(outcome["measured"] == 2 and not outcome["bad"] and not outcome["failures"], f"old kernels: {outcome}")
    check("skipped" not in done.stderr and "warning" not in done.stderr, f"old kernels: {done.stderr}")

    # An old table decides.
    old = json.loads(before(read(table)))
    old["match"] = {"heads_q": {"log": 4}, "heads_k": "ignore", "batch * heads_q": "log"}
    old_table = write("old.json", json.dumps(old))
    found = json.loads(
        run("--json", "explain", "rotary", *PROBLEM, "heads=4", "heads_kv=2", SWITCHYARD_TABLES=old_table).stdout
    )
    check("exact" in json.dumps(found), f"an old table: {found}")
    # Refreshing it writes the names of today.
    run("tune", "--refresh", old_table, *QUICK)
    refreshed = read(old_table)
    check("heads_q" not in refreshed and 'heads_k"' not in refreshed, "a refreshed table has old names")
    check(json.loads(refreshed)["match"].get("batch * heads") == "log", refreshed[:1000])
    check(coordinates(old_table) == expected, "rows of a refreshed table")

    # Recordings of old and new engines add up, and are measured.
    problem = {}
    shown = run("explain", "rotary", *PROBLEM, "heads=5", "heads_kv=1").stdout
    for word in re.search(r"\{(.*?)\}", shown, re.DOTALL).group(1).split():
        name, value = word.split("=")
        problem[name] = int(value) if value.isdigit() and name != "alignment" else value
    problem["alignment"] = 16
    line = json.dumps({"operator": "rotary", "device": "one", "problem": problem, "count": 3})
    both = json.loads(line)
    both["problem"]["heads_q"] = 5
    recording = write("engine.jsonl", before(line) + "\n" + line + "\n" + json.dumps(both) + "\n")
    summary = os.path.join(FOLDER, "all.jsonl")
    said = run("record", recording, "-o", summary).stderr
    check(":3: skipped: axis 'heads' is given twice, by its name and a former one" in said, said)
    lines = [json.loads(line) for line in read(summary).splitlines()]
    check([(line["count"], line["problem"]) for line in lines] == [(6, problem)], f"a summary: {lines}")
    recorded = os.path.join(FOLDER, "recorded.json")
    said = run("tune", "--problems", recording, "-o", recorded, *QUICK)
    check("line 3: axis 'heads' is given twice, by its name and a former one" in said.stderr + said.stdout, said.stderr)
    check(
        coordinates(recorded) == [(("batch", 1), ("heads", 5), ("heads_kv", 1), ("seqlen", 16))],
        f"a recording: {coordinates(recorded)}",
    )

    # A run that an older tuner left unfinished is resumed.
    resumed = os.path.join(FOLDER, "resumed.json")
    run("tune", "rotary", *PROBLEM, "heads=4", "heads_kv=2", "-o", resumed, *QUICK)
    journal = resumed + ".tuning.jsonl"
    kept = [line for line in read(journal).splitlines() if "finished" not in line and '"done"' not in line]
    times = [line for line in kept if '"us"' in line]
    os.remove(resumed)
    with open(journal, "w", encoding="utf-8") as file:
        file.write(before("\n".join(kept)) + "\n")
    check(times and "heads_q=4" in read(journal), "the journal has no times")
    run("tune", "rotary", *PROBLEM, "heads=4", "heads_kv=2", "-o", resumed, *QUICK)
    added = [json.loads(line) for line in read(journal).splitlines()][len(kept) :]
    # A row that drifted meanwhile is dropped and measured again; until then, every quick time is known.
    for line in added:
        if "drop" in line:
            break
        check(line.get("final", True), f"measured again: {line}")
    check(coordinates(resumed) == [expected[0]], f"a resumed table: {coordinates(resumed)}")

    print(f"{checks} checks, {failures} failed")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
