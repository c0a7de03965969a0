# SPDX-License-Identifier: MIT
"""What the benchmarks share: shapes, running our program and the peers, tables and plots."""

import csv
import json
import os
import subprocess
import sys

# Of the memory-bound operators: rows and columns of norms and softmax, and of gated activations; batch, tokens, query and
# key heads, head dim of rotary embedding.
ROWS = [
    (131072, 128),
    (1048576, 128),
    (65536, 512),
    (65536, 1024),
    (32768, 4096),
    (32768, 8192),
    (16384, 16384),
    (8192, 32768),
    (4096, 65536),
    (1024, 262144),
]
GATED = [(65536, 512), (32768, 4096), (32768, 8192), (16384, 14336)]
ROTARY = [(8, 8192, 32, 8, 128), (1, 8192, 32, 8, 128), (8, 4096, 64, 8, 128)]
# Of decoding: batches, tokens in the cache, query and KV heads.
DECODE_BATCHES = [1, 8, 32, 128]
DECODE_CONTEXTS = [1024, 4096, 16384, 65536, 131072]
DECODE_HEADS = [(32, 8), (64, 8)]

COLOURS = {
    "Switchyard": "#c0392b",
    "cuDNN": "#2c7fb8",
    "FlashAttention-2": "#41ab5d",
    "Triton tutorial": "#8856a7",
    "FlashAttention-4": "#e08214",
}


def records_of(command, text=None):
    """The JSON lines a program prints."""
    run = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        print(f"{command[0]} ended with status {run.returncode}", file=sys.stderr)
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def line_of(operator, **axes):
    """A shape line of gpu_operators."""
    return " ".join([operator, *(f"{axis}={value}" for axis, value in axes.items())])


def attention_flops(operator, batch, heads, seqlen, head_dim, causal):
    """Multiplications and additions: forward 4 B H N^2 D, halved when causal; backward 2.5 times that."""
    forward = 4 * batch * heads * seqlen * seqlen * head_dim / (2 if causal else 1)
    return forward * (2.5 if operator == "attention_backward" else 1)


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def plot(path, title, x_label, y_label, series, log_y=False):
    """One figure as SVG: `series` has for each name a list of (x, y). Nothing without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print(f"no matplotlib for {sys.executable}: {path} is not drawn", file=sys.stderr)
        return
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "switchyard"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.0))
    for name, points in series.items():
        points = sorted(point for point in points if point[1])
        if points:
            axes.plot(*zip(*points), marker="o", label=name, color=COLOURS.get(name))
    ticks = sorted({x for points in series.values() for x, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [short(tick) for tick in ticks])
    if log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(alpha=0.3)
    axes.legend()
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)


def short(x):
    return f"{x // 1024}k" if x % 1024 == 0 else str(x)


def overview(path, title, rows, step=200):
    """Many figures in one SVG of a few KB, to lie beside notes: `rows` has for each row a list of (title, series). Each
    x is as far from the next; a row shares its y axis, whose lines are `step` apart."""
    width, height, left, top, gap = 190, 130, 40, 62, 34
    columns = max(len(row) for row in rows)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + columns * (width + gap)}" '
        f'height="{top + len(rows) * (height + 60)}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="20" font-size="14">{title}</text>',
    ]
    names = dict.fromkeys(name for row in rows for _, series in row for name in series)
    out += [
        f'<text x="{left + 140 * n}" y="38" fill="{COLOURS.get(name, "black")}">\u25cf {name}</text>'
        for n, name in enumerate(names)
    ]
    for r, row in enumerate(rows):
        most = max(y for _, series in row for points in series.values() for _, y in points if y) * 1.05
        for c, (name, series) in enumerate(row):
            x0, y0 = left + c * (width + gap), top + r * (height + 60) + height
            ticks = sorted({x for points in series.values() for x, _ in points})
            place = {x: x0 + 8 + n * (width - 16) / max(1, len(ticks) - 1) for n, x in enumerate(ticks)}
            out.append(f'<text x="{x0}" y="{y0 - height - 5}">{name}</text>')
            for y in range(0, int(most) + 1, step):
                at = y0 - y / most * height
                out.append(
                    f'<path d="M{x0} {at:.1f}h{width}" stroke="#ddd"/>'
                    f'<text x="{x0 - 4}" y="{at + 4:.1f}" text-anchor="end" fill="#555">{y}</text>'
                )
            out += [f'<text x="{place[x]:.0f}" y="{y0 + 15}" text-anchor="middle" fill="#555">{short(x)}</text>' for x in ticks]
            for name, points in series.items():
                line = " ".join(f"{place[x]:.0f},{y0 - y / most * height:.1f}" for x, y in sorted(points) if y)
                out.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS.get(name, "black")}" stroke-width="2"/>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*out, "</svg>"]) + "\n")
