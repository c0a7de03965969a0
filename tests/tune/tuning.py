# SPDX-License-Identifier: MIT
"""switchyard tune over CPU kernels, and what its tests ask of the table.

A script that uses this takes TOOL KERNELS FAULTY_KERNELS SCHEMA FOLDER.
"""

import json
import os
import re
import subprocess
import sys

import cases
from cases import check

TOOL, KERNELS, FAULTY_KERNELS, SCHEMA, FOLDER = sys.argv[1:]
# The machine that runs this test measures other things at the same time: nothing here may depend on times.
LOOSE = ["--confidence", "50%", "--samples", "6", "--drift", "90%"]


def command_line(process):
    try:
        with open(f"/proc/{process}/cmdline", encoding="utf-8") as file:
            return file.read().split("\0")
    except OSError:
        return []


def make_root(name, kernels):
    """A tree whose variants are the kernels named."""
    return cases.make_root(os.path.join(FOLDER, name), KERNELS, {kernel: kernel for kernel in kernels})


def make_root_and_table(name, kernels):
    root = make_root(name, kernels)
    return root, os.path.join(root, "t.json")


def command(root, *words):
    return [TOOL, "--root", root, "tune", *words, *([] if "--devices" in words else ["--devices", "host"])]


def run(root, *words, env=None, status=0):
    clean = {k: v for k, v in os.environ.items() if not re.match(r"SLURM|OMPI|PMI|RANK|WORLD_SIZE|LOCAL_RANK|MPI_", k)}
    done = subprocess.run(
        command(root, *words), capture_output=True, text=True, timeout=120, env={**clean, **(env or {})}, check=False
    )
    check(done.returncode == status, f"{words}: exit status {done.returncode}, expected {status}\n{done.stdout}{done.stderr}")
    return done


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_json(path, document):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)


def read_table(path):
    table = read_json(path)
    try:
        import jsonschema

        with open(SCHEMA, encoding="utf-8") as file:
            jsonschema.Draft202012Validator(json.load(file)).validate(table)
    except ImportError:
        pass
    return table


def rows(table):
    return {tuple(row["at"]): row for group in table["groups"] for row in group["rows"]}


def check_times(table, variants):
    for at, row in rows(table).items():
        check(set(row["times_us"]) == variants, f"{at} has times of {list(row['times_us'])}")


def check_reasons(done, reasons):
    """Whether standard error says why each of the variants failed; `reasons` are regular expressions."""
    for name, reason in reasons.items():
        check(
            re.search(rf"^{name} at .*{reason}", done.stderr, re.MULTILINE), f"no line says why '{name}' failed:\n{done.stderr}"
        )
