# SPDX-License-Identifier: MIT
"""A step's batch as the ops take it: decoding sequences in front, then all others."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from vllm.v1.attention.backend import AttentionCGSupport, AttentionMetadataBuilder, CommonAttentionMetadata
from vllm.v1.attention.backends.utils import split_decodes_and_prefills

from ..torch._attention import MAX_DECODE_QUERIES


@dataclass
class Decodes:
    """Sequences with the same small number of tokens: one call of attention_decode."""

    sequences: int
    tokens: int  # of all of them
    seq_lens: torch.Tensor
    block_table: torch.Tensor


@dataclass
class Prefills:
    """Sequences of any length, after the decodes: one packed call of attention."""

    first_token: int
    tokens: int
    query_start_loc: torch.Tensor  # from first_token
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    longest_query: int
    longest: int


@dataclass
class SwitchyardMetadata:
    num_actual_tokens: int
    causal: bool
    decodes: Decodes | None
    prefills: Prefills | None


def _refuse_what_is_not_served(common: CommonAttentionMetadata) -> None:
    """vLLM validates nothing on the CPU, so a model may ask for any of these."""
    if isinstance(common.causal, torch.Tensor):
        raise NotImplementedError("Switchyard's backend serves no batches of which some sequences are causal")
    if common.mm_req_doc_ranges is not None:
        raise NotImplementedError("Switchyard's backend serves no prefixes whose tokens see one another")
    if common.rswa_prefix_lens is not None:
        raise NotImplementedError("Switchyard's backend serves no reference sliding window attention")
    if common.dcp_local_seq_lens is not None:
        raise NotImplementedError("Switchyard's backend serves no context that is spread over devices")


def _is_uniform(starts: torch.Tensor, sequences: int, tokens: int) -> bool:
    """Whether all sequences that have tokens have the same number, and `tokens` is that number times `sequences`.

    A batch that is padded to the size of a graph may end in sequences without tokens.
    """
    lengths = starts.diff()
    real = lengths[: int(lengths.count_nonzero())]
    return len(real) > 0 and bool((real == real[0]).all()) and sequences * int(real[0]) == tokens


class SwitchyardMetadataBuilder(AttentionMetadataBuilder[SwitchyardMetadata]):
    """Reads only host values and makes views. Launches nothing, except to rebase query_start_loc of a mixed batch."""

    # Batches of decodes with the same number of tokens each depend on no host value that changes between steps.
    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.UNIFORM_BATCH

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self._init_reorder_batch_threshold(1, supports_spec_as_decode=True)
        self.reorder_batch_threshold = min(self.reorder_batch_threshold, MAX_DECODE_QUERIES)

    @classmethod
    def get_cudagraph_support(cls, vllm_config, kv_cache_spec):
        """More tokens to verify than attention_decode takes need a packed call, whose longest sequence is a host value."""
        speculative = getattr(vllm_config, "speculative_config", None)
        drafted = getattr(speculative, "num_speculative_tokens", None) or 0
        if drafted + 1 > MAX_DECODE_QUERIES:
            return AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE
        return cls._cudagraph_support

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False) -> SwitchyardMetadata:
        """Ignores common_prefix_len: each sequence reads a shared prefix separately (no cascade attention)."""
        common = common_attn_metadata
        _refuse_what_is_not_served(common)
        decodes = Decodes(0, 0, common.seq_lens[:0], common.block_table_tensor[:0])
        if common.causal:
            # A batch that is padded to a graph's size may end in sequences without tokens.
            n, _, tokens, _ = split_decodes_and_prefills(common, self.reorder_batch_threshold, require_uniform=True)
            if n > 0 and _is_uniform(common.query_start_loc_cpu[: n + 1], n, tokens):
                decodes = Decodes(n, tokens, common.seq_lens[:n], common.block_table_tensor[:n])
        first, tokens = decodes.sequences, decodes.tokens
        prefills = None
        if tokens < common.num_actual_tokens:
            starts = common.query_start_loc[first : common.num_reqs + 1]
            prefills = Prefills(
                first_token=tokens,
                tokens=common.num_actual_tokens - tokens,
                query_start_loc=starts - tokens if tokens else starts,
                seq_lens=common.seq_lens[first : common.num_reqs],
                block_table=common.block_table_tensor[first : common.num_reqs],
                longest_query=common.max_query_len,
                longest=common.max_seq_len,
            )
        return SwitchyardMetadata(common.num_actual_tokens, common.causal, decodes if first else None, prefills)
