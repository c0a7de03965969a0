"""What the tests of the tool's commands share: checks, trees of CPU kernels, and running every test of a script."""

import hashlib
import json
import os
import shutil
import time

_problems = []


def check(holds, description):
    """Notes what does not hold; the other checks go on."""
    if not holds:
        _problems.append(description)
        print("FAILED:", description)
    return holds


def make_root(root, blob, kernels):
    """A tree with one manifest of softmax: variants by id, with the kernel of the blob that each one runs."""
    folder = os.path.join(root, "kernels", "softmax", f"host-{os.uname().machine}")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(blob, os.path.join(folder, "k.so"))
    with open(blob, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    variants = [{"id": each, "type": {"dtype": "f32"},
                 "launches": [{"blob": "k.so", "sha256": digest, "kernel": "softmax_" + kernel, "grid": [1, 1, 1],
                               "block": [1, 1, 1],
                               "parameters": ["x", "out", {"i64": "rows"}, {"i64": "columns"}, "scale",
                                              {"i64": "x_stride_row"}, {"i64": "out_stride_row"}]}]}
                for each, kernel in kernels.items()]
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump({"schema": "switchyard.manifest/1", "operator": "softmax",
                   "target": {"backend": "host", "arch": os.uname().machine}, "variants": variants}, file)
    return root


def run_all(script, folder):
    """Runs the functions test_* of a script, given its globals(), in an empty folder. Whether a check failed."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    count = 0
    for name, test in sorted(script.items()):
        if name.startswith("test_"):
            count += 1
            begin = time.monotonic()
            test()
            print(f"{name}: {time.monotonic() - begin:.1f} s")
    print(f"{count} cases")
    return bool(_problems)
