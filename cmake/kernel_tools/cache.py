# SPDX-License-Identifier: MIT
"""Keeps blobs that were compiled, for other build folders and later builds. SWITCHYARD_KERNEL_CACHE names its folder; without
it, nothing is kept.

A blob is found by its job, its compiler's version and the text of the modules that run compilers, then by the content of every file that its
compilation read: the same input gives the same bytes. Paths of sources and include folders take no part, so that another
checkout finds it too. What is damaged or cannot be read counts as not there.
"""

import hashlib
import json
import os
import shutil
import subprocess
import time

SETTINGS = ("CPATH", "CPLUS_INCLUDE_PATH", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")  # compilers read them


def digest(content):
    return hashlib.sha256(content).hexdigest()


def file_digest(path):
    with open(path, "rb") as file:
        return digest(file.read())


def identity(toolchain, compiler):
    """What tells one compiler from another: its first file and all that it says of itself."""
    if toolchain == "triton":
        from importlib import metadata

        return ["triton", metadata.version("triton")]
    said = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
    ).stdout
    return [os.path.basename(os.path.realpath(compiler)), os.path.getsize(compiler), said]


def tool_digest():
    """Of the modules that turn a job into a blob. The rest of this tool takes part through the job alone."""
    folder = os.path.dirname(os.path.abspath(__file__))
    return [file_digest(os.path.join(folder, name)) for name in ("cache.py", "compiling.py", "exec_mask.py", "triton_job.py")]


def without_paths(value):
    if isinstance(value, dict):
        return {key: without_paths(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_paths(one) for one in value]
    return os.path.basename(value) if isinstance(value, str) and os.path.isabs(value) else value


class Cache:
    """One job's place in the cache. `roots`: the folders that hold its files, in an order that does not depend on their paths."""

    def __init__(self, folder, job, compiler, roots):
        self.folder = folder
        self.roots = [os.path.realpath(root) for root in roots]
        self.begun = time.time()
        settings = [os.environ.get(name, "") for name in SETTINGS]
        key = [without_paths(job), identity(job["blob"]["toolchain"], compiler), tool_digest(), settings, len(roots)]
        self.job = digest(json.dumps(key, sort_keys=True).encode())

    def path(self, name):
        return os.path.join(self.folder, name[:2], name)

    def name_of(self, path):
        """Near a root: the root's number and the path from there. Elsewhere, as the system's headers: the path itself."""
        for number, root in enumerate(self.roots):
            relative = os.path.relpath(path, root)
            if not relative.startswith(os.path.join("..", "..", "..")):
                return [number, relative]
        return [-1, path]

    def place_of(self, name):
        return name[1] if name[0] < 0 else os.path.normpath(os.path.join(self.roots[name[0]], name[1]))

    def result(self, names):
        """Where the blob is that these files, as they are now, were compiled into."""
        contents = [[name, file_digest(self.place_of(name))] for name in names]
        return self.path(digest(json.dumps([self.job, contents]).encode()))

    def load(self, output):
        """Copies the blob to `output`. Returns (inputs, built_by, facts), or None."""
        try:
            with open(self.path(self.job) + ".inputs", encoding="utf-8") as file:
                names = json.load(file)
            found = self.result(names)
            with open(found + ".json", encoding="utf-8") as file:
                kept = json.load(file)
            shutil.copyfile(found + ".blob", output)
            if file_digest(output) != kept["sha256"]:
                return None
            for path in (self.path(self.job) + ".inputs", found + ".json", found + ".blob"):
                os.utime(path)  # used: whoever deletes old files keeps it
            return {self.place_of(name) for name in names}, kept["built_by"], kept["facts"]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def store(self, output, inputs, built_by, facts):
        """Keeps `output`, unless a file may have changed while it was compiled."""
        try:
            if any(os.path.getmtime(path) >= self.begun - 1 for path in inputs):
                return
            names = sorted(self.name_of(os.path.realpath(path)) for path in inputs)
            place = self.result(names)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.makedirs(os.path.dirname(self.path(self.job)), exist_ok=True)
            kept = json.dumps({"sha256": file_digest(output), "built_by": built_by, "facts": facts})
            with open(output, "rb") as file:
                content = file.read()
            for path, data in (
                (place + ".blob", content),
                (place + ".json", kept.encode()),
                (self.path(self.job) + ".inputs", json.dumps(names).encode()),
            ):
                partial = f"{path}.{os.getpid()}.partial"
                with open(partial, "wb") as file:
                    file.write(data)
                os.replace(partial, path)
        except OSError as problem:
            print(f"kernel cache {self.folder}: not written: {problem}", flush=True)
