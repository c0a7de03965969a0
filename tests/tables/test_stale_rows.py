# SPDX-License-Identifier: MIT
"""Rows follow kernels.   test_stale_rows.py SOURCE [ROOT]     test_stale_rows.py SOURCE --accept [KERNEL...]

SOURCE is the project's folder. tables/kernels.json holds, for every kernel of the target that the tables were measured
with, a digest of what its blobs are compiled from. A kernel that changed fails this test until its rows were measured
again (`switchyard tune --refresh TABLE --stale`) and the digest was accepted, or until it is listed under `pending`, with a
date, a reason, and the device whose rows are meant, if it is one. --accept writes today's digests: of the KERNELs named, or
of all. Comments and layout do not count, nor where a file lies.

ROOT has kernels that were built, of the full set (blobs of a smaller one hold fewer kernels): rows whose times are of
other blobs are stale, and only kernels that are pending may have them.
"""

import collections
import datetime
import glob
import hashlib
import io
import json
import os
import re
import sys
import tokenize

SOURCE = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(SOURCE, "cmake"))
sys.dont_write_bytecode = True

from kernel_tools.space import expand

TARGET = "cuda-sm_90a"
RECORD = os.path.join(SOURCE, "tables", "kernels.json")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"].*$', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
IMPORT = re.compile(r"^from (\w+) import|^import (\w+)", re.MULTILINE)


def digest_of(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def python_words(text):
    """The tokens of a Python file but comments, documentation and line ends within expressions."""
    out, at_start, in_documentation = [], True, False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.NL):
            continue
        is_layout = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
        if at_start and token.type == tokenize.STRING:
            in_documentation = True
        elif token.type == tokenize.NEWLINE and in_documentation:
            in_documentation = False
        elif not in_documentation:
            out.append(tokenize.tok_name[token.type] if is_layout else token.string)
        at_start = is_layout
    return out


class Files:
    """What source files say, with the files of this project that they include."""

    def __init__(self):
        self.known = {}

    def content(self, path, folders):
        key = (path, tuple(folders))
        if key not in self.known:
            self.known[key] = ""  # for files that include each other
            with open(path, encoding="utf-8") as file:
                text = file.read()
            is_python = path.endswith(".py")
            names = [a or b for a, b in IMPORT.findall(text)] if is_python else INCLUDE.findall(COMMENT.sub(" ", text))
            words = python_words(text) if is_python else INCLUDE.sub("", COMMENT.sub(" ", text)).split()
            parts = [" ".join(words)]
            for name in names:
                for folder in (os.path.dirname(path), *folders):
                    found = os.path.join(folder, name + ".py" if is_python else name)
                    if os.path.isfile(found):
                        parts.append(self.content(os.path.normpath(found), folders))
                        break
            self.known[key] = "\n".join(parts)
        return self.known[key]


def kernels(spaces):
    """Digests by (operator, kernel), where a kernel is what one set of sources is compiled into; and which kernel each blob
    is of."""
    files, found = Files(), collections.defaultdict(dict)
    for plan in expand(spaces, None, [TARGET])[0]:
        for blob in plan["blobs"]:
            sources = blob.get("sources") or [blob["source"]]
            folders = [*blob.get("include", []), os.path.join(SOURCE, "include")]
            made_of = {key: value for key, value in blob.items() if key not in ("sources", "source", "include", "requires")}
            text = json.dumps(made_of, sort_keys=True) + "".join(
                files.content(os.path.normpath(source), folders) for source in sources
            )
            found[plan["operator"], tuple(map(os.path.basename, sources))][blob["file"]] = digest_of(text)
    joined = collections.defaultdict(dict)  # sources whose blobs have names of one kind are one kernel
    for (operator, _), blobs in found.items():
        stems = [os.path.splitext(name)[0] for name in blobs]
        name = os.path.commonprefix(stems) if len(stems) > 1 else stems[0]
        joined[f"{operator}/{name.rstrip('_')}"].update(blobs)
    digests = {name: digest_of(json.dumps(blobs, sort_keys=True)) for name, blobs in joined.items()}
    kernel_of = {(name.partition("/")[0], file): name for name, blobs in joined.items() for file in blobs}
    return digests, kernel_of


def stale_times(root, tables, kernel_of, toolchains):
    """How many times of each kernel, on each device, are of other blobs than those of ROOT. Another compiler's blobs tell
    nothing."""
    out = collections.Counter()
    for path in tables:
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
        manifest = os.path.join(root, "kernels", table["operator"], TARGET, "manifest.json")
        if not os.path.exists(manifest):
            continue
        with open(manifest, encoding="utf-8") as file:
            built = json.load(file)
        if not set(re.findall(r"(?:nvcc|triton) [\d.]+", built.get("built_by", ""))) <= set(toolchains):
            print(f"not compared: {manifest} is of {built['built_by']}, the tables of {', '.join(toolchains)}")
            continue
        variants = collections.defaultdict(list)
        for variant in built["variants"]:
            like = built.get("shared", {})
            launches = [
                {**like.get(launch.get("like"), {}), **launch}
                for launch in variant.get("launches") or like[variant["like"]]["launches"]
            ]
            launches = [launch for launch in launches if "blob" in launch]
            variants[variant["id"]].append(
                (variant.get("type", {}), "".join(launch["sha256"][:16] for launch in launches), launches[0]["blob"])
            )
        for group in table["groups"]:
            for name, measured in group.get("blobs", {}).items():
                meant = [
                    (now, blob)
                    for type_, now, blob in variants.get(name, ())
                    if all(group["type"].get(axis, value) == value for axis, value in type_.items())
                ]
                if meant and all(now != measured for now, _ in meant):
                    times = sum(name in row.get("times_us", ()) for row in group["rows"])
                    kernel = kernel_of.get((table["operator"], meant[0][1]), table["operator"])
                    out[kernel, table["device"].get("name", "")] += times
    return out


def find_failures(record, digests, stale, today):
    """What is wrong, as sentences."""
    out, pending = [], set()  # of (kernel, device); without a device, it is on all of them
    for entry in record["pending"]:
        name = entry.get("kernel")
        try:
            since = datetime.date.fromisoformat(entry.get("since", ""))
        except ValueError:
            out.append(f"pending {name}: 'since' is no date such as 2026-11-26")
            continue
        if since > today:
            out.append(f"pending {name}: since {since}, which is to come")
        if not entry.get("reason"):
            out.append(f"pending {name}: no reason is given")
        if name not in digests:
            out.append(f"pending {name}: no such kernel; remove the entry")
        pending.add((name, entry.get("device")))
    for name, digest in sorted(digests.items()):
        if record["measured"].get(name) != digest and name not in {kernel for kernel, _ in pending}:
            out.append(
                f"{name} has changed since its rows were measured. Build it, measure the rows that `switchyard check` "
                f"calls stale (`switchyard tune --refresh tables/{name.split('/')[0]}/DEVICE.json --stale`), then pass "
                f"--accept {name}; or list it under 'pending' of tables/kernels.json"
            )
    for name in sorted(set(record["measured"]) - set(digests)):
        out.append(f"{name} is gone; pass --accept {name}")
    for (name, device), times in sorted(stale.items()):
        if times and not {(name, device), (name, None)} & pending:
            out.append(
                f"{times} times of {name} on {device} are of another build of it: measure them again with `switchyard tune "
                f"--refresh tables/{name.split('/')[0]}/DEVICE.json --stale`, or list it under 'pending'"
            )
    return out


def check_rules():
    """Each rule refuses what it is for."""
    today = datetime.date(2026, 11, 26)

    def failures(measured=None, pending=(), stale=None):
        return find_failures(
            {"measured": measured or {"op/a": "1"}, "pending": list(pending)}, {"op/a": "1"}, stale or {}, today
        )

    assert failures() == []
    assert "op/a has changed" in failures({"op/a": "2"})[0]
    assert "op/a has changed" in failures({"op/b": "1"})[0] and "op/b is gone" in failures({"op/b": "1"})[1]
    entry = {"kernel": "op/a", "since": "2026-11-25", "reason": "of a test"}
    stale = {("op/a", "A card"): 3}
    assert failures({"op/a": "2"}, [entry]) == [] and failures(stale=stale, pending=[entry]) == []
    assert failures(stale=stale, pending=[{**entry, "device": "A card"}]) == []
    for pending in ([], [{**entry, "device": "Another"}]):
        assert "3 times of op/a on A card are of another build" in failures(stale=stale, pending=pending)[0]
    assert "no date" in failures({"op/a": "2"}, [{**entry, "since": "soon"}])[0]
    assert "to come" in failures({"op/a": "2"}, [{**entry, "since": "2026-11-27"}])[0]
    assert "no reason" in failures({"op/a": "2"}, [{**entry, "reason": ""}])[0]
    assert "no such kernel" in failures(pending=[{**entry, "kernel": "op/c"}])[0]
    assert (
        python_words('"""About."""\nx = (1,  # one\n     "two")\n')
        == python_words('x = (1, "two")\n')
        != python_words("x = (1,)\n")
    )


def main():
    words = sys.argv[2:]
    check_rules()
    spaces = [
        path
        for path in sorted(glob.glob(os.path.join(SOURCE, "kernels", "*", "*.json")))
        if not path.endswith((".host.json", ".hip.json"))
    ]
    digests, kernel_of = kernels(spaces)
    with open(RECORD, encoding="utf-8") as file:
        record = json.load(file)
    if "--accept" in words:
        names = [word for word in words if word != "--accept"] or sorted(set(digests) | set(record["measured"]))
        for name in names:
            if name in digests:
                record["measured"][name] = digests[name]
            elif record["measured"].pop(name, None) is None:
                sys.exit(f"no kernel {name}; there are {', '.join(sorted(digests))}")
        record["measured"] = dict(sorted(record["measured"].items()))
        with open(RECORD, "w", encoding="utf-8") as file:
            file.write(json.dumps(record, indent=1) + "\n")
        return 0
    tables = [path for path in sorted(glob.glob(os.path.join(SOURCE, "tables", "*", "nvidia-*.json")))]
    stale = stale_times(words[0], tables, kernel_of, record["toolchains"]) if words else {}
    failures = find_failures(record, digests, stale, datetime.date.today())
    for failure in failures:
        print("FAILED:", failure)
    print(
        f"{len(digests)} kernels of {len(kernel_of)} blobs, {len(record['pending'])} pending, {sum(stale.values())} stale times, "
        f"{len(failures)} failed"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
