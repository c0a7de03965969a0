# SPDX-License-Identifier: MIT
"""Holds what compiling programs costs: CPU time, as a ratio to a file that parses with nlohmann_json alone, the median of
three rounds where the first is above a bound; bytes of machine code; and that the compiled form reads no nlohmann_json.

  compile_time.py COMPILER INCLUDE_FOLDER FIRST_CALL

That file is compiled before and after each round of all cases, whose times are compared with the mean of both. The bounds are
a quarter above what was measured with g++ 12. The header-only form takes most of this test's time: always one round.
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
# what, source (None: the shortest program, which includes everything), options, rounds, most times as much, most bytes
CASES = (
    ("everything, compiled form", None, COMPILED, 3, 1.2, 40400),
    ("three dispatchers, compiled form", DISPATCHERS, COMPILED, 3, 1.2, 116000),
    ("dispatcher.hpp alone, header-only", INCLUDES, [], 3, 0.75, 100),
    ("three dispatchers, header-only", DISPATCHERS, [], 1, 4.1, 396000),
    ("a catalog and a dispatcher, header-only", CATALOG, [], 1, 13.4, 1115000),
)


def compile_time(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    compiler, include, first_call = sys.argv[1:]
    os.environ["CCACHE_DISABLE"] = "1"
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def build(number):
            _, text, options, *_ = CASES[number]
            source = pathlib.Path(first_call)
            if text:
                source = folder / f"{number}.cpp"
                source.write_text(text, encoding="utf-8")
            return [compiler, "-std=c++20", "-O2", f"-I{include}", *options, source]

        json = folder / "json.cpp"
        json.write_text(JSON, encoding="utf-8")
        parse_json = [compiler, "-std=c++20", "-O2", "-c", json, "-o", folder / "json.o"]
        before = compile_time(parse_json)
        times = [[] for _ in CASES]
        for done in range(max(rounds for _, _, _, rounds, _, _ in CASES)):
            now = {
                number: compile_time([*build(number), "-c", "-o", folder / f"{number}.o"])
                for number, (_, _, _, rounds, _, _) in enumerate(CASES)
                if done < rounds
            }
            after = compile_time(parse_json)
            for number, own in now.items():
                times[number].append((own, (before + after) / 2))
            before = after
            if all(own <= most * base for (_, _, _, _, most, _), [(own, base), *_] in zip(CASES, times)):
                break
        for number, (what, _, options, _, most, max_bytes) in enumerate(CASES):
            ratio = statistics.median(own / base for own, base in times[number])
            sizes = subprocess.run(["size", folder / f"{number}.o"], check=True, text=True, stdout=subprocess.PIPE).stdout
            size = int(sizes.splitlines()[1].split()[0])
            shown = ", ".join(f"{own:.2f} / {base:.2f} s" for own, base in times[number])
            print(
                f"{what}: {ratio:.2f} times as much (at most {most}: {shown}), {size} bytes of machine code (at most {max_bytes})"
            )
            wrong += ratio > most or size > max_bytes
            read = subprocess.run([*build(number), "-M"], check=True, text=True, stdout=subprocess.PIPE).stdout
            if options == COMPILED and "nlohmann/json.hpp" in read:
                print("reads nlohmann/json.hpp")
                wrong += 1
    print(f"{3 * len(CASES)} checks, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
