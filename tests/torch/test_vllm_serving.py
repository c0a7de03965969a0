# SPDX-License-Identifier: MIT
"""Models with random weights served by vLLM on the CPU: the tokens of its own backend. Takes a minute a model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from serve_vllm import MODELS

platforms = pytest.importorskip("vllm.platforms", reason="vLLM cannot be imported", exc_type=ImportError)
if not platforms.current_platform.is_cpu():
    pytest.skip("vLLM was not built for the CPU", allow_module_level=True)

TOLERANCES = {"float16": 0.02, "bfloat16": 0.05}


def serve(name, folder, *backend):
    script = Path(__file__).with_name("serve_vllm.py")
    run = subprocess.run([sys.executable, script, name, folder, *backend], capture_output=True, text=True, env={**os.environ})
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return json.loads((folder / f"{backend[0] if backend else 'switchyard'}.json").read_text())


@pytest.mark.parametrize("name", MODELS)
def test_tokens(name, tmp_path):
    """Equal, up to where the best two are equally good within rounding: behind that, prompts differ."""
    tolerance = TOLERANCES[MODELS[name][0]]
    equal = 0
    for mine, theirs in zip(serve(name, tmp_path), serve(name, tmp_path, "own")):
        pairs = list(zip(mine["tokens"], theirs["tokens"]))
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        for a, b in zip(mine["logarithms"][:same], theirs["logarithms"][:same]):
            assert max(abs(x - y) for x, y in zip(a, b)) <= tolerance
        if same < len(pairs):
            best, second, _ = theirs["logarithms"][same]
            assert best - second <= 2 * tolerance
        equal += same
    print(f"{name}: {equal} of {6 * 24} tokens before the first tie")
    assert equal >= 24
