# SPDX-License-Identifier: MIT
"""For the others: the variants of today's search spaces, as manifests state them."""

import functools
import glob
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "cmake"))

from kernel_tools import KernelBuildError
from kernel_tools.expression import evaluate
from kernel_tools.space import expand

# Enumerators, which conditions name.
WORDS = {
    "none",
    "causal_top_left",
    "causal_bottom_right",
    "dense",
    "packed",
    "paged",
    "f16",
    "bf16",
    "f32",
    "silu",
    "gelu",
    "gelu_tanh",
    "half",
    "interleaved",
    "q8_0",
    "q4_0",
    "q4_1",
    "q4_k",
    "q6_k",
    "q5_k",
    "iq4_nl",
    "mxfp4",
    "q5_0",
    "q5_1",
    "f8_e4m3",
    "offset",
    "explicit_ids",
    "sequence_offsets",
}


def number(value):
    return int(value) if isinstance(value, bool) else value


class Manifest:
    """The variants of an operator for one target, in the order that decides where no costs do."""

    def __init__(self, kernels, operator, target):
        spaces = sorted(glob.glob(os.path.join(kernels, "*", f"{operator}.*.json")))
        plans = [plan for plan in expand(spaces)[0] if plan["target"] in (target, target + "a")]
        self.variants = [variant for plan in plans for variant in plan["variants"]]

    def of_type(self, axes):
        """Those of the type that the axes give. What they do not give is taken to agree."""
        return [
            variant
            for variant in self.variants
            if all(number(value) == axes.get(axis, number(value)) for axis, value in variant["type"].items())
        ]

    def serving(self, axes, attributes):
        """(variant, nanoseconds that it states or None) of those that may serve, in order. A condition that reads what the
        row does not say is taken to hold."""
        for variant in self.of_type(axes):
            names = {**attributes, **axes, **variant.get("config", {})}
            if all(self.value(text, names, 1) for text in variant.get("requires", [])):
                yield variant["id"], self.time(variant, names)

    def serving_on(self, device, axes):
        """As `serving`, with the attributes of a table's device. Calls of before `head_dim_v` was an axis lack it."""
        attributes = {key: value for key, value in device.items() if isinstance(value, int)}
        return self.serving({"head_dim_v": axes.get("head_dim", 0), **axes}, attributes)

    def value(self, text, names, unknown):
        try:
            return evaluate(text, names, {}, WORDS)
        except (KernelBuildError, KeyError, TypeError):
            return unknown

    def time(self, variant, names):
        if "cost_ns" in variant:
            return self.value(variant["cost_ns"], names, None)
        if "cost_us" in variant:
            cost = self.value(variant["cost"], names, None)
            return None if cost is None else 1000 * cost * variant["cost_us"]
        return None


@functools.cache
def manifest_of(kernels, operator, target):
    return Manifest(kernels, operator, target)
