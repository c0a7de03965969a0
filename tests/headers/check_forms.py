# SPDX-License-Identifier: MIT
"""Links files of the header-only and the compiled form: files of one form link, and files of both do not. With the
compiler's own linker, and with lld where it is installed.

  check_forms.py COMPILER INCLUDE_FOLDER
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

NAME = "switchyard_compiled_and_header_only_forms_are_mixed_in_one_program"
FORMS = {"header_only": [], "compiled": ["-DSWITCHYARD_COMPILED"]}
MAIN = "#include <switchyard/error.hpp>\nint other();\nint main() { return other(); }\n"
OTHER = "#include <switchyard/error.hpp>\nint other();\nint other() { return 0; }\n"


def linkers(folder):
    """Options that choose a linker, by its name."""
    found = {"the compiler's linker": []}
    for name in ("ld.lld", "ld.lld-19"):
        if path := shutil.which(name):
            place = folder / "lld"
            place.mkdir()
            (place / "ld.lld").symlink_to(path)  # -fuse-ld knows no version
            found["lld"] = [f"-B{place}", "-fuse-ld=lld"]
            break
    return found


def main():
    compiler, include = sys.argv[1:]
    checks = wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for form, options in FORMS.items():
            for unit, text in (("main", MAIN), ("other", OTHER)):
                (folder / f"{unit}.cpp").write_text(text, encoding="utf-8")
                subprocess.run(
                    [
                        compiler,
                        "-std=c++20",
                        f"-I{include}",
                        *options,
                        "-c",
                        folder / f"{unit}.cpp",
                        "-o",
                        folder / f"{unit}_{form}.o",
                    ],
                    check=True,
                )
        for linker, options in linkers(folder).items():
            for first in FORMS:
                for second in FORMS:
                    result = subprocess.run(
                        [
                            compiler,
                            *options,
                            folder / f"main_{first}.o",
                            folder / f"other_{second}.o",
                            "-o",
                            folder / "program",
                        ],
                        check=False,
                        text=True,
                        stderr=subprocess.PIPE,
                    )
                    links = result.returncode == 0
                    checks += 1
                    if links != (first == second) or (not links and NAME not in result.stderr):
                        wrong += 1
                        print(f"{linker}: {first} with {second}: {'links' if links else result.stderr}")
    print(f"{checks} checks, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
