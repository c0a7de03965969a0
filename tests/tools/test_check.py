# SPDX-License-Identifier: MIT
"""switchyard check: a sound tree, and one broken tree for each thing it looks for.   test_check.py PROGRAM FOLDER"""

import json
import os
import resource
import sys

from cubin import cubin
from invented import BLOBS, KERNEL, Checks, Tree, manifest, run, sha256


def launch(tree, index=0):
    return tree.manifest["variants"][index]["launches"][0]


def put(where, *path):
    """put(table, "groups", 0, "type", {}) replaces /groups/0/type."""
    *steps, last, value = path
    for step in steps:
        where = where[step]
    where[last] = value


def own(tree):
    """As if another program had defined the operator."""
    for name in ("manifest", "table"):
        path = getattr(tree, name + "_path")
        setattr(tree, name + "_path", path.replace("/rotary/", "/own/"))
        getattr(tree, name)["operator"] = "own"


def broken_trees():
    """Name, what is done to the tree, severity, code, a part of the message."""

    def edit(name, severity, code, part):
        return lambda change: cases.append((name, change, severity, code, part))

    cases = []

    def replace(tree, data):
        """Another large.cubin, pinned as what it is."""
        tree.blobs["large.cubin"] = data
        launch(tree)["sha256"] = sha256(data)
        tree.table["blobs"]["large"] = sha256(data)[:16]

    # What the readers refuse.
    edit("truncated manifest", "error", 103, "Was the file cut off")(
        lambda tree: put(vars(tree), "manifest", json.dumps(tree.manifest)[:-40])
    )
    edit("table that is no JSON", "error", 103, "is not JSON")(lambda tree: put(vars(tree), "table", "at: [1, 2]"))
    edit("future date", "warning", None, "states that it was measured on 2999-01-01, a date in the future")(
        lambda tree: put(tree.table, "measured", {"date": "2999-01-01"})
    )
    edit("deep nesting", "error", 103, "levels deep")(lambda tree: put(vars(tree), "table", "[" * 10000))
    edit("other schema", "error", 104, 'expected "switchyard.manifest/1" or "switchyard.table/1"')(
        lambda tree: put(tree.table, "schema", "other.table/1")
    )
    edit("later major version", "error", 105, "Update the library")(
        lambda tree: put(tree.table, "schema", "switchyard.table/2")
    )
    edit("other operator's folder", "error", 106, "is in the folder of 'rotary'")(
        lambda tree: tree.table.update(operator="attention_forward", groups=[], match={})
    )
    edit("unknown operator", "warning", 106, "did you mean 'rotary'?")(lambda tree: put(tree.table, "operator", "rotari"))
    edit("row of the wrong length", "error", 107, "/groups/0/rows/1/at: expected 2 integers, got 1")(
        lambda tree: put(tree.table, "groups", 0, "rows", 1, "at", [1])
    )
    edit("negative time", "error", 107, "expected a time from 1e-6")(
        lambda tree: put(tree.table, "groups", 0, "rows", 0, "times_us", "small", -1)
    )
    edit("unknown axis", "error", 108, "did you mean 'seqlen'?")(lambda tree: put(tree.table, "groups", 0, "axes", 1, "seqlin"))
    edit("launch like nothing", "error", 107, "/launches/0/like: the file's 'shared' has no 'tile'; it has nothing")(
        lambda tree: put(launch(tree), "like", "tile")
    )
    edit("misspelt key of a shared object", "warning", None, "/shared/tile/gird: the format has no such key")(
        lambda tree: put(tree.manifest, "shared", {"tile": {"gird": [1]}})
    )
    edit("duplicate id", "error", 109, "'small' is listed twice")(
        lambda tree: tree.manifest["variants"].append(tree.manifest["variants"][1])
    )
    edit("unknown id in a row", "warning", 110, "did you mean 'small'?")(
        lambda tree: put(tree.table, "groups", 0, "rows", 0, "times_us", "smal", 1.0)
    )
    edit("unknown id in a denial", "warning", 110, "a denial names variant 'smaller'")(
        lambda tree: put(tree.table, "deny", [{"variant": "smaller", "reason": "a test"}])
    )
    edit("expression of nothing", "error", 111, "seqlem")(lambda tree: put(launch(tree), "grid", 0, "seqlem / 2"))
    edit("expression that divides by zero", "error", 111, "zero")(lambda tree: put(launch(tree), "grid", 0, "seqlen + 1 / 0"))
    edit("grid of an address", "error", 111, "\"q\" is an address, 'grid' takes a number")(
        lambda tree: put(launch(tree), "grid", 0, "q")
    )
    edit("parameter of an address", "error", 111, "is an address, 'i32' takes a number")(
        lambda tree: put(launch(tree), "parameters", 2, {"i32": "seqlen + q"})
    )
    edit("kernel with a long name", "error", 107, "has 10001 characters; a name or a text has at most 10000")(
        lambda tree: put(launch(tree), "kernel", "k" * 10001)
    )
    # What a call would refuse.
    edit(
        "grid that is never right",
        "error",
        305,
        "kernel 'rotary_bf16_64': grid[0] would be -1 for every call; it must be 0 to 2147483647",
    )(lambda tree: put(launch(tree), "grid", 0, "tokens - 65"))
    edit(
        "grid above its limit where the condition ends",
        "error",
        305,
        "grid[1] would be 65536 for batch=65536; it must be 0 to 65535",
    )(lambda tree: tree.manifest["variants"][0]["requires"].append("batch <= 65536"))
    edit("grid that divides by zero for one size", "error", 305, "grid[0] divides by zero for seqlen=77")(
        lambda tree: put(launch(tree), "grid", 0, "max(4096 / (seqlen - 77), 1)")
    )
    edit("workspace below zero", "error", 305, "workspace 'w' would be -10 for every call")(
        lambda tree: put(tree.manifest, "variants", 0, "workspace", {"w": -10})
    )
    edit("parameter that does not fit", "error", 305, 'parameter {"i32":"seqlen << 30"} would be')(
        lambda tree: put(launch(tree), "parameters", 2, {"i32": "seqlen << 30"})
    )
    edit("unknown backend", "error", 302, "the library has no backend 'cude' (it has cuda, hip, host); did you mean 'cuda'?")(
        lambda tree: put(tree.manifest, "target", "backend", "cude")
    )
    edit("unknown architecture", "error", 302, "no device of backend 'cuda' has the architecture 'sm90'")(
        lambda tree: put(tree.manifest, "target", "arch", "sm90")
    )
    edit("no variants", "error", 302, "the manifest has no variants, so it serves no call")(
        lambda tree: put(tree.manifest, "variants", [])
    )
    edit("a table that denies all", "error", 302, "every variant that serves {dtype=f16} is denied")(
        lambda tree: put(tree.table, "deny", [{"variant": "small", "reason": "a test", "type": {"dtype": "f16"}}])
    )
    edit("path out of the folder", "error", 112, "leads out of the manifest's folder")(
        lambda tree: put(launch(tree), "blob", "../../../secret")
    )

    # Blobs.
    @edit("missing blob", "error", 205, "rotary_bf16_64")
    def _(tree):
        del tree.blobs["large.cubin"]

    edit("changed blob", "error", 206, "install blob and manifest of one build")(
        lambda tree: put(tree.blobs, "large.cubin", b"another kernel")
    )
    edit("two hashes for a blob", "error", 206, "one of them is of an older build")(
        lambda tree: put(launch(tree, 2), "sha256", sha256(b"an older build"))
    )
    edit("blob that nothing uses", "warning", None, "uses this blob")(
        lambda tree: put(tree.blobs, "forgotten.cubin", b"a forgotten kernel")
    )
    edit("truncated blob with its hash", "error", 207, "neither a whole cubin, nor a fatbin, nor PTX")(
        lambda tree: replace(tree, BLOBS["large.cubin"][:-100])
    )
    edit("blob of another kind", "error", 207, "neither a whole cubin")(lambda tree: replace(tree, b"a large kernel"))
    edit("blob for another architecture", "error", 207, "was built for sm_80, the manifest's target is sm_90a")(
        lambda tree: replace(tree, cubin({"rotary_bf16_64": KERNEL}, capability=80))
    )
    edit("kernel that the blob does not have", "error", 208, "has no kernel 'rotary_bf16_46'; did you mean 'rotary_bf16_64'?")(
        lambda tree: put(launch(tree), "kernel", "rotary_bf16_46")
    )
    edit("too few parameters", "error", 209, "the manifest has 2 parameters, the kernel takes 3")(
        lambda tree: launch(tree)["parameters"].pop()
    )
    edit("parameter of another size", "error", 209, "has 8 bytes in the manifest and 4 in the kernel")(
        lambda tree: put(launch(tree), "parameters", 2, {"i64": "seqlen"})
    )
    edit("block above its launch bound", "error", 211, "has 512 threads, but the kernel was compiled for at most 256")(
        lambda tree: put(launch(tree), "block", ["tokens * 8", 1, 1])
    )
    edit("block above the device's limit", "error", 211, "has 2048 threads, a device runs at most 1024")(
        lambda tree: put(launch(tree), "block", [64, 32, 1])
    )
    edit(
        "shared memory above the device's limit",
        "error",
        204,
        "240000 bytes of shared memory, a block on sm_90a has at most 232448",
    )(lambda tree: put(launch(tree), "shared_bytes", 240000))

    @edit("static shared memory counts", "error", 204, "needs 200000 bytes of shared memory and 40000 static ones")
    def _(tree):
        replace(tree, cubin({"rotary_bf16_64": {**KERNEL, "shared": 40000}}))
        launch(tree)["shared_bytes"] = 200000

    def tensor_map(tree, **changes):
        launch(tree)["parameters"][0] = {
            "tensor_map": {
                "of": "q",
                "dtype": "bf16",
                "extents": ["head_dim", "seqlen"],
                "strides": ["2 * head_dim"],
                "box": [64, 64],
                **changes,
            }
        }

    edit("box above the hardware's limit", "error", 211, "box has an extent of 512; the hardware copies 1 to 256")(
        lambda tree: tensor_map(tree, box=[64, 512])
    )
    edit("box wider than its swizzle", "error", 211, "the box is 256 bytes wide; swizzle 128B takes at most 128")(
        lambda tree: tensor_map(tree, box=[128, 64], swizzle="128B")
    )
    edit("box of no whole lines", "error", 211, "the box is 6 bytes wide; it must be a multiple of 16")(
        lambda tree: tensor_map(tree, box=[3, 64])
    )
    edit("stride of no whole lines", "error", 211, "a stride of 100 bytes is not a multiple of 16")(
        lambda tree: tensor_map(tree, strides=[100])
    )
    edit("steps above the hardware's limit", "error", 211, "element_strides has 9; the hardware takes 1 to 8")(
        lambda tree: tensor_map(tree, element_strides=[1, 9])
    )
    edit("interleaved matrix", "error", 211, "an interleaved layout has 3 to 5 dimensions")(
        lambda tree: tensor_map(tree, interleave="16B")
    )
    # Operators of other programs.
    edit("operator of another program", "note", 106, "operator 'own' is not known to this program: its axes and arguments")(
        lambda tree: own(tree)
    )

    @edit("another program's operator: syntax", "error", 111, "ceil_div(seqlen 16)")
    def _(tree):
        own(tree)
        launch(tree)["grid"][0] = "ceil_div(seqlen 16)"

    @edit("another program's operator: kernel", "error", 208, "did you mean 'rotary_bf16_64'?")
    def _(tree):
        own(tree)
        launch(tree)["kernel"] = "rotary_bf16_46"

    @edit("another program's operator: parameters", "error", 209, "the manifest has 4 parameters, the kernel takes 3")
    def _(tree):
        own(tree)
        launch(tree)["parameters"].append("scale")

    @edit("another program's operator: rows", "warning", None, "which requires seqlen >= 64")
    def _(tree):
        own(tree)
        tree.table["groups"][0]["rows"].append({"at": [1, 8], "times_us": {"large": 1.0}})

    # What is most likely not meant.
    edit("misspelt key", "warning", None, "did you mean 'requires'?")(
        lambda tree: put(tree.manifest, "variants", 0, "require", ["batch > 1"])
    )
    edit("condition that cannot hold for the type", "warning", None, "it can never be chosen")(
        lambda tree: tree.manifest["variants"][0]["requires"].append("dtype == f16")
    )
    edit("condition that cannot hold on the target", "warning", None, "it can never be chosen")(
        lambda tree: put(tree.manifest, "variants", 1, "requires", ["compute_capability >= 100"])
    )

    @edit("condition without a value", "error", 111, "has no value for its type and config")
    def _(tree):
        tree.manifest["variants"][0]["config"]["splits"] = 0
        tree.manifest["variants"][0]["requires"].append("tokens % (head_dim * splits) == 0")
        tree.manifest["variants"][0]["type"]["head_dim"] = 128

    edit("the same variant twice", "warning", None, "it is never needed")(
        lambda tree: tree.manifest["variants"].append({**tree.manifest["variants"][1], "id": "twin"})
    )

    @edit("type without rows", "warning", None, "1 types that variants serve on Invented H200 have no rows here: {dtype=f16}")
    def _(tree):
        del tree.table["groups"][1]

    edit("stale times", "warning", None, "2 times of variant 'large' are stale: the blobs changed")(
        lambda tree: put(tree.table, "blobs", "large", "0123456789abcdef")
    )
    edit("time of a variant that does not serve", "warning", None, "which requires seqlen >= 64")(
        lambda tree: tree.table["groups"][0]["rows"].append({"at": [1, 8], "times_us": {"large": 1.0}})
    )
    # Good to know.
    edit("no table", "note", None, "no table has rows for a device that runs cuda sm_90a")(
        lambda tree: put(tree.table, "groups", [])
    )

    @edit("variant that only a table could choose", "note", None, "run only when pinned or forced: hidden")
    def _(tree):
        hidden = json.loads(json.dumps(tree.manifest["variants"][1]))
        hidden["id"] = "hidden"
        hidden["config"]["tokens"] = 8
        tree.manifest["variants"].append(hidden)

    return cases


def main():
    program, folder = sys.argv[1:]
    checks = Checks()

    tree = Tree(folder).write()
    status, out, problem = run(program, "check", folder)
    checks.equal(
        (status, out, problem), (0, "0 errors, 0 warnings, 0 notes in 1 manifests, 1 tables and 2 blobs\n", ""), "a sound tree"
    )
    checks.equal(run(program, "check", "--strict", folder)[0], 0, "a sound tree, strictly")
    tree.manifest["variants"][0].update(max_error=0.5, reproducible="rows")
    tree.write()
    checks.equal(run(program, "check", "--strict", folder)[0], 0, "a variant that states its error and its class")
    tree = Tree(folder).write()
    status, out, _ = run(program, "check", tree.table_path)
    checks.equal(
        (status, out),
        (0, "0 errors, 0 warnings, 0 notes in 0 manifests, 1 tables and 0 blobs\n"),
        "a table alone is checked with the manifests of its tree",
    )

    for name, change, severity, code, part in broken_trees():
        tree = Tree(folder)
        change(tree)
        tree.write()
        status, out, problem = run(program, "check", "--json", "--strict", folder)
        checks.equal(problem, "", f"{name}: standard error")
        found = json.loads(out)
        errors = any(finding["severity"] == "error" for finding in found["findings"])
        warned = any(finding["severity"] == "warning" for finding in found["findings"])
        checks.equal(status, 2 if errors else 1 if warned else 0, f"{name}: status")
        matching = [
            finding
            for finding in found["findings"]
            if finding["severity"] == severity and finding.get("code") == code and part in finding["message"]
        ]
        checks.that(matching, f"{name}: no {severity} {code} with {part!r} in:\n{out}")
        checks.that(all(os.path.isabs(finding["file"]) for finding in matching), f"{name}: names its file")
        if not errors:
            checks.equal(run(program, "check", folder)[0], 0, f"{name}: status without --strict")

    # A table of variants that were not built here is one line, whatever their number.
    tree = Tree(folder)
    for row in tree.table["groups"][0]["rows"]:
        row["times_us"].update({f"large_{i}": 9.0 for i in range(20)})
    tree.write()
    status, out, _ = run(program, "check", folder)
    checks.equal((status, out.count("large_")), (0, 4), f"many unknown variants: {out}")
    checks.contains(
        out,
        "20 variants that the table names are in no manifest of the operator, so their times are not used: "
        "large_0, large_1, large_10, large_11, and 16 more",
        "many unknown variants",
    )
    tree.table["device"].update(backend="hip", arch="gfx942", name="Invented MI300")
    tree.write()
    status, out, _ = run(program, "check", folder)
    checks.contains(
        out,
        "no kernels for Invented MI300 (hip gfx942) are here, so 20 variants that the table names were not "
        "compared with a manifest",
        "a device that nothing was built for",
    )
    checks.equal(out.count("[switchyard.110]"), 1, "a device that nothing was built for")

    # Variants that were measured and are not installed are no mistake.
    tree = Tree(folder)
    tree.table["groups"][0]["rows"][0]["times_us"]["larger"] = 1.0
    tree.table["blobs"]["larger"] = "0123456789abcdef"
    tree.write()
    status, out, _ = run(program, "check", "--strict", folder)
    checks.equal(status, 0, f"a measured variant that is not installed: {out}")
    checks.contains(out, "note: [switchyard.110]", "a measured variant that is not installed")

    # What is wrong in the same way in many variants is said once.
    tree = Tree(folder)
    for i in range(12):
        more = json.loads(json.dumps(tree.manifest["variants"][0]))
        more.update(id=f"more{i}")
        more["config"]["tokens"] = i + 1
        more["launches"][0]["grid"][0] = "seqlem" if i % 2 == 0 else "tokens - 100"
        tree.manifest["variants"].append(more)
    for i in range(300):
        tree.manifest[f"key{i}"] = 0
    tree.write()
    status, out, _ = run(program, "check", folder)
    checks.equal(
        (out.count("seqlem'"), out.count("(and the same in 5 more places)")),
        (2, 2),
        f"a wrong expression in 12 variants: {out}",
    )
    checks.equal((out.count("no such key"), "and 200 more keys" in out), (100, True), "many unknown keys")

    # The time grows with the number of variants, not with its square. Processor time, so that other work does not count.
    def seconds(change):
        tree = Tree(folder)
        change(tree)
        tree.write()
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        out = run(program, "check", folder)[1]
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, out

    def many(count, different):
        def change(tree):
            tree.manifest["variants"] = [
                {
                    **json.loads(json.dumps(manifest()["variants"][1])),
                    "id": f"v{i}",
                    "config": {"tokens": i + 1},
                    **different(i),
                }
                for i in range(count)
            ]

        return change

    for name, different in (
        ("conditions", lambda i: {"requires": [f"seqlen >= {i + 1}"]}),
        ("types", lambda i: {"type": {"dtype": "bf16", "head_dim": i + 1}}),
        ("configs", lambda i: {}),
    ):
        few, many_more = (seconds(many(count, different))[0] for count in (4000, 16000))
        checks.that(
            many_more < 9 * max(few, 0.1), f"variants with other {name}: 4,000 took {few:.2f} s, 16,000 {many_more:.2f} s"
        )

    # Long texts take no long time, and are not repeated in full.
    for name, change in (
        ("spaces", lambda tree: put(vars(tree), "manifest", json.dumps(tree.manifest) + " " * 20_000_000)),
        ("names", lambda tree: (own(tree), launch(tree)["grid"].__setitem__(0, "+".join(f"n{i}" for i in range(120000))))),
        ("an expression", lambda tree: launch(tree)["grid"].__setitem__(0, "1+" * 500_000 + "1")),
        ("an identifier", lambda tree: tree.manifest["variants"][0].update(id="x" * 20_000_000)),
        ("a kernel", lambda tree: launch(tree).update(kernel="x" * 20_000_000)),
        ("an operator", lambda tree: tree.manifest.update(operator="x" * 20_000_000)),
        ("a key", lambda tree: tree.manifest.update({"x" * 20_000_000: 0})),
    ):
        took, out = seconds(change)
        checks.that(took < 6, f"{name} took {took:.1f} s")
        checks.that(len(out) < 20000, f"{name}: {len(out)} characters")

    # Blobs of a manifest that cannot be read, or whose variants cannot, are not called unused.
    for name, change in (
        ("truncated", lambda tree: put(vars(tree), "manifest", json.dumps(tree.manifest)[:-40])),
        ("unsound", lambda tree: tree.manifest["variants"][0].pop("id")),
    ):
        tree = Tree(folder)
        change(tree)
        tree.write()
        status, out, _ = run(program, "check", folder)
        checks.equal((status, "uses this blob" in out), (2, False), f"blobs of a manifest that is {name}")

    # Whatever a blob was cut to, it is told.
    whole = BLOBS["large.cubin"]
    for length in range(0, len(whole), 37):
        tree = Tree(folder)
        tree.blobs["large.cubin"] = whole[:length]
        tree.manifest["variants"][0]["launches"][0]["sha256"] = sha256(whole[:length])
        tree.write()
        status, out, _ = run(program, "check", folder)
        checks.equal((status, "[switchyard.207]" in out), (2, True), f"a blob of {length} bytes: {out}")

    # A variant behind another may be chosen by the time that both state.
    for stated, notes in (((True, True), 0), ((True, False), 1), ((False, True), 1)):
        tree = Tree(folder)
        behind = json.loads(json.dumps(tree.manifest["variants"][1]))
        behind.update(id="behind", config={**behind["config"], "tokens": 8})
        tree.manifest["variants"].append(behind)
        for variant, is_stated in zip((tree.manifest["variants"][1], behind), stated):
            if is_stated:
                variant["cost_ns"] = "1000 + seqlen"
        tree.write()
        status, out, _ = run(program, "check", "--strict", folder)
        checks.equal((status, out.count("run only when pinned or forced")), (0, notes), f"times stated {stated}: {out}")

    # Hidden folders are no part of a tree.
    tree = Tree(folder).write()
    for hidden in (os.path.join(folder, ".jobs"), os.path.join(folder, "kernels/rotary/.old")):
        os.makedirs(hidden)
        with open(os.path.join(hidden, "job.json"), "w", encoding="utf-8") as file:
            file.write("{}")
    status, out, _ = run(program, "check", "--strict", folder)
    checks.equal((status, out), (0, "0 errors, 0 warnings, 0 notes in 1 manifests, 1 tables and 2 blobs\n"), "hidden folders")

    # A tree of symbolic links, as package managers make them, is sound; a link that leads away is worth knowing.
    elsewhere = os.path.join(folder, "elsewhere.bin")
    blob = os.path.join(os.path.dirname(tree.manifest_path), "large.cubin")
    os.rename(blob, elsewhere)
    os.symlink(elsewhere, blob)
    status, out, _ = run(program, "check", "--strict", folder)
    checks.equal(status, 0, "a link out of the folder")
    checks.contains(out, "note: " + blob + ": is a symbolic link to " + os.path.realpath(elsewhere), "a link out of the folder")
    link = os.path.join(folder, "link")
    real = Tree(os.path.join(folder, "real")).write()
    os.symlink(real.folder, link)
    status, out, _ = run(program, "check", "--strict", link)
    checks.equal(
        (status, out), (0, "0 errors, 0 warnings, 0 notes in 1 manifests, 1 tables and 2 blobs\n"), "a root that is a link"
    )

    # Who may change a root runs code in engines: said of each file and folder.
    tree = Tree(os.path.join(folder, "open")).write()
    blob = os.path.join(os.path.dirname(tree.manifest_path), "large.cubin")
    for path, mode in ((blob, 0o646), (os.path.dirname(tree.table_path), 0o777), (tree.manifest_path, 0o666)):
        before = os.stat(path).st_mode & 0o777
        os.chmod(path, mode)
        status, out, _ = run(program, "check", "--strict", tree.folder)
        checks.equal(status, 1, f"{path} that others may write")
        checks.contains(
            out,
            f"warning: {path}: everybody may write it, and so run code in engines that read this root; "
            "remove the permission, for example with chmod go-w\n",
            "a file that others may write",
        )
        checks.contains(out, "0 errors, 1 warnings", "a file that others may write")
        os.chmod(path, before)
    checks.equal(run(program, "check", "--strict", tree.folder)[0], 0, "closed again")
    os.chmod(folder, 0o777)
    checks.contains(run(program, "check", tree.folder)[1], f"warning: {folder}: everybody may write it", "the folder above")
    os.chmod(folder, 0o1777)
    checks.equal(run(program, "check", "--strict", tree.folder)[0], 0, "a sticky folder above")
    os.chmod(folder, 0o755)

    # Rows that two tables of one device have, with other winners: which file decides.
    def repeated(names, *tables, paths=None):
        """The warnings of tables written under these names, each with its last folder and name."""
        for name, content in zip(names, tables):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                json.dump(content, file)
        found = json.loads(run(program, "check", "--json", *(paths or [tree.folder]))[1])
        for name in names:
            os.remove(os.path.join(folder, name))
        return [
            (os.path.relpath(finding["file"], folder), finding["severity"], finding["message"].replace(folder + "/", ""))
            for finding in found["findings"]
            if "another winner" in finding["message"]
        ]

    def of(winner, date, *sizes, **more):
        times = {"small": 1.0, "large": 2.0} if winner == "small" else {"small": 2.0, "large": 1.0}
        return dict(
            tree.table,
            measured={"date": date} if date else {},
            groups=[dict(tree.table["groups"][0], rows=[{"at": [1, size], "times_us": times} for size in sizes])],
            **more,
        )

    home = os.path.relpath(os.path.dirname(tree.table_path), folder)
    a, z, mine = (f"{home}/{name}.json" for name in ("aaa", "zzz", "invented-h200"))
    example = (
        ". For example, at dtype=bf16 batch=1 seqlen=64 'large' is fastest here, and 'small' there. Keep one table for each "
        "device: `switchyard merge` joins several"
    )
    my_example = example.replace("'large' is fastest here, and 'small'", "'small' is fastest here, and 'large'")
    for name in (a, z):
        checks.equal(
            repeated([name], of("large", "2026-11-22", 64)),
            [
                (
                    mine,
                    "warning",
                    f"1 row has another winner in {name}, a table for the same device, which decides: it is measured "
                    f"2026-11-22, this file undated{my_example}",
                )
            ],
            f"check: a newer {name}",
        )
        checks.equal(repeated([name], of("small", "2026-11-22", 64)), [], f"check: a newer {name} with the same winner")
        checks.equal(repeated([name], of("small", "2026-11-22", 65)), [], f"check: a newer {name} with other sizes")
    checks.equal(
        repeated([a, z], of("small", "2026-11-20", 64, 4096), of("large", "2026-11-20", 64, 4096)),
        [
            (
                z,
                "warning",
                f"2 rows have another winner in {a}, a table for the same device, which decides: it is measured "
                f"2026-11-20, this file measured 2026-11-20 too, a later name{example}",
            )
        ],
        "check: two of one day",
    )
    # Of three, each is compared with the one that decides.
    found = repeated([a, z], of("large", "2026-11-20", 64), of("small", "2026-11-22", 64))
    checks.equal(
        [(file, message.split(", a table")[0]) for file, _, message in found],
        [(a, f"1 row has another winner in {z}")],
        "check: three tables",
    )
    # Files for other devices, or less of them, and overlays are meant to differ.
    for device in ({"backend": "cuda", "arch": "sm_90", "name": "NVIDIA H100"}, {"backend": "cuda", "arch": "sm_90"}):
        checks.equal(repeated([a], of("large", "2026-11-22", 64, device=device)), [], f"check: a table for {device}")
    overlay = os.path.join(folder, "overlay.json")
    checks.equal(
        repeated(["overlay.json"], of("large", "2026-11-22", 64), paths=[tree.folder, overlay]), [], "check: an overlay"
    )
    # Files outside of roots are compared with each other; of two roots the order is not known.
    names = ["one/x.json", "two/x.json"]
    found = repeated(
        names,
        of("small", "2026-11-22", 64),
        of("large", "2026-11-22", 64),
        paths=[os.path.join(folder, name) for name in names],
    )
    checks.equal(
        [(file, message.split(". For")[0]) for file, _, message in found],
        [
            (
                "two/x.json",
                "1 row has another winner in one/x.json, a table for the same device. Both are measured 2026-11-22, "
                "so the one in the earlier root decides",
            )
        ],
        "check: two folders",
    )

    # Paths that lead nowhere.
    status, out, _ = run(program, "check", os.path.join(folder, "nowhere"))
    checks.equal(status, 2, "a missing path")
    checks.contains(out, "does not exist", "a missing path")
    empty = os.path.join(folder, "empty")
    os.makedirs(empty)
    status, out, _ = run(program, "check", empty)
    checks.equal(status, 2, "an empty folder")
    checks.contains(out, "neither a manifest nor a table", "an empty folder")
    checks.equal(len(BLOBS), 2, "blobs of the invented tree")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
