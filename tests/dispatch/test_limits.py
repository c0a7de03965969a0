# SPDX-License-Identifier: MIT
"""Checks that an engine outlives a recording or a log that cannot be written: by a limit of the file size, and by
a pipe whose reader leaves.

  test_limits.py ENGINE FOLDER_OF_KERNELS
"""

import hashlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading

CALLS = 20_000


def put_manifest(root, kernels):
    folder = f"{root}/kernels/stamp/host-{platform.machine()}"
    os.makedirs(folder)
    with open(f"{kernels}/stamp.so", "rb") as file:
        blob = file.read()
    with open(f"{folder}/stamp.so", "wb") as file:
        file.write(blob)
    launch = {
        "blob": "stamp.so",
        "kernel": "stamp",
        "sha256": hashlib.sha256(blob).hexdigest(),
        "grid": [1, 1, 1],
        "block": [1, 1, 1],
        "parameters": ["out", {"i32": "number"}],
    }
    manifest = {
        "schema": "switchyard.manifest/1",
        "operator": "stamp",
        "target": {"backend": "host", "arch": platform.machine()},
        "variants": [{"id": "one", "type": {"dtype": "f32"}, "config": {"number": 1}, "launches": [launch]}],
    }
    with open(f"{folder}/manifest.json", "w") as file:
        json.dump(manifest, file)
    return len(blob)


def run(engine, root, variables, file_size=None):
    """The engine's exit status, negative for a signal, and what it printed."""

    def limit():
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    environment = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
    environment |= {"SWITCHYARD_PATH": root, **variables}
    done = subprocess.run(
        [engine, *map(str, range(1, CALLS + 1))],
        env=environment,
        preexec_fn=limit,
        text=True,
        capture_output=True,
        timeout=300,
    )
    return done.returncode, done.stdout.count("stamp 1\n"), done.stderr


def leave_after(path, count):
    """Reads `count` bytes of the pipe at `path`, and closes it."""
    with open(path, "rb", buffering=0) as pipe:
        pipe.read(count)


def main():
    engine, kernels = sys.argv[1:]
    wrong = 0

    def check(name, found, right):
        nonlocal wrong
        if not right:
            print(f"{name}: {found}")
            wrong += 1

    with tempfile.TemporaryDirectory() as root:
        blob_size = put_manifest(root, kernels)
        record = f"{root}/recorded.json"
        found = run(engine, root, {"SWITCHYARD_RECORD": record})
        size = os.path.getsize(record) if os.path.exists(record) else 0
        check("recorded", (found, size), found[:2] == (0, CALLS) and size > 2 * blob_size)
        os.unlink(record)

        found = run(engine, root, {"SWITCHYARD_RECORD": record}, file_size=blob_size)
        check(
            "the recording exceeds the limit",
            found,
            found[:2] == (0, CALLS) and "SWITCHYARD_RECORD: its file has reached the size limit" in found[2],
        )

        log = f"{root}/log"
        found = run(engine, root, {"SWITCHYARD_DEBUG": "1", "SWITCHYARD_DEBUG_FILE": log}, file_size=blob_size)
        check(
            "the log exceeds the limit",
            (found, os.path.getsize(log)),
            found[:2] == (0, CALLS) and os.path.getsize(log) <= blob_size,
        )

        found = run(engine, root, {}, file_size=0)
        check(
            "the kernel exceeds the limit",
            found,
            found[:2] == (1, 0) and "switchyard.207" in found[2] and "too large" in found[2],
        )

        for variables in (
            {"SWITCHYARD_RECORD": f"{root}/pipe"},
            {"SWITCHYARD_DEBUG": "1", "SWITCHYARD_DEBUG_FILE": f"{root}/pipe"},
        ):
            os.mkfifo(f"{root}/pipe")
            reader = threading.Thread(target=leave_after, args=(f"{root}/pipe", 10), daemon=True)
            reader.start()
            found = run(engine, root, variables)
            check(f"the reader of {' '.join(variables)} leaves", found, found[:2] == (0, CALLS))
            os.unlink(f"{root}/pipe")
    print("6 cases")
    return int(wrong != 0)


if __name__ == "__main__":
    sys.exit(main())
