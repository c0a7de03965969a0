# SPDX-License-Identifier: MIT
"""switchyard list and explain over an invented tree.   test_command_line.py PROGRAM FOLDER"""

import json
import os
import re
import shutil
import sys

from invented import DEVICE, Checks, Tree, run

MANUAL_PAGE = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "cmake", "packages", "debian", "switchyard.1"
)
SIZES = ("batch=1", "heads=32", "heads_kv=8", "head_dim=128", "dtype=bf16")


def explain_in(tree, program, *words, **variables):
    """The exit status, and what explain says as text, as JSON and on standard error."""
    command = (program, "--root", tree.folder, "explain", "rotary", *SIZES, "--device", DEVICE, *words)
    status, out, problem = run(*command, **variables)
    return status, out, json.loads(run(*command, "--json", **variables)[1]), problem


def obstacles(found):
    return {candidate["variant"]: candidate["obstacle"] for candidate in found["candidates"] if candidate.get("passed_over")}


def check_fingerprints(checks, program, folder):
    """Two hosts with the same files in other places, and with a table that differs."""
    here, there = Tree(os.path.join(folder, "here")), Tree(os.path.join(folder, "there"))
    here.write()
    there.write()

    def fingerprint(tree, *words):
        return run(program, "--root", tree.folder, *words, "--device", DEVICE)

    status, mine, problem = fingerprint(here, "fingerprint", "rotary")
    checks.equal((status, problem), (0, ""), "fingerprint")
    names = [line.split(" ", 1)[1] for line in mine.splitlines()]
    checks.equal([name.split("/")[0] for name in names[2:]], ["kernels", "tables"], f"fingerprint: {names}")
    checks.equal(fingerprint(there, "fingerprint")[1], mine, "fingerprint of all operators, elsewhere")

    saved = os.path.join(folder, "here.txt")
    with open(saved, "w", encoding="utf-8") as file:
        file.write(mine)
    status, out, _ = fingerprint(there, "fingerprint", "--compare", saved)
    checks.equal((status, out), (0, "no difference\n"), "fingerprint --compare")
    there.table["groups"][0]["rows"].pop()
    there.write()
    status, out, _ = fingerprint(there, "fingerprint", "--compare", saved)
    checks.equal(status, 1, "fingerprint --compare: a row less")
    checks.contains(out, f"{names[3]} differs: ", "fingerprint --compare: a row less")
    status, out, _ = fingerprint(there, "--json", "fingerprint", "--compare", saved)
    checks.contains(json.loads(out)["difference"], " differs: ", "fingerprint --json")
    checks.equal([part["name"] for part in json.loads(out)["parts"]], names, "fingerprint --json")
    other = os.path.join(folder, "there.txt")
    with open(other, "w", encoding="utf-8") as file:
        file.write(fingerprint(there, "fingerprint")[1])
    status, out, _ = run(program, "fingerprint", "--compare", saved, other)
    checks.equal(status, 1, "fingerprint --compare A B")
    checks.contains(out, f"{names[3]} differs: {mine.split()[-2]} here, ", "fingerprint --compare A B")
    status, out, _ = run(program, "fingerprint", "--compare", other, other)
    checks.equal((status, out), (0, "no difference\n"), "fingerprint --compare A A")
    status, _, problem = fingerprint(there, "fingerprint", "--compare", there.table_path)
    checks.equal(status, 2, "fingerprint --compare: no fingerprint")
    checks.contains(problem, "line 1 of a fingerprint is not a hash and a name", "fingerprint --compare: no fingerprint")
    status, _, problem = fingerprint(there, "fingerprint", "rotari")
    checks.equal(status, 64, "fingerprint: no operator")
    checks.contains(problem, "did you mean 'rotary'?", "fingerprint: no operator")


def check_memory_of_slices(checks, program, folder):
    """A slice has some of the eight parts of its card's memory: one variant is for those with two."""
    tree = Tree(folder)
    tree.table["device"]["memory_bandwidth"] = 8000
    tree.manifest["variants"][0]["requires"] = ["memory_bandwidth == 2000"]
    tree.write()
    for slice_name, parts in (
        ("1g.18gb", 1),
        ("1g.18gb+me", 1),
        ("1g.35gb", 2),
        ("2g.35gb", 2),
        ("3g.71gb", 4),
        ("7g.141gb", 8),
    ):
        command = ("explain", "rotary", *SIZES, "seqlen=1024", "--device", f"{DEVICE} MIG {slice_name}", "--json")
        found = json.loads(run(program, "--root", tree.folder, *command)[1])
        checks.equal(found["choice"]["variant"], "large" if parts == 2 else "small", f"the memory of {slice_name}")


def check_partly_installed(checks, program, folder):
    """A table of which few or none of the variants are installed."""
    tree = Tree(folder)
    rows = tree.table["groups"][0]["rows"]
    tree.manifest["variants"] = tree.manifest["variants"][1:]  # without `large`
    tree.write()
    status, out, found, problem = explain_in(tree, program, "seqlen=1024")
    checks.equal((status, found["choice"]["variant"]), (0, "small"), "one of two variants is installed")
    checks.contains(
        out, "(this_device, 2 rows), 1 of whose 2 variants are not installed for this device, has row 1", "rows of two variants"
    )
    checks.contains(problem, "a row names variant 'large'", "rows of two variants")

    # None of the rows' variants: the table is there, and says nothing about what is installed.
    for row in rows:
        row["times_us"] = {f"gone_{i}": 2.0 + i for i in range(30)}
    tree.table["groups"] = tree.table["groups"][:1]
    tree.table.pop("blobs")
    tree.write()
    status, out, found, problem = explain_in(tree, program, "seqlen=1024")
    checks.equal(
        (status, found["choice"]["variant"], found["choice"]["reason"]), (0, "small", "heuristic"), "no variant of the rows"
    )
    checks.contains(out, "group 0 (this_device) names no variant that is installed for this device", "no variant of the rows")
    checks.contains(out, "no variant in the rows of group 0 of", "no variant of the rows")
    checks.that("no table" not in out, f"a table is there:\n{out}")
    checks.equal(problem.count("warning"), 3, f"warnings of 30 variants that are not installed:\n{problem}")
    checks.contains(problem, "names 28 more variants", "30 variants that are not installed")
    os.remove(tree.table_path)
    # A device that no table names, of an architecture that has kernels.
    status, out, _ = run(program, "--root", folder, "explain", "rotary", *SIZES, "seqlen=64", "--device", "cuda:sm_90")
    checks.equal(status, 0, "no table at all")
    checks.contains(out, "no table has rows that speak about this device", "no table at all")

    # One mistake of many variants is said once.
    sound, spoilt = tree.manifest["variants"][0], json.loads(json.dumps(tree.manifest["variants"][0]))
    spoilt["launches"][0]["grid"] = ["seqlen / tokns"]
    tree.manifest["variants"] = [sound] + [{**spoilt, "id": f"bad_{i}"} for i in range(12)]
    tree.write()
    _, _, problem = run(program, "--root", folder, "explain", "rotary", *SIZES, "seqlen=64", "--device", "cuda:sm_90")
    checks.equal(problem.count("tokns"), 2, f"one wrong expression of 12 variants:\n{problem}")
    checks.contains(problem, "(the same in 11 more entries)", "one wrong expression of 12 variants")
    shutil.rmtree(folder)


def check_blobs(checks, program, folder):
    """Blobs that are missing, or not those of the manifest or of the table."""
    tree = Tree(folder).write()
    large = os.path.join(os.path.dirname(tree.manifest_path), "large.cubin")
    _, _, found, _ = explain_in(tree, program, "seqlen=1024")
    checks.equal((found["choice"]["variant"], found["choice"]["stale"]), ("large", False), "all blobs are there")
    with open(large, "ab") as file:
        file.write(b"x")
    status, out, found, _ = explain_in(tree, program, "seqlen=1024")
    checks.equal((status, found["choice"]["variant"]), (0, "small"), "a blob of another build")
    checks.contains(out, "passed over: its blob " + large + " is not the one that the manifest pins", "a blob of another build")
    checks.contains(out, "1 of them may serve this problem, 1 that could are passed over", "a blob of another build")
    os.remove(large)
    status, out, found, _ = explain_in(tree, program, "seqlen=1024")
    checks.equal((status, found["choice"]["variant"]), (0, "small"), "a missing blob")
    checks.contains(obstacles(found)["large"], "its blob cannot be read (", "a missing blob")
    os.remove(os.path.join(os.path.dirname(tree.manifest_path), "small.cubin"))
    status, out, found, _ = explain_in(tree, program, "seqlen=1024")
    checks.equal((status, found["choice"]), (1, None), "no blob at all")
    for text in (out, found["failure"]):
        checks.contains(text, "no variant that serves it can be loaded (large: its blob cannot be read", "no blob at all")

    # The manifest's blob is not the one that was measured.
    tree.table["blobs"]["large"] = "0" * 16
    tree.write()
    _, out, found, _ = explain_in(tree, program, "seqlen=1024")
    checks.equal((found["choice"]["variant"], found["choice"]["stale"]), ("large", True), "a blob that changed since")
    checks.contains(out, "stale: the blob changed since it was measured", "a blob that changed since")
    shutil.rmtree(folder)


def check_unfit(checks, program, folder):
    """Variants that cannot be computed for a call give way, as they do in a dispatcher."""
    for member, value, message in (
        ("grid", ["seqlen / (seqlen - 1024)"], 'grid "seqlen / (seqlen - 1024)" divides by zero'),
        ("grid", [1, "seqlen * 64"], "the grid would be 1x65536x1, which is more than " + DEVICE + " takes"),
        ("block", ["seqlen - 1025"], 'block would be -1 ("seqlen - 1025")'),
        ("shared_bytes", "9223372036854775807 * seqlen", "shared_bytes overflows"),
        ("workspace", {"sums": "8 % (seqlen - 1024)"}, "workspace 'sums' \"8 % (seqlen - 1024)\" divides by zero"),
    ):
        tree = Tree(folder)
        large = tree.manifest["variants"][0]
        (large if member == "workspace" else large["launches"][0])[member] = value
        tree.write()
        status, out, found, _ = explain_in(tree, program, "seqlen=1024")
        checks.equal(
            (status, found["choice"]["variant"], found["choice"]["reason"]), (0, "small", "exact"), f"an unfit {member}"
        )
        checks.contains(out, message if member != "shared_bytes" else "not now: needs more shared memory", f"an unfit {member}")
        if member != "shared_bytes":
            checks.contains(out, "passed over: ", f"an unfit {member}")
            checks.contains(obstacles(found)["large"], message, f"an unfit {member}")
        _, _, found, _ = explain_in(tree, program, "seqlen=1023")
        checks.equal(found["choice"] is None, False, f"other sizes beside an unfit {member}")
    shutil.rmtree(folder)


def check_real_tables(checks, program, folder):
    """Every operator on every device that this project's tables name, and on invented ones, without kernels."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tables")
    shutil.rmtree(folder, ignore_errors=True)
    tables = os.path.join(folder, "tables")
    for operator in sorted(os.listdir(source)):
        place = os.path.join(source, operator)
        os.makedirs(tables, exist_ok=True)  # one operator at a time: the tool looks at all tables for devices
        os.symlink(place, os.path.join(tables, operator))
        for name in (
            sorted(os.listdir(place)) if os.path.isdir(place) and operator not in ("schema", "study", "problems") else ()
        ):
            with open(os.path.join(place, name), encoding="utf-8") as file:
                table = json.load(file)
            if table.get("schema") != "switchyard.table/1":
                continue
            for group in table["groups"][:2]:
                row = group["rows"][len(group["rows"]) // 2]
                values = {**group.get("type", {}), **dict(zip(group["axes"], row["at"]))}
                check_bare(checks, program, folder, operator, table["device"]["name"], values)
            for device in ("host:x86_64", "hip:gfx942", "cuda:sm_75"):
                status, out, problem = explain_bare(program, folder, operator, device, values)
                checks.that(status == 1 or device == "host:x86_64", f"explain {operator} on {device}: {status} {problem}")
                checks.that("<- chosen\n" not in out and "stale" not in out, f"explain {operator} on {device}:\n{out}")
        os.remove(os.path.join(tables, operator))
    shutil.rmtree(folder)


def explain_bare(program, folder, operator, device, values, *more):
    words = [f"{axis}={str(value).lower() if isinstance(value, bool) else value}" for axis, value in values.items()]
    return run(program, "--root", folder, "explain", operator, *words, "--device", device, *more)


def check_bare(checks, program, folder, operator, device, values):
    name = f"explain {operator} on {device} {values}"
    status, out, problem = explain_bare(program, folder, operator, device, values)
    checks.equal((status, problem), (0, ""), name)
    for part in ("no kernels for this device are installed here", "not installed here\n", "none is installed for this device"):
        checks.contains(out, part, name)
    for part in ("stale", "can run on the device", "<- chosen\n", "no table"):
        checks.that(part not in out, f"{name}: {part!r} is in:\n{out}")
    found = json.loads(explain_bare(program, folder, operator, device, values, "--json")[1])
    compared = [candidate["microseconds"] for candidate in found["candidates"] if candidate.get("compared")]
    checks.that(
        found["choice"]["variant"] == found["candidates"][0]["variant"], f"{name}: the first candidate is not the chosen one"
    )
    is_tie = f"which names '{found['choice']['variant']}' first among times that cannot be told apart" in out
    checks.that(compared and (min(compared) == compared[0]) != is_tie, f"{name}: another variant is faster: {compared}")
    checks.equal((found["installed"], found["choice"]["stale"], found["launches"]), (False, False, []), name)


def main():
    program, folder = sys.argv[1:]
    Tree(folder).write()
    checks = Checks()
    root = ("--root", folder)
    sizes = ("batch=1", "heads=32", "heads_kv=8", "head_dim=128")

    def explain(*words, **variables):
        return run(program, *root, "explain", "rotary", *words, *sizes, **variables)

    def explain_json(*words, **variables):
        status, out, problem = explain(*words, "--json", **variables)
        checks.equal(problem, "", f"explain --json {words}: standard error")
        return status, json.loads(out)

    # A row decides; the whole text is compared.
    status, out, problem = explain("dtype=bf16", "seqlen=64", "--device", DEVICE)
    checks.equal((status, problem), (0, ""), "explain")
    checks.golden(out, folder, "explain_exact.txt")

    # Between rows, both candidates have a predicted time, and the faster one is chosen.
    status, found = explain_json("dtype=bf16", "seqlen=768", "--device", DEVICE)
    checks.equal(status, 0, "explain between rows")
    checks.equal((found["choice"]["variant"], found["choice"]["reason"]), ("large", "interpolated"), "between rows")
    times = {
        candidate["variant"]: candidate.get("microseconds") for candidate in found["candidates"] if candidate["admissible"]
    }
    checks.that(3 < times["large"] < times["small"] < 8, f"predictions {times}")
    checks.equal(found["problem"]["dtype"], "bf16", "problem")
    checks.equal(found["problem"]["seqlen"], 768, "problem")
    checks.contains(found["assumed"], "rotary_dim=128", "assumed")
    checks.equal(found["launches"][0]["grid"], "12x1x1", "grid")
    checks.contains([rule["rule"] for rule in found["rules"]], "rows", "rules")

    # Far from every row, and on devices that no table was measured on.
    _, found = explain_json("dtype=bf16", "seqlen=100000", "--device", DEVICE)
    checks.equal(found["choice"]["reason"], "extrapolated", "far away")
    _, found = explain_json("dtype=bf16", "seqlen=64", "--device", "cuda:sm_90")
    checks.equal(found["choice"]["reason"], "other_device", "an invented device")
    _, found = explain_json("dtype=bf16", "seqlen=64", "alignment=8", "--device", "invented")
    checks.equal(found["choice"]["variant"], "small", "a part of a device's name")
    obstacle = [candidate["obstacle"] for candidate in found["candidates"] if candidate["variant"] == "large"]
    checks.equal(obstacle, ["requires alignment == 16"], "obstacle")

    # A slice of a card is the card with fewer multiprocessors and less bandwidth, under the name that its driver gives it.
    for slice_name, count in (
        ("1g.18gb", 16),
        ("1g.18gb+me", 16),
        ("1g.35gb", 16),
        ("2g.35gb", 32),
        ("3g.71gb", 60),
        ("4g.71gb", 64),
        ("7g.141gb", 132),
    ):
        name = f"{DEVICE} MIG {slice_name}"
        _, found = explain_json("dtype=bf16", "seqlen=64", "--device", name)
        checks.equal((found["device"]["name"], found["device"]["multiprocessors"]), (name, count), "a MIG slice")
        checks.equal(found["choice"]["reason"], "other_device", "the whole card's table serves its slices")
    _, out, _ = explain("dtype=bf16", "seqlen=64", "--device", f"{DEVICE} MIG 3g.71gb")
    checks.contains(out, f"device from a slice of {DEVICE} with 60 multiprocessors, from ", "a MIG slice in words")
    status, _, problem = explain("dtype=bf16", "seqlen=64", "--device", f"{DEVICE} MIG 9g")
    checks.that(status == 64 and "'9g' is no MIG slice; expected slices and memory, such as 3g.40gb" in problem, problem)

    # Conditions read attributes that the command line may set.
    _, found = explain_json("dtype=bf16", "seqlen=8", "--device", "cuda:sm_90", "--attribute", "compute_capability=70")
    checks.equal(found["choice"], None, "no candidate is left")
    status, out, _ = explain("dtype=bf16", "seqlen=8", "--device", "cuda:sm_90", "--attribute", "compute_capability=70")
    checks.equal(status, 1, "status when nothing serves")
    checks.contains(out, "requires compute_capability >= 80", "what the nearest lacks")
    status, found = explain_json("dtype=f32", "seqlen=8", "--device", DEVICE)
    checks.equal(status, 1, "status when no type matches")
    checks.contains(found["failure"], "serves dtype=bf16, not f32", "failure")
    status, out, _ = explain("dtype=bf16", "seqlen=8", "--device", "cuda:sm_80")
    checks.equal(status, 1, "status on a device that no kernel runs on")
    checks.contains(out, "cuda sm_90a", "targets that there are")

    # Forcing and overlays count as in an engine.
    _, found = explain_json("dtype=bf16", "seqlen=64", "--device", DEVICE, SWITCHYARD_FORCE="rotary:tokens=64")
    checks.equal((found["choice"]["variant"], found["choice"]["reason"]), ("large", "forced"), "SWITCHYARD_FORCE")
    overlay = folder + "-overlay.json"
    with open(overlay, "w", encoding="utf-8") as file:
        json.dump(
            {
                "schema": "switchyard.table/1",
                "operator": "rotary",
                "device": {},
                "deny": [{"variant": "small", "reason": "a test"}],
            },
            file,
        )
    _, found = explain_json("dtype=bf16", "seqlen=64", "--device", DEVICE, "--tables", overlay)
    checks.equal(found["choice"]["variant"], "large", "--tables with a denial")
    denied = [candidate["obstacle"] for candidate in found["candidates"] if candidate["variant"] == "small"][0]
    checks.contains(denied, "a test", "reason of a denial")

    _, found = explain_json("dtype=bf16", "seqlen=64", "--device", DEVICE, SWITCHYARD_TABLES=overlay)
    checks.equal(found["choice"]["variant"], "large", "SWITCHYARD_TABLES with a denial")

    # A root that is named twice counts once.
    _, found = explain_json("dtype=bf16", "seqlen=64", "--device", DEVICE, "--root", folder + "/tables/..")
    checks.equal(len(found["candidates"]), 3, "candidates of a root named twice")

    # Command lines that mean nothing: status 64 and what was probably meant.
    for arguments, part in (
        (("explain", "rotari", "dtype=bf16"), "did you mean 'rotary'?"),
        (("explain", "rotary", "dtipe=bf16"), "did you mean 'dtype'?"),
        (("explain", "rotary", "dtype=bf17"), "did you mean 'bf16'?"),
        (("explain", "rotary", "seqlen=many"), "it takes an integer"),
        (("explain", "rotary", "dtype"), "expected axis=value"),
        (("explain", "rotary", "dtype=bf16", "dtype=f16"), "given twice"),
        (("explain", "rotary", "dtype=bf16"), "must be given as axis=value: head_dim, batch, seqlen"),
        (("explain", "rotary", "dtype=bf16", "seqlen=1", *sizes, "--device", "Invented H300"), DEVICE),
        (("explain", "rotary", "dtype=bf16", "seqlen=1", *sizes, "--attribute", "avx3=1"), "did you mean 'avx2'?"),
        (("explain", "rotary", "dtype=bf16", "seqlen=1", *sizes, "--attribute", "avx2=x"), "is not an integer"),
        (("list", "rotary", "seqlen=1"), "is a size"),
        (("chek", "x"), "unknown command 'chek'; did you mean 'check'? (there are list, explain, check, describe,"),
        (("--json", "explode"), "unknown command 'explode' (there are"),
        (("describe", "rotari"), "did you mean 'rotary'?"),
        (("diff", "a.json", "b.json", "--threshold", "5"), "--threshold: expected a share such as 5% or 0.05, got '5'"),
        ((), ""),
    ):
        status, out, problem = run(program, *root, *arguments)
        checks.equal(status, 64, f"status of {arguments}")
        checks.contains(problem, part, f"message of {arguments}")
        checks.equal(out, "", f"output of {arguments}")

    # Of two tables for one device the newer one decides; the other one's row is named.
    two = Tree(folder + "-two")
    two.table["measured"] = {"date": "2026-11-20"}
    two.write()
    newer = dict(
        two.table,
        measured={"date": "2026-11-22", "before": [{"date": "2026-11-01"}]},
        groups=[dict(two.table["groups"][0], rows=[{"at": [1, 64], "times_us": {"large": 1.0, "small": 4.0}}])],
    )
    for name, date, decides, why in (
        ("zzz.json", "2026-11-22", "zzz.json", "measured 2026-11-20, older"),
        ("zzz.json", "2026-11-20", "invented-h200.json", "measured 2026-11-20 too, a later name"),
        ("aaa.json", "2026-11-20", "aaa.json", "measured 2026-11-20 too, a later name"),
        ("aaa.json", "2026-11-19", "invented-h200.json", "measured 2026-11-19, older"),
        ("aaa.json", None, "invented-h200.json", "undated"),
        ("aaa.json", "soon", "invented-h200.json", "undated"),
    ):
        path = os.path.join(os.path.dirname(two.table_path), name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(dict(newer, measured={"date": date} if date else {}), file)
        words = ("--root", two.folder, "explain", "rotary", *sizes, "dtype=bf16", "seqlen=64", "--device", DEVICE)
        status, out, problem = run(program, *words, "--json")
        choice = json.loads(out)["choice"]
        loser = name if decides != name else "invented-h200.json"
        checks.equal(
            (
                status,
                os.path.basename(choice["table"]),
                [(os.path.basename(row["table"]), row["group"], row["row"], row["why"]) for row in choice["not_used"]],
            ),
            (0, decides, [(loser, 0, 0, why)]),
            f"explain: {name} of {date}",
        )
        checks.equal("/measured/date: expected a day as in" in problem, date == "soon", f"explain: a warning of {date}")
        _, out, _ = run(program, *words)
        checks.contains(out, f"{loser} group 0 has row 0 for the same sizes: {why}\n", f"explain: {name} of {date}")
        checks.contains(out, f"; also in {os.path.dirname(path)}/{loser} ({why}), measured", f"explain: {name} of {date}")
        # Tables of one device form one group, named by the first of them: a row of another one is named with it.
        _, out, _ = run(program, *(word.replace("seqlen=64", "seqlen=1024") for word in words))
        checks.contains(
            out,
            "has row 1" + (f" of group 0 of {two.table_path}" if decides == name else "") + " for exactly these sizes",
            f"explain: a row of another file than {name}",
        )
        os.remove(path)

    # A machine that built no kernels of a device explains what ships for it: its table.
    bare = Tree(folder + "-bare").write()
    shutil.rmtree(os.path.join(bare.folder, "kernels"))
    status, out, problem = run(
        program, "--root", bare.folder, "explain", "rotary", *sizes, "dtype=bf16", "seqlen=768", "--device", DEVICE
    )
    checks.equal((status, problem), (0, ""), "a table without kernels")
    for part in (
        ": large [cuda sm_90], interpolated: nearest row 1",
        "us; not installed here\n",
        "note: no kernels for this device are installed here, so nothing can run",
        "none is installed for this device; its tables name 3 variants, 2 of them for this type",
        "<- chosen by the tables, not installed",
    ):
        checks.contains(out, part, "a table without kernels")
    checks.that("stale" not in out, f"no blob, so none that changed:\n{out}")
    status, out, _ = run(
        program, "--root", bare.folder, "explain", "rotary", *sizes, "dtype=f32", "seqlen=768", "--device", DEVICE
    )
    checks.equal(status, 1, "a table without kernels and without rows of the type")
    checks.contains(
        out, "no kernels for this device are installed here, and no rows of its tables decide", "no rows of the type"
    )
    words = ("explain", "rotary", *sizes, "dtype=bf16", "seqlen=64", "--device", DEVICE)
    _, out, _ = run(program, "--root", bare.folder, *words, SWITCHYARD_FORCE="rotary:large")
    checks.contains(out, "rotary:large decides", "forcing without kernels")
    shutil.rmtree(bare.folder)
    check_memory_of_slices(checks, program, folder + "-slices")
    check_partly_installed(checks, program, folder + "-partly")
    check_blobs(checks, program, folder + "-blobs")
    check_fingerprints(checks, program, folder + "-fingerprints")
    check_unfit(checks, program, folder + "-unfit")
    check_real_tables(checks, program, folder + "-real")

    # Conditions on arguments that manifests require are given like axes, and taken as false where they are not.
    dense = Tree(folder + "-dense")
    dense.manifest["variants"][0]["requires"].append("q_stride_head == head_dim")
    dense.write()

    call = ("explain", "rotary", *sizes, "dtype=bf16", "seqlen=1024", "--device", DEVICE)

    def explain_dense(*words):
        return run(program, "--root", dense.folder, *call, *words)

    status, out, problem = explain_dense("q_stride_head==head_dim=true")
    checks.equal((status, problem), (0, ""), "a condition")
    for part in ("q_stride_head==head_dim=true}", ": large {tokens=64}", "exact: row 1"):
        checks.contains(out, part, "a condition that holds")
    status, out, problem = explain_dense()
    checks.equal((status, problem), (0, ""), "no condition")
    for part in (
        "q_stride_head==head_dim=false}",
        ": small {tokens=4}",
        "not now: requires q_stride_head==head_dim",
        "alignment=16, q_stride_head==head_dim=false",
    ):
        checks.contains(out, part, "a condition that does not hold")
    for word, part in (
        ("q_stride_head == 1=true", "names 'q_stride_head==1' (they name q_stride_head==head_dim)"),
        ("q_stride_hed==1=true", "has no axis 'q_stride_hed==1'"),
        ("q_stride_head==head_dim=2", "has no value '2'"),
        ("offset=0", "has no axis 'offset'"),
    ):
        status, out, problem = explain_dense(word)
        checks.equal((status, out), (64, ""), f"status of {word}")
        checks.contains(problem, part, f"message of {word}")
    status, out, problem = run(program, "--root", dense.folder, "list", "rotary")
    checks.equal((status, problem), (0, ""), "list with a condition")
    checks.contains(out, "alignment q_stride_head==head_dim\n", "list with a condition")
    status, out, _ = run(program, "check", dense.folder)
    checks.equal(status, 0, f"check with a condition: {out}")
    checks.contains(out, "0 errors, 0 warnings", "check with a condition")
    shutil.rmtree(dense.folder)

    # What it is, and an example for each command.
    status, out, _ = run(program, "--version")
    checks.equal(status, 0, "--version")
    for part in ("switchyard 0.", "switchyard.manifest/1, switchyard.table/1, switchyard.operator/1", "built with "):
        checks.contains(out, part, "--version")
    for command in "list explain check describe fingerprint tune record merge diff bench report".split():
        status, out, _ = run(program, command, "--help")
        checks.equal(status, 0, f"{command} --help")
        checks.contains(out, f"Example: switchyard {command} ", f"{command} --help")

    # An operator as data: exported by one program, read by another.
    status, out, _ = run(program, "describe", "rotary")
    exported = json.loads(out)
    checks.equal((status, exported["schema"], exported["operator"]), (0, "switchyard.operator/1", "rotary"), "describe")
    checks.contains([argument["name"] for argument in exported["arguments"]], "q", "describe: arguments")
    exported["operator"] = "spin"
    path = folder + "-spin.json"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(exported, file)
    status, out, _ = run(program, "--operators", path, "describe", "spin")
    checks.equal((status, json.loads(out)), (0, exported), "--operators")
    status, _, problem = run(program, "--operators", overlay, "describe", "spin")
    checks.equal(status, 2, "--operators with another file")
    checks.contains(problem, 'expected "switchyard.operator/1", got "switchyard.table/1"', "--operators with another file")
    os.remove(path)

    # Colours are for terminals.
    checks.that("\033" not in run(program, "check", folder + "/nowhere")[1], "no colours into a pipe")

    # A variable with a value that means nothing is not the command line's fault.
    status, _, problem = explain("dtype=bf16", "seqlen=64", SWITCHYARD_FORCE="loud")
    checks.equal(status, 2, "status with a bad variable")
    checks.contains(problem, "[switchyard.304]", "message about a bad variable")

    # list
    status, out, _ = run(program, *root, "list", "rotary", "--variants")
    checks.equal(status, 0, "list")
    checks.golden(out, folder, "list.txt")
    _, out, _ = run(program, *root, "list", "rotary", "dtype=f16", "--json")
    found = json.loads(out)
    target = found["operators"][0]["targets"][0]
    checks.equal(
        (target["target"], [variant["type"]["dtype"] for variant in target["variants"]]),
        ("cuda-sm_90a", ["f16"]),
        "list by a type",
    )
    checks.equal(found["operators"][0]["tables"][0]["rows"], 1, "rows of a type")
    _, out, _ = run(program, *root, "list", "rotary", "--target", "hip")
    checks.that("sm_90a" not in out, "list --target hip shows no CUDA target")
    _, out, _ = run(program, *root, "list", "--devices")
    checks.contains(out, f"{DEVICE} (cuda sm_90)", "list --devices")

    status, out, _ = run(program, "--help")
    checks.equal(status, 0, "--help")
    checks.contains(out, "Exit status", "--help")
    listed = re.findall(r"^  (\w+) +(\S.*)$", out.split("Subcommands:\n")[1].split("\n\n")[0], re.MULTILINE)
    checks.contains([name for name, _ in listed], "explain", "--help: commands")
    with open(MANUAL_PAGE, encoding="utf-8") as file:
        page = file.read().replace("\\(aq", "'")
    checks.equal(re.findall(r"\.TP\n\.B ([a-z]+)\n(.*)", page), listed, "the manual page's commands")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
