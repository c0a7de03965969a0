#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the class batch_invariant rests on: for one type and one pair of head dims there is one kernel, whose blob both
operators launch, with the same chunk of keys. And, where nvdisasm is found, what ptxas made of it: one copy of the code
that multiplies a block of keys, so that masked blocks, the first and the last take no other.

test_invariant_blobs.py DATA [PYTHON_WITH_TRITON]
"""

import json
import pathlib
import re
import subprocess
import sys

from test_hopper_sass import find_nvdisasm

CLASS = "batch_invariant"
OPERATORS = ("attention_forward", "attention_decode")


def kernels_of(manifest):
    """By type and conditions on head dims: blobs and chunks of the class's variants."""
    found = {}
    for variant in manifest["variants"]:
        if variant.get("reproducible") != CLASS:
            continue
        serves = [text for text in variant["requires"] if "head_dim" in text]
        key = (variant["type"]["dtype"], variant["type"]["kv_dtype"], variant["config"]["block_d"], *sorted(serves))
        first = variant["launches"][0]
        found.setdefault(key, set()).add((first["sha256"], variant["config"]["chunk"]))
    return found


def faults(manifests):
    forward, decode = map(kernels_of, manifests)
    out = [
        f"{key}: {len(each)} kernels in one operator"
        for found in (forward, decode)
        for key, each in found.items()
        if len(each) > 1
    ]
    out += [f"{key}: only one operator has it" for key in forward.keys() ^ decode.keys()]
    out += [
        f"{key}: the operators launch different blobs" for key in forward.keys() & decode.keys() if forward[key] != decode[key]
    ]
    return out, len(forward)


def products_of(config, is_hopper):
    """Tensor instructions of a warp for one block: queries by keys, and weights by values."""
    d, n, columns = config["block_d"], config["block_n"], config["num_warps"] // 4
    return d // 16 + n // 16 if is_hopper else d // 16 * (n // 8 // columns) + n // 16 * (d // 8 // columns)


def copies(sass, expected):
    """How often a kernel has the products of a block."""
    return len(re.findall(r"\b(?:HGMMA|HMMA)\.", sass)) / expected


def disassembled(folder, nvdisasm):
    """Faults in the class's cubins of a folder, and how many were read."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    out, read = [], set()
    for variant in manifest["variants"]:
        blob = variant["launches"][0].get("blob", "")
        if variant.get("reproducible") != CLASS or blob in read:
            continue
        read.add(blob)
        run = subprocess.run([nvdisasm, "-c", str(folder / blob)], capture_output=True, text=True, check=True)
        found = copies(run.stdout, products_of(variant["config"], "sm_9" in folder.name))
        if found != 1:
            out.append(f"{blob}: {found} copies of the products of a block")
    return out, len(read)


def self_test():
    assert products_of({"block_d": 128, "block_n": 64, "num_warps": 4}, True) == 12
    assert products_of({"block_d": 128, "block_n": 64, "num_warps": 4}, False) == 128
    assert copies("HGMMA.64x64x16.F32 R24\nWARPGROUP\nHGMMA.64x64x16.F32 R24", 1) == 2

    def manifest(sha, chunk=1024, name=CLASS):
        variant = {"type": {"dtype": "f16", "kv_dtype": "f16"}, "config": {"block_d": 64, "chunk": chunk},
                   "requires": ["head_dim <= 64"], "reproducible": name, "launches": [{"sha256": sha}]}  # fmt: skip
        return {"variants": [variant]}

    assert faults((manifest("a"), manifest("a"))) == ([], 1)
    assert len(faults((manifest("a"), manifest("b")))[0]) == 1
    assert len(faults((manifest("a"), manifest("a", chunk=512)))[0]) == 1
    assert len(faults((manifest("a"), manifest("a", name="other")))[0]) == 1
    both = {"variants": manifest("a")["variants"] + manifest("b")["variants"]}
    assert len(faults((both, both))[0]) == 2


def main():
    self_test()
    data = pathlib.Path(sys.argv[1]) / "kernels"
    checks, failed = 8, []
    nvdisasm = find_nvdisasm(sys.argv[2] if len(sys.argv) > 2 else None)
    for folder in sorted((data / OPERATORS[0]).glob("*")):
        files = [data / operator / folder.name / "manifest.json" for operator in OPERATORS]
        if folder.name.startswith("host-") or not all(file.exists() for file in files):
            continue
        found, count = faults([json.loads(file.read_text(encoding="utf-8")) for file in files])
        failed += [f"{folder.name}: {text}" for text in found]
        checks += count
        if folder.name.startswith("cuda-sm_") and nvdisasm:
            found, read = disassembled(folder, nvdisasm)
            failed += found
            checks += read
        print(f"{folder.name}: {count} kernels of {CLASS}")
    for text in failed:
        print("FAILED:", text)
    print(f"{checks} checks")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
