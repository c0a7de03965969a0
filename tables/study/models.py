# SPDX-License-Identifier: MIT
"""What choices cost at calls of real models, and at every kind of call that kernels serve.

    models.py TOOL ROOT OUTPUT [--seconds S] [--keep FOLDER] [--problems LIST] [--kinds] [--small] [--only TEXT] [--devices all]
        [--bound 1.25] [--goals]
    models.py --judge OUTPUT [--bound 1.25] [--goals]
    models.py --choose OUTPUT TOOL ROOT        choose again, with today's tables, for what was measured

TOOL is the program `switchyard`, ROOT a folder with kernels/ and tables/. `tune` times every admissible variant of each call
of tables/problems/models.txt, or of LIST, on this machine's device; OUTPUT gets what was measured. With --keep, times are
noted in FOLDER, and the same command goes on where it was stopped; other kernels or another list need another FOLDER. The
table printed shows the time of the chosen variant over the best one's, with all tables of ROOT, with the device's own, with
its own but for the calls' rows, with those of each other device of the backend alone, and without any. The exit status is 1 if
it is above the bound for some call, with all tables or with none, if a call could not be measured, or, with --goals, if a goal
below is missed. --kinds adds combinations of type axes of attention that no model has. --small shrinks every call to what a
CPU can do in seconds. --only keeps calls whose model, phase or operator contains the text. --judge reads an OUTPUT again;
--choose needs no device.
"""

import argparse
import concurrent.futures
import contextlib
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile

import table_sets
from judging import judge, opened
from problem_lists import lines_of
from table_sets import OWN, value_text

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "problems", "models.txt")
SIZES = {
    "batch": 2,
    "heads": 4,
    "heads_kv": 2,
    "seqlen": 32,
    "seqlen_q": 48,
    "seqlen_k": 64,
    "rows": 64,
    "columns": 512,
    "window_left": 16,
    "window_right": 16,
    "tokens": 16,
    "in_features": 512,
    "out_features": 256,
}


def entries_of_models():
    """(model, source, phase, call) of the list's lines; a call is the operator and its axes."""
    model = source = ""
    for line in lines_of(MODELS):
        if not line.head:
            model, _, source = line.comment.partition(": ")
        for operator, axes, options in line.problems:
            yield model, source, line.comment, {"operator": operator, **axes, **options}


def calls_of_models():
    for model, _, phase, call in entries_of_models():
        yield {"model": model, "phase": phase, **call}


def kinds():
    """Attention with each feature, and with each two, at head dims that have kernels of their own and others."""
    features = (
        {"window": True},
        {"soft_capped": True},
        {"biased": True},
        {"alibi": True},
        {"sink": True},
        {"dropout": True},
        {"with_lse": True},
        {"packed_q": True, "kv": "packed"},
        {"seqused": True},
        {"kv": "paged", "page_size": 16},
    )
    pairs = [{**a, **b} for a, b in itertools.combinations(features, 2) if not ("kv" in a and "kv" in b)]
    shapes = ((1, 32, 8, 2048, 2048), (8, 16, 16, 300, 300), (2, 32, 8, 128, 4096))
    dims = (
        {"head_dim": 40},
        {"head_dim": 64},
        {"head_dim": 80},
        {"head_dim": 96},
        {"head_dim": 128},
        {"head_dim": 160},
        {"head_dim": 192},
        {"head_dim": 192, "head_dim_v": 128},
        {"head_dim": 256},
    )
    for dim, mask in itertools.product(dims, ("none", "causal_bottom_right")):
        for i, extra in enumerate(itertools.chain(({},), features, pairs)):
            batch, heads, heads_kv, seqlen_q, seqlen_k = shapes[i % len(shapes)]
            yield {
                "model": "kinds",
                "phase": "prefill",
                "operator": "attention_forward",
                "dtype": "bf16",
                **dim,
                "mask": mask,
                "batch": batch,
                "heads": heads,
                "heads_kv": heads_kv,
                "seqlen_q": seqlen_q,
                "seqlen_k": seqlen_k,
                **extra,
            }


def shrunk(call):
    out = {
        key: min(value, SIZES[key]) if key in SIZES else value for key, value in call.items() if not key.endswith("alignment")
    }  # which follows from the sizes
    if "dtype" in call and call["operator"] != "attention_decode":  # whose caches have no kernels in f32
        out["dtype"] = "f32"
    if out.get("seqlen_q", 0) > 1 and call.get("seqlen_q") == call.get("seqlen_k"):
        out["seqlen_k"] = out["seqlen_q"]
    return out


def axes_of(call):
    return {key: value for key, value in call.items() if key not in ("model", "phase", "operator")}


def tool(options, *words, **more):
    return subprocess.run([options.tool, "--root", options.root, *words], text=True, **more)


@functools.cache
def axis_names(program, operator):
    done = subprocess.run([program, "describe", operator], text=True, stdout=subprocess.PIPE, check=True)
    return {axis["name"] for axis in json.loads(done.stdout)["axes"]}


def words_of(options, call):
    """An entry's words: all axes first, so that no call takes the row of one that differs in its type."""
    known = axis_names(options.tool, call["operator"])
    axes, others = [], []
    for name, value in axes_of(call).items():
        (axes if name in known else others).append(f"{name}={value_text(value)}")
    return " ".join(axes + (["with", *others] if others else []))


def times_of(folder, operator, table):
    """What `tune` has noted beside a table: by problem, the last time of each variant."""
    out = {}
    path = os.path.join(folder, "tables", operator, table + ".tuning.jsonl")
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        for line in map(json.loads, file):
            if "us" in line:
                out.setdefault(line["problem"], {})[line["variant"]] = line["us"]
    return out


def split(options, operator, problem):
    """The words of a noted problem: its axes, as text and as a dict, and what else its workload was asked for."""
    known = axis_names(options.tool, operator)
    axes, others = {}, {}
    for word in problem.split():
        name, _, value = word.rpartition("=")
        (axes if name in known else others)[name] = value
    return " ".join(f"{name}={value}" for name, value in axes.items()), axes, others


def is_measurement_of(options, call, problem):
    """Whether a noted problem is this call. Options that no axis holds are noted as numbers."""
    _, axes, others = split(options, call["operator"], problem)
    for name, value in axes_of(call).items():
        if name in axes and axes[name] != value_text(value):
            return False
        if name not in axes and others.get(name) != str(int(value)):
            return False
    return not set(others) - set(call)


def choice(options, root, operator, problem, device):
    done = tool(
        argparse.Namespace(tool=options.tool, root=root),
        "--json",
        "explain",
        operator,
        *problem.split(),
        *(["--device", device] if device else []),
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"models.py: {options.root} has no kernel that serves {operator} {{{problem}}}: build them there")
    chosen = json.loads(done.stdout)["choice"]
    return {"variant": chosen["variant"], "reason": chosen["reason"]}


def choose(options, lines, device, by_name):
    """Adds to each measured call what each set of tables chooses. `by_name`: as tables describe the device, whose driver is not
    started for each choice, which takes a second on a machine of several."""
    problems = {}
    for line in lines:
        problems.setdefault(line["study"], []).append(split(options, line["study"], line["problem"])[1])
    with tempfile.TemporaryDirectory() as folder:
        roots = table_sets.make_roots(options.root, folder, device, problems)
        if by_name and OWN not in roots:
            sys.exit(f"models.py: no table of {options.root} is of {device[1]}: choose on such a device")

        def chosen(line, root):
            return choice(options, root, line["study"], line["problem"], device[1] if by_name else "")

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            futures = [{which: pool.submit(chosen, line, root) for which, root in roots.items()} for line in lines]
            for line, of_line in zip(lines, futures):
                line["chosen"] = {which: future.result() for which, future in of_line.items()}


def tune(options, listed, folder):
    """Measures a list. Returns the device that was measured, backend and name, and the name of its tables. A folder that is kept
    may have those of other devices: the same command went on at another machine."""
    words = ["--exhaustive", "--most", "64", "--checks", "never", "--budget", f"{options.seconds}s"]
    words += ["--devices", options.devices] if options.devices else []
    out = os.path.join(folder, "tables") + "/"
    done = tool(options, "--json", "tune", "--problems", listed, "-o", out, *words, stdout=subprocess.PIPE, check=False)
    outcomes = json.loads(done.stdout or "[]")
    for outcome in outcomes:
        print(
            f"{outcome['table']}: {outcome['measured']} of {outcome['problems']} problems measured, {outcome['before']} before"
        )
        for line in outcome["left_out"]:
            print(f"  left out: {line}")
    names = {os.path.basename(outcome["table"]) for outcome in outcomes}
    if len(names) != 1:
        sys.exit(f"models.py: `tune` ended with exit status {done.returncode}; what it measured is in {out}")
    name = names.pop()
    for path, table in table_sets.tables_of(folder):
        if os.path.basename(path) == name:
            return (table["device"]["backend"], table["device"]["name"]), name
    return ("", ""), name


def planned_of(options, listed, folder):
    """How many kinds of calls a list has, and their operators."""
    words = ["-o", os.path.join(folder, "none") + "/", *(["--devices", options.devices] if options.devices else [])]
    done = tool(options, "--json", "tune", "--problems", listed, *words, "--plan", stdout=subprocess.PIPE, check=True)
    batches = json.loads(done.stdout)
    return sum(batch["kinds"] for batch in batches), {batch["operator"] for batch in batches}


def measured_of_list(options, folder):
    """What was measured of a list of problems, how many there are, and the device."""
    planned, operators = planned_of(options, options.problems, folder)
    device, table = tune(options, options.problems, folder)
    name = os.path.splitext(os.path.basename(options.problems))[0]
    lines = []
    for operator in sorted(operators):
        for problem, times in times_of(folder, operator, table).items():
            call = {"model": name, "phase": "listed", "operator": operator}
            lines.append({"call": call, "problem": split(options, operator, problem)[0], "times": times})
    return lines, planned, device


def measured_of_calls(options, folder):
    """The same of models' calls."""
    calls = list(calls_of_models()) + (list(kinds()) if options.kinds else [])
    if options.only:
        calls = [call for call in calls if options.only in " ".join((call["model"], call["phase"], call["operator"]))]
    if options.small:
        calls = [shrunk(call) for call in calls]
    if not calls:
        sys.exit("models.py: no call is left to measure")
    listed = os.path.join(folder, "calls.txt")
    with open(listed, "w", encoding="utf-8") as file:
        for i, call in enumerate(calls):
            file.write(f"{call['operator']} {words_of(options, call)} calls={len(calls) - i}\n")
    device, table = tune(options, listed, folder)
    noted = {operator: times_of(folder, operator, table) for operator in {call["operator"] for call in calls}}
    lines = []
    for i, call in enumerate(calls):
        measured = noted[call["operator"]]
        found = [problem for problem in measured if is_measurement_of(options, call, problem)]
        if found:
            problem = split(options, call["operator"], found[0])[0]
            lines.append({"shape": i, "call": call, "problem": problem, "times": measured[found[0]]})
    return lines, len(calls), device


def write(path, lines, planned, device):
    """Replaces the file as a whole: a full disk or an interruption leaves the measurements that it had."""
    fresh = path + ".partial"
    try:
        with opened(path, "w", fresh) as out:
            for line in lines:
                out.write(json.dumps(line) + "\n")
            out.write(json.dumps({"planned": planned, "device": device}) + "\n")
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(fresh)
        raise


def run(options):
    with contextlib.ExitStack() as stack:
        folder = options.keep or stack.enter_context(tempfile.TemporaryDirectory())
        os.makedirs(folder, exist_ok=True)
        lines, planned, device = (measured_of_list if options.problems else measured_of_calls)(options, folder)
    lines = [{"study": line["call"]["operator"], "shape": i, "pass": 0, **line} for i, line in enumerate(lines)]
    write(options.output, lines, planned, device)  # what was measured is kept if the choices are interrupted
    choose(options, lines, device, by_name=device[0] != "host" and table_sets.has_table_of(options.root, device))
    write(options.output, lines, planned, device)


def choose_again(options):
    with opened(options.choose) as file:
        found = list(map(json.loads, file))
    lines, last = [line for line in found if "study" in line], next((line for line in found if "planned" in line), {})
    if not last.get("device"):
        sys.exit(f"models.py: {options.choose} does not say which device was measured")
    choose(options, lines, last["device"], by_name=True)
    write(options.choose, lines, last["planned"], last["device"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", nargs="?")
    parser.add_argument("root", nargs="?")
    parser.add_argument("output", nargs="?")
    parser.add_argument("--judge", metavar="OUTPUT")
    parser.add_argument("--choose", metavar="OUTPUT")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--keep", metavar="FOLDER", default="")
    parser.add_argument("--problems", metavar="LIST", default="")
    parser.add_argument("--bound", type=float, default=1.25)
    parser.add_argument("--goals", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--devices", help="as `tune --devices`")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    if options.choose:
        if not options.root or options.output:
            parser.error("--choose OUTPUT: TOOL and ROOT are needed")
        choose_again(options)
    elif not options.judge:
        if not options.output:
            parser.error("TOOL, ROOT and OUTPUT are needed")
        run(options)
    path = options.judge or options.choose or options.output
    sys.exit(0 if judge(path, options.bound, options.goals) else 1)


if __name__ == "__main__":
    main()
