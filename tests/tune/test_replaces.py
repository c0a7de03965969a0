# SPDX-License-Identifier: MIT
"""Making tables anew: what comes first, stopping and going on, several devices, and the merge into the old tables, as .ci/tables does
it, on CUDA devices that are invented.   test_replaces.py TOOL KERNELS TIMED_CUDA FAKE_CUDA FOLDER
"""

import json
import os
import re
import shutil
import subprocess
import sys

import cases
import test_merging as merging
from cases import check

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from cubin import cubin
from invented import sha256

TOOL, _, TIMED_CUDA, FAKE_CUDA, FOLDER = sys.argv[1:]
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".ci")
TIMES = {"fast": 40, "slow": 50}
PARAMETERS = {
    "softmax": ["x", "out", {"i32": "columns"}],
    "softmax_backward": ["grad_out", "grad_x", {"i32": "columns"}],
}
LOOSE = ["--confidence", "50%", "--samples", "6", "--drift", "90%", "--limit", "20s", "--checks", "never"]
PROBLEMS = """\
softmax dtype=f32 : rows columns
  4,6,8 64
softmax dtype=f16 rows=16 columns=64
softmax_backward dtype=f32 : rows columns
  4,8 64
"""


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content if isinstance(content, str) else json.dumps(content))
    return path


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Project:
    """A folder with .ci/tables and tables/, and kernels whose variants take 40 and 50 us."""

    def __init__(self, name):
        self.folder = os.path.join(FOLDER, name)
        self.blobs = {}
        for operator, parameters in PARAMETERS.items():
            variants = []
            for variant, time in TIMES.items():
                blob = cubin({"take_8_8_4": {"parameters": [8, 8, 4], "max_threads": 256 + len(self.blobs)}})
                self.blobs[operator, variant] = sha256(blob)[:16]
                file = self.path("root/kernels", operator, "cuda-sm_90", f"{operator}_{variant}.cubin")
                os.makedirs(os.path.dirname(file), exist_ok=True)
                with open(file, "wb") as out:
                    out.write(blob)
                launch = {"blob": os.path.basename(file), "sha256": sha256(blob), "kernel": "take_8_8_4", "shared_bytes": time}
                launch |= {"grid": ["rows", 1, 1], "block": [128, 1, 1], "parameters": parameters}
                variants.append({"id": variant, "launches": [launch]})
            manifest = {"schema": "switchyard.manifest/1", "operator": operator, "variants": variants}
            manifest["target"] = {"backend": "cuda", "arch": "sm_90"}
            write(self.path("root/kernels", operator, "cuda-sm_90", "manifest.json"), manifest)
        os.makedirs(self.path("lib"))
        os.symlink(TIMED_CUDA, self.path("lib/libcuda.so.1"))
        os.makedirs(self.path(".ci"))
        for name in ("tables", "steps"):
            shutil.copy(os.path.join(SCRIPTS, name), self.path(".ci", name))
        write(self.path("tables/problems/some.txt"), PROBLEMS)
        write(self.path("tables/schema/match.json"), {"rows": "log"})

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def table(self, operator, rows, old=(), **more):
        """Rows: {rows: {variant: us}} in f32; the variants in `old` are of another build."""
        blobs = {variant: "0" * 16 if variant in old else self.blobs[operator, variant] for variant in TIMES}
        group = {"type": {"dtype": "f32"}, "axes": ["rows", "columns"], "blobs": blobs, "measured_with": {"alignment": 16}}
        group["rows"] = [{"at": [at, 64], "times_us": times} for at, times in rows.items()]
        content = {"schema": "switchyard.table/1", "operator": operator, "groups": [group], "match": {"rows": "log"}}
        content["device"] = {"backend": "cuda", "arch": "sm_90", "name": "NVIDIA H200", "multiprocessors": 132}
        content |= {"envelope": 2, "measured": {"date": "2026-11-20", "tool": "switchyard 0.1.0"}, **more}
        return write(self.path("tables", operator, "nvidia-h200.json"), content)

    @property
    def variables(self):
        return {"LD_LIBRARY_PATH": self.path("lib"), "FAKE_CUDA_LIBRARY": FAKE_CUDA}

    def environment(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
        return environment | self.variables | {"SWITCHYARD_TOOL": TOOL, "SWITCHYARD_ROOT": self.path("root")}

    def run(self, *words, status=0):
        words = [word + "/" if i == 0 else word for i, word in enumerate(words)]
        command = [self.path(".ci/tables"), *words, *([] if len(words) == 0 else LOOSE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=self.environment(), check=False)
        check(done.returncode == status, f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def plan(self, window):
        """(worth, operator, dtype, rows) in the order of measurement."""
        out, head = [], None
        for line in self.run(self.path(window), "--plan").stdout.splitlines():
            if not line.startswith("  "):
                head = re.fullmatch(r"(.*): (\w+): \d+ problems(, and \d+ measured before)?", line).groups()
            else:
                out.append((*head[:2], *re.search(r"dtype=(\w+).* rows=(\d+)", line).groups()))
        return out


def made(name):
    project = Project(name)
    # 8 rows: of a kernel that was built anew; 4: good; 6: none; in f16: none of its kind. The backward's table has a run of
    # another program.
    project.table("softmax", {4: {"fast": 41.0}, 8: {"fast": 41.0, "slow": 9.0}}, old=["slow"])
    before = [{"date": "2026-11-10", "rows": 1, "note": "by hand"}]
    measured = {"date": "2026-11-20", "tool": "switchyard 0.1.0", "rows": 1, "before": before}
    rows = {4: {"fast": 41.0, "slow": 51.0}, 8: {"fast": 41.0, "slow": 51.0}}
    project.table("softmax_backward", rows, measured=measured)
    return project


ORDER = [
    ("kernels that changed", "softmax", "f32", "8"),
    ("rows of tables with runs of other programs", "softmax_backward", "f32", "4"),
    ("rows of tables with runs of other programs", "softmax_backward", "f32", "8"),
    ("calls that no row decides", "softmax", "f16", "16"),
    ("calls between rows", "softmax", "f32", "6"),
    ("other rows", "softmax", "f32", "4"),
]


def test_order():
    project = made("order")
    plan = project.plan("window")
    check(plan == ORDER, f"the order is {plan}")
    check(os.listdir(project.path("window")) == [], "a plan leaves files")
    done = project.run(project.path("window"), "--devices", "0")
    found = re.findall(r"^\d+/\d+.*: dtype=(\w+) rows=(\d+)", done.stderr, re.MULTILINE)
    check(found == [entry[2:] for entry in plan], f"measured in the order {found}")
    check(
        done.stdout.startswith("kernels that changed: " + project.path("window/softmax/nvidia-h200.json: 1 of 1")), done.stdout
    )

    # A kernel that is pending comes first, and the longest name that fits a blob is its kernel's.
    project = made("pending")
    pending = [{"kernel": "softmax_backward/softmax_backward_s", "since": "2026-11-26", "reason": "a test"}]
    kernels = {"measured": {"softmax_backward/softmax_backward": "1"}, "pending": pending}
    write(project.path("tables/kernels.json"), kernels)
    first = [entry[1:] for entry in project.plan("window") if entry[0] == "kernels that changed"]
    check(first == [("softmax", "f32", "8"), ("softmax_backward", "f32", "4"), ("softmax_backward", "f32", "8")], first)
    for device, is_here in (("NVIDIA H200", True), ("NVIDIA H100 80GB HBM3", False)):
        write(project.path("tables/kernels.json"), {**kernels, "pending": [{**pending[0], "device": device}]})
        found = [entry[1:] for entry in project.plan("window") if entry[0] == "kernels that changed"]
        check((found == first) == is_here, f"a kernel that is pending on {device}: {found}")
    kernels["measured"]["softmax_backward/softmax_backward_slow"] = "2"
    write(project.path("tables/kernels.json"), kernels)
    check(project.plan("window") == ORDER, "a kernel whose name only begins like a pending one")
    pending[0]["kernel"] = "softmax/softmax_slow"  # whose problems without rows come first, too
    write(project.path("tables/kernels.json"), kernels)
    first = [entry[1:] for entry in project.plan("window") if entry[0] == "kernels that changed"]
    check({entry[1:] for entry in first} == {("f32", "8"), ("f32", "4"), ("f32", "6"), ("f16", "16")}, first)

    # Without a table everything is undecided; a row that does not compare all variants is none.
    project = made("nothing")
    shutil.rmtree(project.path("tables/softmax"))
    check({entry[0] for entry in project.plan("window") if entry[1] == "softmax"} == {"calls that no row decides"}, "no table")


def test_going_on():
    # Stopped whenever it is, the same command goes on: no problem is measured twice, and all are in the end.
    project = made("going_on")
    window = project.path("window")
    lines, runs = [], 0
    while runs < 40:
        runs += 1
        done = project.run(window, "--budget", "1s")
        lines += re.findall(r"^\d+/\d+.*: (dtype=\w+ rows=\d+ columns=\d+: \w+) [\d.]+ us", done.stderr, re.MULTILINE)
        if "the same command resumes" not in done.stdout:
            break
    check(len(lines) == len(ORDER) and "resumes" not in done.stdout, f"after {runs} runs: {lines}")
    check(project.plan("window") == [], "what is left")
    # The old tables have the new rows, and no row of an old kernel. What was good is measured as well: nothing is left of it.
    for operator, rows in (("softmax", {4, 6, 8, 16}), ("softmax_backward", {4, 8})):
        table = read(project.path("tables", operator, "nvidia-h200.json"))
        found = {row["at"][0]: row["times_us"] for group in table["groups"] for row in group["rows"]}
        check(found == dict.fromkeys(rows, {"fast": 40, "slow": 50}), f"{operator}: {found}")
        check({group["blobs"]["slow"] for group in table["groups"]} == {project.blobs[operator, "slow"]}, table["groups"])
        check(table["match"]["rows"] == "log" and table["envelope"] == 2, "the rule of the old table")
    check(sorted(os.listdir(project.path("tables"))) == ["problems", "schema", "softmax", "softmax_backward"], "other files")
    check(
        {entry[0] for entry in project.plan("another_window")} == {"other rows"}, "a run of another program whose rows are gone"
    )

    # What no time is left for is named: with less than a tenth of a second left, only the first batch begins.
    done = made("no_time").run(os.path.join(FOLDER, "no_time", "window"), "--budget", "0.001s")
    begun = re.findall(r"^([a-z ]+): .*/(\w+)/nvidia-h200.json: \d+ of", done.stdout, re.MULTILINE)
    batches = list(dict.fromkeys(entry[:2] for entry in ORDER))
    check(begun == batches[:1], done.stdout)
    said = "not begun, since the budget is used up (the same command resumes): " + "; ".join(
        f"{worth}: {operator}" for worth, operator in batches[len(begun) :]
    )
    check(said in done.stdout, done.stdout)

    # An operator that needs more than its share goes on with what others left, before anything that is worth less begins.
    project = made("shares")
    project.table("softmax", {at: {"slow": 9.0} for at in range(1, 601)}, old=["slow"])
    project.table("softmax_backward", {8: {"slow": 9.0}}, old=["slow"])
    listed = "softmax dtype=f32 : rows columns\n  1..600+1 64\n  999 64\nsoftmax_backward dtype=f32 rows=8 columns=64 calls=1000000\n"
    write(project.path("tables/problems/some.txt"), listed)
    done = project.run(project.path("window"), "--devices", "0", "--budget", "4s")
    said = r"^kernels that changed: .*/(\w+)/nvidia-h200.json: (\d+) of (\d+) problems measured in ([\d.]+) s"
    runs = re.findall(said, done.stdout, re.MULTILINE)
    check([run[0] for run in runs] == ["softmax", "softmax_backward", "softmax"], done.stdout)
    check(runs[1][1:3] == ("1", "1") and 2 * float(runs[0][3]) < float(runs[-1][3]), f"the shares of {runs}")
    check("resumes): calls between rows: softmax\n" in done.stdout and "rows=999" not in done.stderr, done.stdout)
    check("differ" not in done.stdout, "a new table has another rule than the one that it replaces")

    # Both devices work, and each row is measured by one of them.
    project = made("devices")
    done = project.run(project.path("window"))
    check("softmax on NVIDIA H200 (2 of them): 1 problems (kernels that changed)" in done.stderr, done.stderr)
    check(project.plan("window") == [], "what is left")
    check("4 rows in 2 groups" in done.stdout, done.stdout)

    # Ended by a signal between two rows: what there is, is merged, and the row that is not remade stays stale.
    project = made("part")
    project.table("softmax", {4: {"slow": 9.0}, 8: {"fast": 41.0, "slow": 9.0}}, old=["slow"])
    write(project.path("tables/problems/some.txt"), "softmax dtype=f32 rows=8 columns=64\n")
    done = project.run(project.path("window"))
    check("1 times of kernels that were rebuilt since were kept, marked as stale" in done.stdout, done.stdout)
    group = read(project.path("tables/softmax/nvidia-h200.json"))["groups"][0]
    check(group["blobs"] == {"fast": project.blobs["softmax", "fast"], "slow": "0" * 16}, group["blobs"])
    check({row["at"][0]: row["times_us"]["slow"] for row in group["rows"]} == {4: 9, 8: 50}, group["rows"])


def test_messages():
    project = made("messages")
    done = project.run()
    check("Makes the shipped tables anew" in done.stdout and "--budget 9m" in done.stdout, done.stdout)
    shutil.rmtree(project.path("tables/softmax"))
    before = read(project.path("tables/softmax_backward/nvidia-h200.json"))
    done = project.run(project.path("window"), "--devices", "7", status=64)
    check("there is no device 7" in done.stderr, done.stderr)
    check(read(project.path("tables/softmax_backward/nvidia-h200.json")) == before, "a failed run changes tables")
    root, _ = merging.cuda_root("messages_root")
    for words, said in (
        (["softmax", "rows=4", "--replaces", root], "--replaces: name lists of the problems"),
        (
            ["--problems", project.path("tables/problems/some.txt"), "--replaces", "/nowhere"],
            "--replaces: Directory does not exist",
        ),
    ):
        done = merging.run("--root", root, "tune", *words, "-o", project.path("x/"), "--devices", "host", status=64)
        check(said in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(cases.run_all(globals(), FOLDER))
