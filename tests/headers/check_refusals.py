# SPDX-License-Identifier: MIT
"""Compiles what must not compile, and looks for the line that says why; beside each stands a twin that compiles.

check_refusals.py COMPILER INCLUDE_FOLDER
"""

import subprocess
import sys

OPERATOR = """#include <string_view>
#include <switchyard/operator.hpp>
struct sized {
  static constexpr std::string_view name = "sized";
  struct arguments { NUMBER n = 0; };
  static constexpr auto fields = switchyard::fields<&arguments::n>;
  static constexpr auto axes = switchyard::axes(AXIS);
};
int main() { return static_cast<int>(switchyard::make_problem<sized>({})[0]); }
"""
FLOAT = "an axis is an integer, a bool or an enumeration"
MEMBER = "switchyard::size_axis<&arguments::n>()"
TYPE = "switchyard::type_axis<&arguments::n>()"
DERIVED = 'switchyard::size_axis("m", [](const arguments& a) noexcept { return a.n; })'
TENSOR = """#include <span>
#include <vector>
#include <switchyard/tensor.hpp>
int main() { std::vector<VALUE> v(4); return static_cast<int>(switchyard::tensor{std::span{v}}.rank()); }
"""
NEEDS = "Switchyard needs C++20: compile with -std=c++20"
THROWS = "Switchyard reports errors as exceptions: compile without -fno-exceptions"


def axis(number, form):
    return OPERATOR.replace("NUMBER", number).replace("AXIS", form)


def door(name):
    return f"#include <switchyard/{name}.hpp>\nint main() {{ switchyard::nothing of_this_is[read}}\n"


CASES = [(axis("float", form), axis("long", form), FLOAT, "c++20") for form in (MEMBER, TYPE, DERIVED)]
CASES += [(TENSOR.replace("VALUE", "long double"), TENSOR.replace("VALUE", "float"), "a span's elements are float", "c++20")]
CASES += [
    (door(name), f"#include <switchyard/{name}.hpp>\nint main() {{}}\n", message, flags)
    for message, flags in ((NEEDS, "c++17"), (THROWS, "c++20 -fno-exceptions"))
    for name in ("dispatcher", "operator", "tensor", "tensor_call", "device")
]


def compile_text(compiler, include, text, standard):
    return subprocess.run(
        [compiler, *f"-std={standard}".split(), "-fsyntax-only", "-x", "c++", f"-I{include}", "-"],
        input=text,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def main():
    compiler, include = sys.argv[1:]
    problems = 0
    for wrong, right, message, standard in CASES:
        found = compile_text(compiler, include, wrong, standard)
        said = [line for line in found.stdout.splitlines() if "error:" in line]
        if found.returncode == 0 or message not in found.stdout:
            problems += 1
            print(f"expected '{message}', got:\n{found.stdout[:2000]}")
        if message in (NEEDS, THROWS) and (len(said) != 2 or "fatal" not in said[1]):
            problems += 1
            print("expected one line, got:\n" + "\n".join(said[:10]))
        twin = compile_text(compiler, include, right, "c++20")
        if twin.returncode != 0:
            problems += 1
            print(f"does not compile:\n{twin.stdout[:2000]}")
    print(f"{len(CASES)} cases, {problems} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
