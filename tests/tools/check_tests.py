# SPDX-License-Identifier: MIT
"""The tests' own rules: random numbers come from a seed that is printed and may be set.   check_tests.py SOURCE"""

import os
import re
import sys

from invented import Checks

SEEDED = re.compile(r"mt19937(?:_64)?\s+\w+\{([^;]*)\};")
# Seeds that a case derives from a printed one, from its parameters, or that make no random case.
DERIVED = re.compile(r"fresh_seed\(|seed_or\(|\b(seed|first|count|t|generator)\b")


def main():
    checks = Checks()
    tests = os.path.join(sys.argv[1], "tests")
    for folder, _, names in os.walk(tests):
        for name in sorted(names):
            if not name.endswith((".cpp", ".hpp")):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            shown = os.path.relpath(path, sys.argv[1])
            if name != "environment.hpp":
                checks.that(
                    "random_device" not in text, f"{shown}: uses random_device; fresh_seed() of environment.hpp prints its seed"
                )
            for seed in SEEDED.findall(text):
                checks.that(
                    DERIVED.search(seed) is not None,
                    f"{shown}: the seed {seed!r} cannot be set; use seed_or() of environment.hpp",
                )
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
