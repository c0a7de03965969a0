# SPDX-License-Identifier: MIT
"""An attention backend for vLLM, outside its tree: --attention-backend CUSTOM is Switchyard's attention.

The wheel registers it as a plugin of the group vllm.general_plugins, which vLLM loads in each of its processes. vLLM's
CPU platform knows one backend and ignores the choice: there SWITCHYARD_VLLM_CPU=1 puts this one in its place.
"""

import os

BACKEND = "switchyard.vllm.backend.SwitchyardBackend"


def register() -> None:
    """Registers the backend. It imports neither the backend nor the extension; vLLM calls it, also several times."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    register_backend(AttentionBackendEnum.CUSTOM, BACKEND)
    if os.environ.get("SWITCHYARD_VLLM_CPU") == "1":
        register_backend(AttentionBackendEnum.CPU_ATTN, BACKEND)
