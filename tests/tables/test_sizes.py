# SPDX-License-Identifier: MIT
"""The shipped tables stay small enough to be part of every package.   test_sizes.py SOURCE"""

import glob
import json
import os
import sys

MAX_BYTES = 4_000_000  # of all tables; tables/README.md states it


def main():
    tables = {}
    for path in glob.glob(os.path.join(sys.argv[1], "tables", "*", "*.json")):
        with open(path, encoding="utf-8") as file:
            if "groups" in json.load(file):
                tables[path] = os.path.getsize(path)
    total = sum(tables.values())
    print(f"{len(tables)} files, {total} bytes of {MAX_BYTES}")
    if total <= MAX_BYTES:
        return 0
    print("FAILED: leave out rows that others predict, or variants that no row needs. The largest:")
    for path, size in sorted(tables.items(), key=lambda table: -table[1])[:5]:
        print(f"  {size} {os.path.relpath(path, sys.argv[1])}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
