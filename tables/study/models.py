# SPDX-License-Identifier: MIT
"""What choices cost at calls of real models, and at every kind of call that kernels serve.

    models.py MEASURE ROOT OUTPUT [--seconds S] [--kinds] [--small] [--only TEXT] [--bound 1.25]
    models.py --judge OUTPUT [--bound 1.25]

MEASURE is the program of measure.cpp, ROOT a folder with kernels/ and tables/. Every admissible variant of each call of
models.json is timed on this machine's device; OUTPUT gets what was measured. The table printed shows the time of the
chosen variant over the best one's, with the rows of ROOT's tables and without. The exit status is 1 if one of the two is
above the bound for some call, or if a call could not be measured. --kinds adds combinations of type axes of attention
that no model above has. --small shrinks every call to what a CPU can do in seconds. --only keeps calls whose model, phase
or operator contains the text. --judge reads an OUTPUT again.
"""

import argparse
import itertools
import json
import lzma
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
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


def calls_of_models():
    with open(os.path.join(HERE, "models.json"), encoding="utf-8") as file:
        for model in json.load(file)["models"]:
            for call in model["calls"]:
                yield {"model": model["model"], **call}


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
    out = {key: min(value, SIZES[key]) if key in SIZES else value for key, value in call.items()}
    if "dtype" in call and call["operator"] != "attention_decode":  # whose caches have no kernels in f32
        out["dtype"] = "f32"
    if out.get("seqlen_q", 0) > 1 and call.get("seqlen_q") == call.get("seqlen_k"):
        out["seqlen_k"] = out["seqlen_q"]
    return out


def plan_of(calls):
    """One study for each operator: what is loaded for one call serves the next."""
    studies = {}
    for call in calls:
        study = studies.setdefault(
            call["operator"],
            {"name": call["operator"], "operator": call["operator"], "type": {}, "axes": [], "shapes": [], "held_out": []},
        )
        study["shapes"].append({key: value for key, value in call.items() if key not in ("model", "phase", "operator")})
        study["held_out"].append(1)
    return {"studies": list(studies.values()), "first_pass": 1.0}  # a second pass is worth less than a call that is missing


def run(options):
    calls = list(calls_of_models()) + (list(kinds()) if options.kinds else [])
    if options.only:
        calls = [each for each in calls if options.only in " ".join((each["model"], each["phase"], each["operator"]))]
    if options.small:
        calls = [shrunk(each) for each in calls]
    if not calls:
        sys.exit("models.py: no call is left to measure")
    with tempfile.TemporaryDirectory() as folder:
        plan, lines = os.path.join(folder, "plan.json"), os.path.join(folder, "lines.jsonl")
        with open(plan, "w", encoding="utf-8") as file:
            json.dump(plan_of(calls), file)
        subprocess.run(
            [options.measure, options.root, plan, lines, str(options.seconds), "1" if options.small else "2"], check=True
        )
        by_operator = {}
        for call in calls:
            by_operator.setdefault(call["operator"], []).append(call)
        with open(lines, encoding="utf-8") as file, open(options.output, "w", encoding="utf-8") as out:
            for line in map(json.loads, file):
                if "study" in line:
                    line["call"] = by_operator[line["study"]][line["shape"]]
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
    for each in calls:
        call = each["call"]
        name = f"{call['model']}: {call['phase']}, {call['operator']}"
        if not each.get("times"):
            failures += 1
            print(f"FAILED: {name} {each.get('problem', call)}: {each.get('failed', 'no variant serves it')}")
            continue
        best = min(each["times"].values())
        over = [each["times"].get(choice["variant"], math.inf) / best for choice in each["chosen"]]
        results.append((max(over), over, best, name, each))
    results.sort(key=lambda result: -result[0])
    print("with rows  without  best us  variants  call")
    for worst, over, best, name, each in results:
        print(f"{over[0]:9.3f} {over[1]:8.3f} {best:8.1f} {len(each['times']):9}  {name} {{{each['problem']}}}")
        if worst > bound:
            failures += 1
            print(
                f"  FAILED: above {bound}: best {min(each['times'], key=each['times'].get)}; chosen "
                + "; ".join(f"{choice['variant']} ({choice['reason']})" for choice in each["chosen"])
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
    parser.add_argument("measure", nargs="?")
    parser.add_argument("root", nargs="?")
    parser.add_argument("output", nargs="?")
    parser.add_argument("--judge", metavar="OUTPUT")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--bound", type=float, default=1.25)
    parser.add_argument("--only")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    if not options.judge:
        if not options.output:
            parser.error("MEASURE, ROOT and OUTPUT are needed")
        run(options)
    sys.exit(0 if judge(options.judge or options.output, options.bound) else 1)


if __name__ == "__main__":
    main()
