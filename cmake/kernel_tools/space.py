# SPDX-License-Identifier: MIT
"""Search-space files: reading, expanding into blobs to compile and variants to describe."""

import functools
import itertools
import json
import os
import re

from . import KernelBuildError
from .expression import evaluate, words_of

SCHEMA = "switchyard.space/1"
TOOLCHAINS = ("host", "nvcc", "hip", "triton")
BACKEND_OF = {"host": ("host",), "nvcc": ("cuda",), "hip": ("hip",), "triton": ("cuda", "hip")}
PIECE = re.compile(r"\{\{|\}\}|\{(=)?([^{}]*)\}")
MISSING = object()


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


def file_name(toolchain, name, names):
    if toolchain == "host":
        return f"{name}.so"
    if names["backend"] == "hip":
        return f"{name}.hsaco"
    return f"{name}.ptx" if names["arch"].startswith("compute_") else f"{name}.cubin"


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


class Scope:
    """Names, and how the JSON of a rule is resolved with them."""

    def __init__(self, names, space):
        self.names = names
        self.space = space

    def with_names(self, **names):
        return Scope({**self.names, **names}, self.space)

    def evaluate(self, text):
        if isinstance(text, (int, bool)):
            return int(text)
        return evaluate(text, self.names, self.space.maps, self.space.words)

    def piece(self, computed, body, text):
        body = body.strip()
        if computed:
            return self.evaluate(body)
        if not re.fullmatch(r"[A-Za-z_]\w*(\[.*\])?", body):
            raise KernelBuildError(f"'{text}': '{{{body}}}' is no {{name}}, {{map[name]}} or {{= expression}}")
        if body in self.names:
            return self.names[body]
        if "[" not in body:
            raise KernelBuildError(f"'{text}': no name '{body}'; names are {sorted(self.names)}")
        return self.evaluate(body)

    def text(self, text):
        whole = PIECE.fullmatch(text)
        if whole and whole.group(2) is not None:
            return self.piece(whole.group(1), whole.group(2), text)

        def replace(match):
            if match.group(2) is None:
                return match.group(0)[0]
            value = self.piece(match.group(1), match.group(2), text)
            return str(value).lower() if isinstance(value, bool) else str(value)

        return PIECE.sub(replace, text)

    def branch(self, node):
        unknown = set(node) - {"if", "then", "else"}
        if unknown:
            raise KernelBuildError(f"condition {json.dumps(node)}: unknown keys {sorted(unknown)}")
        return node.get("then" if self.evaluate(node["if"]) else "else", MISSING)

    def resolve(self, node):
        if isinstance(node, str):
            return self.text(node)
        if isinstance(node, list):
            result = []
            for element in node:
                if isinstance(element, dict) and "if" in element:
                    value = self.resolve(element)
                    if value is not MISSING:
                        result.extend(value if isinstance(value, list) else [value])
                else:
                    result.append(self.resolve(element))
            return result
        if isinstance(node, dict):
            if "if" in node:
                taken = self.branch(node)
                return MISSING if taken is MISSING else self.resolve(taken)
            resolved = {self.text(key): self.resolve(value) for key, value in node.items()}
            return {key: value for key, value in resolved.items() if value is not MISSING}
        return node


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


def sum_of_terms(name, factors, terms):
    """The expression of a time in ns: a constant, and terms with a factor each, which may be fractions."""
    if len(factors) != 1 + len(terms):
        raise KernelBuildError(f"cost_ns of '{name}': {len(factors)} numbers for a constant and {len(terms)} terms")
    unit = 10**6 if any(0 < factor < 0.1 for factor in factors) else 1000  # expressions have integers
    parts = []
    for factor, term in zip(factors, ["1", *terms]):
        if factor := round(unit * factor):
            parts.append(str(factor) if term == "1" else f"{factor} * ({term})")
    return f"({' + '.join(parts)}) / {unit}" if parts else "0"


class Plan:
    """What is to be built for one operator and target."""

    def __init__(self, operator, names):
        self.operator = operator
        self.names = names
        self.blobs = {}
        self.variants = []
        self.ids = set()

    def add_variant(self, space, rule, scope, type_values, config):
        variant = {"id": str(scope.text(rule["id"]))}
        key = (variant["id"], json.dumps(type_values, sort_keys=True))
        if key in self.ids:
            raise KernelBuildError(f"id '{variant['id']}' is there twice for type {json.dumps(type_values)}")
        self.ids.add(key)
        for name, value in config.items():
            if not isinstance(value, (int, bool)):
                raise KernelBuildError(f"config {name}='{value}': integers and booleans only; strings belong in build")
        launches, requires, toolchains = [], [], []
        for launch in scope.resolve(rule["launches"]):
            if "fill" in launch:
                launches.append(launch)
                continue
            blob = self.add_blob(space, scope, launch)
            toolchains.append(blob["toolchain"])
            requires += [text for text in blob["requires"] if text not in requires]
            launches.append(launch)
        requires += [text for text in scope.resolve(rule.get("requires", [])) if text not in requires]
        variant.update(
            type=type_values,
            config=config,
            requires=requires,
            workspace=scope.resolve(rule.get("workspace", {})),
            launches=launches,
        )
        if variant["workspace"] is MISSING:
            variant["workspace"] = {}
        if (cost := scope.resolve(rule.get("cost", MISSING))) is not MISSING:
            variant["cost"] = cost
            if unit := space.cost_us.get(self.names["target"], {}).get(variant["id"]):
                variant["cost_us"] = unit
        for key in ("max_error", "reproducible"):
            if (stated := scope.resolve(rule.get(key, MISSING))) is not MISSING:
                variant[key] = stated
        if terms := scope.resolve(rule.get("cost_ns", [])):
            key = str(scope.text(rule.get("cost_key", rule["id"])))
            variant.update(cost_key=key, cost_terms=terms)  # for fit_costs.py; no part of the manifest
            if factors := space.cost_ns.get(self.names["target"], {}).get(key):
                variant["cost_ns"] = sum_of_terms(key, factors, terms)
        order = scope.evaluate(rule.get("order", 0))
        self.variants.append({"order": order, "toolchains": sorted(set(toolchains)), "variant": variant})

    def add_blob(self, space, scope, launch):
        """Replaces the launch's rule key by a file name and returns the blob it names."""
        if launch.get("blob") not in space.blobs:
            raise KernelBuildError(f"launch names blob '{launch.get('blob')}'; rules are {sorted(space.blobs)}")
        rule = dict(space.blobs[launch["blob"]])
        toolchain = rule["toolchain"]
        if scope.names["backend"] not in BACKEND_OF[toolchain]:
            raise KernelBuildError(f"toolchain {toolchain} does not build {scope.names['target']}")
        kernel = launch.get("kernel", rule.get("function"))
        if kernel is None:
            raise KernelBuildError("a launch names its `kernel`")
        launch["kernel"] = kernel
        instantiate = launch.pop("instantiate", MISSING)
        scope = scope.with_names(kernel=kernel)
        if instantiate is MISSING:
            instantiate = rule.pop("instantiate", None)
            instantiate = None if instantiate is None else scope.resolve(instantiate)
        rule.pop("instantiate", None)
        resolved = scope.resolve(rule)
        blob = {
            "toolchain": toolchain,
            "file": file_name(toolchain, resolved["name"], scope.names),
            "requires": resolved.get("requires", []),
        }
        if "/" in blob["file"]:
            raise KernelBuildError(f"blob name '{blob['file']}' must be a plain file name")
        if toolchain == "triton":
            blob["source"] = os.path.normpath(os.path.join(space.folder, resolved["source"]))
            for key, empty in (
                ("function", ""),
                ("signature", {}),
                ("constexprs", {}),
                ("divisible", []),
                ("pointer_range_32", []),
                ("options", {}),
            ):
                blob[key] = resolved.get(key, empty)
        else:
            for key in ("sources", "include"):
                blob[key] = [os.path.normpath(os.path.join(space.folder, path)) for path in resolved.get(key, [])]
            blob["std"] = resolved.get("std", "c++20")
            blob["flags"] = [str(flag) for flag in resolved.get("flags", [])]
            blob["defines"] = {
                key: str(value).lower() if isinstance(value, bool) else str(value)
                for key, value in resolved.get("defines", {}).items()
            }
            blob["hip_language"] = bool(resolved.get("hip_language", False))
        launch["blob"] = blob["file"]
        known = self.blobs.setdefault(blob["file"], {**blob, "instances": {}})
        for key, value in blob.items():
            if known[key] != value:
                raise KernelBuildError(
                    f"blob {blob['file']}: {key} differs between two of its kernels: "
                    f"{json.dumps(known[key])} and {json.dumps(value)}; "
                    "put the value that makes the difference into the name"
                )
        if instantiate is not None:
            text = known["instances"].setdefault(kernel, instantiate)
            if text != instantiate:
                raise KernelBuildError(
                    f"blob {blob['file']}: kernel {kernel} is instantiated in two ways: "
                    f"{text} and {instantiate}; put the difference into the kernel's name"
                )
        return blob

    def keep(self, toolchains):
        """Drops what the given toolchains cannot build; returns the number of variants dropped by toolchain."""
        dropped = {}
        kept = []
        for entry in self.variants:
            missing = [toolchain for toolchain in entry["toolchains"] if toolchain not in toolchains]
            for toolchain in missing:
                dropped[toolchain] = dropped.get(toolchain, 0) + 1
            if not missing:
                kept.append(entry)
        self.variants = kept
        used = {launch["blob"]: set() for entry in kept for launch in entry["variant"]["launches"] if "blob" in launch}
        for entry in kept:
            for launch in entry["variant"]["launches"]:
                if "blob" in launch:
                    used[launch["blob"]].add(launch["kernel"])
        self.blobs = {name: blob for name, blob in self.blobs.items() if name in used}
        for name, blob in self.blobs.items():
            blob["instances"] = {kernel: text for kernel, text in blob["instances"].items() if kernel in used[name]}
        return dropped

    def to_json(self):
        order = sorted(range(len(self.variants)), key=lambda index: self.variants[index]["order"])
        return {
            "operator": self.operator,
            "target": self.names["target"],
            "backend": self.names["backend"],
            "arch": self.names["arch"],
            "warp_size": self.names["warp_size"],
            "blobs": [self.blobs[name] for name in sorted(self.blobs)],
            "variants": [self.variants[index]["variant"] for index in order],
        }


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
