# SPDX-License-Identifier: MIT
"""The lists of tables/problems: each can be read, and together they have every kind of call in every type that kernels serve.

test_problem_lists.py TOOL SOURCE FOLDER
"""

import glob
import itertools
import json
import os
import re
import subprocess
import sys

TOOL, SOURCE, FOLDER = sys.argv[1:]

# Of each operator, words that some problem must have together; words of one group are alternatives, each of which is needed.
HALVES = ("dtype=bf16", "dtype=f16")
TYPES = (*HALVES, "dtype=f32")
FORMATS = tuple(
    f"weights={name}" for name in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k", "iq4_nl", "mxfp4")
)
NEEDED = [
    ("attention_forward", TYPES, ("head_dim=64", "head_dim=128"), ("mask=none", "mask=causal_bottom_right")),
    ("attention_forward", HALVES, ("soft_capped=true",), ("head_dim=64", "head_dim=128", "head_dim=256")),
    ("attention_forward", HALVES, ("soft_capped=true",), ("packed_q=true", "kv=paged", "window=true")),
    ("attention_forward", HALVES, ("biased=true",), ("head_dim=64", "head_dim=80", "head_dim=128"), ("mask=none", "mask=causal")),
    ("attention_forward", HALVES, tuple(f"head_dim={n}" for n in (40, 72, 80, 88, 512)), ("mask=none", "mask=causal")),
    ("attention_forward", HALVES, ("seqlen_k=77",), tuple(f"head_dim={n}" for n in (40, 64, 80, 128))),
    ("attention_forward", HALVES, ("kv_dtype=f8_e4m3",), ("soft_capped=true",), ("head_dim=64", "head_dim=128", "head_dim=256")),
    ("attention_forward", HALVES, ("kv_dtype=f8_e4m3",), ("packed_q=true", "kv=dense", "sink=true", "window=true")),
    ("attention_forward", ("dtype=bf16",), ("block_masked=true",), tuple(f"mask_kind={n}" for n in range(6))),
    ("attention_backward", TYPES, ("head_dim=64", "head_dim=128"), ("mask=none", "mask=causal_bottom_right")),
    ("attention_backward", HALVES, ("soft_capped=true",), ("head_dim=128", "head_dim=256")),
    ("attention_backward", HALVES, tuple(f"head_dim={n}" for n in (40, 72, 80, 88, 96, 192, 256))),
    ("attention_backward", HALVES, ("biased=true",)),
    ("attention_backward", HALVES, ("seqlen_k=77",)),
    ("attention_decode", HALVES, ("kv=dense", "kv=paged"), ("head_dim=64", "head_dim=128"), ("seqlen_q=1", "seqlen_q=4")),
    ("attention_decode", HALVES, ("head_dim=256",), ("seqlen_q=1", "seqlen_q=4")),
    ("attention_decode", HALVES, ("kv_dtype=f8_e4m3",), ("head_dim=64", "head_dim=128", "head_dim=256"), ("seqlen_q=1", "seqlen_q=4")),
    ("attention_decode", HALVES, ("soft_capped=true",), ("seqlen_q=1", "seqlen_q=4")),
    ("attention_decode", HALVES, ("latent=true",), ("seqlen_q=1", "seqlen_q=2")),
    ("attention_decode", ("dtype=bf16",), ("kv=paged",), ("length_kind=1", "length_kind=2"), ("head_dim=64", "head_dim=128")),
    ("attention_decode", ("seqlen_q=2",), ("sink=true",)),
    ("matmul_quantized", ("dtype=bf16",), (*FORMATS, "weights=bf16")),
    ("matmul_quantized", ("dtype=f16", "dtype=f32"), ("weights=q4_0", "weights=q4_k", "weights=q6_k", "weights=q8_0")),
    ("embedding", ("dtype=bf16",), (*FORMATS, "weights=bf16")),
    ("embedding", ("dtype=f16", "dtype=f32"), ("weights=f16", "weights=q4_k", "weights=q6_k", "weights=q8_0")),
    ("rotary", TYPES),
    ("rotary_cache", HALVES, ("kv_dtype=f8_e4m3",)),
    ("rms_norm", HALVES, ("gamma_dtype=f32",)),
    ("rms_norm", TYPES, ("with_residual=true",), ("rows=1", "rows=8", "rows=4096")),
    ("layer_norm", TYPES, ("rows=1",)),
    *((name + back, TYPES) for name in ("rms_norm", "layer_norm", "softmax", "gated_activation") for back in ("", "_backward")),
    ("softmax", TYPES, ("rows=4",), ("columns=262144",)),
    ("gated_activation", TYPES, ("function=silu", "function=gelu", "function=gelu_tanh")),
]  # fmt: skip


def problems_of(path):
    """Each operator's problems in a list, as the tool reads them."""
    command = [TOOL, "--root", FOLDER, "--json", "tune", "--problems", path, "-o", os.path.join(FOLDER, "out/")]
    done = subprocess.run([*command, "--devices", "host", "--plan"], capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr:
        sys.exit(f"FAILED: {path} cannot be read: {done.stdout}{done.stderr}")
    return {batch["operator"]: batch["problems"] for batch in json.loads(done.stdout)}


def main():
    os.makedirs(FOLDER, exist_ok=True)
    all_of, failures = {}, []
    for path in sorted(glob.glob(os.path.join(SOURCE, "tables", "problems", "*.txt"))):
        found = problems_of(path)
        name = os.path.splitext(os.path.basename(path))[0]
        if name not in ("block_masks", "kinds", "models") and list(found) != [name]:
            failures.append(f"{name}.txt has problems of {', '.join(found)}")
        for operator, problems in found.items():
            all_of.setdefault(operator, []).extend(problems)
    for operator, *groups in NEEDED:
        for words in itertools.product(*groups):
            # Numbers are whole: "rows=1" is not "rows=1024". Other words may be the beginning of a value's name.
            wanted = [
                re.compile(r"(?:^|[ ,])" + re.escape(word) + (r"(?![\w.])" if word[-1].isdigit() else "")) for word in words
            ]
            if not any(all(one.search(problem) for one in wanted) for problem in all_of.get(operator, ())):
                failures.append(f"no problem of {operator} has {' '.join(words)}")
    for failure in failures:
        print("FAILED:", failure)
    print(f"{sum(map(len, all_of.values()))} problems of {len(all_of)} operators, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
