# SPDX-License-Identifier: MIT
"""Tests of the kernel build tool: test_tool.py CMAKE_FOLDER."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

TOOLS = sys.argv.pop(1)
HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, TOOLS)

from kernel_tools import KernelBuildError, msgpack, triton_job
from kernel_tools.blob import read_blob
from kernel_tools.exec_mask import early_vector_instructions
from kernel_tools.expression import evaluate
from kernel_tools.manifest import expand_shared, hash_file, share_launches, verify
from kernel_tools.space import expand


def tool(*arguments, **environment):
    environment = {"SWITCHYARD_KERNEL_CACHE": "", **environment}  # compiled here, whatever was compiled before
    return subprocess.run(
        [sys.executable, os.path.join(TOOLS, "switchyard_kernels.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def blob_rule(**changes):
    return {"toolchain": "host", "name": "b", "sources": ["a.cpp"], **changes}


def variant_rule(**changes):
    launch = {"blob": "b", "kernel": "k{tile}", "grid": ["ceil_div(n, tile)", 1, 1], "parameters": ["x"]}
    return {"config": {"tile": [1, 2]}, "id": "t{tile}", "launches": [launch], **changes}


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="switchyard_test_")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name="space.json", **changes):
        path = os.path.join(self.folder, name)
        space = {
            "schema": "switchyard.space/1",
            "operator": "op",
            "targets": ["host-any"],
            "blobs": {"b": blob_rule()},
            "variants": [variant_rule()],
            **changes,
        }
        with open(path, "w", encoding="utf-8") as file:
            json.dump(space, file)
        return path

    def variants(self, *paths, **options):
        plans, _ = expand(paths or [self.write()], **options)
        return [variant for plan in plans for variant in plan["variants"]]

    def ids(self, *paths, **options):
        return [variant["id"] for variant in self.variants(*paths, **options)]

    def fails(self, text, **changes):
        with self.assertRaises(KernelBuildError) as caught:
            expand([self.write(**changes)])
        self.assertIn(text, str(caught.exception))


class Expressions(unittest.TestCase):
    def test_values(self):
        names = {"a": 7, "b": -2, "s": "bf16", "flag": True}
        for text, value in {
            "a + b * 3": 1,
            "a / b": -3,
            "a % b": 1,
            "b / 4": 0,
            "-a % 4": -3,
            "1 << 4 >> 1": 8,
            "a > 3 && b < 0": 1,
            "!a || b == -2": 1,
            "a ? b : 1 / 0": -2,
            "a == 8 ? 1 : a == 7 ? 2 : 3": 2,
            "min(a, b, 3)": -2,
            "max(1, 2)": 2,
            "ceil_div(7, 2)": 4,
            "round_up(9, 8)": 16,
            "next_pow2(17)": 32,
            "next_pow2(0)": 1,
            "sqrt(24)": 4,
            "s == bf16": 1,
            "s != 'f16'": 1,
            "bytes[s] * 2": 4,
            "flag": 1,
            "true + false": 1,
            "0x10": 16,
            "2 + 3 << 1": 10,
            "1 < 2 == 1": 1,
            "0 && 1 / 0": 0,
            "1 || 1 / 0": 1,
        }.items():
            self.assertEqual(evaluate(text, names, {"bytes": {"bf16": 2}}, {"bf16"}), value, text)

    def test_errors(self):
        for text, message in {
            "1 / 0": "division by zero",
            "9223372036854775807 + 1": "64-bit overflow",
            "1 << 64": "shift by 64",
            "sqrt(-1)": "sqrt of -1",
            "missing": "in quotes, as 'missing'",
            "a == bf16": "different kinds",
            "s + 1": "not an integer",
            "1 +": "found the end",
            "(1": "expected ')'",
            "1 $": "unexpected '$'",
            "f(1)": "no function 'f'",
            "ceil_div(1)": "takes 2",
            "m[a]": "no map 'm'",
            "bytes[a]": "no key '7'",
            "1 2": "expected an operator",
        }.items():
            with self.assertRaises(KernelBuildError, msg=text) as caught:
                evaluate(text, {"a": 7, "s": "f16"}, {"bytes": {"bf16": 2}}, {"bf16"})
            self.assertIn(message, str(caught.exception))


class Spaces(Folder):
    def test_order_is_stable_across_rules_and_files(self):
        first = self.write(
            "first.json",
            variants=[
                variant_rule(
                    type={"dtype": ["f32", "f16"]},
                    config={"tile": [1, 2], "split": [1, 4]},
                    id="a_t{tile}_s{split}",
                    where=["tile * split < 8"],
                ),
                variant_rule(id="early_{tile}", order="tile == 2 ? -1 : 5"),
            ],
        )
        second = self.write("second.json", variants=[variant_rule(id="second_{tile}")])
        self.assertEqual(
            self.ids(first, second),
            ["early_2", "a_t1_s1", "a_t1_s4", "a_t2_s1", "a_t1_s1", "a_t1_s4", "a_t2_s1", "second_1", "second_2", "early_1"],
        )

    def test_templates_conditions_and_fragments(self):
        (one, two) = self.variants(
            self.write(
                maps={"ctype": {"f16": "half"}},
                define={"all": ["x", "y"], "cost": "ceil_div(n, {lanes} * tile)"},
                variants=[
                    variant_rule(
                        type={"dtype": "f16", "causal": True},
                        build={"isa": "avx2"},
                        let={"lanes": "32 / tile", "type": "ctype[dtype]"},
                        id="{isa}_{type}_{tile}_{causal}_{= causal}",
                        requires=["n % {lanes} == 0", {"if": "tile == 2", "then": ["big"]}],
                        workspace={"if": "tile == 2", "then": {"partial": "4 * n"}},
                        cost={"if": "tile == 2", "then": {"use": "cost"}},
                        launches=[
                            {"if": "tile == 2", "then": [{"fill": "partial", "byte": 0}]},
                            {
                                "blob": "b",
                                "kernel": "{ctype[dtype]}_{tile}",
                                "grid": ["n", 1, 1],
                                "block": ["{lanes}", 1, 1],
                                "shared_bytes": "{= lanes * 4}",
                                "parameters": [{"use": "all"}, {"i32": "{tile}"}],
                            },
                        ],
                    )
                ],
            )
        )
        self.assertEqual(one["id"], "avx2_half_1_true_1")
        self.assertEqual(one["requires"], ["n % 32 == 0"])
        self.assertEqual(two["requires"], ["n % 16 == 0", "big"])
        self.assertEqual((one["workspace"], two["workspace"]), ({}, {"partial": "4 * n"}))
        self.assertEqual((one.get("cost"), two["cost"]), (None, "ceil_div(n, 16 * tile)"))
        self.assertEqual(two["launches"][0], {"fill": "partial", "byte": 0})
        self.assertEqual(two["launches"][1]["block"], [16, 1, 1])
        self.assertEqual(two["launches"][1]["shared_bytes"], 64)
        self.assertEqual(two["launches"][1]["parameters"], ["x", "y", {"i32": 2}])
        self.assertEqual(two["config"], {"tile": 2})

    def test_objects_laid_over_fragments(self):
        rule = variant_rule()
        (one, two) = self.variants(
            self.write(
                define={
                    "grid": ["n", 1, 1],
                    "launch": {**rule["launches"][0], "grid": {"use": "grid"}},
                    "rule": {"type": {"dtype": "f16", "causal": True}, "id": "{word}_{tile}", "launches": [{"use": "launch"}]},
                    "word": {"build": {"word": "first"}, "requires": ["n > 0"]},
                    "last": {"use": "word", "build": {"word": "last"}, "requires": ["n > {tile}"]},
                },
                variants=[
                    {"use": ["rule", "word"], "config": {"tile": 1}},
                    {"use": ["rule", "last"], "type": {"causal": False}, "config": [["tile", "split"], [2, 3]]},
                ],
            )
        )
        self.assertEqual((one["id"], one["type"], one["requires"]), ("first_1", {"dtype": "f16", "causal": True}, ["n > 0"]))
        self.assertEqual((two["id"], two["type"], two["requires"]), ("last_2", {"dtype": "f16", "causal": False}, ["n > 2"]))
        self.assertEqual((list(two["type"]), two["config"]), (["dtype", "causal"], {"tile": 2, "split": 3}))
        self.assertEqual([one["launches"][0]["grid"], two["launches"][0]["grid"]], [["n", 1, 1]] * 2)

    def test_times_by_terms(self):
        rule = variant_rule(id="v{tile}", cost_ns=["ceil_div(n, {= 4 * tile})", "n * tile"])
        one, two = self.variants(self.write(variants=[rule], cost_ns={"host-any": {"v1": [1500, 20.5, 0]}}))
        self.assertEqual(one["cost_ns"], "(1500000 + 20500 * (ceil_div(n, 4))) / 1000")
        self.assertNotIn("cost_ns", two)
        self.assertNotIn("cost", one)
        carried = dict(rule, cost="cost_ns")
        one, two = self.variants(self.write(variants=[carried], cost_ns={"host-any": {"v1": [1500, 20.5, 0]}}))
        self.assertEqual(one["cost"], one["cost_ns"])
        self.assertNotIn("cost", two)
        carried["cost"] = "sqrt(10000 * cost_ns)"
        one, two = self.variants(self.write(variants=[carried], cost_ns={"host-any": {"v1": [1500, 20.5, 0]}}))
        self.assertEqual(one["cost"], f"sqrt(10000 * ({one['cost_ns']}))")
        self.assertNotIn("cost", two)
        rule["cost_key"] = "both"
        one, two = self.variants(self.write(variants=[rule], cost_ns={"host-any": {"both": [0, 20, 0.0125]}}))
        self.assertEqual(two["cost_ns"], "(20000000 * (ceil_div(n, 8)) + 12500 * (n * tile)) / 1000000")
        with self.assertRaisesRegex(KernelBuildError, "cost_ns of 'both': 2 numbers for a constant and 2 terms"):
            self.variants(self.write(variants=[rule], cost_ns={"host-any": {"both": [1, 2]}}))

    def test_numerics(self):
        rule = variant_rule(id="v{tile}", max_error=0.5, reproducible="rows_{tile}")
        one, two = self.variants(self.write(variants=[rule]))
        self.assertEqual((one["max_error"], one["reproducible"], two["reproducible"]), (0.5, "rows_1", "rows_2"))
        self.assertNotIn("max_error", self.variants(self.write(variants=[variant_rule(id="v{tile}")]))[0])

    def test_sets_and_targets(self):
        path = self.write(
            targets=["cuda-sm_80", {"name": "cuda-sm_90a", "smem": 3}, "hip-gfx1100", "hip-gfx942"],
            blobs={"b": {"toolchain": "triton", "name": "b{tile}", "source": "a.py", "function": "f", "signature": {}}},
            variants=[variant_rule(id="t{tile}_{warp_size}_{compute_capability}")],
            sets={"ci": {"targets": ["cuda-sm_90a", "hip-gfx942"], "where": ["tile == 1"]}},
        )
        self.assertEqual(self.ids(path, chosen_set="ci"), ["t1_32_90", "t1_64_0"])
        self.assertEqual(self.ids(path, chosen_set="ci", targets=["hip-gfx1100"]), ["t1_32_0"])
        self.assertEqual(self.ids(path, targets=["hip-gfx1100"]), ["t1_32_0", "t2_32_0"])
        plans, messages = expand([path], toolchains=["host"])
        self.assertEqual(plans, [])
        self.assertEqual({(one["toolchain"], one["variants"]) for one in messages}, {("triton", 2)})

    def test_host_targets_follow_the_machine(self):
        path = self.write(targets=["host-x86_64", "host-aarch64"])
        self.assertEqual([plan["target"] for plan in expand([path], host_arch="aarch64")[0]], ["host-aarch64"])

    def test_set_conditions_over_unbound_names_hold(self):
        path = self.write(
            variants=[
                variant_rule(),
                variant_rule(
                    config={"other": 1},
                    id="other",
                    launches=[{"blob": "b", "kernel": "k", "grid": [1, 1, 1], "parameters": []}],
                ),
            ],
            sets={"ci": {"where": ["tile == 2"]}},
        )
        self.assertEqual(self.ids(path, chosen_set="ci"), ["t2", "other"])

    def test_instances_follow_what_is_kept(self):
        path = self.write(blobs={"b": blob_rule(instantiate="MAKE({kernel}, {tile})")}, sets={"ci": {"where": ["tile == 1"]}})
        plan = expand([path], chosen_set="ci")[0][0]
        self.assertEqual(plan["blobs"][0]["instances"], {"k1": "MAKE(k1, 1)"})

    def test_errors(self):
        launch = variant_rule()["launches"][0]
        self.fails('expected "schema"', schema="switchyard.space/2")
        self.fails("unknown setz", setz={})
        self.fails("unknown launchs", variants=[variant_rule(launchs=[])])
        self.fails("toolchain 'rustc'", blobs={"b": blob_rule(toolchain="rustc")})
        self.fails("expected host-", targets=["sm_90a"])
        self.fails("does not build cuda-sm_80", targets=["cuda-sm_80"])
        self.fails("no name 'tiel'", variants=[variant_rule(id="{tiel}")])
        self.fails("id 't' is there twice", variants=[variant_rule(id="t")])
        self.fails("'fast' is neither", variants=[variant_rule(where=["tile == fast"])])
        self.fails("integers and booleans only", variants=[variant_rule(config={"tile": "a"})])
        self.fails("bound twice", variants=[variant_rule(build={"tile": 1})])
        self.fails("names blob 'c'", variants=[variant_rule(launches=[{**launch, "blob": "c"}])])
        self.fails("use 'none'", variants=[variant_rule(requires=[{"use": "none"}])])
        self.fails("the fragment uses itself", define={"a": [{"use": "a"}]}, variants=[variant_rule(requires=[{"use": "a"}])])
        self.fails("laid over", define={"a": ["n"]}, variants=[variant_rule(type={"use": "a", "dtype": "f16"})])
        self.fails("expected 2 values in every row", variants=[variant_rule(config=[["tile", "split"], [1]])])
        self.fails("flags differs", blobs={"b": blob_rule(flags=["-DT={tile}"])})
        self.fails(
            "instantiated in two ways",
            blobs={"b": blob_rule(instantiate="M({tile})")},
            variants=[variant_rule(launches=[{**launch, "kernel": "k"}])],
        )
        self.fails("unknown keys ['than']", variants=[variant_rule(requires=[{"if": "1", "than": []}])])


class Readers(Folder):
    def test_msgpack(self):
        data = bytes.fromhex("84 a1 61 01 a1 62 93 c3 c0 ff a1 63 cd 01 00 a1 64 d9 02 78 79")
        self.assertEqual(msgpack.decode(data), {"a": 1, "b": [True, None, -1], "c": 256, "d": "xy"})
        for cut in range(len(data)):
            with self.assertRaises(KernelBuildError):
                msgpack.decode(data[:cut])

    def test_damaged_files(self):
        for name in ("a.so", "a.cubin", "a.hsaco", "a.ptx", "a.txt"):
            for content in (b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + b"\0" * 100, b"x" * 200):
                path = os.path.join(self.folder, name)
                with open(path, "wb") as file:
                    file.write(content)
                with self.assertRaises(KernelBuildError):
                    read_blob(path)


class Caches(Folder):
    """Builds with SWITCHYARD_KERNEL_CACHE, over a compiler that notes its calls."""

    def setUp(self):
        super().setUp()
        self.compiler = os.path.join(self.folder, "compiler")
        self.calls = os.path.join(self.folder, "calls")
        with open(self.compiler, "w", encoding="utf-8") as file:
            file.write(
                f'#!/bin/sh\n[ "$1" = --version ] || echo >>"{self.calls}"\nexec "{os.environ.get("CXX") or "c++"}" "$@"\n'
            )
        os.chmod(self.compiler, 0o755)

    def build(self, place, cache="cache"):
        """Builds the sources in `place`; returns how many were compiled, and the blobs."""
        sources, out = (os.path.join(self.folder, place, name) for name in ("sources", "out"))
        os.makedirs(sources, exist_ok=True)
        for name in ("scaled_sum.cpp", "scaled_sum.host.json"):
            if not os.path.exists(os.path.join(sources, name)):
                shutil.copy2(os.path.join(HERE, name), sources)
                os.utime(os.path.join(sources, name), (1, 1))
        shutil.rmtree(out, ignore_errors=True)
        open(self.calls, "w", encoding="utf-8").close()
        run = tool(
            "build",
            os.path.join(sources, "scaled_sum.host.json"),
            "--set",
            "ci",
            "--out",
            out,
            CXX=self.compiler,
            SWITCHYARD_KERNEL_CACHE=cache and os.path.join(self.folder, cache),
        )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        blobs = {
            name: hash_file(os.path.join(folder, name))
            for folder, _, names in os.walk(out)
            for name in names
            if name.endswith(".so")
        }
        with open(self.calls, encoding="utf-8") as file:
            return len(file.readlines()), blobs

    def test_what_was_compiled_is_found_again(self):
        count, blobs = self.build("first")
        self.assertGreater(count, 0)
        self.assertEqual(self.build("first"), (0, blobs))
        self.assertEqual(self.build("another/checkout"), (0, blobs))
        self.assertEqual(self.build("first", cache=""), (count, blobs))

    def test_what_changed_is_compiled(self):
        count, blobs = self.build("first")
        source = os.path.join(self.folder, "first", "sources", "scaled_sum.cpp")
        with open(source, "a", encoding="utf-8") as file:
            file.write('extern "C" __attribute__((visibility("default"))) int changed() { return 1; }\n')
        os.utime(source, (1, 1))
        found, changed = self.build("first")
        self.assertEqual(found, count)
        self.assertNotEqual(changed, blobs)
        self.assertEqual(self.build("second"), (0, blobs))  # both are kept
        with open(self.compiler, "a", encoding="utf-8") as file:
            file.write("# another compiler\n")
        self.assertEqual(self.build("second"), (count, blobs))

    def test_what_may_have_changed_meanwhile_is_not_kept(self):
        count, _ = self.build("first", cache="")
        later = time.time() + 3600
        os.utime(os.path.join(self.folder, "first", "sources", "scaled_sum.cpp"), (later, later))
        self.assertEqual(self.build("first")[0], count)
        self.assertEqual(self.build("first")[0], count)

    def test_damage_is_compiled_anew(self):
        count, blobs = self.build("first")
        for folder, _, names in os.walk(os.path.join(self.folder, "cache")):
            for name in names:
                if name.endswith(".blob"):
                    with open(os.path.join(folder, name), "r+b") as file:
                        file.write(b"damaged")
        self.assertEqual(self.build("first"), (count, blobs))
        self.assertEqual(self.build("first"), (0, blobs))


class Builds(Folder):
    """Real compilers; what is not installed is left out by the tool itself."""

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="switchyard_builds_")
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.outputs = []
        for place in ("first", "second/deeper/place"):
            sources = os.path.join(cls.root, place, "sources")
            shutil.copytree(HERE, sources)
            output = os.path.join(cls.root, place, "out put")
            spaces = [os.path.join(sources, f"scaled_sum.{name}.json") for name in ("host", "cuda", "hip", "triton")]
            run = tool("build", *spaces, "--set", "ci", "--out", output, "--jobs", "2")
            if run.returncode != 0:
                raise AssertionError(run.stdout + run.stderr)
            cls.outputs.append(os.path.join(output, "kernels"))

    def files(self, root):
        return {
            os.path.relpath(os.path.join(folder, name), root): os.path.join(folder, name)
            for folder, _, names in os.walk(root)
            for name in names
        }

    def manifests(self):
        return [path for path in self.files(self.outputs[0]).values() if path.endswith("manifest.json")]

    def test_same_input_gives_the_same_bytes_anywhere(self):
        first, second = (self.files(output) for output in self.outputs)
        self.assertEqual(sorted(first), sorted(second))
        self.assertTrue(any(name.endswith(".so") for name in first))
        for name in first:
            self.assertEqual(hash_file(first[name]), hash_file(second[name]), name)

    def test_compilers_lie_at_the_same_addresses(self):
        code = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from kernel_tools.compiling import place_compilers_alike
print(place_compilers_alike())
for _ in range(4):
    print(subprocess.run(["head", "-n", "1", "/proc/self/maps"], capture_output=True, text=True).stdout.split()[0])
"""
        run = subprocess.run([sys.executable, "-c", code, TOOLS], capture_output=True, text=True, check=True)
        allowed, *places = run.stdout.split()
        if allowed != "True":
            self.skipTest("this system keeps addresses random")
        self.assertEqual(len(set(places)), 1, places)

    def test_no_blob_holds_a_path(self):
        for name, path in self.files(self.outputs[0]).items():
            with open(path, "rb") as file:
                content = file.read()
            for secret in (self.root.encode(), HERE.encode(), b"/tmp/"):
                self.assertNotIn(secret, content, name)

    def damaged(self, change):
        """The problems of a copy of the host manifest after a change."""
        folder = os.path.join(self.folder, f"case{len(os.listdir(self.folder))}")
        source = next(os.path.dirname(path) for path in self.manifests() if "/host-" in path)
        shutil.copytree(source, folder)
        path = os.path.join(folder, "manifest.json")
        with open(path, encoding="utf-8") as file:
            manifest = expand_shared(json.load(file))
        change(manifest, folder)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        return "\n".join(verify(path))

    def test_launches_share_what_they_have_in_common(self):
        def launch(blob, **others):
            return {
                "blob": blob,
                "sha256": "0" * 64,
                "kernel": "k",
                "grid": ["n"],
                "block": [1],
                "parameters": ["x", "y"],
                **others,
            }

        variants = [
            {"id": "a", "launches": [launch("a"), {"fill": "w"}]},
            {"id": "b", "launches": [launch("b", block=[2]), launch("c", cooperative=True)]},
        ]
        before = json.loads(json.dumps(variants))
        shared = share_launches(variants)
        self.assertEqual(shared, {"k": {"grid": ["n"], "parameters": ["x", "y"]}})
        self.assertEqual(
            variants[0]["launches"][0], {"like": "k", "blob": "a", "sha256": "0" * 64, "kernel": "k", "block": [1]}
        )
        self.assertEqual(variants[1]["launches"][1], launch("c", cooperative=True))  # one alone stays as it is
        self.assertEqual(expand_shared({"shared": shared, "variants": variants}), {"variants": before})

    def test_verify_finds_what_is_wrong(self):
        def launch(manifest):
            return manifest["variants"][0]["launches"][0]

        self.assertEqual(self.damaged(lambda manifest, folder: None), "")
        for text, change in {
            "the manifest lists 3": lambda m, f: launch(m)["parameters"].pop(),
            "has 8 bytes, the kernel takes 4": lambda m, f: launch(m)["parameters"].__setitem__(3, {"i64": "n"}),
            "no kernel 'gone'": lambda m, f: launch(m).update(kernel="gone"),
            "SHA-256": lambda m, f: launch(m).update(sha256="0" * 64),
            "No such file": lambda m, f: os.remove(os.path.join(f, launch(m)["blob"])),
            "manifest's folder": lambda m, f: launch(m).update(blob="../x.so"),
            "is for host-": lambda m, f: m["target"].update(arch="riscv64"),
            "is no workspace": lambda m, f: m["variants"][0]["launches"].insert(0, {"fill": "w"}),
            "there twice": lambda m, f: m["variants"].append(m["variants"][0]),
            "expected switchyard.manifest/1": lambda m, f: m.update(schema="switchyard.manifest/2"),
            "not an ELF": lambda m, f: open(os.path.join(f, launch(m)["blob"]), "wb").close(),
        }.items():
            self.assertIn(text, self.damaged(change), text)

    def test_verify_reads_gpu_blobs(self):
        for path in self.manifests():
            self.assertEqual(verify(path), [], path)
            with open(path, encoding="utf-8") as file:
                manifest = json.load(file)
            for variant in manifest["variants"]:
                for one in variant["launches"]:
                    if "blob" not in one:
                        continue
                    kernel = read_blob(os.path.join(os.path.dirname(path), one["blob"]))["kernels"][one["kernel"]]
                    expected = [(0, 8), (8, 8), (16, 8), (24, 4)]
                    self.assertEqual(kernel["parameters"][:4], expected, f"{path} {one['kernel']}")

    def test_a_block_beyond_the_compiled_bound_is_found(self):
        for path in self.manifests():
            if "/host-" in path:
                continue
            folder = os.path.join(self.folder, os.path.basename(os.path.dirname(path)))
            shutil.copytree(os.path.dirname(path), folder)
            changed = os.path.join(folder, "manifest.json")
            with open(changed, encoding="utf-8") as file:
                manifest = json.load(file)
            manifest["variants"][-1]["launches"][-1]["block"] = [2048, 1, 1]
            with open(changed, "w", encoding="utf-8") as file:
                json.dump(manifest, file)
            self.assertIn("block of 2048 threads", "\n".join(verify(changed)))

    def test_missing_symbols_are_refused(self):
        for name in ("scaled_sum.host.json", "scaled_sum.cpp"):
            shutil.copy(os.path.join(HERE, name), self.folder)
        path = os.path.join(self.folder, "scaled_sum.host.json")
        with open(path, encoding="utf-8") as file:
            space = json.load(file)
        del space["blobs"]["scaled_sum"]["instantiate"]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(space, file)
        run = tool("build", path, "--out", os.path.join(self.folder, "out"))
        self.assertEqual(run.returncode, 1)
        self.assertIn(
            "has no kernel 'scaled_sum_f32_t4096'; it has none. Declare it "
            '`extern "C" __attribute__((visibility("default"))) const switchyard::host::kernel scaled_sum_f32_t4096',
            run.stderr,
        )

    def test_expands_as_if_toolchains_were_there(self):
        spaces = [os.path.join(HERE, f"scaled_sum.{kind}.json") for kind in ("host", "cuda", "hip", "triton")]
        run = tool(
            "expand",
            *spaces,
            "--all-toolchains",
            PATH=self.folder,
            CXX="",
            CUDACXX="",
            HIPCXX="",
            SWITCHYARD_TRITON_PYTHON="absent",
        )
        if os.path.exists("/usr/local/cuda/bin/nvcc"):  # found there without PATH
            self.assertNotIn("nvcc was not found", run.stderr)
        else:
            self.assertIn("nvcc was not found: `build` leaves its variants out; install the CUDA toolkit (nvcc)", run.stderr)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("hip was not found: `build` leaves its variants out; install clang-19 and lld-19", run.stderr)
        self.assertEqual(
            {blob["toolchain"] for plan in json.loads(run.stdout) for blob in plan["blobs"]}, {"host", "nvcc", "hip", "triton"}
        )

    def test_nothing_to_build_is_an_error(self):
        out = os.path.join(self.folder, "out")
        run = tool("build", os.path.join(HERE, "scaled_sum.hip.json"), "--out", out, PATH=self.folder, HIPCXX="")
        self.assertEqual(run.returncode, 1)
        self.assertIn("install clang-19 and lld-19", run.stderr)
        self.assertIn("nothing was built: no toolchain was found for these variants", run.stderr)
        run = tool("build", os.path.join(HERE, "scaled_sum.host.json"), "--targets", "host-z80", "--out", out)
        self.assertEqual(run.returncode, 1)
        self.assertIn("nothing was built: no variant is of these targets and this set", run.stderr)

    def test_compilers_that_cannot_be_run_are_named(self):
        toolchains = os.path.join(self.folder, "toolchains.json")
        with open(toolchains, "w", encoding="utf-8") as file:
            json.dump({name: "/absent/compiler" for name in ("host", "nvcc", "hip", "triton")}, file)
        for kind, toolchain, setting in (("cuda", "nvcc", "SWITCHYARD_NVCC"), ("hip", "hip", "SWITCHYARD_HIP_CXX")):
            run = tool(
                "configure",
                os.path.join(HERE, f"scaled_sum.{kind}.json"),
                "--toolchains",
                toolchains,
                "--work",
                self.folder,
                "--out",
                self.folder,
                "--script",
                os.path.join(self.folder, "script.cmake"),
            )
            self.assertEqual(run.returncode, 1)
            self.assertIn(
                f"the {toolchain} compiler /absent/compiler cannot be run (No such file or directory); install ", run.stderr
            )
            self.assertIn(f"or correct {setting}", run.stderr)
        job = os.path.join(self.folder, "job.json")
        plans, _ = expand([os.path.join(HERE, "scaled_sum.host.json")])
        with open(job, "w", encoding="utf-8") as file:
            json.dump({**plans[0], "blob": plans[0]["blobs"][0]}, file)
        run = tool("compile", job, "--toolchains", toolchains, "--output", job + ".so", "--meta", job + ".meta")
        self.assertEqual(run.returncode, 1)
        self.assertIn("the host compiler /absent/compiler cannot be run (No such file or directory)", run.stderr)

    def test_headers_must_be_there(self):
        shutil.copytree(TOOLS, os.path.join(self.folder, "share", "cmake"))
        run = subprocess.run(
            [
                sys.executable,
                os.path.join(self.folder, "share/cmake/switchyard_kernels.py"),
                "build",
                os.path.join(HERE, "scaled_sum.host.json"),
                "--out",
                os.path.join(self.folder, "out"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 1)
        self.assertIn(f"no headers of Switchyard in {self.folder}/share/include", run.stderr)

    def test_compiler_errors_name_the_blob(self):
        shutil.copy(os.path.join(HERE, "scaled_sum.host.json"), self.folder)
        with open(os.path.join(self.folder, "scaled_sum.cpp"), "w", encoding="utf-8") as file:
            file.write("#error broken\n")
        run = tool("build", os.path.join(self.folder, "scaled_sum.host.json"), "--out", os.path.join(self.folder, "out"))
        self.assertEqual(run.returncode, 1)
        self.assertIn("blob scaled_sum_", run.stderr)
        self.assertIn("#error broken", run.stderr)


class ExecMask(unittest.TestCase):
    BRANCH = "\ts_and_saveexec_b32 s10, vcc_lo\n\ts_cbranch_execz .LBB0_2\n; %bb.1:\n\tv_mov_b32_e32 v1, 0\n"
    RESTORE = "\ts_or_b32 exec_lo, exec_lo, s10\n\tv_add_f32_e32 v0, v1, v2\n"
    COPY = "\tv_dual_mov_b32 v3, v4 :: v_dual_mov_b32 v5, v6 ; a copy\n"

    def found(self, *parts):
        return [text for _, text in early_vector_instructions("".join(parts))]

    def test_a_copy_before_exec_is_restored_is_found(self):
        copy = ["v_dual_mov_b32 v3, v4 :: v_dual_mov_b32 v5, v6"]
        self.assertEqual(self.found(self.BRANCH, ".LBB0_2: ; a join\n", self.COPY, "\ts_mov_b32 s1, s12\n", self.RESTORE), copy)
        reload = "\tscratch_load_b32 v3, off, off offset:8\n"
        self.assertEqual(
            self.found(self.BRANCH, ".LBB0_2:\n", reload, self.RESTORE), ["scratch_load_b32 v3, off, off offset:8"]
        )
        wide = self.RESTORE.replace("_b32 exec_lo, exec_lo, s10", "_b64 exec, exec, s[10:11]")
        self.assertEqual(self.found(self.BRANCH, ".LBB0_2:\n", self.COPY, wide), copy)
        turn = "\ts_and_not1_saveexec_b32 s10, s10\n"
        self.assertEqual(self.found(self.BRANCH, ".LBB0_2:\n", self.COPY, turn), copy)
        # Where the branch over a few instructions is left out, and where those of the branch lie elsewhere.
        short = self.BRANCH.replace("\ts_cbranch_execz .LBB0_2\n", "")
        self.assertEqual(self.found(short, "; %bb.2:\n", self.COPY, self.RESTORE), copy)
        elsewhere = "\ts_and_saveexec_b32 s10, vcc_lo\n\ts_cbranch_execnz .LBB0_9\n; %bb.2:\n"
        self.assertEqual(self.found(elsewhere, self.COPY, self.RESTORE), copy)

    def test_what_the_lanes_of_a_branch_do_is_right(self):
        self.assertEqual(self.found(self.BRANCH, ".LBB0_2:\n\ts_mov_b32 s1, s12\n", self.RESTORE, self.COPY), [])
        self.assertEqual(self.found(self.BRANCH, ".LBB0_2:\n\tv_readlane_b32 s10, v254, 3\n", self.RESTORE), [])
        # A branch that ends as the join begins, and goes on behind it.
        self.assertEqual(self.found("\ts_branch .LBB0_7\n.LBB0_9:\n", self.COPY, self.RESTORE), [])
        self.assertEqual(self.found("\ts_and_saveexec_b32 s10, vcc_lo\n; %bb.1:\n", self.COPY, self.RESTORE), [])
        self.assertEqual(self.found(self.BRANCH, ".LBB0_2:\n", self.COPY, "\ts_and_saveexec_b32 s10, s10\n"), [])
        self.assertEqual(self.found(self.BRANCH, ".LBB0_2:\n", self.COPY, "\ts_or_saveexec_b32 s10, -1\n"), [])
        self.assertEqual(self.found("\ts_setpc_b64 s[0:1]\n.LBB0_9:\n", self.COPY, self.RESTORE), [])
        self.assertEqual(self.found("\ts_mov_b32 exec_lo, s1\n; %bb.1:\n", self.COPY, self.RESTORE), [])

    def test_triton_compiles_with_other_registers_until_it_is_right(self):
        wrong = "".join((self.BRANCH, ".LBB0_2:\n", self.COPY, self.RESTORE))
        job = {"backend": "hip", "arch": "gfx1100", "warp_size": 32, "blob": {"options": {"num_warps": 4}}}

        def compiled(bad, **changes):
            tried = []

            def compile_one(source, target, options):
                tried.append(options)
                return mock.Mock(asm={"amdgcn": wrong if len(tried) <= bad else self.BRANCH})

            with mock.patch.object(triton_job, "gpu_target"):
                triton_job.compile_right(mock.Mock(compile=compile_one), None, {**job, **changes})
            return tried

        self.assertEqual(compiled(0), [{"num_warps": 4}])
        self.assertEqual(compiled(2)[1:], [{"num_warps": 4, "waves_per_eu": waves} for waves in (4, 2)])
        self.assertEqual(compiled(9, backend="cuda"), [{"num_warps": 4}])
        with self.assertRaisesRegex(KernelBuildError, "runs v_dual_mov_b32 v3, v4 :: .* before it restores EXEC"):
            compiled(4)


if __name__ == "__main__":
    unittest.main()
