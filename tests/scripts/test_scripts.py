# SPDX-License-Identifier: MIT
"""What the scripts in .ci answer.   test_scripts.py SOURCE

They run in a copy of .ci, where programs that would install or build only leave a trace.
"""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from invented import Checks

TRACING = '#!/bin/sh\necho "$(basename "$0") $*" >>"$TRACE"\n'
PROGRAMS = ("apt-get", "cmake", "ctest", "dpkg-query", "git", "nproc", "python3", "sudo")


class Copy:
    def __init__(self, source, folder):
        self.folder, self.programs, self.trace = folder, os.path.join(folder, "programs"), os.path.join(folder, "trace")
        shutil.copytree(os.path.join(source, ".ci"), os.path.join(folder, ".ci"))
        os.makedirs(self.programs)
        for name in PROGRAMS:
            self.program(name, "")
        self.program("nproc", "echo 2")

    def program(self, name, does):
        path = os.path.join(self.programs, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(TRACING + does + "\n")
        os.chmod(path, 0o755)

    def run(self, script, *arguments):
        environment = {**os.environ, "PATH": self.programs + ":/usr/bin:/bin", "TRACE": self.trace, "SWITCHYARD_CI_TRITON": "0"}
        return subprocess.run(
            [os.path.join(self.folder, ".ci", script), *arguments],
            cwd="/",
            env=environment,
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )

    def traces(self):
        if not os.path.exists(self.trace):
            return ""
        with open(self.trace, encoding="utf-8") as file:
            return file.read()


def check_arguments(checks, copy, scripts):
    for script in scripts:
        for arguments in (["--help"], ["-h"]):
            done = copy.run(script, *arguments)
            checks.equal(done.returncode, 0, f"{script} {arguments}")
            checks.contains(done.stdout, f".ci/{script}", f"{script} {arguments}")
        for arguments in (["frobnicate"], ["--frobnicate"], ["--frobnicate", "--host"]):
            done = copy.run(script, *arguments)
            checks.equal(done.returncode, 2, f"{script} {arguments}")
            checks.contains(
                done.stderr, f"{script}: unknown argument '{arguments[0]}'; expected any of: ", f"{script} {arguments}"
            )
    for script, arguments, unknown in (
        ("setup", ["minimal", "more"], "more"),
        ("run", ["format", "formt"], "formt"),
        ("fuzz", ["5", "tabel"], "tabel"),
        ("quickstart", ["--host", "x"], "x"),
    ):
        done = copy.run(script, *arguments)
        checks.equal(done.returncode, 2, f"{script} {arguments}")
        checks.contains(done.stderr, f"unknown argument '{unknown}'", f"{script} {arguments}")
    checks.equal(copy.traces(), "", "programs started")
    checks.equal(sorted(os.listdir(copy.folder)), [".ci", "programs"], "files")


def check_quickstart(checks, copy):
    """One line a step, of this run's log alone; what fails is shown."""
    build = os.path.join(copy.folder, "build")
    os.makedirs(os.path.join(build, "examples"))
    with open(os.path.join(build, "quickstart.log"), "w", encoding="utf-8") as file:
        file.write("[8/8] Linking\n")
    program = os.path.join(build, "examples", "quickstart")
    with open(program, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho ran\n")
    os.chmod(program, 0o755)
    copy.program("dpkg-query", "")  # nothing is installed
    copy.program("apt-get", "for i in 1 2 3 4 5 6 7 8 9; do echo unpacking $i; done")
    copy.program("cmake", "case $1 in --build) echo '[3/4] Building'; sleep 1 ;; esac")
    if os.getuid() != 0:
        copy.program("sudo", '"$@"')
    done = copy.run("quickstart", "--host")
    checks.equal(done.returncode, 0, f"quickstart\n{done.stderr}")
    checks.contains(copy.traces(), "apt-get install", "quickstart")
    steps = [line.split(":")[0] for line in done.stdout.splitlines()]
    checks.equal(
        steps,
        ["installing what is missing", "configuring", "building one program and its kernels", "", "ran"],
        f"quickstart's lines\n{done.stdout}",
    )
    checks.that("8 of 8" not in done.stdout, f"the last run's progress is shown:\n{done.stdout}")
    copy.program("cmake", "echo CMake Error; exit 1")
    done = copy.run("quickstart", "--host")
    checks.equal(done.returncode, 1, "quickstart where cmake fails")
    checks.contains(done.stdout, "CMake Error", "quickstart where cmake fails")


def main():
    checks = Checks()
    source = sys.argv[1]
    folder = tempfile.mkdtemp(prefix="switchyard_scripts_")
    try:
        copy = Copy(source, folder)
        scripts = [
            name
            for name in sorted(os.listdir(os.path.join(source, ".ci")))
            if os.access(os.path.join(source, ".ci", name), os.X_OK)
        ]
        checks.equal(
            scripts, ["compilers", "fuzz", "gpu", "packages", "quickstart", "release", "run", "setup", "tables"], "scripts"
        )
        check_arguments(checks, copy, scripts)
        check_quickstart(checks, copy)
    finally:
        shutil.rmtree(folder)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
