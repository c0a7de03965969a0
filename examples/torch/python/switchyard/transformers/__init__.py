# SPDX-License-Identifier: MIT
"""Switchyard's kernels in Hugging Face models, transformers 5.

    import switchyard.transformers
    model = switchyard.transformers.patch(model)     # attention, rotary, norms and gated activations
    model = AutoModel.from_pretrained(name, attn_implementation="switchyard")     # attention alone

    switchyard.transformers.serve_flash_attention()     # attn_implementation="flash_attention_2" is Switchyard

Importing this module registers the attention implementation "switchyard" and its masks, and makes
transformers refuse it for models whose class takes no attention interface.
"""

from transformers import AttentionInterface, AttentionMaskInterface

from ._attention import attention
from ._classes import refuse_others
from ._flash import serve_flash_attention
from ._masks import mask
from ._patch import patch, report, unpatch

AttentionInterface.register("switchyard", attention)
AttentionMaskInterface.register("switchyard", mask)
refuse_others()

__all__ = ["patch", "report", "serve_flash_attention", "unpatch"]
