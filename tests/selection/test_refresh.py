# SPDX-License-Identifier: MIT
"""Rows that are measured again after their kernels were rebuilt.   test_refresh.py STUDY MEASURE ROOT FOLDER

The tables, the manifest and the times of the GPU are invented; the rows of the last case are measured on this machine's CPU.
"""

import json
import os
import shutil
import subprocess
import sys

STUDY, MEASURE, ROOT, FOLDER = sys.argv[1:]
OLD, NEW = "0" * 16, "1" * 16
ENVIRONMENT = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}


def refresh(*words):
    return subprocess.run(
        [sys.executable, "-B", os.path.join(STUDY, "refresh.py"), *words],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        timeout=60,
    ).stdout


checks = 0


def expect(holds, message, found):
    global checks
    checks += 1
    if not holds:
        print(json.dumps(found, indent=1))
        sys.exit(f"FAILED: {message}")


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(path, *documents):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in documents)


def table(rows_of_types):
    groups = [
        {
            "type": {"dtype": dtype},
            "axes": ["rows", "columns"],
            "measured_with": {"alignment": 16},
            "blobs": {"fast": blob, "slow": NEW},
            "rows": [{"at": at, "times_us": {"fast": 1.0, "slow": 2.0}} for at in rows],
        }
        for dtype, blob, rows in rows_of_types
    ]
    return {
        "schema": "switchyard.table/1",
        "operator": "softmax",
        "device": {"backend": "cuda"},
        "measured": {"date": "2000-01-01"},
        "groups": groups,
    }


def line(study, shape, at, times):
    return {"study": study, "shape": shape, "pass": 0, "times": times, "problem": f"dtype=f32 rows={at[0]} columns={at[1]}"}


def check_stale_groups_alone_are_planned_and_replaced():
    tables, kernels, plan, lines = (os.path.join(FOLDER, name) for name in ("tables", "kernels", "plan.json", "lines.jsonl"))
    path = os.path.join(tables, "softmax", "a-gpu.json")
    shapes = [[1, 64], [4, 64]]
    write(path, table([("f32", OLD, shapes), ("f16", NEW, shapes), ("bf16", OLD, shapes)]))
    launch = {"like": "row", "kernel": "softmax"}
    write(
        os.path.join(kernels, "softmax", "cuda-sm_90", "manifest.json"),
        {
            "shared": {"row": {"blob": "a.cubin", "sha256": NEW * 4}},
            "variants": [{"id": name, "type": {}, "launches": [launch]} for name in ("fast", "slow")],
        },
    )

    refresh("plan", tables, kernels, plan, "--device", "a-gpu")
    studies = read(plan)["studies"]
    expect([each["name"] for each in studies] == ["softmax/0", "softmax/2"], "the groups with old blobs are planned", studies)
    expect(
        studies[0]["shapes"] == shapes and studies[0]["type"] == {"dtype": "f32"}, "all rows of a group are planned", studies
    )
    refresh("plan", tables, kernels, plan + ".none", "--device", "a-gpu", "--only", "rotary")
    expect(read(plan + ".none")["studies"] == [], "--only leaves the others out", plan)

    write(
        lines,
        line("softmax/0", 0, shapes[0], {"fast": 4.0, "slow": 3.0}),
        line("softmax/0", 1, shapes[1], {"slow": 5.0}),
        line("softmax/2", 0, shapes[0], {"fast": 6.0}),
        {"planned": 4},
    )
    before = read(path)["groups"]
    said = refresh("write", tables, kernels, plan, lines, "--device", "a-gpu")
    after = read(path)
    groups = {each["type"]["dtype"]: each for each in after["groups"]}
    expect(
        groups["f32"]["rows"]
        == [{"at": shapes[0], "times_us": {"fast": 4.0, "slow": 3.0}}, {"at": shapes[1], "times_us": {"slow": 5.0}}],
        "the rows have the new times",
        groups["f32"],
    )
    expect(groups["f32"]["blobs"] == {"fast": NEW, "slow": NEW}, "the rows name the new blobs", groups["f32"])
    expect(groups["f16"] == before[1], "a group that is not stale stays as it is", groups["f16"])
    expect(groups["bf16"] == before[2], "a group that was measured in part stays as it is", groups["bf16"])
    expect("softmax/2: left as it is, 1 of 2 rows were not measured, first [[4, 64]]" in said, "what is left out is said", said)
    expect(after["measured"]["date"] > "2020", "the table is dated anew", after["measured"])


def check_measure_takes_the_plan():
    """The types of real tables are what workloads take; a CPU's rows stand in for a GPU's."""
    tables, plan, lines = (os.path.join(FOLDER, name) for name in ("host", "host.json", "host.jsonl"))
    name = "intel-r-xeon-r-processor"
    source = os.path.join(STUDY, "..", "layer_norm", name + ".json")
    with open(source, encoding="utf-8") as file:
        document = json.load(file)
    document["groups"] = [{**document["groups"][0], "blobs": {next(iter(document["groups"][0]["rows"][0]["times_us"])): OLD}}]
    write(os.path.join(tables, "layer_norm", name + ".json"), document)
    write(
        os.path.join(FOLDER, "host-kernels", "layer_norm", "cuda-any", "manifest.json"),
        {
            "variants": [
                {"id": each, "type": {}, "launches": [{"blob": "a", "sha256": NEW * 4}]}
                for each in document["groups"][0]["blobs"]
            ]
        },
    )
    refresh("plan", tables, os.path.join(FOLDER, "host-kernels"), plan, "--device", name)
    study = read(plan)["studies"][0]
    study.update(shapes=study["shapes"][:1], held_out=[1])
    write(plan, {"studies": [study]})
    subprocess.run([MEASURE, ROOT, plan, lines, "20", "1"], check=True, env=ENVIRONMENT, timeout=100)
    with open(lines, encoding="utf-8") as file:
        measured = [each for each in map(json.loads, file) if each.get("times")]
    expect(len(measured) == 1 and measured[0]["study"] == study["name"], "the row was measured", measured)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    check_stale_groups_alone_are_planned_and_replaced()
    check_measure_takes_the_plan()
    print(f"{checks} checks, 0 failed")


if __name__ == "__main__":
    main()
