# SPDX-License-Identifier: MIT
"""flash_attn.flash_attn_interface: where much code imports the functions from."""

from . import *  # noqa: F403
from . import __all__  # noqa: F401
