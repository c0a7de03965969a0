# SPDX-License-Identifier: MIT
"""The real selector's choices, through the program `choose`."""

import json
import os
import re
import subprocess

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "kernels")
CONFIG = {"m": "block_m", "n": "block_n", "split": "splits"}


def space_costs():
    """The costs that the attention kernels' search spaces state, by the names there."""
    out = {}
    for name in ("triton", "hopper"):
        with open(os.path.join(KERNELS, "attention", f"attention_forward.{name}.json"), encoding="utf-8") as file:
            defined = json.load(file)["define"]
        out[name] = {key: text for key, text in defined.items() if key.endswith("_cost")}
    return out


def write_manifest(path, study, with_costs=True):
    """A manifest of the study's variants: their costs as the search spaces of today state them, and what these read of
    their configuration as the ids spell it."""
    costs = space_costs() if with_costs and study.operator == "attention_forward" else {}
    variants = []
    for variant in study.variants:
        config = {CONFIG[key]: int(value) for key, value in re.findall(r"_(m|n|split)(\d+)(?=_|$)", variant)}
        entry = {"id": variant, "type": type_of(study)}
        if "splits" in config:
            config["block_m"] = 16
        if costs and config:
            entry["config"] = config
            entry["cost"] = costs[variant.split("_")[0]]["split_cost" if "splits" in config else "tile_cost"]
        entry["launches"] = [
            {"blob": "none", "sha256": "0" * 64, "kernel": "none", "grid": [1], "block": [1], "parameters": []}
        ]
        variants.append(entry)
    document = {
        "schema": "switchyard.manifest/1",
        "operator": study.operator,
        "target": {"backend": study.device["backend"], "arch": study.device["arch"]},
        "variants": variants,
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)


def write_table(path, study, table, match=None, neighbours=8, envelope=1.5):
    """A table of rules.Table's rows, as a file."""
    document = {
        "schema": "switchyard.table/1",
        "operator": study.operator,
        "device": study.device,
        "match": match or {axis: "log" for axis in study.axes},
        "neighbours": neighbours,
        "envelope": envelope,
        "groups": [
            {
                "type": type_of(study),
                "axes": study.axes,
                "rows": [{"at": at, "times_us": {v: float(f"{2**t:.4g}") for v, t in times}} for at, times in table.rows],
            }
        ],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)


def type_of(study):
    flags = {"in_place", "packed", "with_residual"}
    return {name: bool(value) if name in flags else value for name, value in study.type.items()}


def choose(program, folder, asked):
    """For each (study, table, queries, options) the variants chosen for the queries."""
    os.makedirs(folder, exist_ok=True)
    lines = []
    for i, (study, table, queries, options) in enumerate(asked):
        path = os.path.join(folder, f"table{i}.json")
        manifest = os.path.join(folder, f"manifest{i}.json")
        options = dict(options)
        write_manifest(manifest, study, options.pop("with_costs", True))
        write_table(path, study, table, **options)
        lines.append(json.dumps({"table": path, "manifest": manifest}))
        for query in queries:
            problem = dict(type_of(study), **dict(zip(study.axes, query.at)))
            lines.append(json.dumps({"problem": problem, "usable": list(query.times)}))
    path = os.path.join(folder, "queries.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    done = subprocess.run([program, path], text=True, stdout=subprocess.PIPE, check=True, timeout=600)
    answers = iter([json.loads(line) for line in done.stdout.splitlines()])
    return [[next(answers) for _ in queries] for _, _, queries, _ in asked]
