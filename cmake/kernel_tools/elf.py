# SPDX-License-Identifier: MIT
"""A small reader of 64-bit little-endian ELF files: what the checks of kernel blobs need."""

import collections
import struct

from . import KernelBuildError

SHT_SYMTAB, SHT_NOTE, SHT_DYNSYM, SHT_NOBITS = 2, 7, 11, 8


Symbol = collections.namedtuple("Symbol", "name binding type other section value size")


class Section:
    def __init__(self, name, fields, data):
        self.name = name
        _, self.type, self.flags, self.address, self.offset, self.size, self.link, self.info, _, self.entry = fields
        self.data = data


class Elf:
    """Header fields, sections and symbols."""

    def __init__(self, content, file_name):
        if len(content) < 64 or content[:4] != b"\x7fELF":
            raise KernelBuildError(f"{file_name}: not an ELF file")
        if content[4] != 2 or content[5] != 1:
            raise KernelBuildError(f"{file_name}: not a 64-bit little-endian ELF file")
        self.os_abi, self.abi_version = content[7], content[8]
        try:
            (self.type, self.machine, _, _, _, table, self.flags, _, _, _, entry, count, names) = struct.unpack_from(
                "<HHIQQQIHHHHHH", content, 16
            )
            raw = [struct.unpack_from("<IIQQQQIIQQ", content, table + index * entry) for index in range(count)]
            strings = content[raw[names][4] : raw[names][4] + raw[names][5]] if count else b""
            self.sections = []
            for fields in raw:
                name = text_at(strings, fields[0])
                data = b"" if fields[1] == SHT_NOBITS else content[fields[4] : fields[4] + fields[5]]
                if fields[1] != SHT_NOBITS and len(data) != fields[5]:
                    raise KernelBuildError(f"{file_name}: section {name} reaches past the end of the file")
                self.sections.append(Section(name, fields, data))
        except (struct.error, IndexError):
            raise KernelBuildError(f"{file_name}: truncated ELF file") from None

    def section(self, name):
        return next((section for section in self.sections if section.name == name), None)

    def symbols(self, kind=SHT_SYMTAB):
        """Every symbol of the symbol tables of a kind."""
        for section in self.sections:
            if section.type != kind:
                continue
            strings = self.sections[section.link].data
            for offset in range(0, len(section.data) - 23, 24):
                name, info, other, index, value, size = struct.unpack_from("<IBBHQQ", section.data, offset)
                yield Symbol(text_at(strings, name), info >> 4, info & 15, other, index, value, size)

    def notes(self):
        """(owner, type, description) of every note."""
        for section in self.sections:
            if section.type != SHT_NOTE:
                continue
            offset = 0
            while offset + 12 <= len(section.data):
                owner_size, size, kind = struct.unpack_from("<III", section.data, offset)
                owner = section.data[offset + 12 : offset + 12 + owner_size].rstrip(b"\0").decode(errors="replace")
                begin = offset + 12 + (owner_size + 3) // 4 * 4
                yield owner, kind, section.data[begin : begin + size]
                offset = begin + (size + 3) // 4 * 4


def text_at(strings, offset):
    end = strings.find(b"\0", offset)
    return strings[offset : end if end >= 0 else len(strings)].decode(errors="replace")
