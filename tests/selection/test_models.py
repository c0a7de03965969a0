# SPDX-License-Identifier: MIT
"""The study of real models' calls, on this machine's CPU.   test_models.py STUDY TOOL ROOT FOLDER

A share of the calls is measured, shrunk, with the kernels of this build: each must be served, timed and explained. Times of
a CPU that others use say nothing about the choices, so the bound is judged on invented times.
"""

import glob
import json
import lzma
import os
import re
import shutil
import subprocess
import sys

STUDY, TOOL, ROOT, FOLDER = sys.argv[1:]
sys.path.insert(0, STUDY)
sys.dont_write_bytecode = True

from models import entries_of_models, write

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


def invented(path, chosen_time, measured=True, own=None):
    call = {"model": "invented", "phase": "prefill", "operator": "softmax"}
    line = {
        "study": "softmax",
        "shape": 0,
        "pass": 0,
        "call": call,
        "problem": "rows=1",
        "chosen": [{"variant": "a", "reason": "exact"}, {"variant": "b", "reason": "heuristic"}],
    }
    if own:
        line["chosen"] = dict(zip(("all tables", "no rows"), line["chosen"])) | {
            "own table": {"variant": own, "reason": "exact"}
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


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        lines = list(map(json.loads, file))
    return [line for line in lines if "study" in line], lines[-1]


def check_tables(path, keep):
    """With the device's own rows, without those of the calls, and with those of another device: choices are made again where
    nothing was measured, and each set of tables decides as it must."""
    root = os.path.join(FOLDER, "own")
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    os.symlink(os.path.join(os.path.abspath(ROOT), "kernels"), os.path.join(root, "kernels"))
    shutil.copytree(os.path.join(keep, "tables"), os.path.join(root, "tables"), ignore=shutil.ignore_patterns("*.jsonl"))
    for table in glob.glob(os.path.join(root, "tables", "*", "*.json")):
        with open(table, encoding="utf-8") as file:
            content = json.load(file)
        content["device"]["name"] = "Another CPU"
        # Its rows prefer the slowest variant.
        for group in content["groups"]:
            for row in group["rows"]:
                worst = max(row["times_us"], key=row["times_us"].get)
                row["times_us"] = {worst: 0.001, **{key: us for key, us in row["times_us"].items() if key != worst}}
                row.pop("first", None)
        with open(os.path.join(os.path.dirname(table), "another.json"), "w", encoding="utf-8") as file:
            json.dump(content, file)
    status, output = run("--choose", path, TOOL, root, "--bound", "1e9")
    expect(status == 0, "choices were not made again", output)
    lines, last = lines_of(path)
    expect(last["planned"] == len(lines), "choosing again loses calls", last)
    reasons = {}
    for line in lines:
        expect(list(line["chosen"]) == ["all tables", "own table", "own, without the calls' rows", "Another CPU alone", "no rows"],
               "other sets of tables", line)  # fmt: skip
        for which, choice in line["chosen"].items():
            reasons.setdefault(which, set()).add(choice["reason"])
        slowest = max(line["times"], key=line["times"].get)
        expect(line["chosen"]["Another CPU alone"]["variant"] == slowest, "another device's rows do not decide", line)
    expect(reasons["own table"] == reasons["all tables"] == {"exact"}, "own rows do not decide", reasons)
    expect(not {"exact", "other_device"} & reasons["own, without the calls' rows"], "a row is left", reasons)
    expect(reasons["Another CPU alone"] == {"other_device"} and reasons["no rows"] == {"heuristic"}, "what decides", reasons)
    expect(
        "Another CPU alone: " in output and "; goal missed: mean 1.02" in output, "a goal that is missed is not named", output
    )
    status, output = run("--judge", path, "--bound", "1e9", "--goals")
    expect(status == 1, "a goal that is missed does not fail", output)
    status, output = run("--choose", path, TOOL, ROOT)
    expect(status != 0 and "no table of" in output, "a device that no table names", output)
    # An interruption before the choices leaves what was measured.
    bare = os.path.join(FOLDER, "bare.jsonl")
    write(
        bare,
        [{key: value for key, value in line.items() if key != "chosen"} for line in lines],
        last["planned"],
        last["device"],
    )
    status, output = run("--judge", bare)
    expect(
        status == 1 and f"nothing was chosen yet; models.py --choose {bare} does it" in output, "calls without choices", output
    )


def check_absent(path):
    """Choices for a device that is not here: the sets of tables that have no rows of it know it, too."""
    root, copy = os.path.join(FOLDER, "absent"), os.path.join(FOLDER, "absent.jsonl")
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(os.path.join(FOLDER, "own", "tables"), os.path.join(root, "tables"))
    os.symlink(os.path.join(os.path.abspath(ROOT), "kernels"), os.path.join(root, "kernels"))
    for table in glob.glob(os.path.join(root, "tables", "*", "*.json")):
        with open(table, encoding="utf-8") as file:
            content = json.load(file)
        if content["device"]["name"] != "Another CPU":
            content["device"]["name"] = "An absent CPU"
            with open(table, "w", encoding="utf-8") as file:
                json.dump(content, file)
    lines, last = lines_of(path)
    write(copy, lines, last["planned"], (last["device"][0], "An absent CPU"))
    status, output = run("--choose", copy, TOOL, root, "--bound", "1e9")
    expect(status == 0, "no choices for a device that is not here", output)
    again, _ = lines_of(copy)
    expect([line["chosen"] for line in again] == [line["chosen"] for line in lines], "other choices there", output)


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def check_files(path):
    """Choosing again keeps a compressed file compressed, and what was measured where writing fails, as on a full disk."""
    packed = path + ".xz"
    with lzma.open(packed, "wb") as out:
        out.write(bytes_of(path))
    root = os.path.join(FOLDER, "own")
    status, output = run("--choose", packed, TOOL, root, "--bound", "1e9")
    expect(status == 0, "a compressed file was not chosen for again", output)
    with lzma.open(packed, "rt", encoding="utf-8") as file, open(path, encoding="utf-8") as plain:
        expect(list(map(json.loads, file)) == list(map(json.loads, plain)), "a compressed file is another one now", output)
    before = bytes_of(packed)
    try:
        write(packed, [{"study": "softmax"}, {"study": object()}], 2, ("host", "a CPU"))
        sys.exit("FAILED: what cannot be written was written")
    except TypeError:
        expect(bytes_of(packed) == before, "what was measured is lost where writing fails", "")
    expect(not glob.glob(path + "*partial*"), "half a file is left", os.listdir(FOLDER))
    # Kernels that are not there are named.
    few = os.path.join(FOLDER, "few")
    shutil.rmtree(few, ignore_errors=True)
    os.makedirs(os.path.join(few, "kernels"))
    shutil.copytree(os.path.join(root, "tables"), os.path.join(few, "tables"))
    status, output = run("--choose", path, TOOL, few)
    expect(
        status != 0 and f"models.py: {few} has no kernel that serves " in output and "Traceback" not in output,
        "missing kernels",
        output,
    )
    broken = os.path.join(FOLDER, "broken.jsonl")
    with open(broken, "w", encoding="utf-8") as file:
        file.write("{}\n")
    status, output = run("--choose", broken, TOOL, root)
    expect(status != 0 and f"{broken} does not say which device was measured" in output, "a file without its end", output)


def add_device(keep):
    """Tables and notes as of another device, whose name sorts first. Returns this one's."""
    for path in glob.glob(os.path.join(keep, "tables", "*", "*.json")):
        other = os.path.join(os.path.dirname(path), "a-first-device.json")
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        name, content["device"]["name"] = content["device"]["name"], "A first device"
        with open(other, "w", encoding="utf-8") as file:
            json.dump(content, file)
        with open(path + ".tuning.jsonl", encoding="utf-8") as file:
            noted = list(map(json.loads, file))
        with open(other + ".tuning.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps({**line, "us": 12345.0}) + "\n" for line in noted if "us" in line)
    return name


def check_list(path):
    """Calls of any list; stopped and begun again."""
    listed, keep = os.path.join(FOLDER, "held_out.txt"), os.path.join(FOLDER, "keep_list")
    shutil.rmtree(keep, ignore_errors=True)
    with open(listed, "w", encoding="utf-8") as file:
        file.write(
            "softmax dtype=f32 : rows columns\n  4..16*2 256\nrotary dtype=f32 style=half head_dim=64 with in_place=true"
        )
        file.write(" heads_first=true : batch seqlen heads heads_kv\n  1 8 4 2\n")
        file.write(
            "rotary dtype=f32 style=half head_dim=64 batch=1 seqlen=8 heads=4 heads_kv=2 with in_place=true heads_first=false\n"
        )
    words = (TOOL, ROOT, path, "--problems", listed, "--devices", "host", "--bound", "1e9", "--keep", keep)
    status, output = run(*words, "--seconds", "0.01")
    expect(status == 1 and "of 5 calls were measured; allow more --seconds" in output, "no time for a list", output)
    status, output = run(*words, "--seconds", "60")
    lines, last = lines_of(path)
    expect(status == 0 and len(lines) == last["planned"] == 5, "a list was not measured", output)
    expect(
        {line["call"]["model"] for line in lines} == {"held_out"}
        and not any("heads_first" in line["problem"] for line in lines),
        "the list's calls",
        output,
    )
    name = add_device(keep)
    status, output = run(*words, "--seconds", "60")
    again, last = lines_of(path)
    expect(status == 0 and last["device"][1] == name, "another device's name", output)
    expect([line["times"] for line in again] == [line["times"] for line in lines], "another device's times", output)


def main():
    check_sources()
    check_factors()
    check_operators(os.listdir(os.path.join(ROOT, "kernels")))
    os.makedirs(FOLDER, exist_ok=True)
    path = os.path.join(FOLDER, "run.jsonl")
    counted = 0
    for only in ("Gemma 2 9B", "ModernBERT base", "GPT-2 XL"):
        keep = os.path.join(FOLDER, "keep")
        shutil.rmtree(keep, ignore_errors=True)
        words = ("--small", "--only", only, "--seconds", "120", "--devices", "host", "--bound", "1e9", "--keep", keep)
        status, output = run(TOOL, ROOT, path, *words)
        expect(status == 0, f"calls of {only} were not all measured", output)
        with open(path, encoding="utf-8") as file:
            lines = [line for line in map(json.loads, file) if "study" in line]
        for line in lines:
            for choice in line["chosen"].values():
                expect(choice["variant"] in line["times"] and choice["reason"], "a chosen variant has no time", line)
            counted += 1
    expect(counted >= 15, "too few calls", counted)
    check_tables(path, keep)
    check_absent(path)
    check_files(path)
    check_list(path)
    for time, measured, wanted in ((12.0, True, 0), (13.0, True, 1), (12.0, False, 1)):
        invented(path, time, measured)
        status, output = run("--judge", path)
        expect(status == wanted, f"a choice of {time} us where 10 are possible gives status {status}", output)
        expect(wanted == 0 or "FAILED" in output, "the failure is not named", output)
    invented(path, 10.0, own="c")
    status, output = run("--judge", path, "--goals")
    said = "own table: 1 of 1 choices are of variants without a time"
    expect(status == 1 and said in output, "a goal is met by a choice that was not timed", output)
    print(f"{counted} calls and 4 invented ones, 0 failed")


if __name__ == "__main__":
    main()
