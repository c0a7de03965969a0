# SPDX-License-Identifier: MIT
"""The wheel's build backend: scikit-build-core, with what a project in a subfolder needs besides.

An sdist may hold no file from above its own folder, so the source tree is copied to `source/` for it.
"""

import os
import shutil
import tempfile
from pathlib import Path

from scikit_build_core import build as _build
from scikit_build_core.build import (  # noqa: F401 (hooks of PEP 517 and 660)
    build_editable,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

_here = Path(__file__).absolute().parent
_tree = _here.parent.parent
_FOLDERS = ("cmake", "include", "kernels", "tables", "examples/switchyard")
_FILES = ("CMakeLists.txt", "LICENSE", "README.md")
_NOT = shutil.ignore_patterns("__pycache__", "*.pyc", "study", "problems", "*.svg")


def _stage(into: Path) -> None:
    """Copies this folder, and beside it the parts of the source tree that a build needs."""
    shutil.copytree(_here, into, ignore=shutil.ignore_patterns("__pycache__", "dist", "benchmarks", "source"))
    source = into / "source"
    if (_here / "source").is_dir():  # an unpacked sdist
        shutil.copytree(_here / "source", source)
        return
    for folder in _FOLDERS:
        shutil.copytree(_tree / folder, source / folder, ignore=_NOT)
    for file in _FILES:
        shutil.copy(_tree / file, source / file)
    shutil.copy(_tree / "LICENSE", into / "LICENSE")


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517's hook."""
    out = os.path.abspath(sdist_directory)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        staged = Path(folder) / "switchyard"
        _stage(staged)
        os.chdir(staged)
        try:
            return _build.build_sdist(out, config_settings)
        finally:
            os.chdir(before)
