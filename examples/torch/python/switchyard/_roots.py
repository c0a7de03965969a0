# SPDX-License-Identifier: MIT
"""Where the installed wheels keep kernels and tables."""

from importlib.metadata import entry_points
from pathlib import Path

GROUP = "switchyard.roots"


def roots() -> list[str]:
    """The folders of kernels and tables: this wheel's, then those of the data wheels, sorted by entry point.

    A data wheel has an entry point in the group `switchyard.roots`: a function without arguments that returns
    its folders. A failing entry point is an error: otherwise its kernels would be missing without notice.
    """
    own = Path(__file__).absolute().parent / "share" / "switchyard"
    out = [str(own)] if own.is_dir() else []
    for entry_point in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        out += [str(folder) for folder in entry_point.load()()]
    return out
