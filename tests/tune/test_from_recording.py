# SPDX-License-Identifier: MIT
"""From what an engine ran to a table that the same engine takes.   test_from_recording.py TOOL ENGINE DATA FOLDER"""

import json
import os
import shutil
import subprocess
import sys

TOOL, ENGINE, DATA, FOLDER = sys.argv[1:]


def run(words, **env):
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "SWITCHYARD_PATH": DATA, **env}
    )
    if done.returncode != 0:
        print(done.stdout + done.stderr)
        sys.exit(f"{words}: exit status {done.returncode}")
    return done


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    recording = os.path.join(FOLDER, "%p.jsonl")
    for _ in range(2):
        run([ENGINE], SWITCHYARD_RECORD=recording)
    found = [os.path.join(FOLDER, name) for name in sorted(os.listdir(FOLDER))]
    assert len(found) == 2, found
    table = os.path.join(FOLDER, "table.json")
    words = [TOOL, "tune", "-o", table, "--devices", "host", "--confidence", "50%", "--drift", "90%"]
    for entry in found:
        words += ["--problems", entry]
    print(run(words).stdout)
    with open(table, encoding="utf-8") as file:
        content = json.load(file)
    (group,) = content["groups"]
    (row,) = group["rows"]
    assert content["operator"] == "softmax" and row["at"] == [1, 4], content
    best = row.get("first") or min(row["times_us"], key=row["times_us"].get)
    said = run([ENGINE], SWITCHYARD_TABLES=table, SWITCHYARD_DEBUG="json").stderr
    (choice,) = [line for line in map(json.loads, said.splitlines()) if "variant" in line][:1]
    assert choice["variant"] == best and choice["reason"] == "exact", (choice, row)
    print("2 problems")


if __name__ == "__main__":
    main()
