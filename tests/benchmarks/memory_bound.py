# SPDX-License-Identifier: MIT
"""Puts Switchyard beside PyTorch, torch.compile and Liger on the memory-bound operators, in one run on one GPU.

  memory_bound.py GPU_OPERATORS PEERS [--dtype bf16] [--json FILE]

GPU_OPERATORS is the built benchmark program, PEERS the script beside this one that times the others. Both rotate
their tensors past the cache; the peers are replayed from a CUDA graph, ours are launched through the dispatcher.
The table says for each shape: microseconds, share of the measured copy bandwidth, and how many times faster than
the best peer.
"""

import argparse
import json
import sys

from common import line_of, records_of

AXES = {"rotary": ("batch", "seqlen", "heads", "heads_kv", "head_dim")}


def line_of_peer(record):
    """A peer's record as a shape line of GPU_OPERATORS."""
    operator, _, function = record["operator"].partition("/")
    values = dict(zip(AXES.get(operator, ("rows", "columns")), record["shape"]))
    if function:
        values["function"] = function
    if operator in ("rms_norm", "layer_norm"):
        values["gamma_dtype"] = record["dtype"]
    return line_of(operator, dtype=record["dtype"], **values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpu_operators")
    parser.add_argument("peers")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--json", default="")
    options = parser.parse_args()

    peers = records_of([sys.executable, options.peers, "--dtype", options.dtype])
    copy = max(record["copy_bytes_per_second"] for record in peers if "copy_bytes_per_second" in record)
    best = {}
    for record in peers:
        if "operator" in record:
            best.setdefault(line_of_peer(record), {})[record["peer"]] = record.get("microseconds")
    ours = records_of([options.gpu_operators], "\n".join(best) + "\n")
    copy = max([copy] + [record["copy_bytes_per_second"] for record in ours if "copy_bytes_per_second" in record])

    rows = []
    for record in ours:
        if "shape" not in record:
            continue
        times = {peer: time for peer, time in best[record["shape"]].items() if time}
        fastest = min(times, key=times.get) if times else None
        rows.append(
            {
                "shape": record["shape"],
                "us": record["us"],
                "variant": record["variant"],
                "reason": record["reason"],
                "copy_share": record["bytes"] / record["us"] * 1e6 / copy,
                "peers": times,
                "best_peer": fastest,
                "speedup": times[fastest] / record["us"] if fastest else None,
            }
        )
    print(f"copy: {copy / 1e12:.3f} TB/s read and written")
    print(f"{'shape':78} {'us':>9} {'copy':>6} {'best peer':>18} {'speed-up':>8}  variant")
    for row in rows:
        peer = f"{row['best_peer']} {row['peers'][row['best_peer']]:.1f}" if row["best_peer"] else "-"
        speedup = f"{row['speedup']:.2f}" if row["speedup"] else "-"
        print(f"{row['shape']:78} {row['us']:9.1f} {100 * row['copy_share']:5.1f}% {peer:>18} {speedup:>8}  {row['variant']}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"copy_bytes_per_second": copy, "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
