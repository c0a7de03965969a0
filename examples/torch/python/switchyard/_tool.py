# SPDX-License-Identifier: MIT
"""The program `switchyard` of the wheel."""

import os
import sys
from pathlib import Path

from ._roots import roots


def main() -> None:
    """Replaces this process with the command-line tool, with the data wheels' kernels and tables on its path."""
    program = Path(__file__).absolute().parent / "bin" / "switchyard"
    if not program.exists():
        sys.exit(f"switchyard: this installation was built without the tool ({program})")
    path = [folder for folder in os.environ.get("SWITCHYARD_PATH", "").split(":") if folder]
    os.environ["SWITCHYARD_PATH"] = ":".join(path + roots())
    os.execv(program, [str(program), *sys.argv[1:]])
