# SPDX-License-Identifier: MIT
"""README.md and the guides against the code.   test_readme.py SOURCE_FOLDER [FIRST_CALL ROOT]

Examples, outputs, links, error codes, environment variables and JSON in the documents must be those of the code. With
the program of the first example and a root of kernels, also the debug output that README.md shows.

  test_readme.py --write SOURCE_FOLDER    copies the example and its output into README.md
"""

import json
import os
import re
import subprocess
import sys
import textwrap

from invented import Checks
from test_example import normalise

DOCUMENTS = [
    "README.md",
    ".github/CONTRIBUTING.md",
    ".github/CHANGELOG.md",
    ".github/VERSIONS.md",
    "cmake/README.md",
    "examples/README.md",
    "examples/ggml/README.md",
    "examples/llm/README.md",
    "examples/switchyard/README.md",
    "examples/torch/README.md",
    "include/switchyard/README.md",
    "kernels/README.md",
    "kernels/matmul/NOTES.md",
    "tables/README.md",
    "tests/README.md",
    "tests/benchmarks/README.md",
]
MAX_WORDS = 1200  # of README.md
EXAMPLE = re.compile(r"(<!-- example: (\S+) -->\n```cpp\n)(.*?)(```)", re.DOTALL)
OUTPUT = re.compile(r"(<!-- output: (\S+) -->\n\n)((?:    .*\n)*)")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def example(source, path):
    """An example as README.md shows it: without its licence."""
    return read(source, path).removeprefix("// SPDX-License-Identifier: MIT\n")


def fold(text):
    """Indented as Markdown's literal text, long lines folded."""
    lines = [
        textwrap.wrap(line, 112, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
        for line in text.splitlines()
    ]
    return "".join(f"    {line}\n" for part in lines for line in part)


def unfold(text):
    return re.sub(r"\n {8}", " ", text.rstrip("\n")).replace("\n    ", "\n").strip()


def anchors(text):
    """The anchors that GitHub gives to the headings of a document."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", plain, re.MULTILINE)
    }


def check_links(checks, source):
    for document in DOCUMENTS:
        text = read(source, document)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+://", target):
                continue
            path, _, anchor = target.partition("#")
            path = (
                os.path.normpath(os.path.join(source, os.path.dirname(document), path))
                if path
                else os.path.join(source, document)
            )
            exists = os.path.exists(path)
            checks.that(exists, f"{document} links to {target}, which does not exist")
            if exists and anchor:
                checks.that(anchor in anchors(read(path)), f"{document} links to {target}: no such heading")


def write(source):
    readme = read(source, "README.md")
    readme = EXAMPLE.sub(lambda found: found[1] + example(source, found[2]) + found[4], readme)
    readme = OUTPUT.sub(lambda found: found[1] + fold(read(source, found[2])), readme)
    with open(os.path.join(source, "README.md"), "w", encoding="utf-8") as file:
        file.write(readme)


def main():
    if sys.argv[1] == "--write":
        return write(sys.argv[2])
    source, *first_call = sys.argv[1:]
    readme = read(source, "README.md")
    guide = read(source, "include/switchyard/README.md")
    checks = Checks()

    checks.that(len(readme.split()) <= MAX_WORDS, f"README.md has {len(readme.split())} words, more than {MAX_WORDS}")
    examples = EXAMPLE.findall(readme)
    checks.that(examples, "README.md has an example")
    for _, path, text, _ in examples:
        checks.equal(text, example(source, path), f"{path} as README.md shows it (update with --write)")
    outputs = OUTPUT.findall(readme)
    checks.that(outputs, "README.md shows an output")
    for _, path, text in outputs:
        checks.equal(text, fold(read(source, path)), f"{path} as README.md shows it (update with --write)")

    if first_call:
        program, root = first_call
        shown = unfold(readme.split("<!-- debug -->\n\n")[1].split("\n\n")[0])
        done = subprocess.run(
            [program],
            env={"SWITCHYARD_PATH": root, "SWITCHYARD_DEBUG": "1"},
            text=True,
            capture_output=True,
            timeout=100,
            check=False,
        )
        checks.equal(done.returncode, 0, "exit status of the first example")
        checks.equal(
            [normalise(line) for line in shown.splitlines()],
            [normalise(line) for line in done.stderr.splitlines()],
            "the debug output in README.md",
        )

    for document in DOCUMENTS:
        for text in re.findall(r"```json\n(.*?)```", read(source, document), re.DOTALL):
            found = json.loads(text)
            checks.that(
                found["schema"] in ("switchyard.manifest/1", "switchyard.table/1", "switchyard.space/1"),
                f"{document}: schema of {text}",
            )
    check_links(checks, source)

    header = read(source, "include/switchyard/error.hpp")
    codes = re.findall(r"^  (\w+) = (\d+),$", header, re.MULTILINE)
    checks.that(len(codes) > 20, "error.hpp has codes")
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \| (.+?) \| (.+?) \|$", guide, re.MULTILINE)
    checks.equal(sorted((name, number) for number, name, _, _ in rows), sorted(codes), "the table of error codes")
    samples = re.findall(r"^    \[switchyard\.(\d+)\] ", guide, re.MULTILINE)
    checks.equal(samples, sorted(number for _, number in codes), "a sample message for each error code, in their order")

    environment = read(source, "include/switchyard/observing/environment.hpp") + read(
        source, "include/switchyard/observing/environment_impl.hpp"
    )
    variables = set(re.findall(r'get\("(SWITCHYARD_\w+)"\)', environment))
    checks.that(len(variables) >= 6, "environment.hpp reads variables")
    checks.equal(
        set(re.findall(r"^\| `(SWITCHYARD_\w+)` \|", guide, re.MULTILINE)), variables, "the table of environment variables"
    )

    course = read(source, "examples/README.md")
    for name in sorted(os.listdir(os.path.join(source, "examples"))):
        if os.path.isdir(os.path.join(source, "examples", name)):
            checks.that(
                f"]({name})" in course or f"]({name}/README.md)" in course, f"examples/README.md does not link to {name}"
            )

    for folder, _, names in os.walk(os.path.join(source, "include/switchyard")):
        for name in names:
            inside = os.path.relpath(os.path.join(folder, name), os.path.join(source, "include/switchyard"))
            stem = (
                inside.split("/")[0] + "/"
                if "/" in inside
                else inside.removesuffix(".hpp").removesuffix(".h").removesuffix("_impl")
            )
            checks.that(name == "README.md" or f"`{stem}`" in guide, f"include/switchyard/README.md omits {stem}")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
