# SPDX-License-Identifier: MIT
"""Loads the extension and tells it where kernels are."""

import ctypes
from pathlib import Path

import torch

from .._roots import roots

_file = Path(__file__).absolute().parent.parent / "lib" / "_torch.so"
torch.ops.load_library(str(_file))


class _Overloads:
    """The ops' only overloads: calls of these need no search for one."""

    def __getattr__(self, name: str):
        overload = getattr(torch.ops.switchyard, name).default
        setattr(self, name, overload)
        return overload


ops = _Overloads()
op_names = {
    name.removeprefix("switchyard::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("switchyard::")
}

library = ctypes.CDLL(str(_file))
library.switchyard_torch_add_root.argtypes = [ctypes.c_char_p]
library.switchyard_torch_add_root.restype = None
library.switchyard_torch_set_call_mode.argtypes = [ctypes.c_int]
library.switchyard_torch_set_call_mode.restype = None
library.switchyard_torch_explanations.restype = ctypes.c_char_p
library.switchyard_torch_set_class.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
library.switchyard_torch_set_class.restype = None
library.switchyard_torch_class.argtypes = [ctypes.c_char_p]
library.switchyard_torch_class.restype = ctypes.c_char_p
library.switchyard_torch_generation.restype = ctypes.c_ulonglong
library.switchyard_torch_reload.restype = ctypes.c_int

for _root in roots():
    library.switchyard_torch_add_root(_root.encode())
