# SPDX-License-Identifier: MIT
"""The binary interface of libswitchyard: its symbols, their versions, and the types of the versions before.

  test_abi.py LIBRARY MAP HEADER RELEASED CC

The library exports what the linker's version script MAP lists, each symbol with its version, and nothing else; MAP
lists what HEADER declares. abidiff (Debian: abigail-tools), where it is installed, compares the types of HEADER with
those of each header in RELEASED, the versions before: a program that was compiled with one of them must find its
functions and structs unchanged. Neither compares bodies, so the functions here are empty.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from invented import Checks

INCOMPATIBLE = 8  # a bit of abidiff's exit status


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def declared(header):
    """Functions of the header: name to its declaration, without the semicolon."""
    found = re.findall(r"^SWITCHYARD_API ([^;{]*?\b(switchyard_\w+)\([^;{]*\));", header, re.MULTILINE)
    return {name: declaration for declaration, name in found}


def listed(script):
    """Symbols of a version script: name to version."""
    out = {}
    for version, content in re.findall(r"^(SWITCHYARD_[\d.]+) \{(.*?)^\}", script, re.MULTILINE | re.DOTALL):
        for name in re.findall(r"^ *(switchyard_\w+);$", content, re.MULTILINE):
            out[name] = version
    return out


def exported(library):
    """Dynamic symbols that a library defines: name to version."""
    text = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True, text=True,
                          stdout=subprocess.PIPE).stdout  # fmt: skip
    out = {}
    for line in text.splitlines():
        name, _, version = line.split()[-1].partition("@")
        if line.split()[-2] != "A":  # the versions themselves
            out[name] = version.lstrip("@")
    return out


def build(header, name, folder, compiler):
    """A library of empty functions with the header's types; its path."""
    bodies = "".join(f"{text} {{ __builtin_trap(); }}\n" for text in declared(header).values())
    source = os.path.join(folder, f"{name}.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(header.replace("#pragma once", "") + bodies)
    out = os.path.join(folder, f"{name}.so")
    subprocess.run([compiler, "-x", "c", "-std=c11", "-g", "-O0", "-fno-eliminate-unused-debug-types", "-shared", "-fPIC",
                    "-w", source, "-o", out], check=True)  # fmt: skip
    return out


def breaks(before, after, folder, compiler):
    """What abidiff says where programs compiled with the header `before` would not run with `after`; else empty."""
    libraries = [build(before, "before", folder, compiler), build(after, "after", folder, compiler)]
    done = subprocess.run(["abidiff", *libraries], text=True, stdout=subprocess.PIPE, check=False)
    if done.returncode & 3:
        raise RuntimeError(f"abidiff ends with {done.returncode}: {done.stdout}")
    # abidiff calls these only possibly incompatible. A struct may grow at its end.
    moved = re.search(r"name changed from|offset changed|entity changed|deletion", done.stdout)
    return done.stdout if done.returncode & INCOMPATIBLE or moved else ""


def enumerators(header):
    """Of anonymous enums, which abidiff does not see: name to value."""
    return dict(re.findall(r"^ *(SWITCHYARD_\w+) = (\d+)", header, re.MULTILINE))


def main():
    library, script, header_path, released, compiler = sys.argv[1:]
    checks = Checks()
    header, versions = read(header_path), listed(read(script))
    checks.equal(sorted(versions), sorted(declared(header)), "the version script lists what the header declares")
    checks.equal(exported(library), versions, "the library exports what the version script lists")

    before = {name: read(os.path.join(released, name)) for name in sorted(os.listdir(released))}
    for name, old in before.items():
        checks.equal(enumerators(old).items() - enumerators(header).items(), set(), f"enumerators of {name} that changed")
        checks.equal(declared(old).keys() - declared(header).keys(), set(), f"functions of {name} that are gone")
    if shutil.which("abidiff") is None:
        print("abidiff is not installed (Debian: abigail-tools): types are not compared")
        return checks.finish()
    with tempfile.TemporaryDirectory() as folder:
        for name, old in before.items():
            checks.equal(breaks(old, header, folder, compiler), "", f"what changed since {name}")
        # What the comparison must find, and what it must let pass.
        plain = re.sub(r"SWITCHYARD_C_ASSERT\(sizeof.*?\);", "", header, flags=re.DOTALL)
        unseal = "SWITCHYARD_API int switchyard_unseal(switchyard_catalog* catalog);"
        for what, broken, old, new in (
            ("a field that moves", True, "void* data;", "int64_t more;\n  void* data;"),
            ("a field's type", True, "double real;", "int64_t real;"),
            ("a parameter's type", True, "uint64_t milliseconds);", "uint32_t milliseconds);"),
            ("a function that goes", True, unseal, ""),
            ("a function that comes", False, unseal, f"{unseal}\nSWITCHYARD_API int switchyard_new(void);"),
            ("a field at the end", False, "\n} switchyard_argument;", "\n  int64_t more;\n} switchyard_argument;"),
        ):
            checks.that(old in plain, f"{what}: {old!r} is not in the header")
            found = breaks(plain, plain.replace(old, new), folder, compiler)
            checks.equal(bool(found), broken, f"{what} is refused {found}")
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
