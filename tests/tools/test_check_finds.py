# SPDX-License-Identifier: MIT
"""What loading or a call refuses, `switchyard check` finds: roots that are one change away from a sound one.

    test_check_finds.py TOOL ENGINE KERNELS FOLDER

ENGINE is tests/dispatch/engine.cpp, which calls the operator `stamp` at the sizes of its command line; KERNELS has the
shared objects of tests/kernels_for_tests. Each root goes to both. A root counts as refused where the engine fails, ends
by a signal, or warns of a file. Then check must report an error or a warning; where nothing is refused and the change is
known to be harmless, it must not.

Exceptions, which depend on the machine or on the bytes of a program and are not among the changes: a workspace between the
machine's memory and 2^40 bytes; a version of a symbol that the machine's libraries lack; a relocation that the loader does
not know; a fault at sizes, or at a combination of several, that check does not try (include/switchyard/tool/check_values.hpp
lists those that it does).

SWITCHYARD_TEST_SEED repeats a run.
"""

import copy
import json
import os
import platform
import random
import shutil
import struct
import subprocess
import sys

from invented import Checks, run, sha256

SIZES = ["1", "2", "7", "8", "64", "1000"]
ARCH = platform.machine()

OPERATOR = {
    "schema": "switchyard.operator/1",
    "operator": "stamp",
    "axes": [
        {"name": "dtype", "kind": "type", "values": ["f32", "f16", "bf16"]},
        {"name": "head_dim", "kind": "type"},
        {"name": "batch", "kind": "size"},
        {"name": "seqlen", "kind": "size"},
    ],
    "arguments": [
        {"name": "out", "type": "pointer"},
        {"name": "batch", "type": "i64"},
        {"name": "seqlen", "type": "i64"},
        {"name": "blocks", "type": "i64"},
    ],
}


class Root:
    """A sound root of one variant and one table."""

    def __init__(self, blob):
        self.blob = blob
        self.pin = True  # the blob as it is, in the manifest
        self.manifest = {
            "schema": "switchyard.manifest/1",
            "operator": "stamp",
            "target": {"backend": "host", "arch": ARCH},
            "variants": [
                {
                    "id": "only",
                    "type": {"head_dim": 64},
                    "config": {"number": 1, "tile": 8},
                    "requires": ["seqlen >= 1", "seqlen <= 65536"],
                    "workspace": {},
                    "launches": [
                        {
                            "blob": "stamp.so",
                            "sha256": "",
                            "kernel": "stamp",
                            "grid": [1, 1, 1],
                            "block": [1, 1, 1],
                            "shared_bytes": 0,
                            "parameters": ["out", {"i32": "number"}],
                        }
                    ],
                }
            ],
        }
        self.table = {
            "schema": "switchyard.table/1",
            "operator": "stamp",
            "device": {"backend": "host", "arch": ARCH, "name": "some processor"},
            "match": {"seqlen": "log"},
            "neighbours": 4,
            "envelope": 2,
            "groups": [
                {
                    "type": {"head_dim": 64},
                    "axes": ["batch", "seqlen"],
                    "rows": [{"at": [1, 1], "times_us": {"only": 1.0}}, {"at": [1, 1000], "times_us": {"only": 2.0}}],
                }
            ],
        }

    @property
    def variant(self):
        return self.manifest["variants"][0]

    @property
    def launch(self):
        return self.variant["launches"][0]

    def write(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        kernels = os.path.join(folder, "kernels/stamp/host-" + ARCH)
        tables = os.path.join(folder, "tables/stamp")
        os.makedirs(kernels)
        os.makedirs(tables)
        if self.blob is not None:
            with open(os.path.join(kernels, "stamp.so"), "wb") as file:
                file.write(self.blob)
            if self.pin and isinstance(self.manifest, dict) and self.manifest["variants"]:
                self.launch["sha256"] = sha256(self.blob)
        for path, content in (
            (os.path.join(kernels, "manifest.json"), self.manifest),
            (os.path.join(tables, "some.json"), self.table),
        ):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content))


# Values at which an expression fails for every call, or for one of SIZES.
WRONG_GRID = [
    "-1",
    -1,
    4294967296,
    "4294967296",
    "0 - seqlen",
    "seqlen / 0",
    "1 / (seqlen - seqlen)",
    "tile - 100",
    "tile / (number - 1)",
    "9223372036854775807 * (seqlen + 1)",
    "4096 / (seqlen - 7)",
    "seqlen - 8",
    "1 << (seqlen + 63)",
    "out",
    "out + seqlen",
    "seqlen > 3 ? out : 1",
    "blocks / 0",
    "0 - 1 - blocks * 0",
    "ceil_div(seqlen, 0)",
    "ceil_div(0 - 5, 8)",
    "head_dim - 65",
    "100 / (head_dim - 64)",
    "seqlen % (tile - 8)",
    "1000 - seqlen * seqlen",
    "multiprocessors - 1000000",
    "batch + seqlen - 3",
    "10 / (batch * 0 + seqlen - 8)",
]
WRONG_WORKSPACE = [
    -1,
    "0 - seqlen",
    1 << 62,
    "1 << 62",
    "seqlen << 47",
    "1 / (seqlen - 64)",
    "seqlen % 0",
    "tile - 9",
    "70368744177664 * seqlen",
]
WRONG_SHARED = [
    -1,
    1 << 32,
    "0 - seqlen",
    "seqlen << 40",
    4294967295,
    "1073741824 + seqlen",
    "8 - seqlen",
    "seqlen / (seqlen - 2)",
    "tile % 0",
]
WRONG_BLOCK = ["0 - seqlen", 1 << 32, "seqlen / 0", "1 / (seqlen - 1000)", -5]
WRONG_I32 = [1 << 31, "seqlen << 40", "1 / (seqlen - 1)", "out", "0 - (1 << 40)", "seqlen * 2147483648", "tile / 0"]
RIGHT = [
    "seqlen",
    "ceil_div(seqlen, tile)",
    "min(seqlen, 4)",
    "max(seqlen - 8, 1)",
    "seqlen > 7 ? seqlen - 7 : 1",
    "seqlen != 7 ? 4096 / (seqlen - 7 + 8) : 1",
    "batch",
    "(out != 0) + 1",
    "tile * number",
    "head_dim / 64",
    "seqlen % tile + 1",
    "blocks",
]


def expressions(draw):
    """Changes of one expression: what is done, and whether it is known to be harmless."""

    def grid(value, harmless):
        axis = draw.randrange(3)
        return lambda root: root.launch["grid"].__setitem__(axis, value), harmless, f"grid[{axis}] {value}"

    def put(owner, key, value, harmless=False):
        return lambda root: owner(root).__setitem__(key, value), harmless, f"{key} {value}"

    def launch(root):
        return root.launch

    for value in WRONG_GRID:
        yield grid(value, False)
    for value in RIGHT:
        yield grid(value, True)
        if "out" not in value and "blocks" not in value:
            yield put(launch, "shared_bytes", value, True)
    for value in WRONG_WORKSPACE:
        yield put(lambda root: root.variant["workspace"], "buffer", value)
    for value in WRONG_SHARED:
        yield put(launch, "shared_bytes", value)
    for value in WRONG_BLOCK:
        yield (lambda root, value=value: root.launch["block"].__setitem__(0, value)), False, f"block {value}"
    for value in WRONG_I32:
        yield (lambda root, value=value: root.launch["parameters"].__setitem__(1, {"i32": value})), False, f"i32 {value}"
    # Constants where the call finds a hole. A condition that keeps it out makes a call there one of no variant, which is meant.
    for _ in range(30):
        hole = int(draw.choice(SIZES))
        value = draw.choice(["{} / (seqlen - {})", "{} % (seqlen - {})", "1 - {} / (seqlen - {})"]).replace("{}", str(hole))
        kept = draw.random() < 0.5

        def change(root, value=value, kept=kept, hole=hole):
            root.launch["grid"][0] = f"max({value}, 1)"
            if kept:
                root.variant["requires"].append(f"seqlen != {hole}")

        yield change, "unflagged" if kept else False, f"grid max({value}, 1), hole {'excluded' if kept else 'open'}"


def headers(blob, kind):
    """Offsets of the program headers of a kind."""
    offset, count = struct.unpack_from("<Q", blob, 32)[0], struct.unpack_from("<H", blob, 56)[0]
    return [at for at in range(offset, offset + 56 * count, 56) if struct.unpack_from("<I", blob, at)[0] == kind]


def blobs(draw, kernels):
    """Changes of the blob."""

    def patch(name, at, form, value):
        def change(root):
            data = bytearray(root.blob)
            struct.pack_into("<" + form, data, at(data) if callable(at) else at, value)
            root.blob = bytes(data)

        return change, False, name

    def replace(name, kernel="stamp"):
        def change(root):
            with open(os.path.join(kernels, name), "rb") as file:
                root.blob = file.read()
            root.launch["kernel"] = kernel
            if kernel == "hollow":
                root.launch["parameters"] = []

        return change, False, f"{name}: {kernel}"

    yield replace("unresolved.so")
    yield replace("future.so")
    yield replace("future.so", "hollow")
    for kind in (0, 1, 2, 4, 99):
        yield patch(f"ELF type {kind}", 16, "H", kind)
    for machine in (0, 3, 40, 183 if ARCH == "x86_64" else 62, 243):
        yield patch(f"machine {machine}", 18, "H", machine)
    yield patch("32 bits", 4, "B", 1)
    yield patch("big-endian", 5, "B", 2)
    yield patch("version 2", 20, "I", 2)
    yield patch("ABI of another system", 7, "B", 9)
    yield patch("no program headers", 56, "H", 0)
    yield patch("small program headers", 54, "H", 32)
    yield patch("program headers at the end", 32, "Q", 1 << 40)
    yield patch("no magic", 0, "I", 0)
    yield patch("no dynamic section", lambda data: headers(data, 2)[0], "I", 0)
    for size in (1 << 40, 1 << 47, 1 << 62):
        yield patch(f"memsz {size}", lambda data: headers(data, 1)[-1] + 40, "Q", size)
    yield patch("alignment 3", lambda data: headers(data, 1)[0] + 48, "Q", 3)
    yield patch("address off its place", lambda data: headers(data, 1)[1] + 16, "Q", 0x1234)
    yield patch("segment behind the end", lambda data: headers(data, 1)[1] + 8, "Q", 1 << 30)

    def unload(root):
        data = bytearray(root.blob)
        for at in headers(data, 1):
            struct.pack_into("<I", data, at, 0)
        root.blob = bytes(data)

    yield unload, False, "no segment to load"

    def dynamic(name, tag, value):
        """Another value of an entry of the dynamic section, or tag 0x7fffffff in its place."""

        def change(root):
            data = bytearray(root.blob)
            at = headers(data, 2)[0]
            offset, size = struct.unpack_from("<Q", data, at + 8)[0], struct.unpack_from("<Q", data, at + 32)[0]
            for entry in range(offset, offset + size, 16):
                if struct.unpack_from("<Q", data, entry)[0] == tag:
                    struct.pack_into("<QQ", data, entry, tag if value is not None else 0x7FFFFFFF, value or 0)
                    break
            root.blob = bytes(data)

        return change, False, name

    yield dynamic("no table of strings", 5, None)
    yield dynamic("strings outside", 5, 1 << 40)
    yield dynamic("no dynamic symbols", 6, None)
    yield dynamic("dynamic symbols outside", 6, 1 << 50)
    yield dynamic("symbols of 23 bytes", 11, 23)

    def need(root):
        names = (b"libstdc++.so.6", b"libm.so.6", b"libgcc_s.so.1", b"libc.so.6")
        for name in names:  # which of them it needs is the compiler's choice
            root.blob = root.blob.replace(name, b"libnosuch.so.66"[: len(name)])

    yield need, False, "a library that nobody has"

    def missing(root):
        root.blob = None
        root.pin = False
        root.launch["sha256"] = "0" * 64

    yield missing, False, "no blob"
    for _ in range(25):
        length = draw.random()
        yield (
            (lambda root, length=length: setattr(root, "blob", root.blob[: int(length * (len(root.blob) - 1))])),
            False,
            f"cut to {length:.3f}",
        )


def structures(draw):
    """Changes of what the files say besides expressions and blobs."""

    def target(**changes):
        return lambda root: root.manifest["target"].update(changes), False, f"target {changes}"

    for backend in ("hosts", "vulkan", "", "HOST", "cuda ", "x" * 5000):
        yield target(backend=backend)
    for arch in ("x86-64", "sm_90", "", "amd64", "any "):
        yield target(arch=arch)
    yield (lambda root: root.manifest.update(variants=[])), False, "no variants"
    yield (lambda root: root.table.update(deny=[{"variant": "only", "reason": "a test"}])), False, "a table denies all"
    yield (
        (lambda root: root.table.update(deny=[{"variant": "only", "reason": "a test", "type": {"head_dim": 64}}])),
        False,
        "a table denies all of a type",
    )
    yield (lambda root: root.table.update(deny=[{"variant": "other", "reason": "a test"}])), False, "a denial of nothing"
    for never in ("1 == 2", "seqlen < 0 && seqlen > 0 && 1 > 2", "tile == 9", "head_dim == 65", "tile / 0 == 1"):
        yield (lambda root, never=never: root.variant["requires"].append(never)), False, f"requires {never}"
    yield (lambda root: setattr(root, "manifest", "")), False, "an empty manifest"
    yield (lambda root: setattr(root, "manifest", json.dumps(root.manifest)[:-9])), False, "half a manifest"
    yield (lambda root: setattr(root, "table", json.dumps(root.table)[:-9])), False, "half a table"
    yield (lambda root: setattr(root, "table", "[" * 100000)), False, "a deep table"
    yield (lambda root: root.variant.update(id="x" * 201)), False, "a long id"
    yield (lambda root: root.launch.update(kernel="x" * 20000)), False, "a long kernel"
    yield (lambda root: root.launch["parameters"].append("out")), False, "a parameter more"
    yield (lambda root: root.launch["parameters"].pop()), False, "a parameter less"

    def places(at, path=()):
        if isinstance(at, dict):
            for key in at:
                yield path + (key,)
                yield from places(at[key], path + (key,))
        elif isinstance(at, list):
            for i, entry in enumerate(at):
                yield path + (i,)
                yield from places(entry, path + (i,))

    model = Root(b"")
    junk = [None, True, -1, 1.5, 1e300, 1 << 63, "", "?", "\n", "seqlen +", "../x", [], {}, [[]], {"": 0}]
    for _ in range(160):
        name = draw.choice(["manifest", "manifest", "table"])
        path = draw.choice(list(places(getattr(model, name))))
        value = draw.choice(junk)
        remove = draw.random() < 0.25

        def change(root, name=name, path=path, value=value, remove=remove):
            root.launch["sha256"] = sha256(root.blob)
            root.pin = False
            at = getattr(root, name)
            for key in path[:-1]:
                at = at[key]
            if remove:
                del at[path[-1]]
            else:
                at[path[-1]] = copy.deepcopy(value)

        yield change, False, f"{name} {'/'.join(map(str, path))} {'removed' if remove else 'is ' + json.dumps(value)}"


def main():
    tool, engine, kernels, folder = sys.argv[1:]
    seed = int(os.environ.get("SWITCHYARD_TEST_SEED", random.SystemRandom().randrange(1 << 31)))
    print(f"SWITCHYARD_TEST_SEED={seed}")
    draw = random.Random(seed)
    checks = Checks()
    with open(os.path.join(kernels, "stamp.so"), "rb") as file:
        blob = file.read()
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    described = os.path.join(folder, "stamp.operator.json")
    with open(described, "w", encoding="utf-8") as file:
        json.dump(OPERATOR, file)
    path = os.path.join(folder, "root")

    def call(root):
        """Whether loading or a call refuses it, and what is said."""
        root.write(path)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
        done = subprocess.run(
            [engine, *SIZES],
            env={**environment, "SWITCHYARD_PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode != 0 or "[switchyard." in done.stderr, f"status {done.returncode}, {done.stderr[:600]}"

    def check():
        status, out, problem = run(tool, "--operators", described, "check", "--json", path)
        checks.that(status in (0, 2) and problem == "", f"check ended with {status}: {problem[:600]}")
        found = json.loads(out)
        return [finding for finding in found["findings"] if finding["severity"] != "note"], out

    refused, said = call(Root(blob))
    checks.that(not refused, f"the sound root is refused: {said}")
    found, out = check()
    checks.that(not found, f"the sound root is flagged: {out}")

    counts = {"roots": 0, "refused": 0, "flagged": 0}
    for change, is_harmless, name in (*expressions(draw), *blobs(draw, kernels), *structures(draw)):
        root = Root(blob)
        change(root)
        refused, said = call(root)
        found, out = check()
        counts["roots"] += 1
        counts["refused"] += refused
        counts["flagged"] += bool(found)
        if is_harmless == "unflagged":
            checks.that(not any(finding.get("code") == 305 for finding in found), f"{name}: flagged: {out}")
            continue
        checks.that(found or not refused, f"{name}: refused, but not found: {said}")
        if is_harmless:
            checks.that(not refused and not found, f"{name}: harmless, but refused {refused} ({said}) or flagged: {out}")
    print(counts)
    checks.that(counts["refused"] > 150, "fewer roots are refused than the changes make")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
