# SPDX-License-Identifier: MIT
"""mutate.py on example.hpp: which mutants there are, and that each is one and compiles.   test_mutations.py COMPILER"""

import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import mutate
except ImportError:
    print("skipped: no clang.cindex (PyPI: libclang)")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = [
    "std::min(value, most) -> std::max(value, most)",
    "from + By -> from - By",
    "value >= first: dropped from &&",
    "value >= first -> value > first",
    "value <= last: dropped from &&",
    "value <= last -> value < last",
    "value >= first && value <= last: negated",
    "0 -> 0 + 1",
    "1 -> 1 + 1",
    "i < end -> i <= end",
    "i == 3 -> i != 3",
    "3 -> 3 + 1",
    "continue: left out",
    "sum += i: left out",
    "sum < 0: negated",
    "sum < 0 -> sum <= 0",
    "0 -> 0 + 1",
    'throw std::runtime_error{"negative"}: left out',
    "1 -> 1 + 1",
    "0 -> 0 + 1",
]
# What the example computes; a mutant changes at least one of them, or the example hangs.
PROGRAM = r"""
#include "example.hpp"
#include <cstdio>
int main() {
  using namespace example;
  int out[] = {clamp(2, 5), twice_more(3), is_between(1, 1, 3), is_between(3, 1, 3), is_between(0, 1, 3), is_between(4, 1, 3), sum_below(0),
               sum_below(1), sum_below(4), sum_below(6), sum_below(-1), letter('a'),
               letter('b'), 0};
  for (int value : out) std::printf("%d ", value);
}
"""


def main():
    compiler = sys.argv[1]
    path, source = str(HERE / "example.hpp"), (HERE / "example.hpp").read_bytes()
    edits = mutate.find(mutate.parse(path, ["-x", "c++", "-std=c++20", *mutate.resources()]), {path: "example.hpp"})[
        "example.hpp"
    ]
    failed = []
    found = sorted(edit.change for edit in edits)
    if found != sorted(EXPECTED):
        failed.append(
            f"found {sorted(set(found) - set(EXPECTED))}, missed {sorted(set(EXPECTED) - set(found))}, "
            f"{len(found)} for {len(EXPECTED)}"
        )
    with tempfile.TemporaryDirectory() as folder:
        rewritten = mutate.rewrite(source, list(enumerate(edits)))
        if rewritten.count("\n") != source.count(b"\n"):
            failed.append("lines have other numbers")
        pathlib.Path(folder, "example.hpp").write_text(rewritten)
        pathlib.Path(folder, "main.cpp").write_text(PROGRAM)
        program = os.path.join(folder, "program")
        subprocess.run(
            [compiler, "-std=c++20", "-w", "-include", str(HERE / "mutants.hpp"), "-o", program, "main.cpp"],
            cwd=folder,
            check=True,
        )
        reached = pathlib.Path(folder, "reached")
        reached.write_bytes(bytes(len(edits)))

        def outcome(**variables):
            try:
                done = subprocess.run(
                    [program],
                    env={**os.environ, **variables},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    timeout=20,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return "hangs"
            return done.returncode, done.stdout

        original = outcome(MUTANTS_REACHED=str(reached))
        seen = reached.read_bytes()
        for number, edit in enumerate(edits):
            # 'sum < 0' holds for no call, so what it guards is not reached, and its own mutants only throw.
            throws = edit.change.startswith("throw")
            if bool(seen[number]) == throws:
                failed.append(f"{edit.change}: reached {seen[number]}")
            if (outcome(MUTANT=str(number)) == original) != throws:
                failed.append(f"{edit.change}: {'differs' if throws else 'makes no difference'}")
    for failure in failed:
        print("FAILED", failure)
    print(f"{len(edits)} cases, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
