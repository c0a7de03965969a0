# SPDX-License-Identifier: MIT
"""The one-line examples of dispatcher, catalog and tensor compile, and each public function has one.

check_examples.py COMPILER INCLUDE_FOLDER

An example is a comment line "///     code". An overload that follows without a comment shares the one before it.
"""

import os
import re
import subprocess
import sys

# What the examples of each header name.
SCOPES = {
    "catalog.hpp": """
      catalog& files, std::uint64_t generation_of_graph, void (*capture)(), const problem_of<softmax>& problem""",
    "dispatcher.hpp": """
      switchyard::catalog& catalog, dispatcher<softmax>& run, switchyard::stream stream, const tensor& x, const tensor& out,
      void* workspace, std::size_t bytes""",
    "tensor.hpp": """
      void* data, std::int64_t rows, std::int64_t columns, std::vector<float>& values, std::vector<float>& weights,
      managed_tensor* managed, std::span<const std::int64_t> extents, const const_tensor& x, const const_tensor& y,
      const const_tensor& gamma""",
}
PRELUDE = """
#include <cstdio>
#include <string>
#include <vector>
#include <switchyard/observing/prometheus.hpp>
#include <switchyard/switchyard.hpp>
using namespace switchyard;
using namespace switchyard::operators;
struct managed_tensor {
  struct {
    void* data; int ndim; std::int64_t *shape, *strides; std::uint64_t byte_offset; struct { int code, bits, lanes; } dtype;
  } dl_tensor;
};
"""
# Not called by engines, or what a class of its shape has anyway.
NEEDS_NONE = re.compile(
    r"(const catalog&)|~|\boverride\b|operator=|const_tensor\(\) = default|^ *(struct|using|template|class|requires)\b"
)
FUNCTION = re.compile(
    r"^  (?:\[\[|constexpr|explicit|template|void|static|std::|dispatcher\(|catalog\(|reload_report|[a-z_]+\()"
)


def public_part(text, name):
    """The lines of the class's public part."""
    start = re.search(rf"^class {name}\b[^;]*?{{\n public:\n", text, re.MULTILINE)
    return text[start.end() : re.compile(r"^ (?:private|protected):", re.MULTILINE).search(text, start.end()).start()]


def without_example(part):
    """Functions whose comment has no example."""
    out = []
    comment, is_inside, has_example = False, False, False
    lines = part.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("  ///"):
            if not comment:
                has_example = False
            comment = True
            has_example = has_example or line.startswith("  ///     ")
        elif not line.strip():
            comment, is_inside, has_example = False, False, False
        else:
            comment = False
            declaration = re.split(r"[;{]", " ".join(lines[number : number + 6]))[0]
            if not is_inside and FUNCTION.match(line) and not NEEDS_NONE.search(declaration) and not has_example:
                out.append(line.strip())
            is_inside = line.startswith("   ") or (is_inside and line.strip() != "}")
    return out


def statement(code):
    if code.rstrip().endswith((";", "}")) or code.startswith("for "):
        return code
    return f"static_cast<void>({code});"


def main():
    compiler, include = sys.argv[1:]
    program = [PRELUDE]
    failed = 0
    count = 0
    for header, scope in SCOPES.items():
        with open(os.path.join(include, "switchyard", header), encoding="utf-8") as file:
            text = file.read()
        examples = re.findall(r"^ *///     (\S.*)$", text, re.MULTILINE)
        count += len(examples)
        body = "\n".join(f"  {{ {statement(example)} }}" for example in examples)
        program.append(f"void of_{header.split('.')[0]}({scope}) {{\n{body}\n}}")
        for name in {"tensor.hpp": ["const_tensor"]}.get(header, [header.split(".")[0]]):
            for function in without_example(public_part(text, name)):
                print(f"FAILED {header}: no example of {function}")
                failed += 1
    done = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", "-w", "-DSWITCHYARD_COMPILED", f"-I{include}", "-x", "c++", "-"],
        input="\n".join(program),
        text=True,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        print(done.stderr)
        failed += 1
    print(f"{count} checks, {failed} failed")
    return failed != 0 or count == 0


if __name__ == "__main__":
    sys.exit(main())
