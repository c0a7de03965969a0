# SPDX-License-Identifier: MIT
"""Builds kernels: search-space files to blobs and manifests. Python standard library only."""


class KernelBuildError(Exception):
    """An input is wrong; the text says which, what was found and what to do."""
