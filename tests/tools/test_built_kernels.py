"""The tool over the kernels and tables of this build, and the variants that the guide names.

  test_built_kernels.py PROGRAM ROOT GUIDE
"""

import json
import re
import sys

from invented import Checks, run


def main():
    program, root, guide = sys.argv[1:]
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

    # What the guide's examples force is in this build, whichever it is.
    with open(guide, encoding="utf-8") as file:
        examples = re.findall(r"`(\w+:[\w=,]+)`", re.search(r"^\| `SWITCHYARD_FORCE` \|.*$", file.read(), re.MULTILINE)[0])
    checks.that(len(examples) >= 2, f"the guide's examples of SWITCHYARD_FORCE are {examples}")
    for example in examples:
        status, out, problem = run(program, "--root", root, "explain", example.split(":")[0], "dtype=bf16", "head_dim=128",
                                   "batch=1", "seqlen=512", "heads=32", "heads_kv=8", "--json", SWITCHYARD_FORCE=example)
        checks.equal(status, 0, f"SWITCHYARD_FORCE={example}: {out}{problem}")
        checks.equal(status == 0 and json.loads(out)["choice"]["reason"], "forced", f"SWITCHYARD_FORCE={example}")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
