# SPDX-License-Identifier: MIT
"""Search-space files: reading them, and expanding their rules into plans."""

import itertools
import json
import os
import re

from . import KernelBuildError
from .expression import words_of
from .fragments import insert_fragments
from .plan import Plan
from .scope import Scope

SCHEMA = "switchyard.space/1"
TOOLCHAINS = ("host", "nvcc", "hip", "triton")


def target_names(target):
    """The names a target binds: everything a file may want to know of it before compiling."""
    target = {"name": target} if isinstance(target, str) else dict(target)
    name = target.pop("name", "")
    backend, separator, arch = name.partition("-")
    if backend not in ("host", "cuda", "hip") or not separator or not arch:
        raise KernelBuildError(f"target '{name}': expected host-…, cuda-… or hip-…, such as cuda-sm_90a")
    capability = re.fullmatch(r"(?:sm|compute)_(\d+)[a-z]?", arch) if backend == "cuda" else None
    if backend == "cuda" and capability is None:
        raise KernelBuildError(f"target '{name}': expected cuda-sm_<number> or cuda-compute_<number>")
    names = {
        "target": name,
        "backend": backend,
        "arch": arch,
        "warp_size": 64 if backend == "hip" and arch.startswith("gfx9") else 1 if backend == "host" else 32,
        "compute_capability": int(capability.group(1)) if capability else 0,
    }
    return {**names, **target}


def combinations(group, place):
    """The value sets of a `type`, `config` or `build`: a cross product, a list of them, or a table headed by its names."""
    if isinstance(group, list) and group and isinstance(group[0], list):
        names, *rows = group
        if any(not isinstance(row, list) or len(row) != len(names) for row in rows):
            raise KernelBuildError(f"{place}: expected {len(names)} values in every row, as the table has names")
        group = [dict(zip(names, row)) for row in rows]
    for values in group if isinstance(group, list) else [group]:
        if not isinstance(values, dict):
            raise KernelBuildError(f"{place}: expected an object of values, got {json.dumps(values)}")
        lists = [value if isinstance(value, list) else [value] for value in values.values()]
        for choice in itertools.product(*lists):
            yield dict(zip(values, choice))


def strings_in(node):
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for key, value in node.items():
            yield key
            yield from strings_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from strings_in(value)


class Space:
    """One search-space file."""

    ALLOWED = {
        "schema",
        "operator",
        "targets",
        "maps",
        "define",
        "blobs",
        "variants",
        "sets",
        "cost_us",
        "cost_ns",
        "description",
    }
    RULE = {
        "type",
        "config",
        "build",
        "let",
        "where",
        "targets",
        "id",
        "order",
        "requires",
        "cost",
        "cost_ns",
        "cost_key",
        "max_error",
        "reproducible",
        "workspace",
        "launches",
        "description",
    }
    BLOB = {
        "toolchain",
        "name",
        "sources",
        "include",
        "std",
        "flags",
        "defines",
        "instantiate",
        "requires",
        "hip_language",
        "source",
        "function",
        "signature",
        "constexprs",
        "divisible",
        "pointer_range_32",
        "options",
        "description",
    }

    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.folder = os.path.dirname(self.path)
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
        except (OSError, ValueError) as error:
            raise KernelBuildError(f"{path}: {error}") from None
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, dict) else type(data).__name__
            raise KernelBuildError(f'{path}: expected "schema": "{SCHEMA}", found {found}')
        self.require(data, self.ALLOWED, {"operator", "targets", "blobs", "variants"}, "")
        self.operator = data["operator"]
        self.targets = [target_names(target) for target in data["targets"]]
        self.maps = data.get("maps", {})
        try:
            self.blobs, self.rules = (insert_fragments(data[key], data.get("define", {})) for key in ("blobs", "variants"))
        except KernelBuildError as error:
            raise KernelBuildError(f"{path}: {error}") from None
        self.sets = data.get("sets", {})
        self.cost_us = data.get("cost_us", {})
        self.cost_ns = data.get("cost_ns", {})
        for key, blob in self.blobs.items():
            self.require(blob, self.BLOB, {"toolchain", "name"}, f"/blobs/{key}")
            if blob["toolchain"] not in TOOLCHAINS:
                raise KernelBuildError(f"{path}: /blobs/{key}: toolchain '{blob['toolchain']}' is none of {TOOLCHAINS}")
            needed = {"source", "function", "signature"} if blob["toolchain"] == "triton" else {"sources"}
            self.require(blob, self.BLOB, needed, f"/blobs/{key}")
        for index, rule in enumerate(self.rules):
            self.require(rule, self.RULE, {"id", "launches"}, f"/variants/{index}")
        self.value_names = set()
        self.words = set(strings_in(self.maps))
        for names in self.targets:
            self.words.update(value for value in names.values() if isinstance(value, str))
        for rule in self.rules:
            for group in ("type", "config", "build"):
                for values in combinations(rule.get(group, {}), f"{path}: {group}"):
                    self.value_names.update(values)
                    self.words.update(value for value in values.values() if isinstance(value, str))
            self.value_names.update(rule.get("let", {}))
            for text in rule.get("let", {}).values():
                if isinstance(text, str):
                    self.words.update(re.findall(r"[A-Za-z_]\w*", text))

    def require(self, node, allowed, needed, place):
        if not isinstance(node, dict):
            raise KernelBuildError(f"{self.path}: {place or '/'}: expected an object")
        if missing := sorted(needed - set(node)):
            raise KernelBuildError(f"{self.path}: {place or '/'}: missing {', '.join(missing)}")
        if unknown := sorted(set(node) - allowed):
            raise KernelBuildError(
                f"{self.path}: {place or '/'}: unknown {', '.join(unknown)}; known are {', '.join(sorted(allowed))}"
            )

    def in_set(self, scope, chosen):
        if chosen is None or chosen not in self.sets:
            return True
        for condition in self.sets[chosen].get("where", []):
            if (words_of(condition) & self.value_names) - set(scope.names):
                continue
            if not scope.evaluate(condition):
                return False
        return True

    def scopes(self, rule, names):
        """Every combination of a rule for one target, with its type and config."""
        for type_values, build, config in itertools.product(
            *(list(combinations(rule.get(group, {}), group)) for group in ("type", "build", "config"))
        ):
            bound = dict(names)
            for values in (type_values, build, config):
                if clash := sorted(set(values) & set(bound)):
                    raise KernelBuildError(f"'{clash[0]}' is bound twice")
                bound.update(values)
            scope = Scope(bound, self)
            for name, text in rule.get("let", {}).items():
                scope = scope.with_names(**{name: scope.evaluate(text)})
            if all(scope.evaluate(condition) for condition in rule.get("where", [])):
                yield scope, type_values, config

    def expand(self, plans, chosen_set=None, targets=None):
        """Adds this file's blobs and variants to `plans`, a dict by (operator, target). A set's targets are those that are
        built where none are named."""
        in_set = self.sets.get(chosen_set, {}).get("targets") if chosen_set and targets is None else None
        for names in self.targets:
            target = names["target"]
            if targets is not None and target not in targets:
                continue
            if in_set is not None and target not in in_set:
                continue
            plan = plans.setdefault((self.operator, target), Plan(self.operator, names))
            for index, rule in enumerate(self.rules):
                if "targets" in rule and target not in rule["targets"]:
                    continue
                place = f"{self.path}: /variants/{index}"
                try:
                    for scope, type_values, config in self.scopes(rule, names):
                        if self.in_set(scope, chosen_set):
                            plan.add_variant(self, rule, scope, type_values, config)
                except KernelBuildError as error:
                    raise KernelBuildError(f"{place}: {target}: {error}") from None


def expand(paths, chosen_set=None, targets=None, toolchains=TOOLCHAINS, host_arch=None):
    """Plans of all files together, and messages about what was left out."""
    plans, spaces = {}, [Space(path) for path in paths]
    for space in spaces:
        space.expand(plans, chosen_set, targets)
    messages, result = [], []
    for (operator, target), plan in sorted(plans.items()):
        if plan.names["backend"] == "host" and host_arch and plan.names["arch"] not in (host_arch, "any"):
            continue
        for toolchain, count in sorted(plan.keep(toolchains).items()):
            messages.append({"operator": operator, "target": target, "toolchain": toolchain, "variants": count})
        if plan.variants:
            result.append(plan.to_json())
    return result, messages
