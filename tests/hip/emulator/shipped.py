#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Has the emulator decode every kernel that is shipped: shipped.py <kernels> <architecture> <library>

Fails where one is refused, as for an instruction that is not known. Where HIP_EMULATOR_COUNTS names a file, the emulator
writes there which kinds of instruction occur.
"""

import ctypes
import hashlib
import json
import os
import pathlib
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from coverage import kernels_in


def main():
    data, architecture, library = pathlib.Path(sys.argv[1]), sys.argv[2], ctypes.CDLL(sys.argv[3])
    asked, refused, blobs = 0, 0, 0
    for manifest in sorted((data / "kernels").glob(f"*/hip-{architecture}/manifest.json")):
        wanted = {}
        for digest, kernel in kernels_in(json.loads(manifest.read_text(encoding="utf-8"))["variants"]):
            wanted.setdefault(digest, set()).add(kernel)
        for file in sorted(manifest.parent.glob("*.hsaco")):
            image = file.read_bytes()
            names = wanted.pop(hashlib.sha256(image).hexdigest(), set())
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            blobs += bool(names)
            if names and library.hipModuleLoadData(ctypes.byref(module), image) != 0:
                print(f"refused: {file}")
                refused += 1
                continue
            for name in sorted(names):
                asked += 1
                if library.hipModuleGetFunction(ctypes.byref(function), module, name.encode()) != 0:
                    print(f"refused: {name} of {file}")
                    refused += 1
        if wanted:
            print(f"{manifest}: no file has the SHA-256 {' '.join(sorted(wanted))}")
            refused += 1
    if asked == 0:
        print(f"skipped: no kernels for {architecture}")
        return 77
    print(f"{architecture}: {asked} kernels of {blobs} blobs decoded, {refused} refused")
    print(f"{asked} checks")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
