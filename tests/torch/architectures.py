# SPDX-License-Identifier: MIT
"""Every architecture of the installed transformers, by the tables of its auto classes, with a tiny config of each."""

import functools
import warnings

import torch
import transformers
from transformers import PreTrainedModel
from transformers.models.auto import modeling_auto

# Which model stands for an architecture: the first of these tables that has its config.
TABLES = (
    "CAUSAL_LM",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "MASKED_LM",
    "IMAGE_TEXT_TO_TEXT",
    "IMAGE_CLASSIFICATION",
    "SPEECH_SEQ_2_SEQ",
    "CTC",
)
MAX_PARAMETERS = 4_500_000
# Sizes by the names that configs have for them. A config is given those that it has.
SIZES = {
    "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1, "d_model": 64, "d_ff": 96, "d_kv": 16, "num_layers": 2, "num_heads": 4,
    "num_decoder_layers": 2, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_inner": 96, "n_positions": 64, "encoder_layers": 2,
    "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96, "ffn_dim": 96, "embedding_size": 64, "embed_dim": 64, "num_local_experts": 4, "num_experts": 4,
    "n_routed_experts": 4, "moe_num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32, "n_group": 1, "topk_group": 1, "q_lora_rank": 32, "kv_lora_rank": 16,
    "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16, "first_k_dense_replace": 1, "image_size": 32,
    "patch_size": 8, "num_channels": 3, "num_labels": 5, "mrope_section": [4, 2, 2], "dropout": 0.0, "attention_dropout": 0.0,
    "hidden_dropout": 0.0, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "activation_dropout": 0.0,
    "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "dropout_rate": 0.0, "layerdrop": 0.0, "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0, "num_mel_bins": 16, "max_source_positions": 16, "max_target_positions": 64, "sliding_window": 5,
    "mamba_num_heads": 4, "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_head_dim": 32, "ssm_state_size": 16, "mamba_d_state": 16,
    "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 97, "lru_width": 64, "global_head_dim": 16,
}  # fmt: skip
VARIANTS = ({}, {"head_dim": None}, {"num_key_value_heads": 4}, {"num_hidden_layers": 4}, {"hidden_sizes": None})


class NoModel(Exception):
    """Why an architecture is not tried."""


@functools.cache
def all_classes() -> dict[str, type[PreTrainedModel]]:
    """The class of each architecture, by its model type."""
    out = {}
    for table in TABLES:
        for kind, name in getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES").items():
            name = name if isinstance(name, str) else name[0]
            found = getattr(transformers, name, None) if kind not in out else None
            if isinstance(found, type) and issubclass(found, PreTrainedModel):
                out[kind] = found
    return out


def _sizes(default, changes: dict) -> dict:
    """Arguments of a config like `default`, with those of the configs inside of it."""
    out = {}
    for name, value in {**SIZES, **changes}.items():
        had = getattr(default, name, None)
        if value is not None and hasattr(default, name) and isinstance(had, (list, tuple)) == isinstance(value, (list, tuple)):
            out[name] = value
    for name in getattr(default, "sub_configs", {}):
        inside = getattr(default, name, None)
        if isinstance(inside, transformers.PreTrainedConfig):
            out[name] = {"model_type": inside.model_type, **_sizes(inside, changes)}
    return out


def tiny(cls: type[PreTrainedModel]):
    """A small config of a class. Raises NoModel."""
    problems = []
    for changes in VARIANTS:
        try:
            with warnings.catch_warnings(), torch.device("meta"):
                warnings.simplefilter("ignore")
                config = cls.config_class(**_sizes(cls.config_class(), changes))
                model = cls._from_config(config, attn_implementation="eager")
        except Exception as problem:  # each config has its own demands
            problems.append(f"{type(problem).__name__}: {problem}".splitlines()[0][:80])
            continue
        count = sum(parameter.numel() for parameter in model.parameters())
        if count > MAX_PARAMETERS:
            raise NoModel(f"its small config has {count} parameters")
        return config
    raise NoModel(f"no small config: {problems[0]}")


def inputs(cls: type[PreTrainedModel], config) -> dict[str, torch.Tensor]:
    """A batch of two: tokens, pixels or sounds, whatever the class reads first."""
    main, text = cls.main_input_name, config.get_text_config(decoder=True)
    length, vocabulary = 9, getattr(text, "vocab_size", 97) or 97
    ids = torch.randint(3, min(vocabulary, 97), (2, length))
    if main == "input_ids":
        return {"input_ids": ids, **({"decoder_input_ids": ids.flip(1)} if config.is_encoder_decoder else {})}
    if main == "pixel_values":
        size = getattr(config, "image_size", 32)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        return {"pixel_values": torch.randn(2, getattr(config, "num_channels", 3), height, width)}
    raise NoModel(f"no inputs for {main}")
