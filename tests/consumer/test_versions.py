# SPDX-License-Identifier: MIT
"""Two versions in one process: an engine with this one, and a plug-in with the next.

  test_versions.py SOURCE WORK CXX

cmake/packages/set_version.py makes the next version from a copy of the headers, whose structs are laid out differently. All symbols are
visible, and the plug-in is opened for all to see: what both defined under one name would serve both.
"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from invented import Checks

# A member more at the front of what a catalog's maker fills in, and of the catalog.
CHANGES = {
    "include/switchyard/catalog.hpp": (
        ("struct catalog_options {\n", "struct catalog_options {\n  std::string newer = std::string(100, 'n');\n"),
        ("  catalog_options options_;\n", "  std::string newer_ = std::string(100, 'n');\n  catalog_options options_;\n"),
    )
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def symbols(file):
    """What a program or a library offers to others, of the library's names."""
    text = subprocess.run(["nm", "-D", "--defined-only", file], check=True, text=True, stdout=subprocess.PIPE).stdout
    return {line.split()[-1] for line in text.splitlines() if "switchyard" in line}


def main():
    source, work, compiler = sys.argv[1:]
    checks = Checks()
    shutil.rmtree(work, ignore_errors=True)
    newer = os.path.join(work, "newer")
    shutil.copytree(os.path.join(source, "include"), os.path.join(newer, "include"))
    for name, changes in CHANGES.items():
        path = os.path.join(newer, name)
        text = read(path)
        for old, new in changes:
            checks.equal(text.count(old), 1, f"{name}: {old!r}")
            text = text.replace(old, new)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    version = read(os.path.join(source, "include/switchyard/version.hpp"))
    major, minor = (int(re.search(rf"VERSION_{part} (\d+)", version)[1]) for part in ("MAJOR", "MINOR"))
    said = subprocess.run([os.path.join(source, "cmake/packages/set_version.py"), f"{major}.{minor + 1}.0", newer], check=True, text=True,
                          stdout=subprocess.PIPE).stdout  # fmt: skip
    checks.contains(said, f"-> {major}.{minor + 1}.0", "cmake/packages/set_version.py")

    here = os.path.join(source, "tests/consumer/versions")
    parts = {"engine_part": os.path.join(source, "include"), "plugin_part": os.path.join(newer, "include")}
    running = [
        subprocess.Popen([compiler, "-std=c++20", "-O0", "-fPIC", f"-DPART={name}", f"-I{include}", "-c",
                          os.path.join(here, "part.cpp"), "-o", os.path.join(work, f"{name}.o")])
        for name, include in parts.items()
    ]  # fmt: skip
    for process in running:
        checks.equal(process.wait(), 0, f"{process.args[4]} compiles")
    engine, plugin = os.path.join(work, "engine"), os.path.join(work, "plugin.so")
    link = [compiler, "-std=c++20", "-pthread"]
    subprocess.run(
        [*link, "-rdynamic", os.path.join(here, "engine.cpp"), f"{work}/engine_part.o", "-o", engine, "-ldl"], check=True
    )
    subprocess.run([*link, "-shared", f"{work}/plugin_part.o", "-o", plugin, "-ldl"], check=True)

    ours, theirs = symbols(engine), symbols(plugin)
    checks.that(len(ours) > 100 and len(theirs) > 100, f"symbols are visible: {len(ours)}, {len(theirs)}")
    checks.equal(sorted(ours & theirs), [], "names that both define")
    now, then = (
        re.findall(r"::(\w+)", said)[0],
        re.search(r"inline namespace (\w+)", read(f"{source}/include/switchyard/error.hpp"))[1],
    )
    alike = {symbol.replace(f"{len(now)}{now}", f"{len(then)}{then}") for symbol in theirs} & ours
    checks.that(len(alike) > 100, f"without a namespace for each version they would define the same: {len(alike)}")
    done = subprocess.run([engine, plugin], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    both = [f"{major}.{minor} works", f"{major}.{minor + 1} works"]
    wanted = [both[0], both[1], both[0], both[1]]
    checks.equal((done.returncode, sorted(done.stdout.split("\n"))), (0, sorted([*wanted, ""])), "the program")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
