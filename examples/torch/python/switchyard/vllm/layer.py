# SPDX-License-Identifier: MIT
"""A layer's attention: keys and values written into its pages, and attention to them."""

import torch
from vllm.v1.attention.backend import AttentionImpl, AttentionType

from ..torch._attention import MASKS
from ..torch._library import ops
from ..torch._types import wide
from . import backend
from ._cache import pages_of, write
from .metadata import SwitchyardMetadata

_ENCODERS = (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)


def _refuse(reason: str):
    raise NotImplementedError(f"Switchyard's backend for vLLM: {reason}")


class SwitchyardImpl(AttentionImpl):
    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: torch.Tensor | None = None,
        **others,
    ):
        wrong = backend.wrong_head_size(head_size, kv_cache_dtype) or backend.wrong_cache_type(None, kv_cache_dtype)
        if wrong is None and attn_type not in backend.ATTENTION_TYPES:
            wrong = f"it serves no attention of the type {attn_type}"
        asked = [name for name, value in others.items() if value not in (None, False, -1)]
        if wrong is None and asked:
            wrong = f"it does not know {', '.join(asked)}"
        if wrong is not None:
            _refuse(wrong)
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.alibi_slopes = None if alibi_slopes is None else torch.tensor(alibi_slopes, dtype=torch.float32)
        self.sliding_window = sliding_window
        self.kv_cache_dtype = kv_cache_dtype
        self.logits_soft_cap = logits_soft_cap or 0.0
        self.attn_type = attn_type
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.sinks = sinks
        self.is_narrow = backend.is_narrow(kv_cache_dtype)
        self.before = -1 if sliding_window is None else sliding_window - 1  # keys before a query's own

    def process_weights_after_loading(self, act_dtype: torch.dtype):
        wrong = backend.wrong_type(act_dtype) or backend.wrong_cache_type(act_dtype, self.kv_cache_dtype)
        if wrong is not None:
            _refuse(wrong)

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping) -> None:
        """Writes keys and values of the tokens that have slots; vLLM calls it ahead of forward()."""
        if self.attn_type in _ENCODERS or kv_cache.numel() == 0:
            return
        keys, values = pages_of(kv_cache, self.head_size, self.is_narrow)
        k_scale, v_scale = self._scales(layer)
        write(key, value, keys, values, slot_mapping, k_scale, v_scale)

    def forward(self, layer, query, key, value, kv_cache, attn_metadata: SwitchyardMetadata | None, output, output_scale=None,
                output_block_scale=None):  # fmt: skip
        """query: [tokens, heads, head_size]; kv_cache: [blocks, heads_kv, block_size, 2 * head_size], with any strides.
        Writes `output`, [tokens, heads, head_size]; rows of padding are not written."""
        if output_scale is not None or output_block_scale is not None:
            _refuse("it quantizes no results")
        if attn_metadata is None:  # vLLM measures memory
            return output.fill_(0)
        if self.alibi_slopes is not None and self.alibi_slopes.device != query.device:
            self.alibi_slopes = self.alibi_slopes.to(query.device)
        out = output.view(output.shape[0], self.num_heads, self.head_size)
        if self.attn_type in _ENCODERS:
            self._encode(query, key, value, attn_metadata, out)
            return output
        if not attn_metadata.causal:
            _refuse("it serves no decoder whose attention is not causal")
        keys, values = pages_of(kv_cache, self.head_size, self.is_narrow)
        k_scale, v_scale = self._scales(layer)
        sinks = wide(self.sinks)
        steps, others = attn_metadata.decodes, attn_metadata.prefills
        if steps is not None:
            shape = (steps.sequences, -1, self.num_heads, self.head_size)
            q, into = (x[: steps.tokens].unflatten(0, shape[:2]).transpose(1, 2) for x in (query, out))
            ops.attention_decode_into(q, keys, values, into, k_scale, v_scale, self.alibi_slopes, sinks, steps.seq_lens,
                                      steps.block_table, MASKS["causal_bottom_right"], self.before, self.scale,
                                      self.logits_soft_cap)  # fmt: skip
        if others is not None:
            part = slice(others.first_token, others.first_token + others.tokens)
            ops.attention_forward_into(
                query[part], keys, values, out[part], alibi_slopes=self.alibi_slopes, sinks=sinks,
                cu_seqlens_q=others.query_start_loc, seqused_k=others.seq_lens, block_table=others.block_table,
                longest_q=others.longest_query, longest_k=others.longest, mask=MASKS["causal_bottom_right"],
                window_left=self.before, scale=self.scale, soft_cap=self.logits_soft_cap, k_scale=k_scale,
                v_scale=v_scale)  # fmt: skip
        return output

    def _encode(self, query, key, value, of: SwitchyardMetadata, out) -> None:
        """Every token of a sequence sees every other, or those in a window to both sides; there is no cache."""
        if of.causal:
            _refuse("it serves no encoder whose attention is causal")
        sequences, n = of.prefills, of.num_actual_tokens
        if sequences is None:
            return
        ops.attention_forward_into(
            query[:n], key[:n], value[:n], out[:n], alibi_slopes=self.alibi_slopes, sinks=wide(self.sinks),
            cu_seqlens_q=sequences.query_start_loc, cu_seqlens_k=sequences.query_start_loc, longest_q=sequences.longest_query,
            longest_k=sequences.longest_query, mask=MASKS["none"], window_left=self.before,
            window_right=self.before, scale=self.scale, soft_cap=self.logits_soft_cap)  # fmt: skip

    def _scales(self, layer):
        """What an e4m3 cache is multiplied with, on the device."""
        if not self.is_narrow:
            return None, None
        return layer._k_scale.reshape(-1), layer._v_scale.reshape(-1)
