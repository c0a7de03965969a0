# SPDX-License-Identifier: MIT
"""Converts block masks of FlexAttention (torch.nn.attention.flex_attention.BlockMask) to what kernels take: its lists, and
bits for partly visible blocks, evaluated from its mask_mod."""

import contextlib
import functools
import types
import weakref
from collections.abc import Callable
from typing import NamedTuple

import torch

_UNIT = 128  # block sizes are multiples of it
_CHUNK = 256  # blocks whose bits are made at once: 4 million elements


class BlockMaskLists(NamedTuple):
    """The tensors of a block mask, in the order in which the ops take them; see prepare_block_mask."""

    kv_num_blocks: torch.Tensor
    kv_indices: torch.Tensor
    kv_bits: torch.Tensor
    full_kv_num_blocks: torch.Tensor | None
    full_kv_indices: torch.Tensor | None
    mask_bits: torch.Tensor
    q_num_blocks: torch.Tensor
    q_indices: torch.Tensor
    q_bits: torch.Tensor
    full_q_num_blocks: torch.Tensor | None
    full_q_indices: torch.Tensor | None


def _list(of: torch.Tensor | None, columns: int) -> torch.Tensor | None:
    """A list of i32, dense, with as many columns as there are blocks."""
    if of is None:
        return None
    if of.shape[-1] < columns:
        of = torch.nn.functional.pad(of, (0, columns - of.shape[-1]))
    return of[..., :columns].to(torch.int32).contiguous()


def _dense(counts: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Which blocks a list has: [B, H, rows, columns], 1 and 0."""
    rows, columns = indices.shape[-2:]
    listed = torch.arange(columns, device=indices.device) < counts[..., None]
    out = torch.zeros((*indices.shape[:2], rows, columns + 1), dtype=torch.int32, device=indices.device)
    out.scatter_(-1, torch.where(listed, indices, columns).long(), 1)  # others go to a column that is dropped
    return out[..., :columns]


def _lists(dense: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    indices = torch.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1, dtype=torch.int32), indices.to(torch.int32).contiguous()


def _words(mask_mod, blocks, block_q: int, block_k: int, queries: int, keys: int) -> torch.Tensor:
    """What mask_mod shows in blocks (their b, h, query and key blocks): i32 [blocks, block_q, block_k / 32]."""
    over_keys = torch.vmap(mask_mod, in_dims=(None, None, None, 0))
    over_rows = torch.vmap(over_keys, in_dims=(None, None, 0, None))
    over_blocks = torch.vmap(over_rows, in_dims=(0, 0, 0, 0))
    device = blocks[0].device
    shifts = torch.arange(32, dtype=torch.int32, device=device)
    out = []
    for b, h, q, k in zip(*(index.split(_CHUNK) for index in blocks), strict=True):
        # A mask_mod may read tensors as long as the sequences.
        i = (q[:, None] * block_q + torch.arange(block_q, device=device)).clamp(max=queries - 1)
        j = (k[:, None] * block_k + torch.arange(block_k, device=device)).clamp(max=keys - 1)
        seen = over_blocks(b.int(), h.int(), i.int(), j.int()).expand(len(b), block_q, block_k)
        bits = seen.reshape(len(b), block_q, block_k // 32, 32).to(torch.int32) << shifts
        out.append(bits.sum(-1, dtype=torch.int32))
    return torch.cat(out)


def _shared(words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Entries without repetitions, and which of them each block has: by a hash, then by comparison."""
    flat = words.flatten(1)
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(-(2**62), 2**62, (flat.shape[1],), generator=generator).to(flat.device)
    hashes = torch.cat([(part.long() * factors).sum(-1) for part in flat.split(_CHUNK)])
    unique, entries = torch.unique(hashes, return_inverse=True)
    first = torch.full((len(unique),), len(flat), device=flat.device)
    first.scatter_reduce_(0, entries, torch.arange(len(flat), device=flat.device), "amin")
    shared = flat[first]
    if not all(torch.equal(shared[at], part) for at, part in zip(entries.split(_CHUNK), flat.split(_CHUNK), strict=True)):
        return words, torch.arange(len(words), device=words.device)
    return shared.view(-1, *words.shape[1:]), entries


def _make(block_mask) -> BlockMaskLists:
    queries, keys = block_mask.seq_lengths
    block_q, block_k = block_mask.BLOCK_SIZE
    if block_q % _UNIT or block_k % _UNIT:
        raise ValueError(
            f"the BlockMask has blocks of {block_q} x {block_k}: make it with a BLOCK_SIZE of multiples of {_UNIT}"
        )
    rows, columns = -(-queries // block_q), -(-keys // block_k)
    counts = block_mask.kv_num_blocks.to(torch.int32).contiguous()
    indices = _list(block_mask.kv_indices, columns)
    full_counts, full_indices = block_mask.full_kv_num_blocks, _list(block_mask.full_kv_indices, columns)
    full_counts = None if full_counts is None else full_counts.to(torch.int32).contiguous()
    if tuple(indices.shape[-2:]) != (rows, columns):
        raise ValueError(
            f"the BlockMask's lists are {tuple(indices.shape)}, but {queries} x {keys} tokens have {rows} x {columns} blocks"
        )

    listed = torch.arange(columns, device=indices.device) < counts[..., None]
    b, h, q, place = listed.nonzero(as_tuple=True)  # the only synchronisation, once for a mask
    k = indices[b, h, q, place].long()
    kv_bits = torch.zeros_like(indices)
    entry_of = torch.zeros(indices.shape, dtype=torch.int32, device=indices.device)
    if len(b):
        mask_bits, entries = _shared(_words(block_mask.mask_mod, (b, h, q, k), block_q, block_k, queries, keys))
        kv_bits[b, h, q, place] = entries.int()
        entry_of[b, h, q, k] = entries.int()
    else:
        mask_bits = torch.zeros((1, block_q, block_k // 32), dtype=torch.int32, device=indices.device)

    q_num_blocks, q_indices = _lists(_dense(counts, indices).transpose(-1, -2))
    q_bits = entry_of.transpose(-1, -2).gather(-1, q_indices.long()).contiguous()
    full_q = (None, None) if full_counts is None else _lists(_dense(full_counts, full_indices).transpose(-1, -2))
    return BlockMaskLists(counts, indices, kv_bits, full_counts, full_indices, mask_bits.contiguous(), q_num_blocks,
                          q_indices, q_bits, *full_q)  # fmt: skip


def _with_dense_strides(of: torch.Tensor | None) -> torch.Tensor | None:
    """Also where an extent is 1, whose stride torch leaves as it was."""
    return None if of is None else of.contiguous().flatten().view(of.shape)


def _tensors_in(value, found: list[torch.Tensor]) -> None:
    """The tensors that a mask_mod reads: those that it captured or finds among its globals, or that a mask_mod in it does."""
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for part in value:
            _tensors_in(part, found)
    elif isinstance(value, functools.partial):
        _tensors_in((value.func, value.args, list(value.keywords.values())), found)
    elif isinstance(value, torch.nn.Module):
        found += [part for part in (*value._buffers.values(), *vars(value).values()) if isinstance(part, torch.Tensor)]
    elif isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # an empty one
                _tensors_in(cell.cell_contents, found)
        _tensors_in([value.__globals__.get(name) for name in value.__code__.co_names
                     if isinstance(value.__globals__.get(name), torch.Tensor)], found)  # fmt: skip


def _versions(block_mask) -> list[tuple[torch.Tensor, int]]:
    """The tensors that a mask depends on, with what tells whether they changed. Tensors of inference mode do not tell."""
    found = [block_mask.kv_num_blocks, block_mask.kv_indices]
    _tensors_in(block_mask.mask_mod, found)
    return [(tensor, tensor._version) for tensor in found if not tensor.is_inference()]


class _Made(NamedTuple):
    mask: weakref.ref
    mask_mod: Callable[[], object]  # a weak reference: it may have captured what keeps the mask
    versions: list[tuple[torch.Tensor, int]]
    lists: BlockMaskLists

    def is_of(self, block_mask) -> bool:
        return (self.mask() is block_mask and self.mask_mod() is block_mask.mask_mod
                and all(tensor._version == version for tensor, version in self.versions))  # fmt: skip


def _reference(mask_mod) -> Callable[[], object]:
    try:
        return weakref.ref(mask_mod)
    except TypeError:  # an object with slots
        return lambda: mask_mod


_made: dict[int, _Made] = {}


def prepare_block_mask(block_mask) -> BlockMaskLists:
    """Converts a BlockMask to the lists and bits that kernels read. The result is cached as long as the BlockMask lives, and
    neither its mask_mod nor a tensor that it reads changes.

    Evaluates mask_mod in every block that is not full, and synchronises with the device. attention(block_mask=...) takes
    the BlockMask or this result; compiled code takes only this result.
    """
    if isinstance(block_mask, BlockMaskLists):
        return block_mask
    if torch.compiler.is_compiling():
        raise RuntimeError("compiled code takes what switchyard.torch.prepare_block_mask returns, called outside of it")
    known = _made.get(id(block_mask))
    if known is not None and known.is_of(block_mask):
        return known.lists
    if not all(hasattr(block_mask, name) for name in ("kv_num_blocks", "kv_indices", "BLOCK_SIZE", "seq_lengths", "mask_mod")):
        raise TypeError(f"block_mask must be a torch.nn.attention.flex_attention.BlockMask, not {type(block_mask).__name__}")
    versions = _versions(block_mask)
    with torch.no_grad():
        lists = BlockMaskLists(*map(_with_dense_strides, _make(block_mask)))
    key = id(block_mask)
    _made[key] = _Made(
        weakref.ref(block_mask, lambda _: _made.pop(key, None)), _reference(block_mask.mask_mod), versions, lists
    )
    return lists


def lists_for(block_mask, q: torch.Tensor, k: torch.Tensor) -> tuple:
    """The ops' arguments for a call's block mask; none without a mask."""
    if block_mask is None:
        return ()
    lengths = getattr(block_mask, "seq_lengths", None)  # of a BlockMask
    if lengths is not None and tuple(lengths) != (q.shape[-2], k.shape[-2]):
        raise ValueError(f"the BlockMask is for {tuple(lengths)} tokens, but q and k have {(q.shape[-2], k.shape[-2])}")
    return tuple(prepare_block_mask(block_mask))
