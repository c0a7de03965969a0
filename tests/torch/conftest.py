# SPDX-License-Identifier: MIT
"""What the tests share: seeds, float64 attention as the judge, counted calls."""

import collections

import pytest
import switchyard.torch  # noqa: F401 (defines the ops)
import torch
from torch.utils._python_dispatch import TorchDispatchMode


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(20240)


class Counted(TorchDispatchMode):
    """Counts calls of our ops, and of those that they should have replaced."""

    def __init__(self):
        super().__init__()
        self.calls = collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls[func.overloadpacket.__name__ if func.namespace == "switchyard" else func.name()] += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture
def counted():
    return Counted
