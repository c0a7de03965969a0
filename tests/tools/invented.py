# SPDX-License-Identifier: MIT
"""An invented tree: rotary kernels for a CUDA device, whose blobs hold no code, and a table of that device.

Nothing here is ever loaded, so choices can be explained and files checked on any machine, always with the same
outcome.
"""

import hashlib
import json
import os
import shutil
import subprocess

from cubin import cubin

DEVICE = "Invented H200"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


KERNEL = {"parameters": [8, 8, 4], "max_threads": 256}
BLOBS = {
    "small.cubin": cubin({"rotary_bf16_4": KERNEL, "rotary_f16_4": KERNEL}),
    "large.cubin": cubin({"rotary_bf16_64": KERNEL}),
}


def variant(name, blob, tokens, dtype, requires=()):
    return {
        "id": name,
        "type": {"dtype": dtype},
        "config": {"tokens": tokens},
        "requires": list(requires),
        "launches": [
            {
                "blob": blob,
                "sha256": sha256(BLOBS[blob]),
                "kernel": f"rotary_{dtype}_{tokens}",
                "grid": ["ceil_div(seqlen, tokens)", "batch", 1],
                "block": [128, 1, 1],
                "shared_bytes": 0,
                "parameters": ["q", "k", {"i32": "seqlen"}],
            }
        ],
    }


def manifest():
    return {
        "schema": "switchyard.manifest/1",
        "operator": "rotary",
        "target": {"backend": "cuda", "arch": "sm_90a"},
        "built_by": "nothing",
        "variants": [
            variant("large", "large.cubin", 64, "bf16", ["seqlen >= 64", "alignment == 16"]),
            variant("small", "small.cubin", 4, "bf16", ["compute_capability >= 80"]),
            variant("small", "small.cubin", 4, "f16"),
        ],
    }


def table():
    fingerprints = {"large": sha256(BLOBS["large.cubin"])[:16], "small": sha256(BLOBS["small.cubin"])[:16]}
    return {
        "schema": "switchyard.table/1",
        "operator": "rotary",
        "device": {"backend": "cuda", "arch": "sm_90", "name": DEVICE, "multiprocessors": 132},
        "match": {"batch": "log", "seqlen": "log"},
        "neighbours": 4,
        "envelope": 1.5,
        "blobs": fingerprints,
        "groups": [
            {"type": {"dtype": dtype}, "axes": ["batch", "seqlen"], "rows": rows}
            for dtype, rows in (
                (
                    "bf16",
                    [
                        {"at": [1, 64], "times_us": {"small": 2.0, "large": 3.0}},
                        {"at": [1, 1024], "times_us": {"small": 8.0, "large": 5.0}},
                    ],
                ),
                ("f16", [{"at": [1, 64], "times_us": {"small": 2.0}}]),
            )
        ],
    }


class Tree:
    """A root on disk. `manifest` and `table` may be changed before write()."""

    def __init__(self, folder):
        self.folder = folder
        self.manifest_path = os.path.join(folder, "kernels/rotary/cuda-sm_90a/manifest.json")
        self.table_path = os.path.join(folder, "tables/rotary/invented-h200.json")
        self.manifest = manifest()
        self.table = table()
        self.blobs = dict(BLOBS)

    def write(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(os.path.dirname(self.manifest_path))
        os.makedirs(os.path.dirname(self.table_path))
        for name, data in self.blobs.items():
            with open(os.path.join(os.path.dirname(self.manifest_path), name), "wb") as file:
                file.write(data)
        for path, content in ((self.manifest_path, self.manifest), (self.table_path, self.table)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content, indent=1))
        return self


def run(program, *arguments, **variables):
    """The status, standard output and standard error of a program that sees no SWITCHYARD_ variable but these."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
    environment.update(variables)
    done = subprocess.run([program, *arguments], env=environment, text=True, capture_output=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


class Checks:
    """Collects what does not hold, so that one run shows all of it."""

    def __init__(self):
        self.failures = []
        self.count = 0

    def that(self, holds, description):
        self.count += 1
        if not holds:
            self.failures.append(description)

    def equal(self, found, wanted, description):
        self.that(found == wanted, f"{description}: expected {wanted!r}, got {found!r}")

    def contains(self, text, part, description):
        self.that(part in text, f"{description}: {part!r} is not in:\n{text}")

    def golden(self, found, folder, name):
        """Compares with tests/tools/expected/<name>; SWITCHYARD_UPDATE_EXPECTED=1 rewrites it."""
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected", name)
        found = found.replace(folder, "ROOT")
        if os.environ.get("SWITCHYARD_UPDATE_EXPECTED") == "1":
            with open(path, "w", encoding="utf-8") as file:
                file.write(found)
        with open(path, encoding="utf-8") as file:
            wanted = file.read()
        self.that(found == wanted, f"{name} differs.\n--- expected\n{wanted}\n--- found\n{found}")

    def finish(self):
        for failure in self.failures:
            print("FAILED", failure)
        print(f"{self.count} checks, {len(self.failures)} failed")
        return 1 if self.failures else 0
