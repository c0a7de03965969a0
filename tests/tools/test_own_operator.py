# SPDX-License-Identifier: MIT
"""The tool with an operator of a program's own, and without it.   test_own_operator.py OWN_TOOL SWITCHYARD KERNELS FOLDER"""

import json
import os
import shutil
import sys

from invented import Checks, run


def main():
    own, tool, kernels, folder = sys.argv[1:]
    checks = Checks()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kernels, folder)
    root = ("--root", folder)
    tables = os.path.join(folder, "tables", "axpy")
    os.makedirs(tables)
    table = os.path.join(tables, "cpu.json")

    def succeed(program, *words, status=0):
        found, out, problem = run(program, *words)
        checks.equal(found, status, f"{os.path.basename(program)} {words}: {out}{problem}")
        return out

    # The program that has the operator: measures it on the CPU, and has every other command.
    quick = ("--samples", "6", "--confidence", "20%", "--drift", "90%")
    succeed(own, *root, "tune", "axpy", "n=1000,200000", "dtype=f32,f64", "-o", table, "--devices", "host", *quick)
    with open(table, encoding="utf-8") as file:
        groups = json.load(file)["groups"]
    rows = [row for group in groups for row in group["rows"]]
    checks.equal([row["at"] for row in rows], [[1000], [200000]] * 2, "rows")
    checks.that(all(0 < row["uncertainty"] <= 1 for row in rows), f"each row says how far it may be off: {rows}")
    checks.contains(
        succeed(own, *root, "explain", "axpy", "n=1000", "dtype=f32", "--device", "host:" + os.uname().machine),
        "row 0 of group 0 of " + table,
        "explain",
    )
    checks.contains(succeed(own, "check", "--strict", folder), "0 errors, 0 warnings", "check")
    succeed(own, *root, "bench", table, "--threshold", "1000%", "--devices", "host", *quick)
    checks.contains(
        succeed(own, *root, "explain", "softmax", "dtype=f32", "rows=1", "columns=8", status=1),
        "softmax {",
        "a built-in operator",
    )

    # A program without it knows what the files say.
    out = succeed(tool, *root, "list", "axpy")
    checks.contains(out, "size axes: n", "list")
    checks.contains(succeed(tool, *root, "list"), "not described to this program, so known from files alone: axpy", "list")
    out = succeed(tool, "check", "--strict", folder)
    checks.contains(out, "operator 'axpy' is not known to this program: its axes and arguments", "check")
    checks.contains(out, "0 errors, 0 warnings", "check")
    merged = os.path.join(folder, "merged.json")
    succeed(tool, "merge", table, table, "-o", merged)
    checks.contains(succeed(tool, *root, "diff", table, merged), "axpy on ", "diff")
    succeed(tool, "report", table, "-o", os.path.join(folder, "report.html"))
    status, _, problem = run(tool, *root, "tune", "axpy", "n=1000", "-o", merged)
    checks.equal(status, 64, "tune of an operator without its type")
    checks.contains(problem, "'axpy' is not known to this program", "tune of an operator without its type")

    # With the description, the arguments' types are checked too.
    description = os.path.join(folder, "axpy.operator.json")
    succeed(own, "describe", "axpy", "-o", description)
    checks.equal(
        "not known" in succeed(tool, "--operators", description, "check", "--strict", folder), False, "check, described"
    )
    manifest = next(os.path.join(at, "manifest.json") for at, _, names in os.walk(folder) if "manifest.json" in names)
    with open(manifest, encoding="utf-8") as file:
        text = file.read()
    checks.contains(text, '"x", "y", {"i64": "n"}, "a"', "the manifest")
    with open(manifest, "w", encoding="utf-8") as file:
        file.write(text.replace('"x", "y", {"i64": "n"}, "a"', '"a", "y", {"i64": "n"}, "x"'))
    checks.contains(
        succeed(tool, "--operators", description, "check", folder, status=2),
        "parameter 0, a, has 4 bytes in the manifest and 8 in the kernel",
        "arguments in the wrong order",
    )
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
