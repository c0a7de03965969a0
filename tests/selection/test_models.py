# SPDX-License-Identifier: MIT
"""The study of real models' calls, on this machine's CPU.   test_models.py STUDY TOOL ROOT FOLDER

A share of the calls is measured, shrunk, with the kernels of this build: each must be served, timed and explained. Times of
a CPU that others use say nothing about the choices, so the bound is judged on invented times.
"""

import glob
import json
import os
import re
import subprocess
import sys

STUDY, TOOL, ROOT, FOLDER = sys.argv[1:]
sys.path.insert(0, STUDY)
sys.dont_write_bytecode = True

from models import entries_of_models

MODELS = [sys.executable, "-B", os.path.join(STUDY, "models.py")]


def run(*words):
    done = subprocess.run(
        [*MODELS, *words],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=500,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
    )
    return done.returncode, done.stdout


def expect(holds, message, output):
    if not holds:
        print(output)
        sys.exit(f"FAILED: {message}")


def invented(path, chosen_time, measured=True):
    call = {"model": "invented", "phase": "prefill", "operator": "softmax"}
    line = {
        "study": "softmax",
        "shape": 0,
        "pass": 0,
        "call": call,
        "problem": "rows=1",
        "chosen": [{"variant": "a", "reason": "exact"}, {"variant": "b", "reason": "heuristic"}],
    }
    if measured:
        line["times"] = {"a": 10.0, "b": chosen_time}
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n" + json.dumps({"planned": 1}) + "\n")


def check_operators(operators):
    """Every operator that has kernels for GPUs has calls, and language, vision, audio and video take part."""
    calls = list(entries_of_models())
    expect(len(calls) > 250, "too few calls", len(calls))
    missing = set(operators) - {call["operator"] for *_, call in calls}
    expect(not missing, f"operators without a call: {sorted(missing)}", "")
    phases = {phase for _, _, phase, _ in calls}
    for word in (
        "prefill",
        "chunked",
        "packed",
        "paged",
        "decode",
        "training",
        "encoder",
        "diffusion",
        "video",
        "vision",
        "sampling",
        "heads first",
    ):
        expect(any(word in phase for phase in phases), f"no call of phase {word}", phases)


def check_factors():
    """A stated time grows with the size of the call; a constant would win wherever calls are long."""
    count = 0
    for path in sorted(glob.glob(os.path.join(STUDY, "..", "..", "kernels", "*", "*.json"))):
        with open(path, encoding="utf-8") as file:
            for factors in json.load(file).get("cost_ns", {}).values():
                for key, line in factors.items():
                    expect(sum(line[1:]) > 0, f"{path}: the time of {key} does not grow", line)
                    count += 1
    expect(count > 250, "too few times are stated", count)


def check_sources():
    """Every model names the public configuration that its sizes come from, and gives the values they follow from."""
    calls = {}
    for model, source, _, call in entries_of_models():
        expect(calls.setdefault(model, (source, []))[0] == source, "two models have one name", model)
        calls[model][1].append(call)
    for model, (source, of_model) in calls.items():
        found = re.fullmatch(r"https://huggingface\.co/[\w.-]+/[\w.-]+ (\w+/)?config\.json: (.+)", source)
        expect(found, f"{model}: no public configuration is named", source)
        stated = {int(number) for number in re.findall(r"\b\d+\b", found[2])}
        stated |= {number for word, number in (("an eighth", 8), ("four times", 4)) if word in found[2]}
        follows = stated | {a * b for a in stated for b in stated} | {a + b for a in stated for b in stated}
        follows |= {a // b for a in stated for b in stated if b and a % b == 0}
        for call in of_model:
            for axis in ("head_dim", "head_dim_v", "heads", "columns", "window_left", "in_features", "out_features"):
                expect(
                    axis not in call or call[axis] in follows,
                    f"{model}: {axis} of {call['operator']} does not follow from the source",
                    call,
                )


def main():
    check_sources()
    check_factors()
    check_operators(os.listdir(os.path.join(ROOT, "kernels")))
    os.makedirs(FOLDER, exist_ok=True)
    path = os.path.join(FOLDER, "run.jsonl")
    counted = 0
    for only in ("Gemma 2 9B", "ModernBERT base", "GPT-2 XL"):
        status, output = run(
            TOOL, ROOT, path, "--small", "--only", only, "--seconds", "120", "--devices", "host", "--bound", "1e9"
        )
        expect(status == 0, f"calls of {only} were not all measured", output)
        with open(path, encoding="utf-8") as file:
            lines = [line for line in map(json.loads, file) if "study" in line]
        for line in lines:
            for choice in line["chosen"]:
                expect(choice["variant"] in line["times"] and choice["reason"], "a chosen variant has no time", line)
            counted += 1
    expect(counted >= 15, "too few calls", counted)
    for time, measured, wanted in ((12.0, True, 0), (13.0, True, 1), (12.0, False, 1)):
        invented(path, time, measured)
        status, output = run("--judge", path)
        expect(status == wanted, f"a choice of {time} us where 10 are possible gives status {status}", output)
        expect(wanted == 0 or "FAILED" in output, "the failure is not named", output)
    print(f"{counted} calls and 3 invented ones, 0 failed")


if __name__ == "__main__":
    main()
