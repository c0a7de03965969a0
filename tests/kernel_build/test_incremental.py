# SPDX-License-Identifier: MIT
"""Kernels are built again when, and only when, something they are made of has changed.

test_incremental.py PROJECT CMAKE COMPILER GENERATOR
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROJECT, CMAKE, COMPILER, GENERATOR = sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))

LISTS = """cmake_minimum_required(VERSION 3.24)
project(incremental LANGUAGES CXX)
include("{project}/cmake/SwitchyardKernels.cmake")
switchyard_add_kernels(kernels ALL SPACE scaled_sum.host.json DESTINATION data TABLES tables)
"""


class Incremental(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="switchyard incremental ")  # a path with spaces
        self.addCleanup(shutil.rmtree, self.root)
        self.source = os.path.join(self.root, "source")
        os.makedirs(os.path.join(self.source, "tables", "scaled_sum"))
        for name in ("scaled_sum.host.json", "scaled_sum.cpp"):
            shutil.copy(os.path.join(HERE, name), self.source)
        self.write("extra.hpp", "inline constexpr int extra = 1;\n")
        self.write("tables/scaled_sum/cpu.json", "{}")
        text = self.read("scaled_sum.cpp").replace("#include <cstdint>", '#include <cstdint>\n\n#include "extra.hpp"')
        self.write("scaled_sum.cpp", text)
        self.write("CMakeLists.txt", LISTS.format(project=PROJECT))
        self.run_cmake(
            "-S",
            self.source,
            "-B",
            os.path.join(self.root, "build"),
            "-G",
            GENERATOR,
            f"-DCMAKE_CXX_COMPILER={COMPILER}",
            "-DSWITCHYARD_NVCC=",
            "-DSWITCHYARD_HIP_CXX=",
        )
        self.build()

    def read(self, name):
        with open(os.path.join(self.source, name), encoding="utf-8") as file:
            return file.read()

    def write(self, name, text):
        with open(os.path.join(self.source, name), "w", encoding="utf-8") as file:
            file.write(text)

    def run_cmake(self, *arguments):
        run = subprocess.run(
            [CMAKE, *arguments], capture_output=True, text=True, check=False, env={**os.environ, "SWITCHYARD_KERNEL_CACHE": ""}
        )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def build(self):
        self.run_cmake("--build", os.path.join(self.root, "build"))
        data = os.path.join(self.root, "build", "data")
        return {
            os.path.relpath(os.path.join(folder, name), data): os.stat(os.path.join(folder, name)).st_mtime_ns
            for folder, _, names in os.walk(data)
            for name in names
        }

    def changed(self, before, after):
        return sorted(os.path.basename(name) for name in after if before.get(name) != after[name])

    def test_all(self):
        before = self.build()
        blobs = [name for name in before if name.endswith(".so")]
        self.assertTrue(blobs)
        self.assertEqual(self.changed(before, self.build()), [], "nothing has changed")

        self.write("extra.hpp", "inline constexpr int extra = 2;\n")
        after = self.build()
        self.assertEqual(
            self.changed(before, after),
            sorted([*(os.path.basename(blob) for blob in blobs), "manifest.json"]),
            "a header of the kernels",
        )

        self.write("tables/scaled_sum/cpu.json", "{ }")
        before, after = after, self.build()
        self.assertEqual(self.changed(before, after), ["cpu.json"], "a table")

        space = json.loads(self.read("scaled_sum.host.json"))
        space["variants"][0]["where"] = ["isa == baseline"]
        self.write("scaled_sum.host.json", json.dumps(space))
        before, after = after, self.build()
        self.assertEqual(self.changed(before, after), ["manifest.json"], "fewer variants")
        self.assertEqual([os.path.basename(name) for name in after if name.endswith(".so")], ["scaled_sum_baseline.so"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
