"""The tool over the kernels and tables of this build.   test_built_kernels.py PROGRAM ROOT"""

import json
import sys

from invented import Checks, run


AVX2 = ("avx2", "fma", "f16c")
AVX512 = (*AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl")


def check_other_cpus(program, root, checks):
    """The shipped tables of a CPU serve other CPUs, with what those can run."""
    for features, isa in (((), "baseline"), (AVX2, "avx2"), (AVX512, "avx512")):
        attributes = [word for name in features for word in ("--attribute", f"{name}=1")]
        for name, words in (("rms_norm", ("gamma_dtype=bf16",)), ("gated_activation", ("function=silu",))):
            status, out, _ = run(program, "--root", root, "explain", name, "dtype=bf16", *words, "rows=64", "columns=2048",
                                 "--device", "host:x86_64", *attributes, "--json")
            checks.equal(status, 0, f"explain {name} with {isa}: {out}")
            choice = json.loads(out)["choice"]
            checks.equal((choice["variant"].split("_")[0], choice["reason"]), (isa, "other_device"),
                         f"{name} on another CPU with {isa}")


def main():
    program, root = sys.argv[1:]
    checks = Checks()
    status, out, problem = run(program, "check", "--json", root)
    found = json.loads(out)
    checks.equal((status, problem), (0, ""), f"check {root}:\n{out}")
    checks.that(found["manifests"] >= 2 and found["blobs"] >= 2, f"check saw {found['manifests']} manifests")

    status, out, _ = run(program, "--root", root, "list", "--json")
    listed = {each["name"]: each for each in json.loads(out)["operators"]}
    checks.equal(status, 0, "list")
    for name, words in (("rotary", ("seqlen=512", "heads=32", "heads_kv=8")),
                        ("attention_forward", ("seqlen_q=512", "seqlen_k=512", "heads=32", "heads_kv=8"))):
        targets = {each["target"].split("-")[0] for each in listed[name]["targets"]}
        checks.that("host" in targets, f"{name} has host kernels, not only {targets}")
        status, out, _ = run(program, "--root", root, "explain", name, "dtype=bf16", "head_dim=128", "batch=1", *words,
                             "--json")
        checks.equal(status, 0, f"explain {name}: {out}")
        why = json.loads(out)
        checks.that(why["choice"]["variant"] and why["launches"], f"explain {name} has a choice and launches")
        chosen = why["candidates"][0]
        checks.equal((chosen["variant"], chosen["admissible"]), (why["choice"]["variant"], True), "first candidate")
        # Whoever is denied what runs now gets another one.
        forced = [each["variant"] for each in why["candidates"] if each["admissible"]][-1]
        _, out, _ = run(program, "--root", root, "explain", name, "dtype=bf16", "head_dim=128", "batch=1", *words,
                        "--json", SWITCHYARD_FORCE=f"{name}:{forced}")
        checks.equal(json.loads(out)["choice"]["variant"], forced, "SWITCHYARD_FORCE")
    if "host-x86_64" in {each["target"] for each in listed["rms_norm"]["targets"]}:
        check_other_cpus(program, root, checks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
