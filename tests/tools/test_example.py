"""Runs an example and compares its output, line by line, with expected/<name>.txt.

  test_example.py NAME PROGRAM [ARGUMENT...]

A line of the expectation that begins with `~ ` is a regular expression; `...` stands for any lines.
"""

import os
import re
import subprocess
import sys


def matches(wanted, found):
    if not wanted:
        return not found
    if wanted[0] == "...":
        return any(matches(wanted[1:], found[skip:]) for skip in range(len(found) + 1))
    if not found:
        return False
    same = re.fullmatch(wanted[0][2:], found[0]) if wanted[0].startswith("~ ") else wanted[0] == found[0]
    return bool(same) and matches(wanted[1:], found[1:])


def main():
    name, *command = sys.argv[1:]
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("SWITCHYARD_") or key == "SWITCHYARD_PATH"}
    done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, timeout=500)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected", name + ".txt")
    with open(path, encoding="utf-8") as file:
        wanted = file.read().splitlines()
    good = matches(wanted, done.stdout.splitlines())
    print(done.stdout)
    if not good:
        print("is not what was expected:", *wanted, sep="\n")
    if done.returncode != 0:
        print("status", done.returncode)
    return 0 if good and done.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
