# SPDX-License-Identifier: MIT
"""Puts Switchyard beside FlashAttention-2 and cuDNN (both through PyTorch) on attention, and beside FlashAttention-4 where it is
installed, in one run on one GPU.

  attention.py GPU_OPERATORS PEERS OUT [--dtype f16] [--operator attention_forward] [--tutorial FILE] [--quick]

GPU_OPERATORS is the built benchmark program, PEERS the script beside this one that times the others, OUT a folder for
attention.md, attention.csv, a plot for each figure (TFLOP/s against sequence length) and attention.svg, which has all of
them. The shapes are those that are published for Triton against FlashAttention (causal, B 4, H 48, D 64), those of the
FlashAttention-3 paper (16k tokens, H D = 2048), and the one that cuDNN publishes (D 128, 64 query and 8 KV heads, causal).
FILE is a copy of Triton's python/tutorials/06-fused-attention.py, which is then a third peer. --quick takes every third
length. At the end: each peer's time over ours, as geometric mean and worst shape.
"""

import argparse
import math
import os
import sys
from dataclasses import dataclass

from common import attention_flops, line_of, markdown, overview, plot, records_of, write_csv

OPERATORS = ("attention_forward", "attention_backward")


@dataclass(frozen=True)
class Figure:
    """Shapes that differ in length alone: (batch, heads, seqlen) of each."""

    title: str
    stem: str
    head_dim: int
    causal: bool
    shapes: tuple
    heads_kv: int = 0  # 0: as many as heads


def figures():
    yield Figure("D 64, causal, B 4, H 48", "d64_causal_b4_h48", 64, True, tuple((4, 48, 1024 << n) for n in range(6)))
    for head_dim in (64, 128, 256):
        for causal in (False, True):
            mask = "causal" if causal else "full"
            yield Figure(
                f"D {head_dim}, {mask}, 16k tokens",
                f"d{head_dim}_{mask}",
                head_dim,
                causal,
                tuple((16384 // n, 2048 // head_dim, n) for n in (512, 1024, 2048, 4096, 8192, 16384)),
            )
    yield Figure("D 128, causal, 64 query and 8 KV heads", "d128_causal_64_8", 128, True, ((2, 64, 8192), (1, 64, 16384)), 8)


@dataclass(frozen=True)
class Point:
    figure: Figure
    operator: str
    batch: int
    heads: int
    seqlen: int

    def line(self, dtype):
        # A backward call follows a forward call that has written the LSE.
        return line_of(
            self.operator,
            dtype=dtype,
            head_dim=self.figure.head_dim,
            batch=self.batch,
            heads=self.heads,
            heads_kv=self.figure.heads_kv or self.heads,
            seqlen_q=self.seqlen,
            seqlen_k=self.seqlen,
            mask="causal_bottom_right" if self.figure.causal else "none",
            **({"with_lse": "true"} if self.operator == "attention_forward" else {}),
        )

    def flops(self):
        return attention_flops(self.operator, self.batch, self.heads, self.seqlen, self.figure.head_dim, self.figure.causal)


def ratios(name, points, times):
    """A line about one peer: its time over ours."""
    found = sorted(
        (times[line][name] / times[line]["Switchyard"], line)
        for line in points
        if {name, "Switchyard"} <= times.get(line, {}).keys()
    )
    if not found:
        return f"{name}: nothing timed"
    mean = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
    behind = [line for ratio, line in found if ratio < 1]
    return (
        f"{name}: {len(found)} shapes, {mean:.3f} of our time in the geometric mean, {len(behind)} faster than ours, "
        f"least {found[0][0]:.3f} at {found[0][1]}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpu_operators")
    parser.add_argument("peers")
    parser.add_argument("out")
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--operator", choices=OPERATORS, action="append")
    parser.add_argument("--tutorial", default="")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()

    points = {}
    for figure in figures():
        for shape in figure.shapes[::3] if options.quick else figure.shapes:
            for operator in options.operator or OPERATORS:
                point = Point(figure, operator, *shape)
                points[point.line(options.dtype)] = point
    text = "\n".join(points) + "\n"
    times = {}
    variants = {}
    for record in records_of([options.gpu_operators], text):
        if "shape" in record:
            times.setdefault(record["shape"], {})["Switchyard"] = record["us"]
            variants[record["shape"]] = f"{record['variant']} ({record['reason']})"
    tutorial = ["--tutorial", options.tutorial] if options.tutorial else []
    for record in records_of([sys.executable, options.peers, *tutorial], text):
        if "us" in record:
            times.setdefault(record["shape"], {})[record["peer"]] = record["us"]
        elif "error" in record:
            print(f"{record['peer']} does not do {record['shape']}: {record['error']}", file=sys.stderr)

    os.makedirs(options.out, exist_ok=True)
    fourth = any("FlashAttention-4" in contender for contender in times.values())
    names = (
        ("Switchyard", "FlashAttention-2", "cuDNN")
        + (("FlashAttention-4",) if fourth else ())
        + (("Triton tutorial",) if options.tutorial else ())
    )
    rows = []
    drawn = {}
    for line, point in points.items():
        reached = {name: point.flops() / time / 1e6 for name, time in times.get(line, {}).items()}
        rows.append(
            {
                "operator": point.operator,
                "head_dim": point.figure.head_dim,
                "causal": point.figure.causal,
                "batch": point.batch,
                "heads": point.heads,
                "heads_kv": point.figure.heads_kv or point.heads,
                "seqlen": point.seqlen,
                **{name: round(reached.get(name, 0), 1) for name in names},
                "variant": variants.get(line, ""),
            }
        )
        series = drawn.setdefault((point.operator, point.figure), {name: [] for name in names})
        for name in names:
            series[name].append((point.seqlen, reached.get(name)))
    write_csv(os.path.join(options.out, "attention.csv"), rows)
    with open(os.path.join(options.out, "attention.md"), "w", encoding="utf-8") as file:
        file.write(markdown(list(rows[0]), [list(row.values()) for row in rows]))
    for (operator, figure), series in drawn.items():
        direction = operator.removeprefix("attention_")
        plot(
            os.path.join(options.out, f"{direction}_{figure.stem}.svg"),
            f"Attention {direction}, {options.dtype}: {figure.title}",
            "sequence length",
            "TFLOP/s",
            series,
        )
    overview(
        os.path.join(options.out, "attention.svg"),
        f"Attention, {options.dtype}: TFLOP/s against sequence length",
        [
            [
                (f"{operator.removeprefix('attention_')}: {figure.title}", series)
                for (one, figure), series in drawn.items()
                if one == operator
            ]
            for operator in options.operator or OPERATORS
        ],
    )
    for row in rows:
        print(
            f"{row['operator']:19} D{row['head_dim']:<4} {'causal' if row['causal'] else 'full':6} "
            f"B{row['batch']:<3} H{row['heads']}/{row['heads_kv']:<3} N{row['seqlen']:<6} "
            + " ".join(f"{row[name]:7.1f}" for name in names)
            + f"  {row['variant']}"
        )
    for operator in options.operator or OPERATORS:
        print(operator)
        for name in names[1:]:
            print("  " + ratios(name, [line for line, point in points.items() if point.operator == operator], times))
    missing = [line for line in points if not {"Switchyard", "FlashAttention-2", "cuDNN"} <= times.get(line, {}).keys()]
    for line in missing:
        print(f"not all timed: {line}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
