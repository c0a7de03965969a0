# SPDX-License-Identifier: MIT
"""The real selector's choices, through the program `choose`."""

import json
import os
import subprocess

from manifests import manifest_of, number

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "kernels")


def write_manifest(path, operator, device, variants):
    """A manifest of the variants, whose kernels need not exist."""
    launch = {"blob": "none", "sha256": "0" * 64, "kernel": "none", "grid": [1], "block": [1], "parameters": []}
    document = {
        "schema": "switchyard.manifest/1",
        "operator": operator,
        "target": {"backend": device["backend"], "arch": device["arch"]},
        "variants": [{**variant, "launches": [launch]} for variant in variants],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)


def stated(manifest, variant, names, keys=("type", "config", "cost", "cost_us", "cost_ns")):
    """What choosing reads of a variant, but for conditions that read more than `names`."""
    known = {**names, **variant["config"]}
    requires = [text for text in variant["requires"] if manifest.value(text, known, None) is not None]
    return {"id": variant["id"], "requires": requires, **{key: variant[key] for key in keys if key in variant}}


def variants_of(study, with_costs=True):
    """The study's variants; those that the search spaces still have are as these state them."""
    own = {key: number(value) for key, value in type_of(study).items()}
    attributes = {key: value for key, value in study.device.items() if isinstance(value, int)}
    names = {**attributes, **own, **dict(zip(study.axes, study.grid[0].at))}
    manifest = manifest_of(KERNELS, study.operator, f"{study.device['backend']}-{study.device['arch']}")
    known = {variant["id"]: variant for variant in manifest.of_type(own)}
    keys = ("config", "cost", "cost_us", "cost_ns") if with_costs else ("config",)
    for variant in study.variants:
        found = stated(manifest, known[variant], names, keys) if variant in known else {"id": variant}
        yield {**found, "type": type_of(study)}


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
    """The study's type, with what its data does not say and costs read."""
    flags = {"in_place", "packed", "with_residual"}
    own = {name: bool(value) if name in flags else value for name, value in study.type.items()}
    if study.operator == "layer_norm_backward":
        own |= {"gamma_dtype": own["dtype"], "with_gamma": True, "with_residual": False, "with_weight_gradients": True}
    return own


def choose(program, folder, asked):
    """For each (study, table, queries, options) the variants chosen for the queries."""
    os.makedirs(folder, exist_ok=True)
    lines = []
    for i, (study, table, queries, options) in enumerate(asked):
        path = os.path.join(folder, f"table{i}.json")
        manifest = os.path.join(folder, f"manifest{i}.json")
        options = dict(options)
        variants = variants_of(study, options.pop("with_costs", True))
        write_manifest(manifest, study.operator, study.device, variants)
        write_table(path, study, table, **options)
        lines.append(json.dumps({"table": path, "manifest": manifest}))
        for query in queries:
            problem = dict(type_of(study), **dict(zip(study.axes, query.at)))
            lines.append(json.dumps({"problem": problem, "usable": list(query.times)}))
    answers = iter(answers_to(program, folder, lines))
    return [[next(answers) for _ in queries] for _, _, queries, _ in asked]


def answers_to(program, folder, lines):
    """What the program `choose` answers to these lines of queries."""
    path = os.path.join(folder, "queries.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    done = subprocess.run([program, path], text=True, stdout=subprocess.PIPE, check=True, timeout=600)
    return [json.loads(line) for line in done.stdout.splitlines()]
