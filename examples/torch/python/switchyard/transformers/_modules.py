# SPDX-License-Identifier: MIT
"""What replaces the forward functions of modules: norms, gated feed-forward blocks, rotary embedding, the layers and
models around them."""

import contextlib
import functools

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from ..torch import gated_activation, layer_norm, rotary
from ..torch._types import of_one_type
from ._attention import attention
from ._calls import add_and_norm, between_layers, call, norm_of_sum, plain_rms_norm, project, sum_and_norm
from ._masks import no_mask
from ._merged import project_merged


def plain_layer_norm(self, hidden_states: torch.Tensor) -> torch.Tensor:
    """The forward of a LayerNorm over the last dimension."""
    given, (epsilon, _, _) = self._parameters, self._switchyard_norm
    return layer_norm(hidden_states, given.get("weight"), given.get("bias"), epsilon=epsilon)


FORWARD_OF_NORMS = {"rms_norm": plain_rms_norm, "layer_norm": plain_layer_norm}
CACHES = {"cache", "past_key_values"}  # what transformers calls it: the former from 5.24
QUERY_KEY_VALUE = ("q_proj", "k_proj", "v_proj")


def gated_feed_forward(function: str, gate_proj: str, up_proj: str | None, down_proj: str):
    """The forward of a block with projections of these names; without up_proj, gate_proj's columns are gate and up."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        modules = self._modules  # attributes that are modules are slow to find
        gate, up = None, None
        if up_proj is not None:
            gate = project_merged(self, (gate_proj, up_proj), x)
        if gate is None:
            gate = project(modules[gate_proj], x)
            up = None if up_proj is None else project(modules[up_proj], x)
        return project(modules[down_proj], gated_activation(gate, up, function=function))

    return forward


def is_ours(config) -> bool:
    """Whether a model's attention is ours. transformers runs Python for each attribute of a configuration."""
    if not torch.compiler.is_compiling():
        known = object.__getattribute__(config, "__dict__").get("_attn_implementation_internal")
        if known is not None:
            return known == "switchyard"
    return config._attn_implementation == "switchyard"


WINDOWS = {
    "none": lambda module: None,
    "own": lambda module: module.sliding_window,
    "config": lambda module: getattr(module.config, "sliding_window", None),
}


def attention_block(forward, rotary_embedding, has_norms: bool, window: str):
    """The forward of Llama's attention, or of one with norms of heads (Qwen3) or a window (one of WINDOWS): as in transformers,
    without configuration look-ups in each layer. `forward` serves if the attention implementation changed after patch."""
    window_of = WINDOWS[window]

    def run(self, hidden_states, position_embeddings, attention_mask=None, past_key_values=None, cache=None, **kwargs):
        cache = past_key_values if cache is None else cache
        if not is_ours(self.config):
            return forward(self, hidden_states, position_embeddings, attention_mask, cache, **kwargs)
        modules = self._modules
        batch, seqlen, _ = hidden_states.shape
        heads = (batch, seqlen, -1, self.head_dim)
        merged = project_merged(self, QUERY_KEY_VALUE, hidden_states)
        if merged is None:
            projected = [project(modules[name], hidden_states) for name in QUERY_KEY_VALUE]
        else:
            projected = merged.split([modules[name].out_features for name in QUERY_KEY_VALUE], -1)
        query, key, value = (tensor.view(heads) for tensor in projected)
        if has_norms:
            query, key = call(modules["q_norm"], query), call(modules["k_norm"], key)
        value = value.transpose(1, 2)
        query, key = rotary_embedding(query.transpose(1, 2), key.transpose(1, 2), *position_embeddings)
        if cache is not None:
            key, value = cache.update(key, value, self.layer_idx)
        dropout = self.attention_dropout if self.training else 0.0
        out, _ = attention(self, query, key, value, attention_mask, self.scaling, dropout, window_of(self), **kwargs)
        return project(modules["o_proj"], out.reshape(batch, seqlen, -1)), None

    return run


def decoder_layer(
    self,
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.Tensor | None = None,
    use_cache: bool | None = False,
    position_embeddings: tuple[torch.Tensor, torch.Tensor] | None = None,
    switchyard_sums: dict | None = None,
    **kwargs,
) -> torch.Tensor:
    """A layer like Llama's. Both of its sums are computed together with the norms that follow them."""
    modules = self._modules
    normed, hidden_states = norm_of_sum(self, hidden_states, switchyard_sums)
    attended, _ = call(
        modules["self_attn"],
        hidden_states=normed,
        attention_mask=attention_mask,
        position_ids=position_ids,
        use_cache=use_cache,
        position_embeddings=position_embeddings,
        **kwargs,  # the cache among them, by the name that transformers gives it
    )
    normed, hidden_states = sum_and_norm(modules["post_attention_layernorm"], attended, hidden_states)
    out = call(modules["mlp"], normed)
    out = out[0] if isinstance(out, tuple) else out  # gpt-oss returns the router's scores too
    return add_and_norm(self, out, hidden_states, switchyard_sums)


def with_checkpoints(forward):
    """A layer's forward with gradient checkpointing, for versions of transformers that checkpoint in the class's forward,
    which ours replaces: 5.23 does, 5.17 checkpoints in the layer's __call__."""
    if "__call__" in vars(GradientCheckpointingLayer):
        return forward

    @functools.wraps(forward)
    def run(self, *args, **kwargs):
        if not (self.gradient_checkpointing and self.training):
            return forward(self, *args, **kwargs)
        kwargs["use_cache"] = False  # a cache would be written again by the backward
        for name in CACHES & kwargs.keys():
            kwargs[name] = None
        return self._gradient_checkpointing_func(functools.partial(forward, self, **kwargs), *args)

    return run


def whole_sequences(forward, has_sums: bool, cache_name: str):
    """A decoder's forward that recognises when each row of the batch is one whole sequence: no mask, positions or cache is
    given.

    transformers would make positions and look for packed sequences in them: eager code waits for the device, and compiled
    code makes a boolean mask of queries times keys, whose values cannot be read. `has_sums`: its layers are decoder_layer's.
    `cache_name`: the forward's name for the cache.
    """

    @functools.wraps(forward)
    def run(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None, *,
            cache=None, **kwargs):  # fmt: skip
        given = input_ids if input_ids is not None else inputs_embeds
        cache = past_key_values if cache is None else cache
        is_whole = attention_mask is None and position_ids is None and cache is None and given is not None
        if is_whole and is_ours(self.config):
            attention_mask = no_mask(given.device)
        with contextlib.nullcontext() if torch.compiler.is_compiling() else between_layers():
            checkpoints = self.training and getattr(self, "gradient_checkpointing", False)  # whose regions share nothing
            if torch.compiler.is_compiling() and has_sums and not checkpoints:
                kwargs["switchyard_sums"] = {}  # transformers hands on to layers what it does not know
            return forward(self, input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                           inputs_embeds=inputs_embeds, **{cache_name: cache}, **kwargs)  # fmt: skip

    return run


def rotary_tables(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin as the kernel reads them, [tokens, pairs], made once for all layers. Those of transformers are
    [batch or 1, seqlen, head_dim], with each column twice."""
    angles = position_ids.reshape(-1, 1).float() * self.inv_freq.to(device=x.device, dtype=torch.float32)
    cos, sin = angles.cos(), angles.sin()
    if self.attention_scaling != 1.0:
        cos, sin = cos * self.attention_scaling, sin * self.attention_scaling
    return cos.to(x.dtype), sin.to(x.dtype)


_COLUMNS = {  # of tables of a layout, one for each pair
    "halves": lambda rows: rows[:, : rows.shape[1] // 2],
    "pairs": lambda rows: rows[:, ::2],
    "once": lambda rows: rows,
}


@functools.cache
def rotary_with(style: str, layout: str, has_rows: bool = False):
    """The replacement of a model's apply_rotary_pos_emb. `has_rows`: tables of 2 dimensions come from rotary_tables."""
    columns = _COLUMNS[layout]

    def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
        """q, k: [batch, heads, seqlen, head_dim], or with unsqueeze_dim=2 [batch, seqlen, heads, head_dim]. cos and sin:
        rotary_tables', or [batch or 1, seqlen, columns], read where they are: a token's row of the table."""
        if unsqueeze_dim == 2:
            turned = apply_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
            return tuple(tensor.transpose(1, 2) for tensor in turned)
        if unsqueeze_dim != 1:
            raise RuntimeError(
                f"switchyard.transformers: rotary embedding with unsqueeze_dim={unsqueeze_dim} instead of 1 or 2"
            )
        if q.dtype != k.dtype:
            q, k = of_one_type(q, k)
        if cos.dim() == 3:
            cos, sin = columns(cos.flatten(0, 1)), columns(sin.flatten(0, 1))
        elif not has_rows:
            cos, sin = columns(cos), columns(sin)
        seqlen, rotary_dim = q.size(2), 2 * cos.size(1)
        if cos.size(0) == seqlen:  # all sequences have the same positions
            return rotary(q, k, cos, sin, rotary_dim=rotary_dim, style=style)
        turned = rotary(_as_one_sequence(q), _as_one_sequence(k), cos, sin, rotary_dim=rotary_dim, style=style)
        return tuple(_as_batch(tensor, q.size(0), seqlen) for tensor in turned)

    return apply_rotary_pos_emb


def _as_one_sequence(x: torch.Tensor) -> torch.Tensor:
    """[batch, heads, seqlen, dim] as [1, heads, batch * seqlen, dim]: a token's index is its row of the table."""
    return x.transpose(1, 2).flatten(0, 1)[None].transpose(1, 2)


def _as_batch(x: torch.Tensor, batch: int, seqlen: int) -> torch.Tensor:
    """Undoes _as_one_sequence."""
    return x[0].transpose(0, 1).unflatten(0, (batch, seqlen)).transpose(1, 2)
