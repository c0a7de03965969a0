# SPDX-License-Identifier: MIT
"""Keys and values that flash_attn's cache takes in, at the ends of rows and pages, and what does not fit there."""

import pytest
import switchyard.flash_attn as fa
import torch
from test_flash_attn import compare, judge

CACHE, NEW = (2, 8, 2, 16), (2, 3, 2, 16)
PAGED = {"block_table": torch.tensor([[0, 1], [1, -1]]).int()}
WRONG = {  # what is appended, and where
    "k_cache has room for 8 keys for each sequence, but one has 9 keys": (NEW, {"cache_seqlens": torch.tensor([6, 1])}),
    "k_cache has room for 8 keys for each sequence, but one has 10 keys": (NEW, {"cache_seqlens": 7}),
    "cache_seqlens has -2, but a sequence has at least 0 keys": (NEW, {"cache_seqlens": torch.tensor([-2, 1])}),
    "block_table has 2 pages of 8 keys for each sequence, but one has 17 keys": (
        NEW, {"cache_seqlens": torch.tensor([14, 1]), **PAGED}),
    "block_table, where keys are written, has -1, but k_cache has the pages 0 to 1": (
        NEW, {"cache_seqlens": torch.tensor([9, 7]), **PAGED}),
    "cache_batch_idx has 2, but k_cache has the rows 0 to 1": (
        NEW, {"cache_seqlens": 1, "cache_batch_idx": torch.tensor([0, 2])}),
    "cache_batch_idx has -1, but": (NEW, {"cache_seqlens": 1, "cache_batch_idx": torch.tensor([0, -1])}),
    r"k has the shape \(2, 3, 1, 16\), but must be \(2, seqlen_new, 2, 16\) beside k_cache": (
        (2, 3, 1, 16), {"cache_seqlens": 1}),
    r"k has the shape \(1, 3, 2, 16\), but must be \(2,": ((1, 3, 2, 16), {"cache_seqlens": 1}),
    "k is torch.float64, but k_cache is torch.float32": ((2, 3, 2, 16), {"cache_seqlens": 1, "dtype": torch.float64}),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_what_does_not_fit_a_cache_is_refused(message):
    """Before anything is written: another sequence's keys would be."""
    shape, given = WRONG[message]
    new, caches = torch.randn(shape, dtype=given.get("dtype")), [torch.randn(CACHE) for _ in range(2)]
    before = [cache.clone() for cache in caches]
    with pytest.raises(RuntimeError, match=f"switchyard.flash_attn: {message}"):
        given = {name: value for name, value in given.items() if name != "dtype"}
        fa.flash_attn_with_kvcache(torch.randn(2, 1, 4, 16), *caches, new, new, causal=True, **given)
    assert all(map(torch.equal, caches, before))


def test_appended_keys_cross_pages():
    q, k, v = torch.randn(2, 5, 4, 16), torch.randn(2, 5, 2, 16), torch.randn(2, 5, 2, 16)
    caches = [torch.randn(6, 8, 2, 16) for _ in range(2)]
    table, used = torch.tensor([[3, 1, -1], [5, 0, 99]]).int(), [6, 7]
    before = [cache[table[:, :2].long()].flatten(1, 2) for cache in caches]
    out = fa.flash_attn_with_kvcache(q, *caches, k, v, cache_seqlens=torch.tensor(used), block_table=table, causal=True)
    for b, length in enumerate(used):
        keys, values = (torch.cat([old[b, :length], new[b]])[None].double() for old, new in zip(before, (k, v)))
        compare(out[b : b + 1], judge(q[b : b + 1].double(), keys, values, causal=True)[0], 5e-6)
