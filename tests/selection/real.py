"""The real selector's choices, through the program `choose`."""

import json
import os
import subprocess


def write_table(path, study, table, match=None, neighbours=8, envelope=1.5):
    """A table of rules.Table's rows, as a file."""
    document = {"schema": "switchyard.table/1", "operator": study.operator, "device": study.device,
                "match": match or {axis: "log" for axis in study.axes}, "neighbours": neighbours, "envelope": envelope,
                "groups": [{"type": type_of(study), "axes": study.axes,
                            "rows": [{"at": at, "times_us": {v: float(f"{2 ** t:.4g}") for v, t in times}}
                                     for at, times in table.rows]}]}
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
        write_table(path, study, table, **options)
        lines.append(json.dumps({"table": path}))
        for each in queries:
            problem = dict(type_of(study), **dict(zip(study.axes, each.at)))
            lines.append(json.dumps({"problem": problem, "usable": list(each.times)}))
    path = os.path.join(folder, "queries.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    done = subprocess.run([program, path], text=True, stdout=subprocess.PIPE, check=True, timeout=600)
    answers = iter([json.loads(line) for line in done.stdout.splitlines()])
    return [[next(answers) for _ in queries] for _, _, queries, _ in asked]
