# SPDX-License-Identifier: MIT
"""Runs flash-attention's own tests of its functions on switchyard.flash_attn:

    python tests/torch/run_flash_attention_tests.py CHECKOUT [--sample N] [--seed S] [--smallest] [arguments of pytest]

CHECKOUT is a source tree of flash-attention, of which tests/test_flash_attn.py is read. Its imports of flash_attn find
switchyard.flash_attn; its rotary embedding, which only judges, is computed by torch. --sample runs N cases of each test,
drawn by --seed, and --smallest draws them from sequences up to 300 and head dims up to 128. Without a GPU the tests run on
the CPU. It needs torch, pytest and einops.
"""

import argparse
import math
import random
import re
import sys
import tempfile
import types
from pathlib import Path

import pytest
import torch

# Tests of what is no function of the package, or of an answer that needs the device's numbers.
SKIPPED = {
    "test_flash_attn_generator_arg_must_be_none": "it calls flash_attn's extension",
    "test_flash_attn_varlen_paged_kv_num_splits": "it calls a private function",
}
SKIPPED_ON_GPU = {
    "test_flash_attn_kvcache_paged_block_table_bounds": "lengths on a GPU are read in checked mode only",
}


def _turn(x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=0, **_):
    """x [batch, tokens, heads, dim] turned by its places behind seqlen_offsets."""
    place = torch.as_tensor(seqlen_offsets, device=x.device).reshape(-1, 1) + torch.arange(x.shape[1], device=x.device)
    cos, sin = (table.float()[place][:, :, None] for table in (cos, sin))
    turned, rest = x.float().split([2 * cos.shape[-1], x.shape[-1] - 2 * cos.shape[-1]], -1)
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    parts = a * cos - b * sin, a * sin + b * cos
    both = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
    return torch.cat([both, rest], -1).to(x.dtype)


def _put_modules() -> None:
    import switchyard.flash_attn as ours
    from switchyard.flash_attn import bert_padding

    interface = types.ModuleType("flash_attn.flash_attn_interface")
    interface._get_block_size_n = lambda *_: 2**31  # probabilities are relative to the largest of the whole row
    interface.USE_TRITON_ROCM = False
    rotary = types.ModuleType("flash_attn.layers.rotary")
    rotary.apply_rotary_emb = _turn
    sys.modules.update({
        "flash_attn": ours,
        "flash_attn.bert_padding": bert_padding,
        "flash_attn.flash_attn_interface": interface,
        "flash_attn.layers": types.ModuleType("flash_attn.layers"),
        "flash_attn.layers.rotary": rotary,
    })  # fmt: skip


def _on_cpu(text: str) -> str:
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(total_memory=1 << 40)
    torch.cuda.synchronize = lambda *_: None
    return text.replace('"cuda"', '"cpu"')


class _Drawn:
    """In the place of pytest.mark.parametrize, of which the tests make some hundred thousand cases: draws some of them."""

    def __init__(self, sample: int, seed: int, smallest: bool):
        self.sample, self.smallest, self.random = sample, smallest, random.Random(seed)

    def parametrize(self, names: str, values):
        def mark(test):
            test.__dict__.setdefault("_axes", []).append([(names, value) for value in values])
            return test

        return mark

    def _is_small(self, case: dict) -> bool:
        lengths = [n for name, n in case.items() if name.startswith("seqlen") and not isinstance(n, bool)]
        return not self.smallest or (max(lengths, default=0) <= 300 and case.get("d", 0) <= 128)

    def _draw(self, axes) -> dict:
        case = {}
        for names, value in map(self.random.choice, axes):
            keys = [name.strip() for name in names.split(",")]
            case.update(zip(keys, value if len(keys) > 1 else [value], strict=True))
        return case

    def generate(self, metafunc) -> None:
        axes = getattr(metafunc.function, "_axes", None)
        if axes is None:
            return
        total = math.prod(map(len, axes))
        cases: dict[str, dict] = {}
        for _ in range(100 * self.sample):
            case = self._draw(axes)
            if self._is_small(case):
                cases[str(case)] = case
            if len(cases) == min(self.sample, total):
                break
        print(f"{metafunc.function.__name__}: {len(cases)} of {total} cases")
        names = list(next(iter(cases.values())))
        metafunc.parametrize(names, [list(case.values()) for case in cases.values()])


class _Skipping:
    """Leaves out what is skipped."""

    def pytest_collection_modifyitems(self, items):
        skipped = SKIPPED | (SKIPPED_ON_GPU if torch.cuda.is_available() else {})
        for item in items:
            if item.originalname in skipped:
                item.add_marker(pytest.mark.skip(reason=skipped[item.originalname]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--sample", type=int, default=0, help="0: all cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smallest", action="store_true")
    options, rest = parser.parse_known_args()
    text = (options.checkout / "tests" / "test_flash_attn.py").read_text()
    _put_modules()
    if not torch.cuda.is_available():
        text = _on_cpu(text)
    if options.sample:
        sys.modules["switchyard_drawn_cases"] = _Drawn(options.sample, options.seed, options.smallest)
        text = text.replace("@pytest.mark.parametrize(", "@_drawn.parametrize(")
        text = "import switchyard_drawn_cases as _drawn\npytest_generate_tests = _drawn.generate\n" + text
    with tempfile.TemporaryDirectory() as folder:
        test = Path(folder) / "test_flash_attn.py"
        test.write_text(text)
        cases = len(re.findall(r"^def test_", text, re.MULTILINE))
        print(f"{options.checkout}: {cases} tests on {'a GPU' if torch.cuda.is_available() else 'the CPU'}")
        return pytest.main([str(test), "-q", "-p", "no:cacheprovider", "-rs", *rest], plugins=[_Skipping()])


if __name__ == "__main__":
    sys.exit(main())
