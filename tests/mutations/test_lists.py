# SPDX-License-Identifier: MIT
"""Each line that equivalent.json judges is still where it says, and each glob of groups.json finds files."""

import json
import pathlib
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent


class Lists(unittest.TestCase):
    def test_lines_exist(self):
        for judged in json.loads((HERE / "equivalent.json").read_text()):
            with self.subTest(file=judged["file"], line=judged["in"]):
                path = SOURCE / judged["file"]
                self.assertTrue(path.is_file())
                self.assertTrue(any(judged["in"] in line for line in path.read_text().splitlines()), "no such line")

    def test_groups_have_files(self):
        for name, group in json.loads((HERE / "groups.json").read_text()).items():
            for pattern in group["files"]:
                with self.subTest(group=name, pattern=pattern):
                    self.assertTrue(any(SOURCE.glob(pattern)))


if __name__ == "__main__":
    unittest.main()
