# SPDX-License-Identifier: MIT
"""Options that have names."""


def number_of(what: str, name: str, known: dict[str, int]) -> int:
    """The number of a named option, as ops take it. Raises ValueError for an unknown name."""
    if isinstance(name, str) and name in known:
        return known[name]
    raise ValueError(f"switchyard: no {what} {name!r}; there are {', '.join(known)}")
