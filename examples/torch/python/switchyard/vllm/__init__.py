# SPDX-License-Identifier: MIT
"""An attention backend for vLLM, outside its tree: --attention-backend CUSTOM is Switchyard's attention.

The wheel registers it as a plugin of the group vllm.general_plugins, which vLLM loads in each of its processes. vLLM's
CPU platform knows one backend and ignores the choice: there, SWITCHYARD_VLLM_CPU=1 replaces that backend by this one.
"""

import logging
import os

BACKEND = "switchyard.vllm.backend.SwitchyardBackend"

_log = logging.getLogger("vllm.plugins.switchyard")  # vLLM shows what is below its own name


def register() -> None:
    """Registers the backend, without importing it or the extension. vLLM calls this function, possibly several times.

    If registration fails it warns instead of raising, since an error would end vLLM for users of other backends too.
    """
    try:
        from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
    except ImportError as error:
        _log.warning("Switchyard's attention is not available, this version of vLLM has no registry of backends: %s", error)
        return
    custom = AttentionBackendEnum.CUSTOM
    if custom.is_overridden() and custom.get_path() != BACKEND:
        _log.warning("Switchyard's attention is not CUSTOM, which is %s: VLLM_PLUGINS chooses plugins", custom.get_path())
    else:
        register_backend(custom, BACKEND)
    if os.environ.get("SWITCHYARD_VLLM_CPU") == "1":
        register_backend(AttentionBackendEnum.CPU_ATTN, BACKEND)
