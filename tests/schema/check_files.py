# SPDX-License-Identifier: MIT
"""Validates JSON files by the schema they name.

  check_files.py SCHEMA_FOLDER FOLDER...

A file without a `schema` field, or with one of another kind, is no business of this test; a folder that does not
exist holds nothing. At least one file must have been checked. Of files with the same bytes, as tables and what a build
copies of them, one is validated.
"""

import json
import os
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: no python3-jsonschema")
    sys.exit(77)


def validators(folder):
    result = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schema)
        result[schema["properties"]["schema"]["const"]] = jsonschema.Draft202012Validator(schema)
    return result


def main():
    known = validators(sys.argv[1])
    checked, valid, problems = {}, set(), 0
    for root in sys.argv[2:]:
        for folder, _, names in os.walk(root):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if not name.endswith(".json") or os.path.samefile(folder, sys.argv[1]):
                    continue
                try:
                    with open(path, "rb") as file:
                        content = file.read()
                    data = json.loads(content.decode("utf-8"))
                except ValueError as error:
                    problems += 1
                    print(f"{path}: {error}")
                    continue
                validator = known.get(data.get("schema")) if isinstance(data, dict) else None
                if validator is None:
                    continue
                checked[data["schema"]] = checked.get(data["schema"], 0) + 1
                if content in valid:
                    continue
                before = problems
                for error in validator.iter_errors(data):
                    problems += 1
                    best = jsonschema.exceptions.best_match([error])
                    place = "/".join(str(part) for part in best.absolute_path)
                    print(f"{path}: /{place}: {best.message[:300]}")
                if problems == before:
                    valid.add(content)
    print(
        f"{sum(checked.values())} files checked:",
        ", ".join(f"{count} {schema}" for schema, count in sorted(checked.items())),
        f"{problems} problems",
    )
    return 1 if problems or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
