# SPDX-License-Identifier: MIT
"""What choices cost at calls of real models, and at every kind of call that kernels serve.

    models.py TOOL ROOT OUTPUT [--seconds S] [--kinds] [--small] [--only TEXT] [--devices all] [--bound 1.25]
    models.py --judge OUTPUT [--bound 1.25]

TOOL is the program `switchyard`, ROOT a folder with kernels/ and tables/. `tune` times every admissible variant of each
call of tables/problems/models.txt on this machine's device; OUTPUT gets what was measured. The table printed shows the
time of the chosen variant over the best one's, with the rows of ROOT's tables and without. The exit status is 1 if one of
the two is above the bound for some call, or if a call could not be measured. --kinds adds combinations of type axes of
attention that no model has. --small shrinks every call to what a CPU can do in seconds. --only keeps calls whose model,
phase or operator contains the text. --judge reads an OUTPUT again.
"""

import argparse
import functools
import glob
import itertools
import json
import lzma
import math
import os
import subprocess
import sys
import tempfile

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


def value_of(text):
    return {"true": True, "false": False}.get(text, int(text) if text.isdigit() else text)


def text_of(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def entries_of_models():
    """(model, source, phase, call) of the list's lines; a call is the operator and its axes."""
    model = source = ""
    head, columns = {}, []
    with open(MODELS, encoding="utf-8") as file:
        for line in file:
            words, _, comment = (part.strip() for part in line.partition("#"))
            if not words:
                model, _, source = comment.partition(": ")
            elif not line.startswith(" "):
                operator, *named = words.partition(" : ")[0].split()
                head = {
                    "operator": operator,
                    **{axis: value_of(value) for axis, value in (word.split("=") for word in named if word != "with")},
                }
                columns = words.partition(" : ")[2].split()
            else:
                yield model, source, comment, {**head, **dict(zip(columns, map(int, words.split())))}


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
        (axes if name in known else others).append(f"{name}={text_of(value)}")
    return " ".join(axes + (["with", *others] if others else []))


def times_of(folder, operator):
    """What `tune` has noted: by problem, the last time of each variant."""
    out = {}
    for path in glob.glob(os.path.join(folder, operator, "*.tuning.jsonl")):
        with open(path, encoding="utf-8") as file:
            for line in map(json.loads, file):
                if "us" in line:
                    out.setdefault(line["problem"], {})[line["variant"]] = line["us"]
    return out


def choice(options, root, operator, problem):
    done = tool(
        argparse.Namespace(tool=options.tool, root=root),
        "--json",
        "explain",
        operator,
        *problem.split(),
        stdout=subprocess.PIPE,
        check=True,
    )
    chosen = json.loads(done.stdout)["choice"]
    return {"variant": chosen["variant"], "reason": chosen["reason"]}


def run(options):
    calls = list(calls_of_models()) + (list(kinds()) if options.kinds else [])
    if options.only:
        calls = [call for call in calls if options.only in " ".join((call["model"], call["phase"], call["operator"]))]
    if options.small:
        calls = [shrunk(call) for call in calls]
    if not calls:
        sys.exit("models.py: no call is left to measure")
    with tempfile.TemporaryDirectory() as folder:
        listed = os.path.join(folder, "calls.txt")
        with open(listed, "w", encoding="utf-8") as file:
            for i, call in enumerate(calls):
                file.write(f"{call['operator']} {words_of(options, call)} calls={len(calls) - i}\n")
        tool(
            options,
            "tune",
            "--problems",
            listed,
            "-o",
            os.path.join(folder, "tables") + "/",
            "--exhaustive",
            "--most",
            "64",
            "--checks",
            "never",
            "--budget",
            f"{options.seconds}s",
            *(["--devices", options.devices] if options.devices else []),
            check=False,
        )
        plain = os.path.join(folder, "plain")
        os.makedirs(plain)
        os.symlink(os.path.join(os.path.abspath(options.root), "kernels"), os.path.join(plain, "kernels"))
        with open(options.output, "w", encoding="utf-8") as out:
            for i, call in enumerate(calls):
                wanted = {f"{axis}={text_of(value)}" for axis, value in axes_of(call).items()}
                names = {word.partition("=")[0] for word in wanted}
                measured = times_of(os.path.join(folder, "tables"), call["operator"])
                # What no axis tells is not part of a problem's text.
                found = [
                    problem
                    for problem in measured
                    if all(word in wanted for word in problem.split() if word.partition("=")[0] in names)
                ]
                if not found:
                    continue
                line = {
                    "study": call["operator"],
                    "shape": i,
                    "pass": 0,
                    "call": call,
                    "problem": found[0],
                    "times": measured[found[0]],
                    "chosen": [choice(options, root, call["operator"], found[0]) for root in (options.root, plain)],
                }
                out.write(json.dumps(line) + "\n")
            out.write(json.dumps({"planned": len(calls)}) + "\n")


def combined(first, second):
    """Two runs' time of a variant: their mean, or the smaller where a hiccup made one of them long."""
    return math.sqrt(first * second) if max(first, second) < 1.15 * min(first, second) else min(first, second)


def read(path):
    """Measured calls, each with the times of both passes as one; and the number of calls planned."""
    calls, planned = {}, 0
    with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as file:
        for line in map(json.loads, file):
            planned = line.get("planned", planned)
            if "study" not in line:
                continue
            key = (line["study"], line["shape"])
            if key not in calls:
                calls[key] = line
            else:
                times = calls[key].get("times", {})
                for variant, time in line.get("times", {}).items():
                    times[variant] = combined(times[variant], time) if variant in times else time
    return list(calls.values()), planned


def judge(path, bound):
    """Prints what the choices cost; returns whether all calls were measured and are within the bound."""
    calls, planned = read(path)
    failures = 0 if len(calls) == planned else 1
    if failures:
        print(f"FAILED: {len(calls)} of {planned} calls were measured; allow more --seconds")
    results = []
    for measured in calls:
        call = measured["call"]
        name = f"{call['model']}: {call['phase']}, {call['operator']}"
        if not measured.get("times"):
            failures += 1
            print(f"FAILED: {name} {measured.get('problem', call)}: {measured.get('failed', 'no variant serves it')}")
            continue
        best = min(measured["times"].values())
        over = [measured["times"].get(choice["variant"], math.inf) / best for choice in measured["chosen"]]
        results.append((max(over), over, best, name, measured))
    results.sort(key=lambda result: -result[0])
    print("with rows  without  best us  variants  call")
    for worst, over, best, name, measured in results:
        print(f"{over[0]:9.3f} {over[1]:8.3f} {best:8.1f} {len(measured['times']):9}  {name} {{{measured['problem']}}}")
        if worst > bound:
            failures += 1
            print(
                f"  FAILED: above {bound}: best {min(measured['times'], key=measured['times'].get)}; chosen "
                + "; ".join(f"{choice['variant']} ({choice['reason']})" for choice in measured["chosen"])
            )
    for i, what in enumerate(("with rows", "without")):
        ratios = [over[i] for _, over, *_ in results]
        if ratios and max(ratios) < math.inf:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(
                f"{what}: {len(ratios)} calls, geometric mean {mean:.4f}, worst {max(ratios):.3f}, "
                f"{sum(ratio > bound for ratio in ratios)} above {bound}"
            )
    print(f"{len(results)} calls, {failures} failed")
    return failures == 0 and bool(results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", nargs="?")
    parser.add_argument("root", nargs="?")
    parser.add_argument("output", nargs="?")
    parser.add_argument("--judge", metavar="OUTPUT")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--bound", type=float, default=1.25)
    parser.add_argument("--only")
    parser.add_argument("--devices", help="as `tune --devices`")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    if not options.judge:
        if not options.output:
            parser.error("TOOL, ROOT and OUTPUT are needed")
        run(options)
    sys.exit(0 if judge(options.judge or options.output, options.bound) else 1)


if __name__ == "__main__":
    main()
