# SPDX-License-Identifier: MIT
"""Holds what compiling programs costs: CPU time, as a ratio to a file that parses with nlohmann_json alone, the median of
pairs in one run; bytes of machine code; and that the compiled form reads no nlohmann_json.

  compile_time.py COMPILER INCLUDE_FOLDER FIRST_CALL

The bounds are a quarter above what was measured with g++ 12. The header-only form takes most of this test's time: one pair.
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

CATALOG = """#include <switchyard/catalog.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/operators/softmax.hpp>
int main() {
  switchyard::catalog files;
  switchyard::dispatcher<switchyard::operators::softmax> softmax{files};
}
"""

DISPATCHERS = """#include <switchyard/dispatcher.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/softmax.hpp>
using namespace switchyard::operators;
template <class Operator>
void call(switchyard::dispatcher<Operator>& with) { with(switchyard::stream{}, typename Operator::arguments{}); }
template void call(switchyard::dispatcher<attention_forward>&);
template void call(switchyard::dispatcher<rotary>&);
template void call(switchyard::dispatcher<softmax>&);
"""

INCLUDES = "#include <switchyard/dispatcher.hpp>\n"

COMPILED = ["-DSWITCHYARD_COMPILED"]
# what, source (None: the shortest program, which includes everything), options, pairs, most times as much, most bytes
CASES = (
    ("everything, compiled form", None, COMPILED, 3, 1.2, 40400),
    ("three dispatchers, compiled form", DISPATCHERS, COMPILED, 3, 1.2, 116000),
    ("dispatcher.hpp alone, header-only", INCLUDES, [], 3, 0.75, 100),
    ("three dispatchers, header-only", DISPATCHERS, [], 1, 4.1, 396000),
    ("a catalog and a dispatcher, header-only", CATALOG, [], 1, 14.2, 1243000),
)


def compile_time(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    compiler, include, first_call = sys.argv[1:]
    os.environ["CCACHE_DISABLE"] = "1"
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "json.cpp").write_text(JSON, encoding="utf-8")
        for what, text, options, pairs, most, max_bytes in CASES:
            source = pathlib.Path(first_call)
            if text:
                source = folder / "own.cpp"
                source.write_text(text, encoding="utf-8")
            build = [compiler, "-std=c++20", "-O2", f"-I{include}", *options]
            times = []
            for _ in range(pairs):
                json = compile_time([compiler, "-std=c++20", "-O2", "-c", folder / "json.cpp", "-o", folder / "json.o"])
                times.append((compile_time([*build, "-c", source, "-o", folder / "own.o"]), json))
            ratio = statistics.median(own / json for own, json in times)
            sizes = subprocess.run(["size", folder / "own.o"], check=True, text=True, stdout=subprocess.PIPE).stdout
            size = int(sizes.splitlines()[1].split()[0])
            shown = ", ".join(f"{own:.2f} / {json:.2f} s" for own, json in times)
            print(
                f"{what}: {ratio:.2f} times as much (at most {most}: {shown}), {size} bytes of machine code (at most {max_bytes})"
            )
            wrong += ratio > most or size > max_bytes
            read = subprocess.run([*build, "-M", source], check=True, text=True, stdout=subprocess.PIPE).stdout
            if options == COMPILED and "nlohmann/json.hpp" in read:
                print("reads nlohmann/json.hpp")
                wrong += 1
    print(f"{3 * len(CASES)} checks, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
