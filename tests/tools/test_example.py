# SPDX-License-Identifier: MIT
"""Runs an example and compares what it prints with the output beside its source.

  test_example.py OUTPUT PROGRAM [ARGUMENT...]          runs in an empty folder; SWITCHYARD_PATH is kept
  test_example.py --write OUTPUT PROGRAM [ARGUMENT...]  writes OUTPUT instead

What depends on the machine (its name, the instruction set in a variant's name, times, folders) is replaced on both
sides before they are compared. A line of OUTPUT that begins with `~ ` is a regular expression; `...` stands for any
lines.
"""

import os
import re
import subprocess
import sys
import tempfile


def instruction_sets():
    """A pattern of the instruction sets in names of variants. Without AVX2, every choice is baseline."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return r"(?:avx512|avx2)" if "avx2" in file.read() else r"(?:avx512|avx2|baseline)"
    except OSError:
        return r"(?:avx512|avx2|baseline)"


ISA = instruction_sets()
MACHINE = [  # what depends on the machine, and what it is replaced by
    (r"\bon .+? \(host \w+\)", "on DEVICE"),
    (r"\bhost[ -](?:x86_64|aarch64)\b", "host ARCH"),
    (rf"\b{ISA}_(?=\w+(?: \{{|,| for ))", "ISA_"),
    (rf"(?<=_){ISA}(?=\.so)", "ISA"),
    (r"\b[\d.]+ (?:ns|us|ms|s)\b", "TIME"),
    (r"\S*(?=share/switchyard/)", ""),
]


def normalise(line):
    for pattern, replacement in MACHINE:
        line = re.sub(pattern, replacement, line)
    return line


def same(wanted, found):
    if wanted.startswith("~ "):
        return re.fullmatch(wanted[2:], found) is not None
    return normalise(wanted) == normalise(found)


def matches(wanted, found):
    if not wanted:
        return not found
    if wanted[0] == "...":
        return any(matches(wanted[1:], found[skip:]) for skip in range(len(found) + 1))
    return bool(found) and same(wanted[0], found[0]) and matches(wanted[1:], found[1:])


def main():
    arguments = sys.argv[1:]
    write = arguments[0] == "--write"
    output, *command = arguments[1:] if write else arguments
    output, command[0] = os.path.abspath(output), os.path.abspath(command[0])
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("SWITCHYARD_") or key == "SWITCHYARD_PATH"
    }
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, env=environment, cwd=folder, text=True, stdout=subprocess.PIPE, timeout=500, check=False)
    if done.returncode == 0 and write:
        with open(output, "w", encoding="utf-8") as file:
            file.write(done.stdout)
        return 0
    with open(output, encoding="utf-8") as file:
        wanted = file.read().splitlines()
    good = matches(wanted, done.stdout.splitlines())
    print(done.stdout, f"{len(wanted)} lines compared", sep="\n")
    if not good:
        print("differs from", output + ":", *wanted, sep="\n")
    if done.returncode != 0:
        print("exit status", done.returncode)
    return 0 if good and done.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
