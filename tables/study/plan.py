# SPDX-License-Identifier: MIT
"""The shapes that the study of selection measured, as a list for `switchyard tune`.   plan.py OUTPUT [PREFIX...]

For each study a dense grid, and random shapes held out of every table. The two are mixed in the order of measuring, so
that time running out costs both alike. PREFIX keeps what is named so.
"""

import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "benchmarks"))
sys.dont_write_bytecode = True

from attention import figures
from common import DECODE_BATCHES, DECODE_CONTEXTS, DECODE_HEADS
from common import ROWS as BENCHMARKED_ROWS


def log_uniform(generator, low, high):
    return math.exp(generator.uniform(math.log(low), math.log(high)))


def row_shapes(generator, bytes_each, grid_rows, grid_columns, count, low=1024, high=3 << 28, columns=(128, 65536), odd=0.0):
    """rows x columns, of `low` to `high` bytes a tensor; columns of random shapes are multiples of 8, but for a share
    of them that is odd."""
    grid = [[r, c] for r in grid_rows for c in grid_columns if low <= r * c * bytes_each <= high]
    held_out = []
    while len(held_out) < count:
        c = log_uniform(generator, *columns)
        c = round(c) if generator.random() < odd else max(8, round(c / 8) * 8)
        r = round(log_uniform(generator, 1, 65536))
        if low <= r * c * bytes_each <= high and [r, c] not in grid:
            held_out.append([r, c])
    return grid, held_out


# Rows by octaves from a quarter wave of blocks to several waves; columns by powers of two and the middles between, as
# which variant is fastest changes where a row outgrows a block.
ROWS = [1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536]
COLUMNS = [128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65536]
MORE = [[262144, 512]] + [[rows, columns] for columns in (131072, 262144) for rows in (1, 16, 64, 256, 1024, 2048)]
HEADS = [(32, 8), (32, 32), (8, 1), (64, 8), (16, 16), (40, 40), (12, 2), (28, 4), (48, 8)]


def rotary_shapes(generator, count):
    """batch, seqlen, heads, heads_kv"""
    heads = [(32, 8), (32, 32), (8, 1), (64, 8), (16, 16)]
    grid = [
        [b, s, q, k]
        for q, k in heads
        for b, s in (
            (1, 1),
            (16, 1),
            (64, 1),
            (256, 1),
            (1, 16),
            (1, 64),
            (1, 128),
            (1, 256),
            (1, 384),
            (1, 512),
            (1, 768),
            (1, 1024),
            (1, 1536),
            (1, 2048),
            (1, 3072),
            (1, 4096),
            (1, 8192),
            (1, 16384),
            (8, 64),
            (8, 192),
            (8, 512),
            (8, 2048),
            (4, 8192),
            (32, 128),
            (32, 1024),
            (64, 40),
        )
        if b * s * q <= 1 << 21
    ]
    held_out = []
    while len(held_out) < count:
        q, k = generator.choice(HEADS)
        b = round(log_uniform(generator, 1, 256))
        s = 1 if generator.random() < 0.25 else round(log_uniform(generator, 2, 16384))
        if b * s * q <= 1 << 21 and [b, s, q, k] not in grid:
            held_out.append([b, s, q, k])
    return grid, held_out


def benchmarked_prompts(head_dim):
    """What attention.py times, masked or not."""
    out = []
    for figure in figures():
        for batch, heads, length in figure.shapes if figure.head_dim == head_dim else ():
            at = [batch, heads, figure.heads_kv or heads, length, length]
            if at not in out:
                out.append(at)
    return out


BENCHMARKED_CACHES = [
    [batch, *heads, 1, context] for heads in DECODE_HEADS for batch in DECODE_BATCHES for context in DECODE_CONTEXTS
]


def benchmarked(operator, type_):
    """The shapes that a benchmark times for an operator and type."""
    if operator == "attention_decode":
        return BENCHMARKED_CACHES
    if operator.startswith("attention"):
        return benchmarked_prompts(type_["head_dim"])
    return [] if operator == "rotary" else [list(at) for at in BENCHMARKED_ROWS]


def prefill_shapes(generator, count, max_flops, head_dim):
    """batch, heads, heads_kv, seqlen_q, seqlen_k of prompts, some with keys before them."""

    def fits(s, room=1):
        return 4 * s[0] * s[1] * s[3] * s[4] * head_dim <= room * max_flops

    # Batch and heads by how many sequences of one head they make; lengths that tiles divide and that none does.
    shapes = [
        (1, 8, 1),
        (1, 12, 2),
        (1, 16, 16),
        (1, 28, 4),
        (1, 32, 8),
        (1, 40, 40),
        (2, 32, 8),
        (3, 32, 8),
        (4, 32, 8),
        (6, 28, 4),
        (8, 32, 8),
        (8, 40, 40),
        (16, 32, 8),
        (64, 12, 2),
        (32, 32, 32),
    ]
    lengths = (40, 64, 100, 128, 180, 256, 384, 500, 700, 1024, 1500, 2048, 3000, 4096, 6000, 8192)
    grid = [[*shape, n, n] for shape in shapes for n in lengths]
    grid += [
        [*shape, n, n + before]
        for shape in ((1, 8, 1), (1, 32, 8), (4, 28, 4), (16, 12, 2))
        for n in (16, 50, 128, 400, 1024, 3000)
        for before in (256, 1000, 4096, 14000)
    ]
    grid = [s for s in grid if fits(s)] + [s for s in benchmarked_prompts(head_dim) if fits(s, 4)]
    held_out = []
    while len(held_out) < count:
        h, k = generator.choice(HEADS)
        n = round(log_uniform(generator, 32, 8192))
        m = n if generator.random() < 0.8 else n + round(log_uniform(generator, 128, 16384))
        s = [round(log_uniform(generator, 1, 32)), h, k, n, m]
        if fits(s) and s not in grid:
            held_out.append(s)
    return grid, held_out


def decode_shapes(generator, count):
    """batch, heads, heads_kv, seqlen_q, seqlen_k of one query a sequence."""
    # One block for each sequence and key head: counts of them up to several waves, since splits fill the rest.
    shapes = [
        (1, 8, 1),
        (2, 8, 1),
        (3, 8, 1),
        (4, 8, 1),
        (3, 12, 2),
        (1, 32, 8),
        (3, 28, 4),
        (2, 64, 8),
        (3, 32, 8),
        (4, 32, 8),
        (1, 40, 40),
        (6, 32, 8),
        (8, 64, 8),
        (12, 32, 8),
        (8, 16, 16),
        (24, 32, 8),
        (64, 28, 4),
        (48, 48, 8),
        (16, 32, 32),
        (128, 32, 8),
    ]
    grid = [
        [*shape, 1, context]
        for shape in shapes
        for context in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
        if shape[0] * shape[2] * context <= 1 << 22
    ]
    held_out = []
    while len(held_out) < count:
        h, k = generator.choice(HEADS)
        s = [round(log_uniform(generator, 1, 256)), h, k, 1, round(log_uniform(generator, 64, 131072))]
        if s[0] * k * s[4] <= 1 << 22 and s not in grid:
            held_out.append(s)
    return grid, held_out


ATTENTION = ["batch", "heads", "heads_kv", "seqlen_q", "seqlen_k"]
ROTARY = ["batch", "seqlen", "heads", "heads_kv"]


def study(name, operator, type_, axes, shapes):
    grid, held_out = shapes
    order = [(i / len(grid), 0, s) for i, s in enumerate(random.Random(name).sample(grid, len(grid)))]
    order += [(i / len(held_out), 1, s) for i, s in enumerate(held_out)]
    order.sort()
    return {
        "name": name,
        "operator": operator,
        "type": type_,
        "axes": axes,
        "shapes": [s for _, _, s in order],
        "held_out": [held for _, held, _ in order],
    }


def studies(seed="second selection", times=1.0):
    """All studies; the held-out shapes are drawn by `seed`, `times` as many as usual."""
    rows = ["rows", "columns"]

    def seeded(name):
        return random.Random(f"{seed} {name}")

    def many(count):
        return round(count * times)

    def row_study(name, operator, type_, count, **options):
        grid, held_out = row_shapes(seeded(name), 4 if type_["dtype"] == "f32" else 2, ROWS, COLUMNS, many(count), **options)
        for at in MORE + benchmarked(operator, type_):
            if at not in grid:
                grid.append(at)
        return study(name, operator, type_, rows, (grid, held_out))

    out = [
        study(
            "rotary_bf16",
            "rotary",
            {"dtype": "bf16", "style": "half", "head_dim": 128, "in_place": 1},
            ROTARY,
            rotary_shapes(seeded("rotary"), many(100)),
        ),
        study(
            "rotary_f16_d64",
            "rotary",
            {"dtype": "f16", "style": "half", "head_dim": 64, "in_place": 1},
            ROTARY,
            rotary_shapes(seeded("rotary f16"), many(100)),
        ),
    ]
    for operator in ("gated_activation", "gated_activation_backward"):
        for packed in (0, 1):
            name = operator + ("_packed" if packed else "")
            out.append(row_study(name, operator, {"dtype": "bf16", "function": "silu", "packed": packed}, 80, high=1 << 28))
    for operator, type_, high in (
        ("rms_norm", {"dtype": "bf16"}, 3 << 28),
        ("rms_norm", {"dtype": "bf16", "with_residual": 1}, 1 << 28),
        ("rms_norm_backward", {"dtype": "bf16"}, 1 << 28),
        ("layer_norm", {"dtype": "bf16"}, 3 << 28),
        ("layer_norm", {"dtype": "f32"}, 3 << 28),
        ("layer_norm_backward", {"dtype": "bf16"}, 1 << 28),
        ("softmax", {"dtype": "bf16"}, 3 << 28),
        ("softmax", {"dtype": "f32"}, 3 << 28),
        ("softmax_backward", {"dtype": "bf16"}, 1 << 28),
    ):
        name = "_".join([operator, type_["dtype"]] + (["residual"] if "with_residual" in type_ else []))
        out.append(row_study(name, operator, type_, 100, high=high, odd=0.2 if operator == "softmax" else 0.0))
    for dtype, dim, mask in (("bf16", 128, "causal_bottom_right"), ("f16", 64, "none")):
        type_ = {"dtype": dtype, "head_dim": dim, "mask": mask}
        out.append(
            study(
                f"attention_forward_{dtype}_d{dim}",
                "attention_forward",
                type_,
                ATTENTION,
                prefill_shapes(seeded("attention" + dtype), many(100), 1.2e12, dim),
            )
        )
        out.append(
            study(
                f"attention_backward_{dtype}_d{dim}",
                "attention_backward",
                type_,
                ATTENTION,
                prefill_shapes(seeded("backward" + dtype), many(60), 2e11, dim),
            )
        )
    out.append(
        study(
            "attention_forward_one_token",
            "attention_forward",
            {"dtype": "bf16", "head_dim": 128, "mask": "causal_bottom_right"},
            ATTENTION,
            decode_shapes(seeded("one token"), many(100)),
        )
    )
    out.append(
        study(
            "attention_decode",
            "attention_decode",
            {"dtype": "bf16", "kv_dtype": "bf16", "head_dim": 128, "kv": "dense"},
            ATTENTION,
            decode_shapes(seeded("decode"), many(100)),
        )
    )
    return out


def write_list(path, planned):
    """A list for `switchyard tune --problems`, in the order of measuring: calls fall from the first shape to the last."""

    def text(value):
        return str(value).lower() if isinstance(value, bool) else str(value)

    with open(path, "w", encoding="utf-8") as file:
        for planned_study in planned:
            words = " ".join(f"{axis}={text(value)}" for axis, value in planned_study["type"].items())
            file.write(f"{planned_study['operator']} {words} : {' '.join(planned_study['axes'])}\n")
            for i, shape in enumerate(planned_study["shapes"]):
                file.write(f"  {' '.join(map(str, shape))} calls={len(planned_study['shapes']) - i}\n")


def main():
    output, *words = sys.argv[1:]
    prefixes = tuple(words)
    planned = [planned_study for planned_study in studies() if planned_study["name"].startswith(prefixes or "")]
    write_list(output, planned)
    for planned_study in planned:
        print(
            f"{planned_study['name']:40} {planned_study['held_out'].count(0):4} grid {planned_study['held_out'].count(1):4} held out"
        )


if __name__ == "__main__":
    main()
