# SPDX-License-Identifier: MIT
"""Every kind of call that the tuner can make, with the CPU's kernels: each variant passes its check, so what a
workload expects is what its operator's kernels compute.   test_workloads.py TOOL DATA FOLDER [few]

With few: one call of each line, with what an operator may leave out, and without the large ones.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

TOOL, DATA, FOLDER, *GIVEN = sys.argv[1:]
TYPES = "dtype=f32,f16,bf16"
ROTARY = ["rotary", TYPES, "head_dim=64", "batch=2", "seqlen=19", "heads=4"]
FORWARD = ["attention_forward", TYPES, "head_dim=64", "batch=2", "heads=4", "heads_kv=2", "seqlen_q=33"]
BACKWARD = ["attention_backward", TYPES, "head_dim=64", "batch=2", "heads=4", "heads_kv=2", "seqlen_q=33"]
DECODE = "attention_decode dtype=f16,bf16 head_dim=64,128 batch=2 heads=4 heads_kv=2 seqlen_q=1,3 seqlen_k=100".split()
LATENT = ["latent=true", "head_dim=576", "head_dim_v=512", "heads_kv=1"]
MASKED = ["block_masked=true", "mask=none", "seqlen_q=150", "seqlen_k=300"]
ROWS = [TYPES, "rows=1,37", "columns=100,1024"]
CALLS = [
    [*ROTARY, "style=half,interleaved", "inverse=true,false", "heads_kv=0,2", "in_place=true,false"],
    [
        *ROTARY,
        "rotary_dim=32",
        "table=true,false",
        "variable_length=true,false",
        "positions_from=offset,sequence_offsets,explicit_ids",
    ],
    [*ROTARY, "table_dtype=f32,f16,bf16"],
    [*FORWARD, "mask=none,causal_top_left,causal_bottom_right", "seqlen_k=33,70", "with_lse=true,false"],
    [*FORWARD, "window=true,false", "soft_capped=true,false", "biased=true,false", "alibi=true"],
    [*FORWARD, "sink=true", "dropout=true,false", "head_dim_v=64"],
    [*FORWARD, "packed_q=true,false", "kv=dense,packed,paged", "with_lse=true", "seqused=true"],
    [*FORWARD, "dtype=f16,bf16", "kv_dtype=f8_e4m3", "kv=dense,packed,paged", "packed_q=true,false", "seqused=true"],
    [*FORWARD, "dtype=f16,bf16", "q_dtype=f8_e4m3", "kv_dtype=f8_e4m3", "kv=dense,packed", "with_lse=true"],
    [*FORWARD, "seqlen_k=5000", "batch=1", "dtype=f32"],  # more than the reference does in a moment: by rows
    [*BACKWARD, "mask=none,causal_top_left,causal_bottom_right", "seqlen_k=33,70", "with_dlse=true,false"],
    [*BACKWARD, "window=true,false", "biased=true", "with_dbias=true,false", "alibi=true,false"],
    [*BACKWARD, "packed_q=true", "packed_k=true", "with_dlse=true", "dropout=true,false", "soft_capped=true,false"],
    [*BACKWARD, "seqlen_q=600", "seqlen_k=700", "dtype=bf16"],  # by a smaller problem
    *([*FORWARD, *MASKED, "with_lse=true", "with", f"mask_kind={kind}"] for kind in range(6)),
    *([*BACKWARD, *MASKED, "with_dlse=true", "with", f"mask_kind={kind}"] for kind in (0, 1, 5)),
    [*DECODE, "kv=dense,paged", "with_lse=true,false"],
    *([*DECODE, "kv=paged", "with", f"length_kind={kind}"] for kind in (1, 2)),
    [*DECODE, "kv_dtype=f8_e4m3", "window=true,false", "sink=true,false", "seqused=true"],
    [*DECODE, "alibi=true,false", "soft_capped=true,false", "mask=none"],
    [*DECODE, *LATENT, "kv=dense,paged", "with_lse=true,false"],
    [*DECODE, *LATENT, "kv_dtype=f8_e4m3", "rotary_apart=true", "window=true,false", "sink=true,false", "kv=dense,paged"],
    ["softmax", *ROWS],
    ["softmax", "dtype=f32", "rows=1500", "columns=3000"],  # by rows
    ["softmax_backward", *ROWS],
    "matmul_quantized dtype=f32,f16 weights=f16,q8_0,q4_k,q5_k,mxfp4 int8_activations=true,false with_bias=true,false "
    "rows=1,9 in_features=256 out_features=70".split(),
    ["matmul_quantized", "dtype=f32", "weights=q6_k", "rows=40", "in_features=1024", "out_features=3000"],  # by parts
    ["embedding", "dtype=f32,bf16", "weights=bf16,q4_1,q6_k,q5_0,q5_1,iq4_nl", "rows=5", "columns=512"],
    "rotary_cache dtype=f16 kv_dtype=f16,f8_e4m3 q_norm=true,false k_norm=true scaled=true,false "
    "page_size=16 tokens=1,40 heads=4 heads_kv=2 head_dim=64".split(),
    ["gated_activation", *ROWS, "function=silu,gelu,gelu_tanh", "packed=true,false"],
    ["gated_activation_backward", *ROWS, "function=silu,gelu,gelu_tanh", "packed=true,false"],
    ["rms_norm", *ROWS, "with_gamma=true,false", "with_residual=true,false", "with_rstd=true"],
    ["layer_norm", *ROWS, "with_beta=true,false", "with_residual=true,false", "with_statistics=true,false"],
    ["rms_norm_backward", *ROWS, "with_gamma=true,false", "with_residual=true,false", "with_weight_gradients=true"],
    ["layer_norm_backward", *ROWS, "with_residual=true,false", "with_weight_gradients=true,false"],
    ["layer_norm_backward", "dtype=f32", "rows=3000", "columns=2000"],  # gradients of weights by columns
]


def merged(words):
    """Words of one axis: the last one counts."""
    return list({re.split("[ =]", word)[0]: word for word in words}.values())


def is_large(words):
    sizes = {
        name: max(map(int, re.findall(r"\d+", values)))
        for name, _, values in (word.partition("=") for word in words)
        if name in ("rows", "seqlen_q", "seqlen_k", "out_features")
    }
    return max(sizes.values(), default=0) >= 600


def few(words):
    """Of each axis one value: what may be left out is there, and of others the last. Fewer heads where there are many keys."""
    out = [word.partition(",")[0] if word.endswith("=true,false") else re.sub(r"=.*,", "=", word) for word in words]
    return merged([*out, "batch=1", "heads=2", "heads_kv=1"]) if "block_masked=true" in words else out


def tune(root, words, folder):
    """What the tuner says of problems, measured as quickly as it can, and its messages."""
    done = subprocess.run(
        [
            TOOL,
            "--json",
            "--root",
            root,
            "tune",
            *words,
            "-o",
            folder,
            *"--devices host --confidence 90% --samples 6 --drift 90% --judged-runs 6".split(),
        ],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done.stdout, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"


def check_heads_first(folder):
    """A condition on strides that a manifest requires is tuned with tensors that meet it, and with others: heads first."""
    root = os.path.join(folder, "root")
    shutil.copytree(os.path.join(DATA, "kernels", "rotary"), os.path.join(root, "kernels", "rotary"))
    for path in glob.glob(os.path.join(root, "kernels", "rotary", "*", "manifest.json")):
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        manifest["variants"][0].setdefault("requires", []).append("q_stride_head == head_dim")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(manifest, file)
    table = os.path.join(folder, "heads_first.json")
    out, said = tune(
        root,
        "rotary dtype=f32 head_dim=64 batch=2 seqlen=19 heads=4 heads_kv=2 "
        "in_place=true,false variable_length=true,false q_stride_head==head_dim=true,false".split(),
        table,
    )
    outcome = json.loads(out)[0] if out.startswith("[") else {}
    if outcome.get("measured") != 8 or outcome["bad"] or outcome["failures"]:
        print(f"FAILED: heads first: {said}")
        return 1
    with open(table, encoding="utf-8") as file:
        conditions = {group["type"].get("q_stride_head==head_dim") for group in json.load(file)["groups"]}
    if conditions != {True, False}:
        print(f"FAILED: heads first: rows of {conditions}")
        return 1
    return 0


def main():
    calls = [merged(words) for words in CALLS]
    if GIVEN == ["few"]:
        calls = [few(words) for words in calls if not is_large(words)]
    shutil.rmtree(FOLDER, ignore_errors=True)
    problems, measured = 0, 0
    for number, words in enumerate(calls):
        folder = os.path.join(FOLDER, str(number)) + "/"
        os.makedirs(folder)
        out, said = tune(DATA, words, folder)
        try:
            (outcome,) = json.loads(out)
        except ValueError:
            print(f"FAILED: {words}: {said}")
            problems += 1
            continue
        unserved = [reason for reason in outcome["left_out"] if reason.endswith("no variant may serve it")]
        measured += outcome["measured"]
        if outcome["bad"] or outcome["failures"] or len(unserved) < len(outcome["left_out"]):
            problems += 1
            print(f"FAILED: {words}: {json.dumps(outcome, indent=1)}\n{said[-2000:]}")
        print(
            f"{words[0]}: {outcome['measured']} measured, {len(unserved)} that no kernel of this build serves, "
            f"{outcome['seconds']:.1f} s"
        )
        if len(unserved) == outcome["problems"] and words[0] != "attention_backward":
            problems += 1
            print(f"FAILED: {words}: nothing was measured")
    problems += check_heads_first(FOLDER)
    print(f"{measured} problems measured, and 8 of heads first and not")
    return problems != 0


if __name__ == "__main__":
    sys.exit(main())
