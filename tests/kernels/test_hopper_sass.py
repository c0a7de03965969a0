# SPDX-License-Identifier: MIT
"""What ptxas made of the Hopper kernels of attention and of products.   test_hopper_sass.py ROOT [PYTHON_WITH_TRITON]

Disassembles every attention_hopper_*.cubin, attention_backward_hopper_*.cubin and matmul_quantized_gemm_*_m*.cubin under ROOT
and prints what matters of each: warpgroup products (HGMMA, QGMMA), waits for them, accesses to local memory, registers. Fails where a kernel spills (between its first
and its last product: the backward's warp that copies has 24 registers, and a tile's start may cost it one; a soft cap at head dim 128
may spill eight words), uses other tensor instructions, where one of the buffered forward kernels moves products' operands from
vector registers, which takes it a tenth of its time, or where ptxas has put the products one behind the other, which it does without an error when it cannot follow who owns their registers. Skipped
without such a cubin or without nvdisasm (CUDA toolkit, or Triton's wheel).
"""

import collections
import glob
import os
import re
import shutil
import subprocess
import sys

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")
REGISTERS = re.compile(r"\bR(\d{1,3})\b")
LOCAL = {"LDL", "STL"}
PRODUCTS = ("HGMMA", "QGMMA")  # of 16 and of 8 bits
OTHER_PRODUCTS = {"HMMA", "IMMA", "IGMMA", "BGMMA"}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def find_nvdisasm(python):
    found = shutil.which("nvdisasm")
    folders = [os.path.join(os.environ.get("CUDA_PATH", "/usr/local/cuda"), "bin")]
    if python:
        program = "import importlib.util as util; print(util.find_spec('triton').submodule_search_locations[0])"
        run = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
        folders.append(os.path.join(run.stdout.strip(), "backends", "nvidia", "bin"))
    return found or next(filter(None, (shutil.which("nvdisasm", path=folder) for folder in folders)), None)


def disassemble(nvdisasm, path):
    run = subprocess.run([nvdisasm, "-c", path], capture_output=True, text=True, check=False)
    return run.stdout


def look_at(text):
    """Counts of instructions, of those to local memory between products, the lengths of the chains of products between two
    waits, and the moves to uniform registers inside of chains."""
    counts, chains, length, moves, since = collections.Counter(), [], 0, 0, 0
    names = INSTRUCTION.findall(text)
    products = [n for n, name in enumerate(names) if name.startswith(PRODUCTS)]
    local = sum(name.split(".")[0] in LOCAL for name in names[products[0] : products[-1]]) if products else 0
    for name in names:
        counts[name.split(".")[0]] += 1
        if name.startswith(PRODUCTS):
            moves += since if length > 0 else 0
            since = 0
            length += 1
        elif name.startswith("WARPGROUP.DEPBAR"):
            chains.append(length)
            length = 0
        elif name.startswith("R2UR"):
            since += 1
    return counts, local, chains + [length], moves


def main():
    root, python = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    paths = sorted(
        path
        for stem in (
            "attention_hopper_*",
            "attention_backward_hopper_*",
            "matmul_quantized_gemm_*_m*",
        )
        for path in glob.glob(os.path.join(root, "**", f"{stem}.cubin"), recursive=True)
    )
    if not paths:
        skip(f"no Hopper kernel under {root}: they need nvcc")
    nvdisasm = find_nvdisasm(python)
    if not nvdisasm:
        skip("no nvdisasm, neither in PATH nor in /usr/local/cuda/bin nor in Triton's wheel")
    failures = 0
    print("GMMA   at once  waits  local  registers")
    for path in paths:
        text = disassemble(nvdisasm, path)
        counts, inside, chains, moves = look_at(text)
        if not counts:
            skip(f"{nvdisasm} does not know {os.path.basename(path)}: it is older than the compiler")
        name = os.path.basename(path)
        backward = name.startswith("attention_backward")
        plain = name.startswith("matmul_quantized")
        head_dim = 0 if plain else int(re.search(r"_d(\d+)_", name).group(1))
        # Scores and values of one block of keys, or scores and slopes, 16 deep each, are started before the first of them is
        # waited for.
        # Beyond head dim 128 a warpgroup of the backward has one of the two.
        buffered = "_buffered_" in name
        if plain:  # the 64 inputs of a stage, of each 64 rows that a warpgroup has
            chain = 4 * max(1, int(re.search(r"_m(\d+)[_.]", name).group(1)) // 128)
        elif backward:
            chain = (head_dim + 15) // 16 * (2 if head_dim <= 128 else 1)
        else:
            depth = 32 if "_e4m3_" in name else 16
            both = (head_dim + depth - 1) // depth, int(re.search(r"_n(\d+)_", name).group(1)) // depth
            chain = max(both) if buffered and "_n64_" in name else sum(both)  # with few registers one after the other
        # The warps that widen e4m3 have the producer's registers, too few for their code; it lies behind the products.
        local = inside if backward or "_narrow_" in name else sum(counts[name] for name in LOCAL)
        # At head dim 96 the two warpgroups have code of their own, so that what a tile of keys costs once lies between products.
        # A soft cap needs registers too: two words at head dim 64.
        # So is waiting for a turn to write, where sums are ordered and the two warpgroups have code of their own.
        waits_to_write = "_ordered_back_" in name and head_dim == 96 or "_ordered_" in name and head_dim > 128
        spills_allowed = (
            (8 if head_dim > 64 else 2)
            if backward and ("capped" in name or waits_to_write)
            else 1
            if backward and head_dim == 96
            else 0
        )
        others = sum(counts[name] for name in OTHER_PRODUCTS)
        products = sum(counts[name] for name in PRODUCTS)
        wrong = [
            rule
            for rule, holds in (
                (f"at least {chain} products started at once were expected", max(chains) < chain),
                (
                    "ptxas waits for single products: it has serialized them",
                    (2 if plain or "_e4m3_" in name else 4) * (len(chains) - 1) > products,
                ),
                (f"{moves} operands of products come from vector registers", buffered and 4 * moves > products),
                ("registers are spilled to local memory", local > spills_allowed),
                (f"{others} tensor instructions are not of warpgroups", others > 0),
            )
            if holds
        ]
        print(
            f"{products:5} {max(chains):9} {len(chains) - 1:6} {local:6} "
            f"{max(map(int, REGISTERS.findall(text))) + 1:10}  {name}"
        )
        for rule in wrong:
            print(f"  FAILED: {rule}")
        failures += len(wrong)
    print(f"{len(paths)} kernels, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
