"""What README says of files and codes is what they are.   test_readme.py SOURCE_FOLDER [ENGINE ROOT]

With the program and a root of kernels also that the example prints what README says it does.
"""

import json
import os
import re
import sys

from invented import Checks, run


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def main():
    source, *engine = sys.argv[1:]
    readme = read(source, "README.md")
    checks = Checks()

    examples = re.findall(r"<!-- example: (\S+) -->\n```cpp\n(.*?)```", readme, re.DOTALL)
    checks.that(examples, "README has an example")
    for path, text in examples:
        checks.equal(text, read(source, path), f"{path} as README shows it")

    for text in re.findall(r"```json\n(.*?)```", readme, re.DOTALL):
        found = json.loads(text)
        checks.that(found["schema"] in ("switchyard.manifest/1", "switchyard.table/1"), f"schema of {text}")

    if engine:
        block = readme.split("It prints (lines folded here):\n\n")[1].split("\n\n")[0]
        shown = re.sub(r"\n {8}", " ", block).replace("\n    ", "\n").strip()
        status, out, _ = run(engine[0], SWITCHYARD_PATH=engine[1])
        checks.equal(status, 0, "status of the example")

        def without_device(text):
            return re.sub(r" on .* \(host \w+\): \w+ \{.*?\} \[host \w+\]", " on a device", text)

        checks.that("on a device" in without_device(out), "the example explains its choice")
        checks.equal(without_device(shown), without_device(out.strip()), "README's output of the example")

    header = read(source, "include/switchyard/error.hpp")
    codes = re.findall(r"^  (\w+) = (\d+),$", header, re.MULTILINE)
    checks.that(len(codes) > 20, "error.hpp has codes")
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \| (.+?) \| (.+?) \|$", readme, re.MULTILINE)
    checks.equal(sorted((name, number) for number, name, _, _ in rows), sorted(codes), "the error table's codes")

    environment = read(source, "include/switchyard/observing/environment.hpp")
    variables = set(re.findall(r'get\("(SWITCHYARD_\w+)"\)', environment))
    checks.that(len(variables) >= 6, "environment.hpp reads variables")
    checks.equal(set(re.findall(r"^\| `(SWITCHYARD_\w+)` \|", readme, re.MULTILINE)), variables, "the environment table")

    for target in re.findall(r"\]\(([^)#]+)\)", readme):
        checks.that(os.path.exists(os.path.join(source, target)), f"README links to {target}, which does not exist")

    floors = read(source, "include/switchyard/README.md")
    for folder, _, names in os.walk(os.path.join(source, "include/switchyard")):
        for name in names:
            inside = os.path.relpath(os.path.join(folder, name), os.path.join(source, "include/switchyard"))
            stem = inside.split("/")[0] + "/" if "/" in inside else inside.removesuffix(".hpp")
            checks.that(name == "README.md" or f"`{stem}`" in floors, f"include/switchyard/README.md leaves out {stem}")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
