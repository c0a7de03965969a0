# SPDX-License-Identifier: MIT
"""Holds what compiling a program in the compiled form costs: CPU time, as a ratio to a file that parses with
nlohmann_json alone, the median of three pairs; bytes of machine code; and that no header reads nlohmann_json.

  compile_time.py COMPILER INCLUDE_FOLDER SOURCE MAX_RATIO MAX_BYTES
"""

import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

JSON = """#include <iostream>
#include <nlohmann/json.hpp>
int main(int, char** argv) { std::cout << nlohmann::json::parse(argv[1]).dump(); }
"""


def compile_time(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    compiler, include, source, max_ratio, max_bytes = sys.argv[1:]
    os.environ["CCACHE_DISABLE"] = "1"
    form = [compiler, "-std=c++20", "-O2", f"-I{include}", "-DSWITCHYARD_COMPILED"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "json.cpp").write_text(JSON, encoding="utf-8")
        ratios = []
        for _ in range(3):
            json = compile_time([compiler, "-std=c++20", "-O2", "-c", folder / "json.cpp", "-o", folder / "json.o"])
            own = compile_time([*form, "-c", source, "-o", folder / "own.o"])
            print(f"{own:.2f} s, a file that parses JSON {json:.2f} s: {own / json:.2f} times as much")
            ratios.append(own / json)
        sizes = subprocess.run(["size", folder / "own.o"], check=True, text=True, stdout=subprocess.PIPE).stdout
    size = int(sizes.splitlines()[1].split()[0])
    read = subprocess.run([*form, "-M", source], check=True, text=True, stdout=subprocess.PIPE).stdout
    ratio = statistics.median(ratios)
    print(f"3 checks: {ratio:.2f} times as much (at most {max_ratio}), {size} bytes of machine code (at most {max_bytes})")
    if "nlohmann/json.hpp" in read:
        print("reads nlohmann/json.hpp")
        return True
    return ratio > float(max_ratio) or size > int(max_bytes)


if __name__ == "__main__":
    sys.exit(main())
