# SPDX-License-Identifier: MIT
"""The attention ops' arguments, which derive from the C++ headers: callers give them by position."""

import pytest
import switchyard.torch  # noqa: F401 (defines the ops)
import torch

SCORES = "Tensor? bias=None, Tensor? alibi_slopes=None, "
LENGTHS = "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? seqused_q=None, Tensor? seqused_k=None, "
VALUES = ("Tensor? dropout_state=None, SymInt longest_q=-1, SymInt longest_k=-1, int mask=0, int window_left=-1, "
          "int window_right=-1, float? scale=None, float soft_cap=0., float dropout_p=0., ")  # fmt: skip
OPS = {
    "attention_forward": f"Tensor q, Tensor k, Tensor v, {SCORES}Tensor? sinks=None, {LENGTHS}Tensor? block_table=None, {VALUES}"
                         "bool with_lse=False, Tensor? k_scale=None, Tensor? v_scale=None",
    "attention_backward": f"Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {SCORES}{LENGTHS}{VALUES}"
                          "bool deterministic=False, bool with_grad_bias=False, Tensor? grad_lse=None",
    "attention_decode": "Tensor q, Tensor k, Tensor v, Tensor? k_scale=None, Tensor? v_scale=None, Tensor? alibi_slopes=None, "
                        "Tensor? sinks=None, Tensor? seqused_k=None, Tensor? block_table=None, int mask=2, int window_left=-1, "
                        "float? scale=None, float soft_cap=0., bool with_lse=False",
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_arguments_keep_their_places(name):
    """An option that is added later comes last: the list may go on."""
    schema = str(getattr(torch.ops.switchyard, name).default._schema)
    assert schema.startswith(f"switchyard::{name}({OPS[name]}")


def test_an_enumerator_that_there_is_not_is_refused():
    q = torch.zeros(1, 1, 2, 64)
    for mask in (3, -1):
        with pytest.raises(RuntimeError, match=r"mask must be 0 \(none\), 1 \(causal_top_left\) or 2 \(causal_bottom_right\)"):
            torch.ops.switchyard.attention_forward(q, q, q, mask=mask)
