#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which mutations of the core do the tests notice?   run.py [GROUP...]

A copy of the sources under .cache/mutations holds every mutant (mutate.py). The tests that groups.json names are built
from it once. Each of their cases then runs once, to learn which mutants it reaches, and each mutant runs against the
cases that reach it until one fails, crashes or hangs. equivalent.json lists mutants that no test can notice, with
the reason. The exit status is 1 where a group's share of killed mutants is below the least one.

Options: --share N takes N of a hundred mutants, the same ones each time; --list FILE writes all mutants and their outcome; --again FILE takes those for killed that such a list has as
killed, while tests are being written; --only TEXT runs those of files whose path has it; --work FOLDER replaces
.cache/mutations.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import glob
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mutate

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/mutations"
LEAST = 85
MEMORY = 16 << 30
OUTCOMES = ("killed", "living", "not reached", "equivalent")
FILE = 8 << 30  # a test makes a sparse file of 4 GB


def run(command, seconds, **options):
    """Its exit status, a negative signal, or None where it waits for ever; and the processor time it took. It is ended
    after `seconds` of processor time: the clock would tell how busy the machine is. What it started ends with it."""
    process = subprocess.Popen(
        command,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: limit(seconds),
        **options,
    )
    pause, look, idle = 0.001, time.monotonic() + 4 * seconds, 0
    try:
        while True:
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                process.returncode = os.waitstatus_to_exitcode(status)
                return process.returncode, used.ru_utime + used.ru_stime
            if time.monotonic() > look:
                idle = 0 if is_at_work(process.pid) else idle + 1
                if idle == 100:
                    return None, seconds
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if process.returncode is None:
            process.wait()


def is_at_work(session):
    """Whether any thread of a session's processes runs, or would if there were a processor for it."""
    for place in glob.glob("/proc/[0-9]*/task/*/stat"):  # pathlib's fails where a process ends meanwhile
        try:
            state, _, _, of, *_ = pathlib.Path(place).read_text(encoding="utf-8").rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if int(of) == session and state in "RD":
            return True
    return False


def limit(seconds):
    whole = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(5)


def write_if_changed(path, data):
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class Sources:
    """The copy, and its mutants by number."""

    def __init__(self, work, groups):
        self.folder = work / "source"
        listed = subprocess.check_output(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True)
        self.files = [name for name in listed.splitlines() if (ROOT / name).is_file()]
        for old in set(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file()) - set(self.files):
            (self.folder / old).unlink()
        self.groups = {
            name: [f for f in self.files if any(same(f, p) for p in group["files"])] for name, group in groups.items()
        }
        mutated = [f for files in self.groups.values() for f in files]
        for name in set(self.files) - set(mutated):
            write_if_changed(self.folder / name, (ROOT / name).read_bytes())
            shutil.copymode(ROOT / name, self.folder / name)
        self.edits = self.find(mutated)
        self.mutants = [(name, edit) for name in mutated for edit in self.edits[name]]
        self.dropped = set()

    def find(self, names):
        arguments = ["-x", "c++", "-std=c++20", f"-I{ROOT}/include", *mutate.resources()]
        headers = [n for n in names if n.endswith(".hpp")]
        out = {}
        with tempfile.TemporaryDirectory() as folder:
            every = pathlib.Path(folder) / "every.cpp"
            every.write_text("".join(f'#include "{ROOT / n}"\n' for n in headers))
            unit = mutate.parse(str(every), arguments)
            out |= mutate.find(unit, {str(ROOT / n): n for n in headers})
        for name in set(names) - set(headers):
            unit = mutate.parse(str(ROOT / name), arguments)
            out |= mutate.find(unit, {str(ROOT / name): name})
        return {n: out.get(n, []) for n in names}

    def key(self, number):
        """File and change, and which of those that are alike it is."""
        name, edit = self.mutants[number]
        first = number
        while first > 0 and self.mutants[first - 1][0] == name:
            first -= 1
        return name, edit.change, sum(1 for n in range(first, number) if self.mutants[n][1].change == edit.change)

    def line(self, number):
        """The line that a mutant is in, without its indentation."""
        name, edit = self.mutants[number]
        return (ROOT / name).read_text().splitlines()[edit.line - 1].strip()

    def write(self):
        number = 0
        for name, edits in self.edits.items():
            numbered = []
            for edit in edits:
                if number not in self.dropped:
                    numbered.append((number, edit))
                number += 1
            write_if_changed(self.folder / name, mutate.rewrite((ROOT / name).read_bytes(), numbered).encode())

    def drop(self, errors):
        """Leaves out the mutants of lines that do not compile; returns whether there were any."""
        before = len(self.dropped)
        for line_is in (lambda edit, line: edit.line == line, lambda edit, line: edit.line <= line <= edit.last_line):
            for number, (name, edit) in enumerate(self.mutants):
                if any(name == wrong and line_is(edit, line) for wrong, line in errors):
                    self.dropped.add(number)
            if len(self.dropped) > before:
                return True
        return False


def same(name, pattern):
    return fnmatch.fnmatch(name, pattern) and name.count("/") == pattern.count("/")


def build(work, sources, programs, jobs):
    folder = work / "build"
    flags = f"-include {HERE / 'mutants.hpp'} -w -Wno-narrowing -fpermissive -D_GLIBCXX_ASSERTIONS -U_FORTIFY_SOURCE"
    targets = ["fake_cuda", "hip_over_cuda"] + [
        ("switchyard_tool" if p.startswith("tools.") else f"{p}_test") for p in programs
    ]
    while True:
        sources.write()
        subprocess.run(
            [
                *"cmake -C cmake/ci.cmake -S . -B".split(),
                str(folder),
                *"-G Ninja -DCMAKE_BUILD_TYPE=Release -DSWITCHYARD_WERROR=OFF".split(),
                f"-DCMAKE_CXX_FLAGS={flags}",
                "-DCMAKE_CXX_FLAGS_RELEASE=-O1",
            ],
            cwd=sources.folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        done = subprocess.run(
            ["nice", "-n", "5", "ninja", "-C", str(folder), "-j", str(jobs), "-k", "0", *targets],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return folder
        pattern = re.compile(r"(?:\.\./source|" + re.escape(str(sources.folder)) + r")/(\S+?):(\d+):\d+:")
        failed = {(m[1], int(m[2])) for line in done.stdout.splitlines() if ": error:" in line for m in pattern.finditer(line)}
        required = {(m[1], int(m[2])) for m in pattern.finditer(done.stdout)}
        if not sources.drop(failed) and not sources.drop(required):
            sys.exit("mutations: the mutated sources do not build:\n" + done.stdout[-4000:])
        print(f"  {len(sources.dropped)} mutants left out that do not compile", flush=True)


def environments(folder):
    """command and variables of each test, as ctest has them."""
    listed = subprocess.check_output(["ctest", "--test-dir", str(folder), "--show-only=json-v1"], text=True)
    out = {}
    for test in json.loads(listed)["tests"]:
        variables = {}
        for entry in test.get("properties", []):
            if entry["name"] == "ENVIRONMENT":
                variables = dict(v.split("=", 1) for v in entry["value"])
        out[test["name"]] = (test.get("command", []), variables)
    return out


class Case:
    """One case of a test program, or a whole script."""

    def __init__(self, program, name, command, variables):
        self.program, self.name, self.command, self.variables = program, name, command, variables
        self.seconds, self.wall, self.reached = 0.0, 0.0, frozenset()  # processor time, time by the clock

    @staticmethod
    def together(cases):
        """Cases of one program as one."""
        first = cases[0]
        if len(cases) == 1:
            return first
        names = ",".join(case.command[1] for case in cases)
        out = Case(first.program, f"one of {len(cases)}", [first.command[0], names, *first.command[2:]], first.variables)
        out.seconds = sum(case.seconds for case in cases)
        out.wall = sum(case.wall for case in cases)
        return out

    def run(self, work, seconds, **variables):
        """Its exit status, the processor time, and the time by the clock."""
        with tempfile.TemporaryDirectory(dir=work / "tmp") as folder:
            command = [
                a.replace(str(work / "build/tests/tools"), folder) if a.startswith(str(work / "build/tests/tools")) else a
                for a in self.command
            ]
            surroundings = {**os.environ, **self.variables, "TMPDIR": folder, "SWITCHYARD_TEST_SEED": "1", **variables}
            begin = time.monotonic()
            status, used = run(command, seconds, env=surroundings, cwd=folder)
            return status, used, time.monotonic() - begin

    def fails(self, work, mutant):
        # A mutant that hangs is killed; one that is only slow is not.
        seconds = 10 + 8 * self.seconds
        status, _, wall = self.run(work, seconds, MUTANT=str(mutant))
        if status in (0, 77):
            return False
        # A case that looks at the clock fails on a busy machine without any mutant.
        return wall < 1 + 4 * self.wall or self.run(work, seconds)[0] in (0, 77)


def cases_of(folder, programs):
    known = environments(folder)
    out = []
    for program in programs:
        command, variables = known[program]
        if "python" in pathlib.Path(command[0]).name:
            out.append(Case(program, program, command, variables))
            continue
        names = subprocess.run([command[0], "--list-test-names-only"], capture_output=True, text=True, check=False).stdout
        if not names:  # Catch2 3
            names = subprocess.run(
                [command[0], "--list-tests", "--verbosity", "quiet"], capture_output=True, text=True, check=False
            ).stdout
        for name in names.splitlines():
            escaped = re.sub(r"([,\[\]\\*])", r"\\\1", name.strip())
            out.append(Case(program, name.strip(), [command[0], escaped, "-a"], variables))
    return out


def learn(work, cases, count, jobs):
    def one(case):
        handle, path = tempfile.mkstemp(dir=work / "tmp")
        os.ftruncate(handle, count)
        status, case.seconds, case.wall = case.run(work, 120, MUTANTS_REACHED=path)
        reached = os.pread(handle, count, 0)
        os.close(handle)
        os.unlink(path)
        if status == 0:
            case.reached = frozenset(i for i, byte in enumerate(reached) if byte)
        return case, status

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for case, status in pool.map(one, cases):
            if status not in (0, 77):
                print(f"  fails without a mutant ({status}), and is left out: {case.program}: {case.name}")


def judge(work, number, cases):
    """The case that kills a mutant, or None: the quickest ones by themselves, the others of a program in one run."""
    runs = [[case] for case in cases[:4]]
    by_program = collections.defaultdict(list)
    for case in cases[4:]:
        by_program[case.program].append(case)
    runs += sorted(by_program.values(), key=lambda run: sum(c.seconds for c in run))
    for run in runs:
        together = Case.together(run)
        if together.fails(work, number):
            return together
    return None


def is_taken(number, percent):
    return number * 61 % 100 < percent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--list", type=pathlib.Path)
    parser.add_argument("--share", type=int, default=100)
    parser.add_argument("--again", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / ".cache/mutations")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("SWITCHYARD_CI_JOBS", os.cpu_count() or 1)))
    options = parser.parse_args()
    groups = json.loads((HERE / "groups.json").read_text())
    if wrong := set(options.groups) - set(groups):
        sys.exit(f"mutations: no group {', '.join(wrong)}; there are {', '.join(groups)}")
    groups_run = [name for name in groups if not options.groups or name in options.groups]
    programs = list(dict.fromkeys(test for name in groups_run for test in groups[name]["tests"]))
    work = options.work.resolve()
    shutil.rmtree(work / "tmp", ignore_errors=True)
    (work / "tmp").mkdir(parents=True)
    (work / "source").mkdir(exist_ok=True)

    begin = time.monotonic()
    sources = Sources(work, groups)
    print(f"{len(sources.mutants)} mutants in {len(sources.edits)} files", flush=True)
    folder = build(work, sources, programs, options.jobs)
    print(f"built after {time.monotonic() - begin:.0f} s", flush=True)
    cases = cases_of(folder, programs)
    learn(work, cases, len(sources.mutants), options.jobs)
    print(f"{len(cases)} cases run after {time.monotonic() - begin:.0f} s", flush=True)

    known = read_list(options.again) if options.again else {}
    outcomes, reaching = {}, {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for group in groups_run:
            files = set(sources.groups[group])
            killing = [c for c in cases if c.program in groups[group]["tests"]]
            numbers = [
                n
                for n, (name, _) in enumerate(sources.mutants)
                if name in files and options.only in name and n not in sources.dropped and is_taken(n, options.share)
            ]
            reaching |= {n: sorted((c for c in killing if n in c.reached), key=lambda c: c.seconds) for n in numbers}
            todo = []
            for n in numbers:
                by = known.get(sources.key(n))
                if by:
                    outcomes[n] = by
                else:
                    todo.append(n)
            for done, (n, killer) in enumerate(zip(todo, pool.map(lambda n: judge(work, n, reaching[n]), todo)), 1):
                outcomes[n] = f"{killer.program}: {killer.name}" if killer else ""
                if done % 100 == 0:
                    print(
                        f"  {done} of {len(todo)}, {sum(1 for m in todo[:done] if outcomes[m])} killed, after "
                        f"{time.monotonic() - begin:.0f} s",
                        flush=True,
                    )
                    write_list(sources, outcomes, reaching, options)
            print(
                f"{group}: {sum(1 for n in numbers if outcomes[n])} of {len(numbers)} killed after "
                f"{time.monotonic() - begin:.0f} s",
                flush=True,
            )
    shutil.rmtree(work / "tmp", ignore_errors=True)
    ok = report(sources, outcomes, reaching, options)
    print(f"{time.monotonic() - begin:.0f} s")
    return 0 if ok else 1


def read_list(path):
    """What killed the mutants that a list has as killed, by Sources.key."""
    out = {}
    for line in path.read_text().splitlines():
        place, which, outcome, change, by = line.split("\t")
        if outcome == "killed":
            out[(place.rpartition(":")[0], change, int(which))] = by
    return out


def outcome_of(number, outcomes, reaching):
    return OUTCOMES[0 if outcomes[number] else 1 if reaching[number] else 2]


def write_list(sources, outcomes, reaching, options):
    """File and line, which of those that are alike in the file, outcome, change, and what killed it; of each mutant."""
    if options.list:
        lines = []
        for n in sorted(outcomes):
            file, change, which = sources.key(n)
            line = sources.mutants[n][1].line
            lines.append(f"{file}:{line}\t{which}\t{outcome_of(n, outcomes, reaching)}\t{change}\t{outcomes[n]}\n")
        options.list.write_text("".join(lines))


def report(sources, outcomes, reaching, options):
    judged = {(e["file"], e["in"], e["mutant"]) for e in json.loads((HERE / "equivalent.json").read_text())}
    table, ok, stale = [], True, set(judged)
    for group, files in sources.groups.items():
        sums = [0, 0, 0, 0]
        for file in files:
            counts = [0, 0, 0, 0]
            for n in (n for n in outcomes if sources.mutants[n][0] == file):
                edit = sources.mutants[n][1]
                key = (file, sources.line(n), edit.change)
                outcome = OUTCOMES.index(outcome_of(n, outcomes, reaching))
                if outcome > 0 and key in judged:
                    outcome = 3
                    stale.discard(key)
                elif outcome > 0:
                    print(f"{file}:{edit.line}: {OUTCOMES[outcome]}: {edit.change}")
                counts[outcome] += 1
            if sum(counts):
                table.append((file, counts))
                sums = [a + b for a, b in zip(sums, counts)]
        if sum(sums):
            table.append((f"= {group}", sums))
            ok = ok and share(sums) >= LEAST
    for file, line, change in sorted(stale):
        if any(sources.mutants[n][0] == file for n in outcomes):
            print(f"equivalent.json: is killed, or is not there: {file}: {line}: {change}")
    print(f"{'':56} {'  '.join(OUTCOMES)}  share of killed")
    for name, counts in table:
        print(
            f"{name.removeprefix('include/switchyard/'):56} {counts[0]:6} {counts[1]:7} {counts[2]:12} {counts[3]:11} "
            f"{share(counts):6.1f} %"
        )
    write_list(sources, outcomes, reaching, options)
    return ok


def share(counts):
    return 100 * counts[0] / max(1, sum(counts[:3]))


if __name__ == "__main__":
    sys.exit(main())
