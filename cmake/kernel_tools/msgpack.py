# SPDX-License-Identifier: MIT
"""A reader of MessagePack, the format of the metadata in AMD code objects."""

import struct

from . import KernelBuildError

FIXED = {0xCA: "f", 0xCB: "d", 0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q"}
SIZED = {
    0xC4: ("B", "binary"),
    0xC5: ("H", "binary"),
    0xC6: ("I", "binary"),
    0xD9: ("B", "text"),
    0xDA: ("H", "text"),
    0xDB: ("I", "text"),
    0xDC: ("H", "list"),
    0xDD: ("I", "list"),
    0xDE: ("H", "map"),
    0xDF: ("I", "map"),
}


class Reader:
    def __init__(self, data):
        self.data = data
        self.position = 0

    def number(self, kind):
        value = struct.unpack_from(">" + kind, self.data, self.position)[0]
        self.position += struct.calcsize(kind)
        return value

    def take(self, count):
        if self.position + count > len(self.data):
            raise struct.error
        self.position += count
        return self.data[self.position - count : self.position]

    def body(self, kind, count):
        if kind == "binary":
            return self.take(count)
        if kind == "text":
            return self.take(count).decode()
        if kind == "list":
            return [self.value() for _ in range(count)]
        return {self.value(): self.value() for _ in range(count)}

    def value(self):
        tag = self.number("B")
        if tag < 0x80:
            return tag
        if tag >= 0xE0:
            return tag - 0x100
        if tag < 0x90:
            return self.body("map", tag & 15)
        if tag < 0xA0:
            return self.body("list", tag & 15)
        if tag < 0xC0:
            return self.body("text", tag & 31)
        if tag in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[tag]
        if tag in FIXED:
            return self.number(FIXED[tag])
        if tag in SIZED:
            length, kind = SIZED[tag]
            return self.body(kind, self.number(length))
        raise KernelBuildError(f"MessagePack tag 0x{tag:02x} is not supported")


def decode(data):
    try:
        return Reader(data).value()
    except (struct.error, UnicodeDecodeError, RecursionError):
        raise KernelBuildError("damaged MessagePack data") from None
