# SPDX-License-Identifier: MIT
"""The life of a table: recorded, tuned, dropped in, taken under load.   test_life_of_a_table.py TOOL SERVE DATA FOLDER [DEVICE]

A process serves calls and records them. A table is tuned from the recording and dropped into the root of another
process under load, which takes it without a failed or slowed call and says so in its debug output. A corrupt table
that is dropped in next changes nothing. DEVICE is host (the default) or gpu.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time

TOOL, SERVE, DATA, FOLDER, *REST = sys.argv[1:]
DEVICE = REST[0] if REST else "host"
ROOT = os.path.join(FOLDER, "root")
TABLE = os.path.join(ROOT, "tables", "rotary", "tuned.json")


class Server:
    """The serving process and the lines it has printed."""

    def __init__(self, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
        environment.update(SWITCHYARD_PATH=ROOT, **variables)
        self.process = subprocess.Popen(
            [SERVE, DEVICE], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.lines = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def wait_for(self, condition, event, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.lines and condition(self.lines[-1]):
                return len(self.lines)
            if self.process.poll() == 77:
                print("skipped: no GPU, or no kernel of this build for its calls")
                sys.exit(77)
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        sys.exit(f"{event} did not happen; the last line is {self.lines[-1:]}, status {self.process.poll()}")

    def serve(self, calls=2000, lines=8):
        """Waits for so many more calls and lines."""
        first, reached = len(self.lines), (self.lines[-1]["calls"] if self.lines else 0) + calls
        self.wait_for(lambda line: line["calls"] >= reached and len(self.lines) >= first + lines, "serving")
        return self.lines[first:]

    def stop(self):
        self.process.stdin.close()
        if self.process.wait(60) != 0:
            sys.exit(f"serving ended with {self.process.returncode}")


def tool(*words):
    done = subprocess.run(
        [TOOL, *words], capture_output=True, text=True, timeout=500, check=False, env={**os.environ, "SWITCHYARD_PATH": ROOT}
    )
    if done.returncode != 0:
        sys.exit(f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def drop_in(text):
    os.makedirs(os.path.dirname(TABLE), exist_ok=True)
    with open(TABLE + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(TABLE + ".new", TABLE)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.copytree(os.path.join(DATA, "kernels", "rotary"), os.path.join(ROOT, "kernels", "rotary"))

    # Two processes run and record.
    for _ in range(2):
        first = Server(SWITCHYARD_RECORD=os.path.join(FOLDER, "run-%p.jsonl"))
        first.serve()
        first.stop()
    recordings = sorted(os.path.join(FOLDER, name) for name in os.listdir(FOLDER) if name.startswith("run-"))
    problems = os.path.join(FOLDER, "problems.jsonl")
    print(tool("record", *recordings, "-o", problems))
    counts = [json.loads(line)["count"] for line in open(problems, encoding="utf-8")]
    assert len(counts) == 3 and sum(counts) >= 8000, counts

    # A table from the recording.
    tuned = os.path.join(FOLDER, "tuned.json")
    print(
        tool(
            "tune",
            "--problems",
            problems,
            "-o",
            tuned,
            "--devices",
            "host" if DEVICE == "host" else "all",
            *"--confidence 50% --drift 90%".split(),
        )
    )
    with open(tuned, encoding="utf-8") as file:
        text = file.read()
    (group,) = json.loads(text)["groups"]
    axes = [group["axes"].index("batch"), group["axes"].index("seqlen")]
    wanted = {}
    for row in group["rows"]:
        wanted[row["at"][axes[0]], row["at"][axes[1]]] = row.get("first") or min(row["times_us"], key=row["times_us"].get)
    assert len(wanted) == 3, wanted

    # Dropped in under load.
    debug = os.path.join(FOLDER, "debug.jsonl")
    server = Server(SWITCHYARD_DEBUG="json", SWITCHYARD_DEBUG_FILE=debug)
    before = server.serve()
    assert all(choice["reason"] == "heuristic" for choice in before[-1]["choices"]), before[-1]
    drop_in(text)

    def taken(line):
        return all(
            (choice["reason"], choice["variant"]) == ("exact", wanted[tuple(choice["at"])]) for choice in line["choices"]
        )

    server.wait_for(taken, "taking the table")
    after = server.serve()

    # A corrupt one changes nothing.
    drop_in(text[: len(text) // 2])
    server.serve(lines=30)  # a second and a half: a watching catalog looks twice a second
    assert taken(server.lines[-1]), server.lines[-1]
    server.stop()
    last = server.lines[-1]
    assert last["failed"] == 0, last

    # No call was slow because of it: none took longer than the slowest of ordinary serving, or a few scheduling
    # quanta of a busy machine.
    ordinary = max(line["slowest_us"] for line in before + after)
    slowest = max(line["slowest_us"] for line in server.lines[len(before) :])
    print(f"{last['calls']} calls, slowest {slowest:.0f} us; ordinarily {ordinary:.0f} us")
    assert slowest <= max(5 * ordinary, 100_000), (slowest, ordinary)

    # The debug output shows the new choices.
    with open(debug, encoding="utf-8") as file:
        said = [json.loads(line) for line in file]
    exact = {line["variant"] for line in said if line.get("reason") == "exact"}
    assert exact == set(wanted.values()), (exact, wanted)
    assert any("tuned.json" in json.dumps(line) and "is not JSON" in json.dumps(line) for line in said), "a warning"


if __name__ == "__main__":
    main()
