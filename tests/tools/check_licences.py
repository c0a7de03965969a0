# SPDX-License-Identifier: MIT
"""Every source file says its licence in its first lines.   check_licences.py SOURCE"""

import os
import sys

from invented import Checks

FOLDERS = (".ci", "cmake", "examples", "include", "kernels", "tables", "tests")
ENDINGS = (".c", ".cmake", ".cpp", ".cu", ".h", ".hpp", ".py", ".sh")


def is_source(folder, name):
    return name.endswith(ENDINGS) or name == "CMakeLists.txt" or os.path.basename(folder) == ".ci"


def main():
    checks = Checks()
    source = sys.argv[1]
    for top in FOLDERS:
        for folder, folders, names in os.walk(os.path.join(source, top)):
            folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith("build")]
            for name in sorted(names):
                if not is_source(folder, name):
                    continue
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    first = [file.readline(), file.readline()]  # a script's first line names its interpreter
                checks.that(
                    any("SPDX-License-Identifier: MIT" in line for line in first),
                    f"{os.path.relpath(path, source)}: does not begin with SPDX-License-Identifier: MIT",
                )
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
