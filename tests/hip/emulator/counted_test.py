#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a test whose counts coverage.py reads: counted_test.py <program> <argument>...

HIP_EMULATOR_COUNTS and SWITCHYARD_TEST_RAN name the files that it fills. Those of an earlier run go first. How the test
ended is in a third file, which is missing where it did not end.
"""

import os
import pathlib
import subprocess
import sys


def main():
    counts = pathlib.Path(os.environ["HIP_EMULATOR_COUNTS"])
    status = counts.with_suffix(".status")
    for file in (counts, status, pathlib.Path(os.environ.get("SWITCHYARD_TEST_RAN", status))):
        file.unlink(missing_ok=True)
    code = subprocess.run(sys.argv[1:], check=False).returncode
    status.write_text({0: "passed", 77: "skipped"}.get(code, "failed") + "\n", encoding="utf-8")
    return code if code >= 0 else 1


if __name__ == "__main__":
    sys.exit(main())
