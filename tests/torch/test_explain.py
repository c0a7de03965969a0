# SPDX-License-Identifier: MIT
"""explain, prepare, SWITCHYARD_DEBUG and SWITCHYARD_FORCE from Python."""

import os
import subprocess
import sys

import pytest
import switchyard.torch as sy
import torch


def test_explain_is_data():
    x = torch.randn(4, 64)
    why = sy.explain(sy.softmax, x)
    assert why["operator"] == "softmax" and "rows=4 columns=64" in why["problem"]
    assert why["variant"] and why["reason"] in ("exact", "interpolated", "extrapolated", "other_device", "heuristic")
    assert any(candidate["variant"] == why["variant"] and candidate["admissible"] for candidate in why["candidates"])
    assert os.path.exists(why["manifest"])


def test_explain_says_that_nothing_serves():
    why = sy.explain(sy.softmax, torch.randn(4, 64, dtype=torch.float64))
    assert why["reason"] == "none" and not why["variant"]
    assert all(candidate["obstacle"] for candidate in why["candidates"])


def test_explain_of_a_backward():
    x = torch.randn(4, 64)
    assert sy.explain(torch.ops.switchyard.softmax_backward, x, x)["operator"] == "softmax_backward"


def test_explain_of_no_operator():
    with pytest.raises(ValueError):
        sy.explain(torch.relu, torch.randn(3))


def test_explain_leaves_calls_alone():
    x = torch.randn(4, 64)
    with pytest.raises(RuntimeError):
        sy.explain(sy.gated_activation, x, torch.randn(5, 64))
    torch.testing.assert_close(sy.softmax(x), torch.softmax(x, -1))


def test_prepare():
    sy.prepare(sy.rms_norm, torch.randn(4, 48))
    assert isinstance(sy.generation(), int)
    sy.reload()


PROGRAM = """
import torch, switchyard.torch as sy
x = torch.randn(4, 64)
for _ in range(3): sy.softmax(x)
"""


def run(**environment):
    return subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, capture_output=True, text=True)


def test_debug():
    result = run(SWITCHYARD_DEBUG="1")
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("switchyard:")]
    assert sum("softmax {dtype=f32" in line and "selected in" in line for line in lines) == 1
    assert any("summary: " in line for line in lines)


def test_force():
    result = run(SWITCHYARD_FORCE="softmax:no_such_variant")
    assert result.returncode != 0 and "[switchyard.303]" in result.stderr
