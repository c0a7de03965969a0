# SPDX-License-Identifier: MIT
"""Runs a Python test, which must say how many checks it made.   counted.py SCRIPT [ARGUMENT...]

A script that passes without a line such as "163 checks, 0 failed" has checked nothing, and fails.
"""

import re
import subprocess
import sys


def main():
    with subprocess.Popen(
        [sys.executable, *sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        counted = False
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            counted = (
                counted
                or re.match(r"(Ran )?[1-9]\d* (call|case|check|file|header|kernel|line|problem|run|test)s?\b", line) is not None
            )
    if process.returncode == 0 and not counted:
        print(f"FAILED: {sys.argv[1]} does not say how many checks, cases, files, ... it has looked at")
        return 1
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
