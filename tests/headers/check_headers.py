"""Checks the rules of the include folder: every header is installed, and includes only its own and lower floors.

  check_headers.py INCLUDE_FOLDER CMAKE_LISTS FLOORS

floors.json names headers by their path below switchyard/ without the suffix, lowest floor first; `json` names
those that may see nlohmann_json, directly or not. A header that no pattern names is an error, so that a new one
gets a floor.
"""

import fnmatch
import json
import os
import re
import sys


def main():
    include, lists, floors_file = sys.argv[1:]
    with open(floors_file, encoding="utf-8") as file:
        data = json.load(file)
    root = os.path.join(include, "switchyard")
    headers = sorted(os.path.relpath(os.path.join(folder, name), root)
                     for folder, _, names in os.walk(root) for name in names if name != "README.md")
    problems = []

    with open(lists, encoding="utf-8") as file:
        listed = set(re.findall(r"include/switchyard/(\S+\.hpp)\b", file.read()))
    listed.discard("")
    for header in headers:
        if not header.endswith(".hpp"):
            problems.append(f"{header}: only .hpp files belong here")
        elif header not in listed:
            problems.append(f"{header}: not in the FILE_SET of CMakeLists.txt; add include/switchyard/{header}")
    for header in sorted(listed - set(headers)):
        problems.append(f"{header}: in the FILE_SET of CMakeLists.txt, and not on disk")

    def floor_of(name):
        exact = [index for index, patterns in enumerate(data["floors"]) if name in patterns]
        if exact:
            return exact[0]
        return next((index for index, patterns in enumerate(data["floors"])
                     if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)), None)

    included, sees_json = {}, set()
    for header in headers:
        name = header.removesuffix(".hpp")
        with open(os.path.join(root, header), encoding="utf-8") as file:
            text = file.read()
        if not re.search(r"^#pragma once$", text, re.MULTILINE):
            problems.append(f"{header}: no #pragma once")
        included[name] = re.findall(r'^\s*#\s*include\s*[<"]switchyard/([^>"]+)\.hpp[>"]', text, re.MULTILINE)
        if quoted := re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE):
            problems.append(f"{header}: includes {quoted[0]} in quotes; write <switchyard/...>")
        if re.search(r"^\s*#\s*include\s*<nlohmann/", text, re.MULTILINE):
            sees_json.add(name)
        if floor_of(name) is None:
            problems.append(f"{header}: has no floor; add it to {os.path.basename(floors_file)}")
    for name, others in included.items():
        floor = floor_of(name)
        for other in others:
            if other not in included:
                problems.append(f"{name}.hpp: includes switchyard/{other}.hpp, which does not exist")
            elif floor is not None and floor_of(other) is not None and floor_of(other) > floor:
                problems.append(f"{name}.hpp (floor {floor + 1}) includes {other}.hpp (floor {floor_of(other) + 1})")

    def reach(name, path):
        for other in included.get(name, []):
            if other in path:
                problems.append("include cycle: " + " -> ".join([*path[path.index(other):], other]))
                return False
            if other in sees_json or reach(other, [*path, other]):
                return True
        return name in sees_json

    for name in included:
        if reach(name, [name]) and not any(fnmatch.fnmatchcase(name, pattern) for pattern in data["json"]):
            problems.append(f"{name}.hpp: reaches nlohmann_json, and is not among those that may")
    for problem in dict.fromkeys(problems):
        print(problem)
    print(f"{len(headers)} headers, {len(set(problems))} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
