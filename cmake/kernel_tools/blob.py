# SPDX-License-Identifier: MIT
"""What a blob says of itself: architecture, kernels, parameters and resources, read without a device.

Sources: System V ABI (ELF), NVIDIA's cuobjdump and LLVM's list of CUDA ELF flags for cubins, LLVM's
"User Guide for AMDGPU Backend" (code object metadata) for hsaco.
"""

import re
import struct

from . import KernelBuildError, msgpack
from .elf import SHT_DYNSYM, Elf

EM_X86_64, EM_AARCH64, EM_AMDGPU, EM_CUDA = 62, 183, 224, 190
HOST_ARCH = {EM_X86_64: "x86_64", EM_AARCH64: "aarch64"}
ENTRY = 0x10  # st_other of a kernel in a cubin

# Attributes of .nv.info, as cuobjdump names them (EIATTR_…).
MAX_THREADS, FRAME_SIZE, REQUIRED_THREADS, KPARAM_INFO, PARAM_SIZE, CLUSTER, REGISTERS = 5, 17, 16, 23, 25, 61, 47


def nv_attributes(data):
    """(attribute, payload) of an .nv.info section. A format byte says how long each payload is."""
    offset = 0
    while offset + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, offset)
        offset += 4
        if form == 4:
            yield attribute, data[offset : offset + size]
            offset += size
        else:
            yield attribute, struct.pack("<H", size)


def read_cubin(content, file_name):
    elf = Elf(content, file_name)
    if elf.machine != EM_CUDA:
        raise KernelBuildError(f"{file_name}: not a cubin (ELF machine {elf.machine})")
    # CUDA 13 moved the architecture from the low byte of the flags to the second one, and changed the OS ABI.
    number = elf.flags >> 8 & 0xFFFF if elf.os_abi == 65 else elf.flags & 0xFF
    arch = f"sm_{number}"
    for owner, kind, description in elf.notes():
        if owner == "NVIDIA Corp" and kind == 2000 and (match := re.search(rb"-arch (sm_\w+)", description)):
            arch = match.group(1).decode()
    if elf.os_abi != 65 and elf.flags & 0x800:
        arch += "a"
    symbols = list(elf.symbols())
    frames, registers = {}, {}
    if general := elf.section(".nv.info"):
        for attribute, payload in nv_attributes(general.data):
            if attribute in (FRAME_SIZE, REGISTERS) and len(payload) == 8:
                index, value = struct.unpack("<II", payload)
                if index < len(symbols):
                    (frames if attribute == FRAME_SIZE else registers)[symbols[index].name] = value
    kernels = {}
    for symbol in symbols:
        if symbol.type != 2 or not symbol.other & ENTRY:
            continue
        kernel = {"parameters": {}, "stack_bytes": frames.get(symbol.name, 0)}
        if symbol.name in registers:
            kernel["registers"] = registers[symbol.name]
        info = elf.section(f".nv.info.{symbol.name}")
        for attribute, payload in nv_attributes(info.data if info else b""):
            if attribute == KPARAM_INFO:
                _, ordinal, offset, flags = struct.unpack("<IHHI", payload)
                kernel["parameters"][ordinal] = (offset, flags >> 18)
            elif attribute in (MAX_THREADS, REQUIRED_THREADS):
                kernel["max_threads"] = struct.unpack("<III", payload)
            elif attribute == CLUSTER:
                kernel["cluster"] = struct.unpack("<III", payload)
        kernel["parameters"] = [kernel["parameters"][ordinal] for ordinal in sorted(kernel["parameters"])]
        shared = elf.section(f".nv.shared.{symbol.name}")
        kernel["static_shared_bytes"] = shared.size if shared else 0
        kernels[symbol.name] = kernel
    return {"backend": "cuda", "arch": arch, "kernels": kernels}


PTX_SIZE = {"8": 1, "16": 2, "32": 4, "64": 8}


def read_ptx(content, file_name):
    text = content.decode(errors="replace").rstrip("\0")
    target = re.search(r"^\.target\s+sm_(\w+)", text, re.MULTILINE)
    if target is None:
        raise KernelBuildError(f"{file_name}: not PTX (no .target)")
    kernels = {}
    for match in re.finditer(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^{]*)\{", text):
        parameters, offset = [], 0
        for parameter in filter(None, (part.strip() for part in (match.group(2) or "").split(","))):
            shape = re.match(
                r"\.param\s+(?:\.align\s+(\d+)\s+)?\.([a-z])(\d+)\s+(?:\.ptr[^%\w]*(?:\.\w+\s+)*(?:\.align\s+\d+\s+)?)?"
                r"[\w$]+(?:\[(\d+)\])?",
                parameter,
            )
            if shape is None:
                raise KernelBuildError(f"{file_name}: kernel {match.group(1)}: parameter '{parameter}' is not understood")
            unit = PTX_SIZE[shape.group(3)]
            size = unit * int(shape.group(4) or 1)
            align = int(shape.group(1) or unit)
            offset = (offset + align - 1) // align * align
            parameters.append((offset, size))
            offset += size
        kernel = {"parameters": parameters}
        if limit := re.search(r"\.(?:max|req)ntid\s+([\d\s,]+)", match.group(3)):
            sizes = [int(part) for part in limit.group(1).split(",")]
            kernel["max_threads"] = tuple(sizes + [1] * (3 - len(sizes)))
        kernels[match.group(1)] = kernel
    return {"backend": "cuda", "arch": f"compute_{target.group(1)}", "kernels": kernels}


def read_hsaco(content, file_name):
    elf = Elf(content, file_name)
    if elf.machine != EM_AMDGPU or elf.os_abi != 64:
        raise KernelBuildError(f"{file_name}: not an AMD code object (ELF machine {elf.machine}, OS ABI {elf.os_abi})")
    metadata = next((msgpack.decode(data) for owner, kind, data in elf.notes() if owner == "AMDGPU" and kind == 32), None)
    if not isinstance(metadata, dict):
        raise KernelBuildError(f"{file_name}: no AMDGPU metadata note")
    arch = metadata.get("amdhsa.target", "").rpartition("-")[2].partition(":")[0]
    symbols = {symbol.name for symbol in elf.symbols(SHT_DYNSYM)}
    kernels = {}
    for entry in metadata.get("amdhsa.kernels", []):
        name, symbol = entry[".name"], entry[".symbol"]
        if symbol not in symbols:
            raise KernelBuildError(f"{file_name}: kernel {name} has no symbol {symbol}")
        explicit = [argument for argument in entry.get(".args", []) if not argument[".value_kind"].startswith("hidden_")]
        kernels[name] = {
            "parameters": [(argument[".offset"], argument[".size"]) for argument in explicit],
            "pointers": [argument[".value_kind"] == "global_buffer" for argument in explicit],
            "hidden": sorted(
                {
                    argument[".value_kind"]
                    for argument in entry.get(".args", [])
                    if argument[".value_kind"].startswith("hidden_")
                }
            ),
            "kernarg_bytes": entry[".kernarg_segment_size"],
            "static_shared_bytes": entry[".group_segment_fixed_size"],
            "stack_bytes": entry[".private_segment_fixed_size"],
            "spills": entry.get(".vgpr_spill_count", 0),
            "registers": entry.get(".vgpr_count", 0),
            "wavefront_size": entry[".wavefront_size"],
            "max_flat_threads": entry[".max_flat_workgroup_size"],
        }
    return {"backend": "hip", "arch": arch, "machine_flags": elf.flags, "kernels": kernels}


def read_shared_object(content, file_name):
    elf = Elf(content, file_name)
    if elf.machine not in HOST_ARCH or elf.type != 3:
        raise KernelBuildError(f"{file_name}: not a shared object for x86_64 or aarch64")
    exported = {
        symbol.name: symbol
        for symbol in elf.symbols(SHT_DYNSYM)
        if symbol.type == 1 and symbol.binding in (1, 2) and symbol.section != 0
    }
    kernels = {}
    for name, symbol in exported.items():
        kernel = {}
        # The description (host/kernel.hpp) may be read when it is fully constant: its abi and count are.
        section = next(
            (
                one
                for one in elf.sections
                if one.flags & 2 and one.type != 8 and one.address <= symbol.value < one.address + one.size
            ),
            None,
        )
        if section and symbol.size == 24:
            kernel["abi"], kernel["count"] = struct.unpack_from("<II", section.data, symbol.value - section.address)
        kernels[name] = kernel
        if "count" in kernel:
            sizes = relocated_sizes(elf, symbol, kernel["count"])
            if sizes is not None:
                kernel["parameters"] = packed(sizes)
    return {"backend": "host", "arch": HOST_ARCH[elf.machine], "kernels": kernels}


def relocated_sizes(elf, symbol, count):
    """The parameter sizes behind the pointer that a RELATIVE or symbolic relocation fills in."""
    for section in elf.sections:
        if section.type != 4:
            continue
        for offset in range(0, len(section.data) - 23, 24):
            place, info, addend = struct.unpack_from("<QQq", section.data, offset)
            if place != symbol.value + 8:
                continue
            address = addend
            if index := info >> 32:
                named = list(elf.symbols(SHT_DYNSYM))
                address += named[index].value
            for data in elf.sections:
                if data.flags & 2 and data.type != 8 and data.address <= address < data.address + data.size:
                    begin = address - data.address
                    if begin + 4 * count <= len(data.data):
                        return struct.unpack_from(f"<{count}I", data.data, begin)
    return None


def packed(sizes):
    result, offset = [], 0
    for size in sizes:
        align = min(size, 8) or 1
        offset = (offset + align - 1) // align * align
        result.append((offset, size))
        offset += size
    return result


READERS = {".so": read_shared_object, ".cubin": read_cubin, ".ptx": read_ptx, ".hsaco": read_hsaco}


def read_blob(path):
    suffix = path[path.rfind(".") :]
    if suffix not in READERS:
        raise KernelBuildError(f"{path}: unknown kind of blob; known are {', '.join(sorted(READERS))}")
    with open(path, "rb") as file:
        content = file.read()
    return READERS[suffix](content, path)
