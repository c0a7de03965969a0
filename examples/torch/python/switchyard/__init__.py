# SPDX-License-Identifier: MIT
"""Switchyard: the fastest precompiled kernel for each call.

`switchyard.torch` has the ops for PyTorch, `switchyard.transformers` patches Hugging Face models, `switchyard.vllm` is a
plugin of vLLM. This package's folder is an installation of the C++ library: `cmake_prefix()` for CMake,
`pkg_config_path()` for pkg-config, and the program `switchyard` explains choices and tunes.
"""

from pathlib import Path

from ._roots import roots

__all__ = ["cmake_prefix", "include_path", "pkg_config_path", "roots"]

_folder = Path(__file__).absolute().parent


def cmake_prefix() -> str:
    """The folder to add to CMAKE_PREFIX_PATH, so that find_package(switchyard) finds this installation."""
    return str(_folder)


def include_path() -> str:
    """The folder of the C++ headers."""
    return str(_folder / "include")


def pkg_config_path() -> str:
    """The folder to add to PKG_CONFIG_PATH."""
    return str(_folder / "share" / "pkgconfig")
