"""The shapes that the study of selection measures.   plan.py OUTPUT [--small]

For each study a dense grid, which tables are made from, and random shapes held out of every table. The two are mixed
in the order of measuring, so that time running out costs both alike.
"""

import json
import math
import random
import sys

GIGABYTE = 1 << 30


def log_uniform(generator, low, high):
    return math.exp(generator.uniform(math.log(low), math.log(high)))


def row_shapes(generator, bytes_each, grid_rows, grid_columns, count, low=1024, high=3 << 28, columns=(128, 65536),
               odd=0.0):
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


# Columns lie between powers of two as well: which variant is fastest changes where a row outgrows a block.
ROWS = [1, 16, 64, 256, 1024, 4096, 16384, 65536]
COLUMNS = [128, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 8192, 10240,
           12288, 16384, 20480, 24576, 32768, 49152, 65536]
HEADS = [(32, 8), (32, 32), (8, 1), (64, 8), (16, 16), (40, 40), (12, 2), (28, 4), (48, 8)]


def rotary_shapes(generator, count):
    """batch, seqlen, heads_q, heads_k"""
    heads = [(32, 8), (32, 32), (8, 1), (64, 8), (16, 16)]
    grid = [[b, s, q, k] for q, k in heads
            for b, s in ((1, 1), (16, 1), (64, 1), (256, 1), (1, 16), (1, 64), (1, 128), (1, 256), (1, 384), (1, 512),
                         (1, 768), (1, 1024), (1, 1536), (1, 2048), (1, 3072), (1, 4096), (1, 8192), (1, 16384),
                         (8, 64), (8, 192), (8, 512), (8, 2048), (4, 8192), (32, 128), (32, 1024), (64, 40))
            if b * s * q <= 1 << 21]
    held_out = []
    while len(held_out) < count:
        q, k = generator.choice(HEADS)
        b = round(log_uniform(generator, 1, 256))
        s = 1 if generator.random() < 0.25 else round(log_uniform(generator, 2, 16384))
        if b * s * q <= 1 << 21 and [b, s, q, k] not in grid:
            held_out.append([b, s, q, k])
    return grid, held_out


def prefill_shapes(generator, count, most_flops, head_dim):
    """batch, heads, heads_kv, seqlen_q, seqlen_k of prompts, some with keys before them."""
    def fits(s):
        return 4 * s[0] * s[1] * s[3] * s[4] * head_dim <= most_flops
    grid = [[b, h, k, n, n] for h, k in ((32, 8), (32, 32), (16, 16), (8, 1))
            for b, n in ((1, 128), (1, 256), (1, 512), (1, 1024), (1, 2048), (1, 4096), (1, 8192), (2, 2048), (4, 512),
                         (4, 1024), (8, 256), (8, 1024), (16, 128), (32, 512))]
    grid += [[b, h, k, n, n] for h, k in ((32, 8), (8, 1))
             for b, n in ((1, 64), (1, 384), (1, 768), (1, 1536), (1, 3072), (2, 1024), (3, 1024), (8, 2048), (16, 512),
                          (4, 4096), (2, 256))]
    # Lengths that no tile divides, and counts of heads that fill the device unevenly.
    grid += [[b, h, k, n, n] for h, k in ((32, 8), (40, 40), (12, 2))
             for b, n in ((1, 40), (1, 100), (1, 200), (1, 500), (1, 900), (1, 2000), (4, 40), (4, 100), (4, 200),
                          (4, 500), (8, 70), (16, 40), (16, 130), (16, 300))]
    grid += [[b, 32, 8, n, m] for b, n, m in ((1, 50, 700), (1, 100, 3000), (1, 400, 5000), (4, 100, 1000))]
    grid += [[1, 32, 8, n, m] for n, m in ((16, 1024), (64, 4096), (128, 8192), (512, 4096), (512, 16384))]
    grid = [s for s in grid if fits(s)]
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
    # One block for each sequence and key head: every count of them up to a wave, since splits fill the rest.
    counts = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128)
    grid = [[b, h, k, 1, m] for h, k, batches in ((8, 1, counts), (32, 8, (1, 3, 8, 32)), (32, 32, (1, 4, 16)))
            for b in batches for m in (256, 1024, 4096, 16384, 131072) if b * k * m <= 1 << 22]
    held_out = []
    while len(held_out) < count:
        h, k = generator.choice(HEADS)
        s = [round(log_uniform(generator, 1, 256)), h, k, 1, round(log_uniform(generator, 64, 131072))]
        if s[0] * k * s[4] <= 1 << 22 and s not in grid:
            held_out.append(s)
    return grid, held_out


def studies():
    attention = ["batch", "heads", "heads_kv", "seqlen_q", "seqlen_k"]
    rows = ["rows", "columns"]

    def study(name, operator, type_, axes, shapes):
        grid, held_out = shapes
        order = [(i / len(grid), 0, s) for i, s in enumerate(random.Random(name).sample(grid, len(grid)))]
        order += [(i / len(held_out), 1, s) for i, s in enumerate(held_out)]
        order.sort()
        return {"name": name, "operator": operator, "type": type_, "axes": axes, "shapes": [s for _, _, s in order],
                "held_out": [held for _, held, _ in order]}

    def seeded(name):
        return random.Random("selection " + name)

    out = [study("rotary_bf16", "rotary", {"dtype": "bf16", "style": "half", "head_dim": 128, "in_place": 1},
                 ["batch", "seqlen", "heads_q", "heads_k"], rotary_shapes(seeded("rotary"), 100)),
           study("rotary_f16_d64", "rotary", {"dtype": "f16", "style": "half", "head_dim": 64, "in_place": 1},
                 ["batch", "seqlen", "heads_q", "heads_k"], rotary_shapes(seeded("rotary f16"), 100))]
    for operator in ("gated_activation", "gated_activation_backward"):
        for packed in (0, 1):
            name = operator + ("_packed" if packed else "")
            out.append(study(name, operator, {"dtype": "bf16", "function": "silu", "packed": packed}, rows,
                             row_shapes(seeded(name), 2, ROWS, COLUMNS, 80, high=1 << 28)))
    for operator, type_, high in (("rms_norm", {"dtype": "bf16"}, 3 << 28),
                                  ("rms_norm", {"dtype": "bf16", "with_residual": 1}, 1 << 28),
                                  ("rms_norm_backward", {"dtype": "bf16"}, 1 << 28),
                                  ("layer_norm", {"dtype": "bf16"}, 3 << 28),
                                  ("layer_norm", {"dtype": "f32"}, 3 << 28),
                                  ("layer_norm_backward", {"dtype": "bf16"}, 1 << 28),
                                  ("softmax", {"dtype": "bf16"}, 3 << 28),
                                  ("softmax", {"dtype": "f32"}, 3 << 28),
                                  ("softmax_backward", {"dtype": "bf16"}, 1 << 28)):
        name = "_".join([operator, type_["dtype"]] + (["residual"] if "with_residual" in type_ else []))
        out.append(study(name, operator, type_, rows,
                         row_shapes(seeded(name), 4 if type_["dtype"] == "f32" else 2, ROWS, COLUMNS, 100, high=high,
                                    odd=0.2 if operator == "softmax" else 0.0)))
    for dtype, dim, mask in (("bf16", 128, "causal_bottom_right"), ("f16", 64, "none")):
        out.append(study(f"attention_forward_{dtype}_d{dim}", "attention_forward",
                         {"dtype": dtype, "head_dim": dim, "mask": mask}, attention,
                         prefill_shapes(seeded("attention" + dtype), 100, 1.2e12, dim)))
        out.append(study(f"attention_backward_{dtype}_d{dim}", "attention_backward",
                         {"dtype": dtype, "head_dim": dim, "mask": mask}, attention,
                         prefill_shapes(seeded("backward" + dtype), 60, 4e11, dim)))
    for operator in ("attention_forward", "attention_decode"):
        out.append(study(operator + "_one_token" if operator == "attention_forward" else operator, operator,
                         {"dtype": "bf16", "head_dim": 128, "mask": "causal_bottom_right"}, attention,
                         decode_shapes(seeded("decode"), 100)))
    return out


def main():
    output, *words = sys.argv[1:]
    all_studies = studies()
    if "--small" in words:  # what a CPU can do, to try the pipeline
        for each in all_studies:
            keep = [i for i, s in enumerate(each["shapes"]) if math.prod(s) <= 1 << 20][:24]
            each["shapes"] = [each["shapes"][i] for i in keep]
            each["held_out"] = [each["held_out"][i] for i in keep]
            each["type"] = {k: "f32" if k == "dtype" else v for k, v in each["type"].items()}
    with open(output, "w", encoding="utf-8") as file:
        json.dump({"studies": all_studies}, file, separators=(",", ":"))
    for each in all_studies:
        print(f"{each['name']:32} {each['held_out'].count(0):4} grid {each['held_out'].count(1):4} held out")


if __name__ == "__main__":
    main()
