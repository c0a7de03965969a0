# SPDX-License-Identifier: MIT
"""Writes a set of manifests and tables for attention_forward as large as AOTriton's for one GPU: 432 types, 6,598
variants with 50 parameters each, 21,600 rows with a winner each. The kernels do nothing and run on the CPU.

  large_set.py KIND ROOT BLOB

BLOB is a shared object with the kernel `nothing_50`. KIND is one of:
  large     the set; variants share their parameter lists
  repeated  the same where each variant repeats its parameter list
  small     40 variants, 10 rows
  fitting   1,000 variants for this machine
  foreign   the same, and as many for each of four GPU architectures
"""

import hashlib
import itertools
import json
import pathlib
import platform
import shutil
import sys

TYPES = [
    dict(zip(("dtype", "head_dim", "mask", "biased", "dropout"), values))
    for values in itertools.product(
        ("f16", "bf16", "f32"),
        (16, 32, 48, 64, 80, 96, 128, 160, 192, 224, 256, 512),
        ("none", "causal_top_left", "causal_bottom_right"),
        (False, True),
        (False, True),
    )
]
TENSORS = ("q", "k", "v", "out")
PARAMETERS = [
    "q",
    "k",
    "v",
    "bias",
    "out",
    "lse",
    "sinks",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "seqused_q",
    "seqused_k",
    "block_table",
    "dropout_state",
]
PARAMETERS += [
    {"i32": name}
    for name in (
        "batch",
        "heads",
        "heads_kv",
        "seqlen_q",
        "seqlen_k",
        "head_dim",
        "head_dim_v",
        "page_size",
        "block_table_stride",
    )
]
PARAMETERS += [f"{tensor}_stride_{axis}" for tensor in TENSORS for axis in ("batch", "head", "token")]
PARAMETERS += [{"i64": f"{tensor}_stride_{axis} / 2"} for tensor in ("q", "k", "v") for axis in ("batch", "head", "token")]
PARAMETERS += [
    "lse_stride_batch",
    "lse_stride_head",
    "scale",
    {"i32": "min(window_left, 1 << 30)"},
    {"i32": "min(window_right, 1 << 30)"},
    {"i32": "block_n"},
    {"null": 8},
]
LAUNCH = {
    "kernel": "nothing_50",
    "grid": ["ceil_div(seqlen_q, block_m)", "heads", "batch"],
    "block": [1],
    "shared_bytes": 0,
    "parameters": PARAMETERS,
}
COMMON = {
    "requires": ["head_dim % 8 == 0", "head_dim_v == head_dim", "seqlen_k >= 1"],
    "cost": "ceil_div(ceil_div(seqlen_q, block_m) * heads * batch, multiprocessors) * round_up(seqlen_k, block_n)",
}


def configurations():
    for m, n, warps, stages in itertools.product((16, 32, 64, 128), (16, 32, 64), (2, 4, 8), (1, 2)):
        yield {"block_m": m, "block_n": n, "num_warps": warps, "num_stages": stages}


def variants(count, digest, blob, repeated):
    """Spread over the types as evenly as may be."""
    kinds = TYPES[: max(1, min(len(TYPES), count // 10))]
    for number, kind in enumerate(kinds):
        here = count // len(kinds) + (number < count % len(kinds))
        for config in itertools.islice(configurations(), here):
            name = "attn_fwd_" + "_".join(str(value) for value in config.values())
            launch = {"blob": blob, "sha256": digest}
            if repeated:
                yield {"id": name, "type": kind, "config": config, **COMMON, "launches": [{**launch, **LAUNCH}]}
            else:
                yield {
                    "id": name,
                    "like": "attention",
                    "type": kind,
                    "config": config,
                    "launches": [{"like": "attention_launch", **launch}],
                }


def groups(count, kinds, variant_count):
    here = variant_count // len(kinds)
    names = ["attn_fwd_" + "_".join(str(value) for value in configuration.values()) for configuration in configurations()]
    lengths = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
    for number, kind in enumerate(kinds):
        sizes = itertools.islice(itertools.product(lengths, lengths), count // len(kinds))
        rows = [
            {"at": [4, 32, 32, q, k], "times_us": {names[(q + k + number) % here]: round(1 + q * k / 1e5, 2)}} for q, k in sizes
        ]
        yield {"type": kind, "axes": ["batch", "heads", "heads_kv", "seqlen_q", "seqlen_k"], "rows": rows}


def write(path, head, name, entries):
    """One entry a line, as the build and the tuner write them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = [json.dumps(key) + ": " + json.dumps(value) for key, value in head.items()]
    body = ",\n".join("  " + json.dumps(entry) for entry in entries)
    path.write_text("{\n " + ",\n ".join([*fields, f'"{name}": [\n{body}\n ]']) + "\n}\n")


def write_manifest(root, backend, arch, count, blob, repeated):
    folder = root / "kernels/attention_forward" / f"{backend}-{arch}"
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(pathlib.Path(blob).read_bytes()).hexdigest()
    shutil.copy(blob, folder / "nothing.so")
    head = {"schema": "switchyard.manifest/1", "operator": "attention_forward", "target": {"backend": backend, "arch": arch}}
    if not repeated:
        head["shared"] = {"attention": COMMON, "attention_launch": LAUNCH}
    write(folder / "manifest.json", head, "variants", variants(count, digest, "nothing.so", repeated))


def main():
    kind, root, blob = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    count, rows = {"large": (6598, 21600), "repeated": (6598, 21600), "small": (40, 10)}.get(kind, (1000, 1000))
    machine = platform.machine()
    write_manifest(root, "host", machine, count, blob, kind == "repeated")
    if kind == "foreign":
        for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100"):
            write_manifest(root, "hip", arch, count, blob, False)
    device = {"backend": "host", "arch": machine, "name": "as measured"}
    kinds = TYPES[: max(1, min(len(TYPES), count // 10))]
    write(
        root / "tables/attention_forward/device.json",
        {"schema": "switchyard.table/1", "operator": "attention_forward", "device": device},
        "groups",
        groups(rows, kinds, count),
    )


if __name__ == "__main__":
    main()
