# SPDX-License-Identifier: MIT
"""The ops' arguments, which derive from the C++ headers: callers give them by position."""

import pytest
import torch
from switchyard.torch import _fake
from switchyard.torch._library import op_names

WEIGHT, OFFSET = "Tensor? weight=None, ", "float weight_offset=0., "
SCORES = "Tensor? bias=None, Tensor? alibi_slopes=None, "
LENGTHS = "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? seqused_q=None, Tensor? seqused_k=None, "
VALUES = ("Tensor? dropout_state=None, SymInt longest_q=-1, SymInt longest_k=-1, int mask=0, int window_left=-1, "
          "int window_right=-1, float? scale=None, float soft_cap=0., float dropout_p=0., ")  # fmt: skip
BLOCKS = ", ".join(f"Tensor? {name}=None" for name in (
    "kv_num_blocks", "kv_indices", "kv_bits", "full_kv_num_blocks", "full_kv_indices", "mask_bits", "q_num_blocks",
    "q_indices", "q_bits", "full_q_num_blocks", "full_q_indices"))  # fmt: skip
FORWARD = (f"{SCORES}Tensor? sinks=None, {LENGTHS}Tensor? block_table=None, {VALUES}"
           f"bool with_lse=False, Tensor? k_scale=None, Tensor? v_scale=None, Tensor? q_scale=None, {BLOCKS}")  # fmt: skip
DECODE = ("Tensor? k_scale=None, Tensor? v_scale=None, Tensor? alibi_slopes=None, Tensor? sinks=None, Tensor? seqused_k=None, "
          "Tensor? block_table=None, int mask=2, int window_left=-1, float? scale=None, float soft_cap=0., "
          "bool with_lse=False, Tensor? k_rotary=None")  # fmt: skip
OPS = {
    "attention_forward": f"Tensor q, Tensor k, Tensor v, {FORWARD}",
    "attention_forward_into": f"Tensor q, Tensor k, Tensor v, Tensor(a!) out, {FORWARD}",
    "attention_backward": f"Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {SCORES}{LENGTHS}{VALUES}"
                          f"bool deterministic=False, bool with_grad_bias=False, Tensor? grad_lse=None, {BLOCKS}",
    "attention_decode": f"Tensor q, Tensor k, Tensor v, {DECODE}",
    "attention_decode_into": f"Tensor q, Tensor k, Tensor v, Tensor(a!) out, {DECODE}",
    "rotary": "Tensor q, Tensor? k=None, Tensor? cos=None, Tensor? sin=None, Tensor? positions=None, Tensor? sequence_offsets=None, "
              "Tensor? cu_seqlens=None, SymInt longest=-1, SymInt offset=0, SymInt rotary_dim=-1, float base=10000., "
              "float scaling=1., int style=0, bool inverse=False",
    "rotary_cache": "Tensor(a!) q, Tensor k, Tensor v, Tensor(b!) k_cache, Tensor(c!) v_cache, Tensor cos, Tensor sin, "
                    "Tensor positions, Tensor slots, Tensor? q_gamma=None, Tensor? k_gamma=None, Tensor? k_scale=None, "
                    f"Tensor? v_scale=None, float epsilon={1e-6:.17g}, int style=0",
    "rms_norm": f"Tensor x, {WEIGHT}Tensor? residual=None, float epsilon={1e-6:.17g}, {OFFSET}bool with_statistics=False",
    "rms_norm_backward": f"Tensor grad_out, Tensor h, Tensor rstd, {WEIGHT}Tensor? grad_residual=None, {OFFSET}bool with_grad_weight=False",
    "layer_norm": f"Tensor x, {WEIGHT}Tensor? bias=None, Tensor? residual=None, float epsilon={1e-5:.17g}, {OFFSET}bool with_statistics=False",
    "layer_norm_backward": f"Tensor grad_out, Tensor h, Tensor mean, Tensor rstd, {WEIGHT}Tensor? grad_residual=None, {OFFSET}"
                           "bool with_grad_weight=False, bool with_grad_bias=False",
    "gated_activation": "Tensor gate, Tensor? up=None, int function=0",
    "gated_activation_backward": "Tensor grad_out, Tensor gate, Tensor? up=None, int function=0",
    "softmax": "Tensor x, float scale=1.",
    "softmax_backward": "Tensor grad_out, Tensor out, float scale=1.",
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_arguments_keep_their_places(name):
    """An option that is added later comes last: the list may go on."""
    schema = str(getattr(torch.ops.switchyard, name).default._schema)
    assert schema.startswith(f"switchyard::{name}({OPS[name]}")


def test_every_op_has_a_fake_kernel_and_its_place_here():
    assert op_names == set(_fake._RESULTS)
    assert op_names == {*OPS, "attention_dropout_mask"}


def test_an_enumerator_that_there_is_not_is_refused():
    q = torch.zeros(1, 1, 2, 64)
    for mask in (3, -1):
        with pytest.raises(RuntimeError, match=r"mask must be 0 \(none\), 1 \(causal_top_left\) or 2 \(causal_bottom_right\)"):
            torch.ops.switchyard.attention_forward(q, q, q, mask=mask)
