"""Puts Switchyard beside FlashAttention-2 and cuDNN (both through PyTorch) on attention, in one run on one GPU.

  attention.py GPU_OPERATORS PEERS OUT [--dtype f16] [--quick]

GPU_OPERATORS is the built benchmark program, PEERS the script beside this one that times the others, OUT a folder for
attention.md, attention.csv, a plot for each figure (TFLOP/s against sequence length) and attention.svg, which has all of
them. The shapes are those that are published for Triton against FlashAttention (causal, B 4, H 48, D 64) and those of the
FlashAttention-3 paper (16k tokens, H D = 2048). --quick takes every third length.
"""

import argparse
import os
import sys

from attention_common import attention_flops, line_of, markdown, overview, plot, records_of, write_csv

OPERATORS = ("attention_forward", "attention_backward")


def figures():
    """Title, file stem, head dim, causal, and (batch, heads, seqlen) of each point."""
    yield ("D 64, causal, B 4, H 48", "d64_causal_b4_h48", 64, True, [(4, 48, 1024 << n) for n in range(6)])
    for head_dim in (64, 128, 256):
        for causal in (False, True):
            mask = "causal" if causal else "full"
            yield (f"D {head_dim}, {mask}, 16k tokens", f"d{head_dim}_{mask}", head_dim, causal,
                   [(16384 // n, 2048 // head_dim, n) for n in (512, 1024, 2048, 4096, 8192, 16384)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpu_operators")
    parser.add_argument("peers")
    parser.add_argument("out")
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()

    points = {}
    for title, stem, head_dim, causal, shapes in figures():
        for batch, heads, seqlen in shapes[::3] if options.quick else shapes:
            for operator in OPERATORS:
                # A backward call follows a forward call that has written the LSE.
                line = line_of(operator, dtype=options.dtype, head_dim=head_dim, batch=batch, heads=heads,
                               seqlen_q=seqlen, seqlen_k=seqlen, mask="causal_bottom_right" if causal else "none",
                               **({"with_lse": "true"} if operator == "attention_forward" else {}))
                points[line] = (stem, title, operator, head_dim, causal, batch, heads, seqlen)
    text = "\n".join(points) + "\n"
    times = {}
    variants = {}
    for record in records_of([options.gpu_operators], text):
        if "shape" in record:
            times.setdefault(record["shape"], {})["Switchyard"] = record["us"]
            variants[record["shape"]] = f"{record['variant']} ({record['reason']})"
    for record in records_of([sys.executable, options.peers], text):
        if "us" in record:
            times.setdefault(record["shape"], {})[record["peer"]] = record["us"]

    os.makedirs(options.out, exist_ok=True)
    names = ("Switchyard", "FlashAttention-2", "cuDNN")
    rows = []
    drawn = {}
    for line, (stem, title, operator, head_dim, causal, batch, heads, seqlen) in points.items():
        flops = attention_flops(operator, batch, heads, seqlen, head_dim, causal)
        reached = {name: flops / time / 1e6 for name, time in times.get(line, {}).items()}
        rows.append({"operator": operator, "head_dim": head_dim, "causal": causal, "batch": batch, "heads": heads,
                     "seqlen": seqlen, **{name: round(reached.get(name, 0), 1) for name in names},
                     "variant": variants.get(line, "")})
        figure = drawn.setdefault((operator, stem), (title, {name: [] for name in names}))[1]
        for name in names:
            figure[name].append((seqlen, reached.get(name)))
    write_csv(os.path.join(options.out, "attention.csv"), rows)
    with open(os.path.join(options.out, "attention.md"), "w", encoding="utf-8") as file:
        file.write(markdown(list(rows[0]), [list(row.values()) for row in rows]))
    for (operator, stem), (title, series) in drawn.items():
        direction = operator.removeprefix("attention_")
        plot(os.path.join(options.out, f"{direction}_{stem}.svg"), f"Attention {direction}, {options.dtype}: {title}",
             "sequence length", "TFLOP/s", series)
    overview(os.path.join(options.out, "attention.svg"), f"Attention, {options.dtype}: TFLOP/s against sequence length",
             [[(f"{operator.removeprefix('attention_')}: {title}", series) for (one, _), (title, series) in drawn.items()
               if one == operator] for operator in OPERATORS])
    for row in rows:
        print(f"{row['operator']:19} D{row['head_dim']:<4} {'causal' if row['causal'] else 'full':6} "
              f"B{row['batch']:<3} H{row['heads']:<3} N{row['seqlen']:<6} "
              + " ".join(f"{row[name]:7.1f}" for name in names) + f"  {row['variant']}")
    missing = [line for line in points if len(times.get(line, {})) < len(names)]
    for line in missing:
        print(f"not all timed: {line}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
