# SPDX-License-Identifier: MIT
"""The fragments of a search space: what rules have in common, laid under each rule that uses it."""

import functools
import json

from . import KernelBuildError


def overlay(base, node):
    """`base` with the members of `node`: objects of both are overlaid in turn, any other value of `node` replaces."""
    if not (isinstance(base, dict) and isinstance(node, dict)) or "if" in base or "if" in node:
        return node
    return {**base, **{key: overlay(base[key], value) if key in base else value for key, value in node.items()}}


def insert_fragments(node, fragments, inside=()):
    """`node` with the fragments that it uses in their places. The other members of an object that uses some are laid over them."""
    if isinstance(node, list):
        result = []
        for element in node:
            value = insert_fragments(element, fragments, inside)
            spliced = isinstance(element, dict) and set(element) == {"use"} and isinstance(value, list)
            result.extend(value if spliced else [value])
        return result
    if not isinstance(node, dict):
        return node
    own = {key: insert_fragments(value, fragments, inside) for key, value in node.items() if key != "use"}
    if "use" not in node:
        return own
    used = []
    for name in node["use"] if isinstance(node["use"], list) else [node["use"]]:
        if name not in fragments:
            raise KernelBuildError(f"use '{name}': not defined; `define` has {sorted(fragments)}")
        if name in inside:
            raise KernelBuildError(f"use '{name}': the fragment uses itself")
        used.append(insert_fragments(fragments[name], fragments, (*inside, name)))
    if own or len(used) > 1:
        if any(not isinstance(value, dict) for value in used):
            raise KernelBuildError(f"use {json.dumps(node['use'])}: only objects can be laid over each other")
        used = [functools.reduce(overlay, [*used, own])]
    return used[0]
