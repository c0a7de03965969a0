# SPDX-License-Identifier: MIT
"""Tables and a plot from the lines that benchmark.py wrote. Needs neither torch nor a GPU."""

import json
import re

# Kernels of linear layers by name: cuBLAS (nvjet, gemm, gemv, splitK), CUTLASS, Triton's matrix products under
# torch.compile; the aten operators are those of a run on a CPU. Attention's own products do not count as such:
# its kernels are named for what they are. An attention that is put together from batched products is the exception.
_MATRIX = re.compile(
    r"gemm|gemv|nvjet|cutlass|xmma|splitk|cublas|matmul|triton_(tem|mm)|^aten::(mm|addmm|bmm|linear|_addmm_activation)$", re.I
)
_NOT_MATRIX = re.compile(r"flash|sdpa|fmha|attention|decode|softmax|norm|rotary|gated|triton_(poi|red|per)_", re.I)


def is_matrix_product(kernel: str) -> bool:
    """Whether a kernel is a linear layer's."""
    return bool(_MATRIX.search(kernel)) and not _NOT_MATRIX.search(kernel)


def outside_ms(row: dict) -> float:
    """Milliseconds of all kernels that are no matrix products."""
    return sum(ms for kernel, ms in row["kernels"].items() if not is_matrix_product(kernel))


def read(files: list[str]) -> list[dict]:
    """The lines of several files. Of two of one measurement, the later one counts unless it failed."""
    out: dict[tuple, dict] = {}
    for file in files:
        with open(file) as opened:
            for line in opened:
                row = json.loads(line)
                key = tuple(row.get(column) for column in ("kind", "model", "part", "size", "peer", "op", "mode"))
                if key in out and "failed" in row and "failed" not in out[key]:
                    continue
                out[key] = row
    return list(out.values())


TITLES = {
    "prefill": "{model}, prompt of {size} tokens",
    "training": "{model}, training step of {size} tokens",
    "decode": "{model}, a token with a static cache, batch {size}",
}


PEERS = ("switchyard", "switchyard merged", "switchyard compile", "compile is_causal", "compile", "liger", "flash 4", "sdpa")


def by_title(rows: list[dict]) -> dict[str, dict[str, dict]]:
    """Measurements of models: title, then peer."""
    out: dict[str, dict[str, dict]] = {}
    for row in sorted((r for r in rows if r["kind"] == "model"),
                      key=lambda r: (r["model"], list(TITLES).index(r["part"]), r["size"], PEERS.index(r["peer"]))):  # fmt: skip
        out.setdefault(TITLES[row["part"]].format(**row), {})[row["peer"]] = row
    return out


def is_ours(peer: str) -> bool:
    return peer.startswith("switchyard")


def ratios(rows: dict[str, dict]) -> dict[str, float]:
    """Our best time over the best peer's: in total and outside matrix products. Empty where one is missing."""
    good = {peer: row for peer, row in rows.items() if "ms" in row}
    own = [row for peer, row in good.items() if is_ours(peer)]
    others = [row for peer, row in good.items() if not is_ours(peer)]
    if not own or not others:
        return {}
    total = min(r["ms"] for r in own) / min(r["ms"] for r in others)
    return {"total": total, "outside": min(map(outside_ms, own)) / max(min(map(outside_ms, others)), 1e-9)}


def tables(rows: list[dict]) -> str:
    """All measurements as Markdown."""
    out = [f"{row['gpu']}, driver {row['driver']}, torch {row['torch']}, cuDNN {row['cudnn']}, transformers {row['transformers']}"
           for row in rows if row["kind"] == "machine"]  # fmt: skip
    for title, peers in by_title(rows).items():
        out += ["", f"### {title}", "", "| | ms | outside matrix products | GPU idle | host | GiB |",
                "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
        for peer, row in peers.items():
            if "failed" in row:
                out.append(f"| {peer} | failed: {row['failed']} | | | | |")
                continue
            idle = max(0.0, row["ms"] - sum(row["kernels"].values()))
            host_ms = f"{row['host_ms']:.3f}" if "host_ms" in row else ""
            out.append(f"| {peer} | {row['ms']:.3f} | {outside_ms(row):.3f} | {idle:.3f} | {host_ms} | {row['peak_gib']:.2f} |")
        ratio = ratios(peers)
        if ratio:
            out += ["", f"Of the best peer's: total {ratio['total']:.2f}, outside matrix products {ratio['outside']:.2f}."]
    return "\n".join(out) + "\n" + host(rows)


def host(rows: list[dict]) -> str:
    """What the host takes for ops and for layers, as Markdown."""
    out = []
    ops = [row for row in rows if row["kind"] == "host"]
    if ops:
        out += [
            "",
            "### Host, microseconds a call",
            "",
            "| op | mode | Switchyard | torch | ratio |",
            "| --- | --- | --- | --- | --- |",
        ]
        out += [f"| {r['op']} | {r['mode']} | {r['switchyard']:.2f} | {r['torch']:.2f} | {r['switchyard'] / r['torch']:.2f} |"
                for r in ops]  # fmt: skip
    layers = [row for row in rows if row["kind"] == "layer"]
    if layers:
        out += ["", "### Host, microseconds of a prompt", "", "| model | | a layer | all else |", "| --- | --- | --- | --- |"]
        out += [f"| {r['model']} | {r['peer']} | {r['layer']:.0f} | {r['rest']:.0f} |" for r in layers]
    return "".join(line + "\n" for line in out)


def plot(rows: list[dict], path: str) -> None:
    """Bars of the total and, darker, the time outside matrix products: one group for each measurement."""
    parts, y = [], 20
    for title, peers in by_title(rows).items():
        good = {peer: row for peer, row in peers.items() if "ms" in row}
        if not good:
            continue
        parts.append(f'<text x="8" y="{y}" font-weight="bold">{title}</text>')
        y += 8
        longest = max(row["ms"] for row in good.values())
        for peer, row in good.items():
            total = max(1.0, 520 * row["ms"] / longest)
            outside = min(total, max(1.0, 520 * outside_ms(row) / longest))
            colour, dark = ("#7fb3d5", "#1f618d") if is_ours(peer) else ("#d5d8dc", "#808b96")
            parts.append(f'<text x="8" y="{y + 13}">{peer}</text>'
                         f'<rect x="170" y="{y + 2}" width="{total:.1f}" height="14" fill="{colour}"/>'
                         f'<rect x="170" y="{y + 2}" width="{outside:.1f}" height="14" fill="{dark}"/>'
                         f'<text x="{178 + total:.1f}" y="{y + 13}">{row["ms"]:.2f} ms</text>')  # fmt: skip
            y += 18
        y += 24
    parts.append(f'<text x="8" y="{y}">Dark: outside matrix products. Each group has a scale of its own.</text>')
    with open(path, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="{y + 16}" font-family="sans-serif" '
                   f'font-size="12"><rect width="800" height="{y + 16}" fill="white"/>{"".join(parts)}</svg>\n')  # fmt: skip
