#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sets the library's version wherever the tree states it.

    cmake/packages/set_version.py MAJOR.MINOR.PATCH [FOLDER]      FOLDER: another copy of the tree, or a part of one

Where what engines compile against may change (the minor version until 1.0, else the major one), the inline namespace
of every header changes too: code of both versions can then be in one process. The C header of the version before is
kept in tests/c_api/released, with which the later ones are compared.
"""

import re
import sys
from pathlib import Path

# File: what states the version there, with a group for it.
STATED = {
    "examples/torch/pyproject.toml": r'^version = "([\d.]+)"',
    "examples/torch/kernel_wheel.py": r'"--version", default="([\d.]+)"',
    "cmake/packages/conan/conanfile.py": r'^    version = "([\d.]+)"',
    "cmake/packages/vcpkg/vcpkg.json": r'^  "version": "([\d.]+)"',
    "cmake/packages/conda/recipe.yaml": r'^  version: "([\d.]+)"',
    "cmake/packages/spack/package.py": r'^    version\("([\d.]+)"',
}


def namespace(major: int, minor: int) -> str:
    """0.1 has v0, from the time when no other version was there."""
    if major > 0:
        return f"v{major}"
    return "v0" if minor <= 1 else f"v0_{minor}"


def replace(path: Path, pattern: str, change) -> None:
    """Replaces the one group of the only match. Raises SystemExit where there is none, or more than one."""
    text = path.read_text()
    found = list(re.finditer(pattern, text, re.MULTILINE))
    if len(found) != 1:
        sys.exit(f"set_version: {path}: {len(found)} lines like '{pattern}', not one")
    begin, end = found[0].span(1)
    path.write_text(text[:begin] + change + text[end:])


def main() -> None:
    wanted = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", sys.argv[1]) if len(sys.argv) in (2, 3) else None
    if wanted is None:
        sys.exit(__doc__)
    tree = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).absolute().parents[2]
    header = tree / "include/switchyard/version.hpp"
    parts = ("MAJOR", "MINOR", "PATCH")
    before = [int(re.search(rf"#define SWITCHYARD_VERSION_{part} (\d+)", header.read_text())[1]) for part in parts]
    after = [int(number) for number in wanted.groups()]
    for part, number in zip(parts, after, strict=True):
        replace(header, rf"^#define SWITCHYARD_VERSION_{part} (\d+)", str(number))
    for name, pattern in STATED.items():
        if (tree / name).exists():
            replace(tree / name, pattern, wanted[0])

    old, new = namespace(*before[:2]), namespace(*after[:2])
    for folder in ("include", "examples", "kernels"):
        for path in sorted((tree / folder).rglob("*")) if old != new else ():
            if path.suffix in (".hpp", ".cpp", ".h", ".cu", ".cuh") and f"namespace {old}" in path.read_text():
                path.write_text(re.sub(rf"\bnamespace {old}\b", f"namespace {new}", path.read_text()))
    released = tree / "tests/c_api/released"
    if before[:2] != after[:2] and released.is_dir():
        (released / f"c_api-{before[0]}.{before[1]}.h").write_text((tree / "include/switchyard/c_api.h").read_text())
    print(f"{'.'.join(map(str, before))} -> {wanted[0]}, namespace switchyard::{new}")


if __name__ == "__main__":
    main()
