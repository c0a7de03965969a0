# SPDX-License-Identifier: MIT
"""The schemas accept a complete file of each kind and reject it after each of many single damages."""

import copy
import sys

try:
    import jsonschema  # noqa: F401 (check_files needs it)
except ImportError:
    print("skipped: no python3-jsonschema")
    sys.exit(77)

from check_files import validators

HASH = "0" * 64
LAUNCH = {
    "blob": "a.cubin",
    "sha256": HASH,
    "kernel": "k",
    "grid": ["ceil_div(n, tile)", 1, 1],
    "block": [128, 1, 1],
    "shared_bytes": "4 * tile",
    "cluster": [2, 1, 1],
    "cooperative": False,
    "programmatic_dependent_launch": True,
    "parameters": [
        "x",
        "w[2]",
        {"i32": "n"},
        {"f32": "scale * log2e"},
        {"pointer": "x + 4 * n"},
        {"null": 8},
        {"struct": ["x", {"u8": 1}], "align": 8},
        {
            "tensor_map": {
                "of": "k",
                "dtype": "f16",
                "extents": [64, "n"],
                "strides": [128],
                "box": [64, 64],
                "swizzle": "128B",
                "l2_promotion": "256B",
                "interleave": "none",
                "fill": "zeros",
                "element_strides": [1, "step"],
            }
        },
    ],
}
GOOD = {
    "switchyard.manifest/1": {
        "schema": "switchyard.manifest/1",
        "operator": "axpy",
        "target": {"backend": "cuda", "arch": "sm_90a"},
        "built_by": "x",
        "note": "unknown fields are allowed",
        "variants": [
            {
                "id": "a",
                "type": {"dtype": "f16", "causal": True, "head_dim": 64},
                "config": {"tile": 4, "fast": True},
                "cost_ns": "1000 + n",
                "requires": ["n > 0"],
                "workspace": {"partial": "4 * n"},
                "launches": [{"fill": "partial", "byte": 0}, LAUNCH],
            }
        ],
    },
    "switchyard.table/1": {
        "schema": "switchyard.table/1",
        "operator": "axpy",
        "device": {
            "backend": "cuda",
            "arch": "sm_90",
            "name": "NVIDIA H200",
            "multiprocessors": 132,
            "memory_bandwidth": 4.8e12,
        },
        "measured": {
            "date": "2026-11-22",
            "tool": "x 1",
            "driver": 12080,
            "rows": 2,
            "runs": 2,
            "statistic": "median",
            "samples": {"least": 5, "most": 15},
            "precision": 0.01,
            "drift": 0.03,
            "cache": {"state": "rotating", "bytes": 1},
            "clocks": {"mhz": {"least": 1, "most": 2}, "limited_by": ["power", "temperature"]},
            "checks": {"reference": "f64", "whole": 1, "rows": 0, "smaller": 3},
            "merged": {"tables": 2, "repeated_rows": 1, "conflict": "newest"},
            "note": "x",
            "laser": {"colour": "red"},
            "before": [{"driver": "580", "rows": "7", "clocks": "1980 MHz", "checked": "text", "repeat": "text"}],
        },
        "match": {"n": "log", "m": "exact", "k": "linear"},
        "neighbours": 4,
        "envelope": 1.5,
        "deny": [{"variant": "b", "reason": "wrong at n = 0", "type": {"dtype": "f16"}}],
        "pin": [
            {"variant": "a", "type": {"dtype": "f16"}, "at": {"n": [1, 64], "m": 3}, "reason": "latency"},
            {"variant": "a", "at": {"n": 3}},
        ],
        "blobs": {"a": HASH},
        "note": 1,
        "groups": [
            {
                "type": {"dtype": "f16"},
                "axes": ["n", "m"],
                "blobs": {"a": HASH},
                "rows": [{"at": [4, 48], "times_us": {"a": 41.2, "b": 60}, "hash": "x"}],
            }
        ],
    },
    "switchyard.space/1": {
        "schema": "switchyard.space/1",
        "operator": "axpy",
        "targets": ["cuda-sm_90a", {"name": "cuda-sm_80", "smem": 1}],
        "maps": {"bytes": {"f16": 2}},
        "define": {"p": ["x"], "a_rule": {"id": "a_{tile}_{stages}", "launches": []}, "a_blob": {"toolchain": "nvcc"}},
        "blobs": {
            "a": {"toolchain": "nvcc", "name": "a_{tile}", "sources": ["a.cu"], "flags": [{"if": "tile == 1", "then": ["-x"]}]},
            "t": {"toolchain": "triton", "name": "t", "source": "t.py", "function": "f", "signature": {"x": "*fp16"}},
            "u": {"use": "a_blob", "name": "u", "sources": ["a.cu"]},
        },
        "variants": [
            {
                "type": {"dtype": ["f16"]},
                "config": [{"tile": [1, 2]}],
                "id": "a_{tile}",
                "cost_ns": ["n", {"use": "p"}],
                "launches": [{"blob": "a", "kernel": "k", "grid": [1, 1, 1], "parameters": [{"use": "p"}]}],
            },
            {"use": ["a_rule"], "config": [["tile", "stages"], [1, 2], [2, 3]]},
        ],
        "cost_ns": {"cuda-sm_80": {"a_1": [1000, 2.5]}},
        "sets": {"ci": {"where": ["tile == 1"]}},
    },
}
DELETE = object()
BAD = [
    ("switchyard.manifest/1", ["schema"], "switchyard.manifest/2"),
    ("switchyard.manifest/1", ["operator"], DELETE),
    ("switchyard.manifest/1", ["target", "backend"], "metal"),
    ("switchyard.manifest/1", ["target", "arch"], "gfx942"),
    ("switchyard.manifest/1", ["variants", 0, "id"], ""),
    ("switchyard.manifest/1", ["variants", 0, "type", "dtype"], 1.5),
    ("switchyard.manifest/1", ["variants", 0, "config", "tile"], "four"),
    ("switchyard.manifest/1", ["variants", 0, "requires"], "n > 0"),
    ("switchyard.manifest/1", ["variants", 0, "launches"], []),
    ("switchyard.manifest/1", ["variants", 0, "launches", 0, "byte"], 256),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "blob"], "../a.cubin"),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "sha256"], "abc"),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "grid"], [1, 1]),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "block", 0], 1.5),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "kernel"], DELETE),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "parameters", 0], 3),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "parameters", 2], {"i128": "n"}),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "parameters", 5], {"null": 0}),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "parameters", 6, "struct"], []),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "parameters", 7, "tensor_map", "swizzle"], "256B"),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "parameters", 7, "tensor_map", "box"], DELETE),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "parameters", 7, "tensor_map", "dtype"], "e4m3"),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "parameters", 7, "tensor_map", "interleave"], "64B"),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "parameters", 7, "tensor_map", "fill"], "zero"),
    ("switchyard.table/1", ["device", "name"], ""),
    ("switchyard.table/1", ["other_devices"], "no"),
    ("switchyard.table/1", ["measured", "date"], "22 Nov 2026"),
    ("switchyard.table/1", ["measured", "samples"], {"least": 5}),
    ("switchyard.table/1", ["measured", "precision"], "1 %"),
    ("switchyard.table/1", ["measured", "cache"], "rotating"),
    ("switchyard.table/1", ["measured", "clocks", "limited_by"], ["sun"]),
    ("switchyard.table/1", ["measured", "checks", "whole"], -1),
    ("switchyard.table/1", ["measured", "before", 0, "rows"], "many"),
    ("switchyard.table/1", ["groups", 0, "measured_with"], {"dtype": []}),
    ("switchyard.table/1", ["match", "n"], "cubic"),
    ("switchyard.table/1", ["neighbours"], 0),
    ("switchyard.table/1", ["envelope"], "far"),
    ("switchyard.table/1", ["deny", 0, "reason"], DELETE),
    ("switchyard.table/1", ["pin", 0, "at", "n"], [1, 2, 3]),
    ("switchyard.table/1", ["groups", 0, "axes"], ["n", "n"]),
    ("switchyard.table/1", ["groups", 0, "axes"], ["n", "w[0]"]),
    ("switchyard.table/1", ["pin", 1, "at"], {"w[2]": 3}),
    ("switchyard.manifest/1", ["variants", 0, "launches", 1, "parameters", 1], "w[]"),
    ("switchyard.manifest/1", ["variants", 0, "cost_ns"], 12.5),
    ("switchyard.space/1", ["variants", 0, "cost_ns"], "n"),
    ("switchyard.space/1", ["cost_ns", "cuda-sm_80", "a_1"], [-1]),
    ("switchyard.table/1", ["groups", 0, "rows", 0, "at"], [4, "many"]),
    ("switchyard.table/1", ["groups", 0, "rows", 0, "times_us"], {}),
    ("switchyard.table/1", ["groups", 0, "rows", 0, "winners"], ["a"]),
    ("switchyard.table/1", ["groups", 0, "rows", 0, "times_us", "a"], -1),
    ("switchyard.table/1", ["groups", 0, "blobs", "a"], "x"),
    ("switchyard.space/1", ["targets"], []),
    ("switchyard.space/1", ["targets", 0], "sm_90a"),
    ("switchyard.space/1", ["blobs", "a", "sources"], DELETE),
    ("switchyard.space/1", ["blobs", "a", "toolchain"], "rustc"),
    ("switchyard.space/1", ["blobs", "t", "function"], DELETE),
    ("switchyard.space/1", ["variants", 0, "launchs"], []),
    ("switchyard.space/1", ["variants", 0, "config"], "tile"),
    ("switchyard.space/1", ["variants", 1, "use"], DELETE),
    ("switchyard.space/1", ["variants", 1, "use"], []),
    ("switchyard.space/1", ["variants", 1, "config", 1, 0], [1]),
    ("switchyard.space/1", ["variants", 1, "config", 0, 0], 1),
    ("switchyard.space/1", ["blobs", "u", "use"], 1),
    ("switchyard.space/1", ["sets", "ci", "when"], []),
]


def main():
    known = validators(sys.argv[1])
    failed = 0
    for name, good in GOOD.items():
        for error in known[name].iter_errors(good):
            failed += 1
            print(f"{name}: the good file is refused: {error.message[:300]}")
    for name, path, value in BAD:
        data = copy.deepcopy(GOOD[name])
        node = data
        for part in path[:-1]:
            node = node[part]
        if value is DELETE:
            del node[path[-1]]
        else:
            node[path[-1]] = value
        if known[name].is_valid(data):
            failed += 1
            print(f"{name}: accepted with {path} = {'nothing' if value is DELETE else value}")
    print(f"{len(GOOD) + len(BAD)} files, {len(BAD)} of them bad, {failed} failures")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
