"""What replaces the forward functions of modules: norms, gated feed-forward blocks, rotary embedding."""

import torch

from ..torch import gated_activation, layer_norm, rms_norm, rotary


def plain_rms_norm(self, hidden_states: torch.Tensor) -> torch.Tensor:
    """RMSNorm of Llama, Qwen and gpt-oss. Rounds once, behind the weight; transformers rounds before it too."""
    return rms_norm(hidden_states, self.weight, epsilon=self.variance_epsilon)


def offset_rms_norm(self, x: torch.Tensor) -> torch.Tensor:
    """RMSNorm of Gemma, whose weight is around zero."""
    return rms_norm(x, self.weight, epsilon=self.eps, weight_offset=1.0)


def plain_layer_norm(self, x: torch.Tensor) -> torch.Tensor:
    """torch.nn.LayerNorm over the last dimension."""
    return layer_norm(x, self.weight, self.bias, epsilon=self.eps)


ACTIVATIONS = {"silu": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh"}


def gated_feed_forward(function: str):
    """The forward of a block with gate_proj, up_proj and down_proj."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(gated_activation(self.gate_proj(x), self.up_proj(x), function=function))

    return forward


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    """In place of a model's function of this name.

    q, k: [batch, heads, seqlen, head_dim]. cos and sin: [batch or 1, seqlen, width], where width is head_dim, with
    each half's columns there twice, or half of it (gpt-oss). Read where they are: a token's row of the table.
    """
    if unsqueeze_dim != 1:
        raise RuntimeError("switchyard.transformers: rotary embedding takes [batch, heads, seqlen, head_dim]")
    half = q.shape[-1] // 2
    batch, seqlen, width = cos.shape
    if width not in (half, 2 * half):
        raise RuntimeError(f"switchyard.transformers: cos has {width} columns for heads of {q.shape[-1]}")
    cos, sin = [each.reshape(batch * seqlen, width)[:, :half] for each in (cos, sin)]
    if batch == 1:  # all sequences have the same positions
        return rotary(q, k, cos, sin)
    turned = rotary(_as_one_sequence(q), _as_one_sequence(k), cos, sin)
    return tuple(_as_batch(each, batch, seqlen) for each in turned)


def _as_one_sequence(x: torch.Tensor) -> torch.Tensor:
    """[batch, heads, seqlen, dim] as [1, heads, batch * seqlen, dim]: a token's index is its row of the table."""
    return x.transpose(1, 2).flatten(0, 1)[None].transpose(1, 2)


def _as_batch(x: torch.Tensor, batch: int, seqlen: int) -> torch.Tensor:
    """Undoes _as_one_sequence."""
    return x[0].transpose(0, 1).unflatten(0, (batch, seqlen)).transpose(1, 2)
