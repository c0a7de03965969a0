# SPDX-License-Identifier: MIT
"""The operator that the guide builds, as a reader would.   test_guide.py SOURCE BUILD WORK CXX PREFIX...

Installs the library, writes the files of the section "Your own operator" of include/switchyard/README.md into an empty
folder, and runs its command there. What the program prints must be what the guide shows. Then leaves out what exports
the kernel: the message must name it.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from invented import Checks
from test_example import normalise

EXPORTED = '__attribute__((visibility("default")))'


def main():
    source, build, work, compiler, *prefixes = sys.argv[1:]
    checks = Checks()
    shutil.rmtree(work, ignore_errors=True)
    engine, prefix = os.path.join(work, "engine"), os.path.join(work, "prefix")
    os.makedirs(engine)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SWITCHYARD_")}
    environment |= {"CMAKE_PREFIX_PATH": os.pathsep.join([prefix, *prefixes]), "CXX": compiler}

    def run(command, succeeds=True):
        done = subprocess.run(
            command,
            shell=True,
            cwd=engine,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=500,
            check=False,
        )
        checks.equal(done.returncode == 0, succeeds, f"{command}: exit status {done.returncode}\n{done.stdout}")
        return done.stdout

    run(f"cmake --install '{build}' --prefix '{prefix}'")
    with open(os.path.join(source, "include/switchyard/README.md"), encoding="utf-8") as file:
        section = file.read().split("## Your own operator\n")[1].split("\n## ")[0]
    files = re.findall(r"<!-- file: (\S+) -->\n *```\w+\n(.*?)\n *```\n", section, re.DOTALL)
    checks.equal(
        sorted(name for name, _ in files), ["CMakeLists.txt", "axpy.hpp", "axpy.json", "axpy_host.cpp", "main.cpp"], "files"
    )
    for name, text in files:
        with open(os.path.join(engine, name), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text) + "\n")
    command, shown = re.search(r"\n    (cmake [^\n]+)\n\nIt prints:\n\n(.*?)\n\n(?! )", section, re.DOTALL).groups()
    wanted = [normalise(line.strip()) for line in re.sub(r"\n {8}", " ", shown).splitlines()]
    checks.equal([normalise(line) for line in run(command).splitlines()[-len(wanted) :]], wanted, "what the program prints")

    # In another place than bin/ it finds no kernels, and says where it looked.
    os.rename(os.path.join(engine, "build/bin"), os.path.join(engine, "elsewhere"))
    problem = run("elsewhere/engine", succeeds=False)
    checks.contains(problem, "[switchyard.302]", "without kernels")
    checks.contains(problem, f"{engine}/share/switchyard", "without kernels")
    run("SWITCHYARD_PATH=build/share/switchyard elsewhere/engine")

    # A kernel that is not exported: the build says how to declare it.
    kernels = os.path.join(engine, "axpy_host.cpp")
    with open(kernels, encoding="utf-8") as file:
        text = file.read()
    for part in (f'extern "C" {EXPORTED} ', f"{EXPORTED} "):
        checks.contains(text, part, "axpy_host.cpp")
        with open(kernels, "w", encoding="utf-8") as file:
            file.write(text.replace(part, ""))
        problem = run("cmake --build build --target axpy_kernels", succeeds=False)
        checks.contains(
            problem, f"has no kernel 'axpy_f32'; it has none. Declare it `extern \"C\" {EXPORTED}", f"without {part}"
        )
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
