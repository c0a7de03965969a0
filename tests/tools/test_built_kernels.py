# SPDX-License-Identifier: MIT
"""The tool over the kernels and tables of this build, and what the guides say of it.   test_built_kernels.py PROGRAM ROOT SOURCE"""

import json
import os
import re
import sys
import tempfile

from invented import Checks, run

AVX2 = ("avx2", "fma", "f16c")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl")

SHAPE = "rows=64 columns=2048 --device host:x86_64".split()
CALL = "dtype=bf16 head_dim=128 batch=1".split()
ROTARY = "seqlen=512 heads=32 heads_kv=8".split()


def explained(program, root, name, *words, **variables):
    return run(program, "--root", root, "explain", name, *words, "--json", **variables)


def check_other_cpus(program, root, checks):
    """The shipped tables of a CPU serve other CPUs, with what those can run."""
    for features, isa in (((), "baseline"), (AVX2, "avx2"), (AVX512, "avx512")):
        attributes = [word for name in features for word in ("--attribute", f"{name}=1")]
        for name, words in (("rms_norm", ("gamma_dtype=bf16",)), ("gated_activation", ("function=silu",))):
            status, out, _ = explained(program, root, name, "dtype=bf16", *words, *SHAPE, *attributes)
            checks.equal(status, 0, f"explain {name} with {isa}: {out}")
            choice = json.loads(out)["choice"]
            checks.equal(
                (choice["variant"].split("_")[0], choice["reason"]), (isa, "other_device"), f"{name} on another CPU with {isa}"
            )


def main():
    program, root, source = sys.argv[1:]
    checks = Checks()
    # A set may lack kernels for this machine's GPU; it has those for its CPU.
    os.environ.update(CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    status, out, problem = run(program, "check", "--json", root)
    found = json.loads(out)
    checks.equal((status, problem), (0, ""), f"check {root}:\n{out}")
    checks.that(found["manifests"] >= 2 and found["blobs"] >= 2, f"check saw {found['manifests']} manifests")

    status, out, _ = run(program, "--root", root, "list", "--json")
    listed = {operator["name"]: operator for operator in json.loads(out)["operators"]}
    checks.equal(status, 0, "list")
    for name, words in (
        ("rotary", ROTARY),
        ("attention_forward", ("seqlen_q=512", "seqlen_k=512", "heads=32", "heads_kv=8")),
    ):
        targets = {target["target"].split("-")[0] for target in listed[name]["targets"]}
        checks.that("host" in targets, f"{name} has host kernels, not only {targets}")
        status, out, _ = explained(program, root, name, *CALL, *words)
        checks.equal(status, 0, f"explain {name}: {out}")
        why = json.loads(out)
        checks.that(why["choice"]["variant"] and why["launches"], f"explain {name} has a choice and launches")
        chosen = why["candidates"][0]
        checks.equal((chosen["variant"], chosen["admissible"]), (why["choice"]["variant"], True), "first candidate")
        # Whoever is denied what runs now gets another one.
        forced = [candidate["variant"] for candidate in why["candidates"] if candidate["admissible"]][-1]
        _, out, _ = explained(program, root, name, *CALL, *words, SWITCHYARD_FORCE=f"{name}:{forced}")
        checks.equal(json.loads(out)["choice"]["variant"], forced, "SWITCHYARD_FORCE")

    # What the guide's examples force is in this build, whichever it is.
    with open(os.path.join(source, "include/switchyard/README.md"), encoding="utf-8") as file:
        examples = re.findall(r"`(\w+:[\w=,]+)`", re.search(r"^\| `SWITCHYARD_FORCE` \|.*$", file.read(), re.MULTILINE)[0])
    checks.that(len(examples) >= 2, f"the guide's examples of SWITCHYARD_FORCE are {examples}")
    for example in examples:
        status, out, problem = explained(program, root, example.split(":")[0], *CALL, *ROTARY, SWITCHYARD_FORCE=example)
        checks.equal(status, 0, f"SWITCHYARD_FORCE={example}: {out}{problem}")
        checks.equal(status == 0 and json.loads(out)["choice"]["reason"], "forced", f"SWITCHYARD_FORCE={example}")

    # The table that the tool's guide makes and explains, on the CPU also where there is a GPU.
    with open(os.path.join(source, "examples/switchyard/README.md"), encoding="utf-8") as file:
        text = file.read()
    tune, explain = (words.split() for words in re.findall(r"^    \$ switchyard (.*)$", text, re.MULTILINE)[:2])
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "cpu.json")
        tune, explain = ([table if word == "build/cpu.json" else word for word in words] for words in (tune, explain))
        status, out, problem = run(program, "--root", root, *tune, "--confidence", "50%", "--drift", "90%")
        checks.equal(status, 0, f"{tune}: {out}{problem}")
        status, out, problem = run(program, "--root", root, *explain, "--device", "host:" + os.uname().machine)
        checks.equal(status, 0, f"{explain}: {out}{problem}")
        checks.contains(
            out, f"row 1 of group 0 of {table} (batch=1 seqlen=256 heads=32 heads_kv=8) at distance 0.585", "explain"
        )
    if "host-x86_64" in {target["target"] for target in listed["rms_norm"]["targets"]}:
        check_other_cpus(program, root, checks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
