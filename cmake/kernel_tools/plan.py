# SPDX-License-Identifier: MIT
"""What is to be built for one operator and target: blobs and variants, as rules expand into them."""

import json
import os
import re

from . import KernelBuildError
from .scope import MISSING

COST_NS = re.compile(r"\bcost_ns\b")  # in a rule's cost: the sum of its terms

BACKEND_OF = {"host": ("host",), "nvcc": ("cuda",), "hip": ("hip",), "triton": ("cuda", "hip")}


def file_name(toolchain, name, names):
    if toolchain == "host":
        return f"{name}.so"
    if names["backend"] == "hip":
        return f"{name}.hsaco"
    return f"{name}.ptx" if names["arch"].startswith("compute_") else f"{name}.cubin"


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
        cost = scope.resolve(rule.get("cost", MISSING))
        reads_time = cost is not MISSING and COST_NS.search(cost) is not None
        if cost is not MISSING and not reads_time:
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
                if reads_time:
                    time = variant["cost_ns"]
                    variant["cost"] = time if cost == "cost_ns" else COST_NS.sub(f"({time})", cost)
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
