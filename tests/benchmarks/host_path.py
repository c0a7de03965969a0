"""Measures the host path and prints each figure beside its budget; exit status 1 when a budget is missed.

  host_path.py PROGRAM COMPILER INCLUDE_FOLDER

Times come from the program's own clock; instructions from callgrind, as the difference between 11,000 and 1,000
calls, less the bare launch; the cost of the headers from the compiler. On a busy machine only instructions and lines
mean much.
"""

import concurrent.futures
import re
import shutil
import subprocess
import sys
import time

BUDGETS = [  # pattern of a figure's name, most that it may be
    (r"warm launch, 16 parameters over bare, median", 25),
    (r"warm launch, 16 parameters, instructions over bare", 150),
    (r"warm launch, 16 parameters allocations", 0),
    (r"first launch of a new problem, 10,000 rows, median", 2),
    (r"selection growth", 3),
    (r"opening a catalog", 10),
    (r"first use, .* median", 50),
    (r"decode loop, .* longest", 2),
    (r"decode loop, memory", 400_000),
    (r"dispatcher.hpp, preprocessed", 51_000),
    (r"dispatcher.hpp, headers", 270),
    (r"dispatcher.hpp, nlohmann_json", 0),
]

missed = []


def show(name, value, unit):
    budget = next((most for pattern, most in BUDGETS if re.match(pattern, name)), None)
    verdict = "" if budget is None else f"<= {budget:,}" + ("" if value <= budget else "  MISSED")
    if budget is not None and value > budget:
        missed.append(name)
    print(f"{name:<74} {value:>12,.4g} {unit:<8} {verdict}", flush=True)


def instructions(program, what, calls):
    run = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, "count", what,
                          str(calls)], check=True, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    return int(re.search(r"Collected : (\d+)", run.stderr).group(1))


def count_instructions(program):
    if shutil.which("valgrind") is None:
        print("instructions: skipped, valgrind is not installed")
        return
    names = {"sixteen": "16 parameters", "rotary": "all of rotary", "attention": "all of attention_forward"}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for which, name in names.items():
            each = {}
            for how in ("dispatched", "bare", "empty"):
                few, many = pool.map(lambda calls, how=how: instructions(program, f"{which}-{how}", calls),
                                     (1000, 11000))
                each[how] = (many - few) / 10000
            show(f"warm launch, {name}, instructions over bare", each["dispatched"] - each["bare"], "")
            show(f"warm launch, {name}, instructions of the bare launch", each["bare"] - each["empty"], "")


def compile_cost(compiler, include):
    for header in ("dispatcher.hpp", "catalog.hpp", "switchyard.hpp"):
        def preprocess(*options):
            return subprocess.run([compiler, "-std=c++20", "-x", "c++", f"-I{include}", *options, "-"], check=True,
                                  text=True, input=f"#include <switchyard/{header}>\n", stdout=subprocess.PIPE).stdout
        lines = preprocess("-E", "-P").count("\n")
        read = [word for word in preprocess("-M").replace("\\\n", " ").split()[1:] if word != "-"]
        seconds = []
        for _ in range(3):
            begin = time.monotonic()
            preprocess("-fsyntax-only")
            seconds.append(time.monotonic() - begin)
        show(f"{header}, preprocessed", lines, "lines")
        show(f"{header}, headers", len(read), "")
        show(f"{header}, nlohmann_json headers", sum("nlohmann" in name for name in read), "")
        show(f"{header}, compiling an empty unit, fastest of 3", min(seconds), "s")


def main():
    program, compiler, include = sys.argv[1:]
    count_instructions(program)
    with subprocess.Popen([program], text=True, stdout=subprocess.PIPE) as run:
        for line in run.stdout:
            name, value, unit = line.rstrip("\n").split("\t")
            show(name, float(value), unit)
    if run.returncode:
        sys.exit(f"{program} failed with status {run.returncode}")
    compile_cost(compiler, include)
    print(f"{len(missed)} of the budgets missed" + "".join(f"\n  {name}" for name in missed))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
