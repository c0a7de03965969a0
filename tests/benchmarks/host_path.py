# SPDX-License-Identifier: MIT
"""Measures the host path and prints each figure beside its budget; exit status 1 when a budget is missed.

  host_path.py PROGRAM LAUNCHES COMPILER INCLUDE_FOLDER

Times come from the program's own clock; instructions from callgrind, as the difference between 11,000 and 1,000
calls, less the bare launch; the cost of the headers from the compiler. On a busy machine only instructions and lines
mean much. LAUNCHES is launch_instructions: the same through the cuda backend, for which FAKE_CUDA_LIBRARY names a driver.
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
    (r"first launch of a new problem, few rows, median", 1.0),
    (r"first launch of a new problem, .* median", 1.5),
    (r"allocations for a new problem", 2),
    (r"selection growth", 3),
    (r"opening a catalog", 10),
    (r"first use, .* median", 50),
    (r"decode loop, .* longest", 2),
    (r"decode loop, memory", 400_000),
    (r"dispatcher.hpp, preprocessed", 51_000),
    (r"dispatcher.hpp, headers of others", 245),
    (r"dispatcher.hpp, nlohmann_json", 0),
]

missed = []


def show(name, value, unit):
    budget = next((most for pattern, most in BUDGETS if re.match(pattern, name)), None)
    verdict = "" if budget is None else f"<= {budget:,}" + ("" if value <= budget else "  MISSED")
    if budget is not None and value > budget:
        missed.append(name)
    print(f"{name:<74} {value:>12,.4g} {unit:<8} {verdict}", flush=True)


def instructions(program, case, calls):
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, "count", case, str(calls)],
        check=True,
        text=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    return int(re.search(r"Collected : (\d+)", run.stderr).group(1))


def instructions_of(program, whats):
    """Instructions of one call of each."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        few = pool.map(lambda case: instructions(program, case, 1000), whats)
        many = pool.map(lambda case: instructions(program, case, 11000), whats)
        return {case: (last - first) / 10000 for case, first, last in zip(whats, few, many)}


def count_instructions(program, launches):
    if shutil.which("valgrind") is None:
        print("instructions: skipped, valgrind is not installed")
        return
    for which, name in {"sixteen": "16 parameters", "rotary": "all of rotary", "attention": "all of attention_forward"}.items():
        counts = instructions_of(program, [f"{which}-{how}" for how in ("dispatched", "bare", "empty")])
        bare = counts[f"{which}-bare"]
        show(f"warm launch, {name}, instructions over bare", counts[f"{which}-dispatched"] - bare, "")
        show(f"warm launch, {name}, instructions of the bare launch", bare - counts[f"{which}-empty"], "")
    for which, name in {
        "few": "few rows",
        "sizes": "10,000 rows",
        "attention": "10,000 rows, attention",
        "costs": "10,000 rows, costs",
    }.items():
        counts = instructions_of(program, [f"{which}-chosen", f"{which}-drawn"])
        show(f"selection, {name}, instructions", counts[f"{which}-chosen"] - counts[f"{which}-drawn"], "")
    counts = instructions_of(
        launches,
        [
            "sixteen-bare",
            "sixteen-bound",
            "sixteen-routed",
            "sixteen-bare_null",
            "sixteen-routed_null",
            "maps-bare",
            "maps-bound",
        ],
    )
    for case, name in {
        "sixteen-bound": "16 parameters, a CUDA stream",
        "sixteen-routed": "the same, routed by the stream",
        "maps-bound": "4 tensor maps of 16 arguments",
    }.items():
        show(f"warm launch, {name}, instructions over the backend", counts[case] - counts[case.split("-")[0] + "-bare"], "")
    show(
        "warm launch, routed on the null stream, instructions over the backend",
        counts["sixteen-routed_null"] - counts["sixteen-bare_null"],
        "",
    )


def compile_cost(compiler, include):
    for header in ("dispatcher.hpp", "catalog.hpp", "switchyard.hpp"):

        def preprocess(*options):
            return subprocess.run(
                [compiler, "-std=c++20", "-x", "c++", f"-I{include}", *options, "-"],
                check=True,
                text=True,
                input=f"#include <switchyard/{header}>\n",
                stdout=subprocess.PIPE,
            ).stdout

        lines = preprocess("-E", "-P").count("\n")
        read = [word for word in preprocess("-M").replace("\\\n", " ").split()[1:] if word != "-"]
        seconds = []
        for _ in range(3):
            begin = time.monotonic()
            preprocess("-fsyntax-only")
            seconds.append(time.monotonic() - begin)
        show(f"{header}, preprocessed", lines, "lines")
        show(f"{header}, headers of others", sum(not name.startswith(include) for name in read), "")
        show(f"{header}, nlohmann_json headers", sum("nlohmann" in name for name in read), "")
        show(f"{header}, compiling an empty unit, fastest of 3", min(seconds), "s")


def main():
    program, launches, compiler, include = sys.argv[1:]
    count_instructions(program, launches)
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
