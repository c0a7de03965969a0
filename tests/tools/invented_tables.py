# SPDX-License-Identifier: MIT
"""Tables of an invented device, made for a test, and the folder that they are in."""

import json
import os
import shutil
import sys

from invented import BLOBS, DEVICE, Checks, run, sha256


def table(rows, **more):
    """A table of rotary in bf16. `rows`: {(batch, seqlen): {variant: us}}."""
    return {
        "schema": "switchyard.table/1",
        "operator": "rotary",
        "device": {"backend": "cuda", "arch": "sm_90", "name": DEVICE, "multiprocessors": 132},
        "measured": {"date": "2026-11-21", "repeat": "7"},
        "match": {"batch": "log", "seqlen": "log"},
        "neighbours": 4,
        "envelope": 1.5,
        "groups": [
            {
                "type": {"dtype": "bf16"},
                "axes": ["batch", "seqlen"],
                "rows": [{"at": list(at), "times_us": times} for at, times in rows.items()],
            }
        ],
        **more,
    }


class Folder:
    def __init__(self, path):
        self.path = path
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)

    def name(self, name):
        return os.path.join(self.path, name)

    def write(self, name, content):
        with open(self.name(name), "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return self.name(name)

    def read(self, name):
        with open(self.name(name), encoding="utf-8") as file:
            return file.read()

    def table(self, name, rows, **more):
        return self.write(name, table(rows, **more))

    def read_json(self, name):
        return json.loads(self.read(name))


def install(folder, operator, costs, requires=None):
    """A root with a manifest whose variants state these costs and conditions; nothing is ever loaded."""
    root = folder.name(operator + ("_root" if requires is None else "_root_with_conditions"))
    kernels = os.path.join(root, "kernels", operator, "cuda-sm_90a")
    os.makedirs(kernels)
    with open(os.path.join(kernels, "small.cubin"), "wb") as file:
        file.write(BLOBS["small.cubin"])
    launch = {
        "blob": "small.cubin",
        "sha256": sha256(BLOBS["small.cubin"]),
        "kernel": "k",
        "grid": [1, 1, 1],
        "block": [1, 1, 1],
        "parameters": [],
    }
    with open(os.path.join(kernels, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(
            {
                "schema": "switchyard.manifest/1",
                "operator": operator,
                "target": {"backend": "cuda", "arch": "sm_90a"},
                "variants": [
                    {
                        "id": name,
                        "type": {"dtype": "bf16"},
                        "cost": cost,
                        "requires": (requires or {}).get(name, []),
                        "launches": [launch],
                    }
                    for name, cost in costs.items()
                ],
            },
            file,
        )
    return root


def merge(program, folder, checks, *words, into="merged.json"):
    """What the command prints, and the table that it writes."""
    status, out, problem = run(program, "merge", *words, "-o", folder.name(into))
    checks.equal((status, problem), (0, ""), f"merge {words}")
    return out, folder.read_json(into)


def main(script):
    """Runs the functions test_* of a script, given its globals().   SCRIPT PROGRAM FOLDER"""
    program, path = sys.argv[1:]
    folder, checks = Folder(path), Checks()
    for name in [name for name in script if name.startswith("test_")]:
        script[name](program, folder, checks)
    return checks.finish()
