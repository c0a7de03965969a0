# SPDX-License-Identifier: MIT
"""Calls whose results have the same bits, whatever else is in the batch."""

from contextlib import contextmanager

from ._library import library, op_names

_OPERATORS = {name.removesuffix("_into") for name in op_names}
_ATTENTION = ("attention_forward", "attention_decode")


@contextmanager
def reproducible(attention: str | None = None, **classes: str):
    """Context manager: calls inside, on this thread, are served only by kernels of a reproducible class.

    attention: the class of attention, attention_varlen and attention_decode; "batch_invariant" on GPUs. A query's result
    and LSE then have the same bits in a prompt and while decoding, alone, in any batch, packed, and from any pages. On
    the CPU the classes are "avx512_tile_n128", "avx2_tile_n128" and "baseline_tile_n128"; a processor has some of them.
    classes: those of other operators, by the operator's name: softmax="avx2". An empty name frees an operator. Nested uses
    end with what was before.

    A call that no kernel of its class serves raises RuntimeError `[switchyard.302]`, which names the classes that do.
    Compiled functions are limited when they run inside; CUDA graphs keep the kernels that they were captured with.
    Gradients are not limited. An unknown operator raises ValueError.
    """
    for op in classes.keys() - _OPERATORS:
        raise ValueError(f"no operator is named {op!r}; there are {', '.join(sorted(_OPERATORS))}")
    wanted = {**(dict.fromkeys(_ATTENTION, attention) if attention is not None else {}), **classes}
    wanted = {op: name.encode() for op, name in wanted.items()}
    before = {op: library.switchyard_torch_class(op.encode()) for op in wanted}
    for op, name in wanted.items():
        library.switchyard_torch_set_class(op.encode(), name)
    try:
        yield
    finally:
        for op, name in before.items():
            library.switchyard_torch_set_class(op.encode(), name)
