# SPDX-License-Identifier: MIT
"""Serves a tiny model with random weights in vLLM on the CPU, and writes its tokens and their logarithms as JSON.

    python serve_vllm.py MODEL FOLDER [own]      own: by vLLM's own attention backend

Prompts are longer than a step's tokens, so that they come in chunks beside sequences that decode.
"""

import json
import os
import random
import sys
from pathlib import Path

SMALL = {"vocab_size": 64, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2,
         "initializer_range": 0.2}  # fmt: skip
# The model's type, and what the engine is told besides. None has a cache in e4m3: vLLM 0.32 rounds toward zero there on the
# CPU, Switchyard to the nearest number, so that tokens differ.
MODELS = {
    "llama": ("float16", {}),
    "mistral": ("float16", {"block_size": 32}),
    "gemma2": ("bfloat16", {}),
    "bloom": ("float16", {}),
}


def make(name: str, folder: Path) -> None:
    import torch
    import transformers as hf

    configs = {
        "llama": lambda: hf.LlamaConfig(**SMALL),
        "mistral": lambda: hf.MistralConfig(**SMALL, sliding_window=24),
        "gemma2": lambda: hf.Gemma2Config(**SMALL, sliding_window=24, attn_logit_softcapping=5.0, query_pre_attn_scalar=32),
        "bloom": lambda: hf.BloomConfig(vocab_size=64, hidden_size=128, n_layer=2, n_head=4, initializer_range=0.2),
    }
    torch.manual_seed(3)
    model = hf.AutoModelForCausalLM.from_config(configs[name]())
    if name == "gemma2":  # embeddings are also the last projection: large ones repeat the last token
        with torch.no_grad():
            model.get_input_embeddings().weight.mul_(0.2)
    model.to(getattr(torch, MODELS[name][0])).save_pretrained(folder)


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    backend = "own" if sys.argv[3:] == ["own"] else "switchyard"
    os.environ.update(VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_OMP_THREADS_BIND="nobind",
                      SWITCHYARD_VLLM_CPU="1" if backend == "switchyard" else "0")  # fmt: skip
    from vllm import LLM, SamplingParams
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    if not (folder / "config.json").exists():
        make(name, folder)
    dtype, others = MODELS[name]
    engine = LLM(model=str(folder), skip_tokenizer_init=True, dtype=dtype, enforce_eager=True, max_model_len=256,
                 max_num_batched_tokens=64, max_num_seqs=8, seed=0, **others)  # fmt: skip
    served_by = AttentionBackendEnum.CPU_ATTN.get_class().__module__
    assert served_by.startswith("switchyard" if backend == "switchyard" else "vllm"), served_by
    draw = random.Random(5)
    prompts = [{"prompt_token_ids": [draw.randrange(3, 64) for _ in range(n)]} for n in (5, 150, 33, 64, 1, 90)]
    sampling = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True, detokenize=False, logprobs=3)
    found = [
        {
            "tokens": list(request.outputs[0].token_ids),
            "logarithms": [
                sorted((one.logprob for one in at.values()), reverse=True)[:3] for at in request.outputs[0].logprobs
            ],
        }
        for request in engine.generate(prompts, sampling)
    ]
    (folder / f"{backend}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
