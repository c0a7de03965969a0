# SPDX-License-Identifier: MIT
"""The structs of switchyard/c_api.h in ctypes, the library's functions, and a call's arguments by name."""

import ctypes


class Tensor(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("extents", ctypes.c_int64 * 5),
        ("strides", ctypes.c_int64 * 5),
    ]


class Argument(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("tensor", ctypes.POINTER(Tensor)),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("pointer", ctypes.c_void_p),
        ("text", ctypes.c_char_p),
    ]


class Options(ctypes.Structure):
    """As the first version had them."""

    _fields_ = [
        ("size", ctypes.c_uint64),
        ("roots", ctypes.POINTER(ctypes.c_char_p)),
        ("root_count", ctypes.c_uint64),
        ("default_roots", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


Accept = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_uint64,
    ctypes.c_char_p,
    ctypes.POINTER(ctypes.c_char),
    ctypes.c_uint64,
)


class AllOptions(ctypes.Structure):
    """As they are now."""

    _fields_ = [
        *Options._fields_,
        ("tables", ctypes.POINTER(ctypes.c_char_p)),
        ("table_count", ctypes.c_uint64),
        ("log", ctypes.c_void_p),
        ("log_context", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("memory_context", ctypes.c_void_p),
        ("begin_range", ctypes.c_void_p),
        ("end_range", ctypes.c_void_p),
        ("range_context", ctypes.c_void_p),
        ("accept", Accept),
        ("accept_context", ctypes.c_void_p),
        ("canary_tables", ctypes.POINTER(ctypes.c_char_p)),
        ("canary_table_count", ctypes.c_uint64),
        ("canary_share", ctypes.c_double),
        ("canary_max_regret", ctypes.c_double),
        ("canary_least_comparisons", ctypes.c_uint64),
        ("live_one_in", ctypes.c_uint64),
    ]


class Description(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("argument_bytes", ctypes.c_uint64),
        ("field_count", ctypes.c_uint64),
        ("axis_count", ctypes.c_uint64),
    ]


def load(path):
    library = ctypes.CDLL(path)
    library.switchyard_last_error_text.restype = ctypes.c_char_p
    library.switchyard_generation.restype = ctypes.c_uint64
    library.switchyard_generation.argtypes = [ctypes.c_void_p]
    calls = [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(Argument), ctypes.c_size_t]
    library.switchyard_call.argtypes = calls
    library.switchyard_prepare.argtypes = calls
    library.switchyard_explain.argtypes = [*calls, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
    library.switchyard_operator_open.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_void_p),
    ]
    library.switchyard_operator_close.argtypes = [ctypes.c_void_p]
    library.switchyard_close.argtypes = [ctypes.c_void_p]
    text = [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
    library.switchyard_set_canary_share.argtypes = [ctypes.c_void_p, ctypes.c_double]
    library.switchyard_fingerprint.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, *text]
    library.switchyard_fingerprint_of_choices.argtypes = [ctypes.c_void_p, *text]
    library.switchyard_compare_fingerprints.argtypes = [ctypes.c_char_p, ctypes.c_char_p, *text]
    library.switchyard_poll_live.argtypes = [ctypes.c_void_p]
    library.switchyard_live.argtypes = [ctypes.c_void_p, *text]
    library.switchyard_write_live_tables.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64)]
    library.switchyard_compare_live.argtypes = [*calls, ctypes.c_uint32, ctypes.POINTER(ctypes.c_int32), *text]
    return library


def arguments(**given):
    out = (Argument * len(given))()
    for argument, (name, value) in zip(out, given.items()):
        argument.size, argument.name = ctypes.sizeof(Argument), name.encode()
        if isinstance(value, Tensor):
            argument.kind, argument.tensor = 0, ctypes.pointer(value)
        elif isinstance(value, int):
            argument.kind, argument.integer = 1, value
        elif isinstance(value, float):
            argument.kind, argument.real = 2, value
        elif isinstance(value, ctypes.c_void_p):
            argument.kind, argument.pointer = 3, value
        else:
            argument.kind, argument.text = 4, value.encode()
    return out
