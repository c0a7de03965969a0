# SPDX-License-Identifier: MIT
"""Tests of counted_test.py and coverage.py: what they say of tests that pass, fail and do not end."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class Counts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="switchyard_test_")
        self.addCleanup(folder.cleanup)
        self.data = pathlib.Path(folder.name)
        self.counts = self.data / "counts"
        self.counts.mkdir()
        for operator in ("one", "two"):
            at = self.data / "kernels" / operator / "hip-gfx942"
            at.mkdir(parents=True)
            launches = [{"kernel": "k", "sha256": operator}]
            (at / "manifest.json").write_text(json.dumps({"variants": [{"id": "v", "launches": launches}]}), encoding="utf-8")

    def run_test(self, operator, code, ran=True, order="agrees"):
        files = {"HIP_EMULATOR_COUNTS": f"{operator}.txt", "SWITCHYARD_TEST_RAN": f"{operator}.variants.txt"}
        environment = {**os.environ, **{name: str(self.counts / file) for name, file in files.items()}}
        script = f"import os, sys; sys.exit({code})"
        compared = f"\\n{order} {operator} k" if order else ""
        if ran:
            script = (
                f"import os; print('kernel {operator} k 1{compared}', file=open(os.environ['HIP_EMULATOR_COUNTS'], 'w'));"
                f"print('variant {operator} v', file=open(os.environ['SWITCHYARD_TEST_RAN'], 'w'));" + script
            )
        command = [sys.executable, HERE / "counted_test.py", sys.executable, "-c", script]
        self.assertEqual(subprocess.run(command, env=environment, check=False).returncode, code)

    def coverage(self, least=90):
        command = [sys.executable, HERE / "coverage.py", self.data, "gfx942", self.counts, str(least), "one", "two"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout

    def test_all_passed(self):
        for operator in ("one", "two", "shipped"):
            self.run_test(operator, 0)
        code, text = self.coverage()
        self.assertEqual(code, 0)
        self.assertIn("gfx942: 2 of 2 variants run, 2 of 2 kernels", text)
        self.assertNotIn("emulator.gfx942", text)

    def test_what_was_compared_in_two_orders(self):
        self.run_test("shipped", 0)
        self.run_test("one", 0)
        for order, by_reason in (("agrees", (0, 0)), ("uncompared", (1, 0)), ("", (0, 1))):
            self.run_test("two", 0, order=order)
            code, text = self.coverage()
            self.assertEqual(code, 0)
            self.assertIn(f"gfx942: {2 - sum(by_reason)} of 2 kernels write the same in two orders", text)
            self.assertIn(
                f"not compared: {by_reason[0]} that sum floats in any order, {by_reason[1]} that were launched with one wave",
                text,
            )
            self.assertEqual(text.count("not compared: k\n"), sum(by_reason))

    def test_a_test_that_failed_is_named_and_counts(self):
        self.run_test("shipped", 0)
        self.run_test("one", 0)
        self.run_test("two", 3)
        code, text = self.coverage()
        self.assertEqual(code, 0)
        self.assertIn("gfx942: 2 of 2 variants run", text)
        self.assertIn("emulator.gfx942.two: failed\n", text)

    def test_what_an_earlier_run_left_does_not_count(self):
        for operator in ("one", "two", "shipped"):
            self.run_test(operator, 0)
        self.run_test("two", 77, ran=False)
        code, text = self.coverage()
        self.assertEqual(code, 1)
        self.assertIn("1 of 2 variants run", text)
        self.assertIn("emulator.gfx942.two: skipped\n", text)
        self.assertIn("not run: two v k", text)

    def test_a_test_that_did_not_end_is_named(self):
        self.run_test("one", 0)
        code, text = self.coverage(50)
        self.assertEqual(code, 0)
        for operator in ("two", "shipped"):
            self.assertIn(f"emulator.gfx942.{operator}: did not run to its end\n", text)

    def test_no_test_ran(self):
        code, text = self.coverage()
        self.assertEqual(code, 77)
        self.assertIn("skipped: no test of gfx942 ran", text)


if __name__ == "__main__":
    unittest.main()
