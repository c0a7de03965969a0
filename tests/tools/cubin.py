# SPDX-License-Identifier: MIT
"""Writes cubins with no code in them: the ELF sections from which a kernel's name, parameters and limits are read."""

import struct

MACHINE_CUDA, FUNCTION, ENTRY = 190, 2, 0x10
PROGRAM_BITS, SYMBOLS, STRINGS, NO_BYTES = 1, 2, 3, 8
MAX_THREADS, PARAMETER_INFO = 5, 23


def kernel_info(parameters, max_threads):
    """An .nv.info section: parameters last first, as compilers write them."""
    slots, end = [], 0
    for size in parameters:
        align = min(size, 8)
        end = (end + align - 1) // align * align
        slots.append((end, size))
        end += size
    out = b""
    for ordinal, (offset, size) in reversed(list(enumerate(slots))):
        out += struct.pack("<BBHIHHI", 4, PARAMETER_INFO, 12, 0, ordinal, offset, size << 18)
    if max_threads:
        out += struct.pack("<BBHIII", 4, MAX_THREADS, 12, max_threads, 1, 1)
    return out


def cubin(kernels, capability=90):
    """A cubin; `kernels` maps names to {"parameters": sizes, "max_threads": n, "shared": bytes}."""
    strings = b"\0"
    symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    sections = []  # name, type, bytes, size, link
    for name, facts in kernels.items():
        symbols += struct.pack("<IBBHQQ", len(strings), 1 << 4 | FUNCTION, ENTRY, 1, 0, 16)
        strings += name.encode() + b"\0"
        info = kernel_info(facts.get("parameters", []), facts.get("max_threads", 0))
        sections.append((f".nv.info.{name}", PROGRAM_BITS, info, len(info), 0))
        if facts.get("shared"):
            sections.append((f".nv.shared.{name}", NO_BYTES, b"", facts["shared"], 0))
    sections = [
        ("", 0, b"", 0, 0),
        (".strtab", STRINGS, strings, len(strings), 0),
        (".symtab", SYMBOLS, symbols, len(symbols), 1),
        *sections,
    ]
    names = b"\0"
    for name, *_ in sections[1:]:
        names += name.encode() + b"\0"
    names += b".shstrtab\0"
    sections.append((".shstrtab", STRINGS, names, len(names), 0))
    body, heads = b"", b""
    for name, kind, data, size, link in sections:
        place = names.index(b"\0" + name.encode() + b"\0") + 1 if name else 0
        heads += struct.pack("<IIQQQQIIQQ", place, kind, 0, 0, 64 + len(body), size, link, 0, 1, 0)
        body += data
    head = b"\x7fELF" + bytes([2, 1, 1, 0x33, 7]) + bytes(7)
    head += struct.pack(
        "<HHIQQQIHHHHHH", 2, MACHINE_CUDA, 1, 0, 0, 64 + len(body), capability, 64, 56, 0, 64, len(sections), len(sections) - 1
    )
    return head + body + heads
