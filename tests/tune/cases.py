# SPDX-License-Identifier: MIT
"""What the tests of the tool's commands share: checks, trees of CPU kernels, and running every test of a script."""

import concurrent.futures
import hashlib
import json
import os
import shutil
import time

_problems = []


def check(holds, description):
    """Notes what does not hold; the other checks go on."""
    if not holds:
        _problems.append(description)
        print("FAILED:", description)
    return holds


SOFTMAX = ["x", "out", {"i64": "rows"}, {"i64": "columns"}, "scale", {"i64": "x_stride_row"}, {"i64": "out_stride_row"}]


def manifest_of(root, operator="softmax"):
    return os.path.join(root, "kernels", operator, f"host-{os.uname().machine}", "manifest.json")


def make_root(root, blob, kernels, operator="softmax", types=None, parameters=None, requires=()):
    """A tree with one manifest: variants by id, with the kernel of the blob that each one runs."""
    manifest = manifest_of(root, operator)
    folder = os.path.dirname(manifest)
    os.makedirs(folder, exist_ok=True)
    shutil.copy(blob, os.path.join(folder, "k.so"))
    with open(blob, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    variants = [
        {
            "id": name,
            "type": {"dtype": "f32", **(types or {})},
            "requires": list(requires),
            "launches": [
                {
                    "blob": "k.so",
                    "sha256": digest,
                    "kernel": f"{operator}_{kernel}",
                    "grid": [1, 1, 1],
                    "block": [1, 1, 1],
                    "parameters": parameters or SOFTMAX,
                }
            ],
        }
        for name, kernel in kernels.items()
    ]
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump(
            {
                "schema": "switchyard.manifest/1",
                "operator": operator,
                "target": {"backend": "host", "arch": os.uname().machine},
                "variants": variants,
            },
            file,
        )
    return root


def _integers(*names):
    return [{"i64": name} for name in names]


# The operators of faulty_kernels.cpp: types and parameters of its kernels, and axes of calls that they serve.
FAULTY = {
    "rms_norm": (
        {"with_gamma": True, "with_residual": False, "with_rstd": False},
        ["x", "gamma", "out", *_integers("rows", "columns", "x_stride_row", "out_stride_row"), "epsilon", "gamma_offset"],
        ["with_gamma=true", "rows=3,8", "columns=40"],
        ["dense", "options", "overflow", "aligned"],
    ),
    "gated_activation": (
        {"function": "gelu_tanh", "packed": False},
        ["gate", "up", "out", *_integers("rows", "columns", "gate_stride_row", "up_stride_row", "out_stride_row")],
        ["function=gelu_tanh", "packed=false", "rows=3,8", "columns=40"],
        ["dense", "overflow", "aligned"],
    ),
    "rotary": (
        {
            "style": "half",
            "table": False,
            "inverse": False,
            "in_place": False,
            "variable_length": False,
            "positions_from": "offset",
        },
        [
            "q",
            "q_out",
            *_integers("batch", "seqlen", "heads", "head_dim", "offset"),
            "base",
            "scaling",
            *_integers(
                "q_stride_batch",
                "q_stride_token",
                "q_stride_head",
                "q_out_stride_batch",
                "q_out_stride_token",
                "q_out_stride_head",
            ),
        ],
        ["head_dim=16", "table=false", "batch=2", "seqlen=5", "heads=3", "heads_kv=0"],
        ["dense", "options", "aligned"],
    ),
    "attention_forward": (
        {"mask": "none", "kv": "dense", "packed_q": False},
        [
            "q",
            "k",
            "v",
            "out",
            *_integers("batch", "heads", "seqlen_q", "seqlen_k", "head_dim"),
            "scale",
            *_integers("q_stride_token", "k_stride_token", "v_stride_token", "out_stride_token"),
        ],
        ["mask=none", "head_dim=16", "batch=2", "heads=2", "heads_kv=2", "seqlen_q=7", "seqlen_k=9"],
        ["dense", "options", "overflow", "aligned"],
    ),
}


def make_faulty_root(root, blob, operator, kernels):
    """The same with kernels of FAULTY."""
    types, parameters, _, _ = FAULTY[operator]
    requires = {"rotary": ["heads_kv == 0"], "attention_forward": ["heads == heads_kv"]}.get(operator, [])
    return make_root(root, blob, {kernel: kernel for kernel in kernels}, operator, types, parameters, requires)


def run_all(script, folder, together=1):
    """Runs the functions test_* of a script, given its globals(), in an empty folder. Whether a check failed. `together`: how
    many at a time, for tests that mostly wait."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)

    def run(name):
        begin = time.monotonic()
        script[name]()
        print(f"{name}: {time.monotonic() - begin:.1f} s")

    names = [name for name in sorted(script) if name.startswith("test_")]
    with concurrent.futures.ThreadPoolExecutor(together) as pool:
        for done in [pool.submit(run, name) for name in names]:
            done.result()
    print(f"{len(names)} cases")
    return bool(_problems)
