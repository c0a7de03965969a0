# SPDX-License-Identifier: MIT
"""Holds what including a header costs: preprocessed lines, headers of others read, and no nlohmann_json.

compile_cost.py COMPILER INCLUDE_FOLDER HEADER MAX_LINES MAX_HEADERS
"""

import subprocess
import sys


def preprocess(compiler, include, header, *options):
    return subprocess.run(
        [compiler, "-std=c++20", "-x", "c++", f"-I{include}", *options, "-"],
        check=True,
        text=True,
        input=f"#include <switchyard/{header}>\n",
        stdout=subprocess.PIPE,
    ).stdout


def main():
    compiler, include, header, max_lines, max_headers = sys.argv[1:]
    lines = preprocess(compiler, include, header, "-E", "-P").count("\n")
    read = [word for word in preprocess(compiler, include, header, "-M").replace("\\\n", " ").split()[1:] if word != "-"]
    others = [name for name in read if not name.startswith(include)]
    json = [name for name in read if "nlohmann" in name]
    print(f"{lines} lines of {header} (at most {max_lines}), {len(others)} headers of others (at most {max_headers})")
    if json:
        print(f"reads nlohmann_json: {json[0]}")
    return bool(json) or lines > int(max_lines) or len(others) > int(max_headers)


if __name__ == "__main__":
    sys.exit(main())
