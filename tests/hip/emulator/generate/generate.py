#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the C++ of an instruction set from what tinygrad carries of AMD's manuals: generate.py <cdna|rdna3|rdna4> <folder> <files>

The folder gets tables.cpp (encodings and kinds of instruction) and handlers_<n>.cpp (what each kind does).
"""

import importlib
import os
import re
import sys

from overrides import LACKING, corrected
from pcode_emit import LANES, MEMORY, SCALAR, Emitter, c_type
from pcode_parse import NotUnderstood, Parser

FORMS = {
    "VOPC": "vopc",
    "VOP1": "vop1",
    "VOP2": "vop2",
    "VOP3SD": "vop3sd",
    "VOP3P_MFMA": "mfma",
    "VOP3P": "vop3p",
    "VOP3": "vop3",
    "VOPD": "vopd",
    "SOP1": "sop1",
    "SOP2": "sop2",
    "SOPC": "sopc",
    "SOPK": "sopk",
    "SOPP": "sopp",
    "SMEM": "smem",
    "DS": "ds",
    "FLAT": "flat",
    "GLOBAL": "global",
    "SCRATCH": "scratch",
    "MUBUF": "mubuf",
    "VFLAT": "flat",
    "VGLOBAL": "global",
    "VSCRATCH": "scratch",
    "VBUFFER": "mubuf",
}
VECTOR = ("VOP1Op", "VOP2Op", "VOP3Op", "VOPCOp", "VOP3SDOp", "VOP3POp")
SCALAR_OPS = ("SOP1Op", "SOP2Op", "SOPCOp", "SOPKOp")
BUFFER_OPS = ("MUBUFOp", "VBUFFEROp")
MEMORY_OPS = ("DSOp", "FLATOp", "GLOBALOp", "SCRATCHOp", "SMEMOp", "VFLATOp", "VGLOBALOp", "VSCRATCHOp", *BUFFER_OPS)
# What RDNA4 calls fields that the others have, too.
OTHER_NAMES = {"ioffset": "offset", "rsrc": "srsrc", "vsrc": "data", "vaddr": "addr"}
SOURCES = (("src0", "vsrc0", "ssrc0"), ("src1", "vsrc1", "ssrc1"), ("src2",))
VARIANTS = {"_LIT": "with_literal", "_DPP16": "with_dpp", "_SDWA": "with_sdwa", "_SDWA_SDST": "with_sdwa"}


def fields_of_kinds_hpp():
    text = open(os.path.join(os.path.dirname(__file__), "..", "kinds.hpp"), encoding="utf-8").read()
    return re.findall(r"\bf_(\w+)", text[text.index("enum field") : text.index("field_count")])


def form_of(name):
    base = max((key for key in FORMS if name.startswith(key)), key=len, default=None)
    return FORMS.get(base, "other")


def number_of(form):
    name = form.name.removeprefix("FMT_NUM_")
    if name == "PK2_F32":
        return "packed_f32"
    if name == "PK2_F16":
        return "packed_f16"
    if name.startswith("PK2_") and name.endswith("16"):
        return "packed_integer"
    return {"F16": "f16", "F32": "f32", "F64": "f64", "I64": "signed64"}.get(name, "integer")


class Kind:
    """An instruction kind as kinds.hpp has it, and its handler."""

    def __init__(self, op, text, operands, family, handlers):
        self.name, group = op.name, type(op).__name__
        self.bits, self.types = [0, 0, 0], ["integer"] * 3
        self.result_bits, self.result_type = 0, "integer"
        self.reason, self.slot, self.handler = None, None, None
        self.access_bytes, self.loaded_mask = 0, 0xFFFFFFFF
        for index, names in enumerate(SOURCES):
            for name in names:
                if name in operands:
                    self.bits[index], self.types[index] = operands[name][1], number_of(operands[name][0])
        for name in ("vdst", "sdst", "sdata"):
            if name in operands and not (name == "sdst" and group == "VOP3SDOp"):
                self.result_bits, self.result_type = operands[name][1], number_of(operands[name][0])
        if group == "SOPKOp":
            self.bits[0] = 16
        if group in MEMORY_OPS:
            for index, name in enumerate(("data0", "data", "vsrc", "data1")):
                if name in operands:
                    self.bits[index // 3] = operands[name][1]
        if "_PK_" not in self.name and "DOT" not in self.name:
            self.types = ["integer" if one == "packed_f32" else one for one in self.types]
        is_mask = group == "VOPCOp" or (group == "VOP3Op" and self.name.startswith("V_CMP"))
        if is_mask:
            self.result_bits = 0
        if (
            self.name.startswith("V_CNDMASK")
            or "_CO_CI_" in self.name
            or group == "VOP3SDOp"
            and re.search("ADDC|SUBB", self.name)
        ):
            self.bits[2] = 0  # a mask: carry_in
        self.zeroes = (
            family == "cdna"
            and group in VECTOR
            and (group in ("VOP1Op", "VOP2Op") or self.name.endswith("_E64"))
            and self.result_bits == 16
        )
        self.flags = dict.fromkeys(("carry_out", "EXEC", "carry_in", "adds_offset", "MEM_read", "MEM_write"), False)
        self.flags["carry_out"] = is_mask and not self.name.startswith("V_CMPX")
        if text is None:
            self.reason = "it has no pseudocode"
            return
        mode = LANES if group in VECTOR else SCALAR if group in SCALAR_OPS else MEMORY if group in MEMORY_OPS else None
        if mode is None:
            self.reason = "no part of the emulator"
            return
        text = corrected(self.name, text, family)
        emitter = Emitter(mode, self.bits, self.result_bits, self.zeroes)
        try:
            emitter.statements(Parser(text).program())
            self.slot, self.handler = self.finish(mode, group, emitter, handlers)
        except NotUnderstood as problem:
            self.reason = f"its pseudocode is not translated: {problem}"
            return
        if group in BUFFER_OPS:  # one operand, which is stored, loaded or both
            self.bits = [operands["vdata"][1] if emitter.used & {"DATA", "VDATA"} else 0, 0, 0]
            self.result_bits = emitter.loaded_bits
            # The widest of the accesses at the address and, four bytes each, behind it.
            self.access_bytes = max(
                [int(bits) // 8 for bits in re.findall(r"MEM\[addr\]\.[a-z]+(\d+)", text, re.IGNORECASE)]
                + [int(more) + 4 for more in re.findall(r"MEM\[addr \+ (\d+)U\]", text, re.IGNORECASE)]
                + [0]
            )
        self.loaded_mask = emitter.loaded_mask
        self.flags.update(
            carry_in="carry_in" in emitter.used,
            EXEC="EXEC" in emitter.written,
            adds_offset=not re.search(r"OFFSET", re.sub(r"Calc\w+\([^)]*\)", "", text)),
            MEM_write="MEM" in emitter.written,
            MEM_read="MEM" in emitter.used,
        )
        self.flags["carry_out"] = "carry_out" in emitter.written

    def finish(self, mode, group, emitter, handlers):
        body = emitter.declarations() + emitter.lines
        if mode == LANES:
            loads, store = [], []
            for index, bits in enumerate(self.bits):
                if f"S{index}" in emitter.used:
                    if bits > 64:
                        raise NotUnderstood("an operand of more than 64 bits")
                    loads.append(f"const {c_type('u', max(32, bits))} S{index} = {self.wide(f'c.source[{index}]', bits)};")
            if "D0" in emitter.used | emitter.written:
                if self.result_bits > 64:
                    raise NotUnderstood("a result of more than 64 bits")
                loads.append(f"{c_type('u', max(32, self.result_bits))} D0 = {self.wide('result', self.result_bits)};")
                store.append("result[lane] = (std::uint32_t(D0) & mask[lane]) | (result[lane] & ~mask[lane]);")
                if self.result_bits > 32:
                    store.append(
                        "result[lane + lanes] = (std::uint32_t(D0 >> 32) & mask[lane]) | (result[lane + lanes] & ~mask[lane]);"
                    )
            text = [
                "(const vector_call& c) {",
                "[[maybe_unused]] std::uint32_t* const result = c.result;",
                "[[maybe_unused]] const std::uint32_t* const mask = c.mask;",
                "#pragma GCC ivdep",
                "for (unsigned lane = 0; lane < lanes; ++lane) {",
                *loads,
                *body,
                *store,
                "}",
                "}",
            ]
            return "vector", handlers.add(text)
        if mode == SCALAR:
            names = {f"S{index}": f"c.source[{index}]" for index in range(2)} | {"D0": "c.result"}
            loads = [
                f"[[maybe_unused]] {c_type('u', max(32, bits))} {name} = {c_type('u', max(32, bits))}({names[name]});"
                for name, bits in (("S0", self.bits[0]), ("S1", self.bits[1]), ("D0", self.result_bits))
                if bits
            ]
            text = [
                "(scalar_call& c) {",
                "[[maybe_unused]] std::uint32_t SCC = c.scc;",
                "[[maybe_unused]] std::uint64_t EXEC = c.exec, VCC = c.vcc;",
                *loads,
                *body,
                "c.scc = SCC;",
                "c.exec = EXEC;",
                "c.vcc = VCC;",
                "c.result = D0;" if self.result_bits else "",
                "}",
            ]
            return "scalar", handlers.add(text)
        return "memory", handlers.add(
            ["(const memory_call& c, [[maybe_unused]] unsigned lane, [[maybe_unused]] std::uint64_t address) {", *body, "}"]
        )

    @staticmethod
    def wide(rows, bits):
        low = f"{rows}[lane]"
        return low if bits <= 32 else f"std::uint64_t({low}) | std::uint64_t({rows}[lane + lanes]) << 32"

    def row(self):
        slots = [f"h{self.handler}" if self.slot == slot else "nullptr" for slot in ("vector", "scalar", "memory")]

        def boolean(name):
            return "true" if self.flags[name] else "false"

        reason = (
            "nullptr"
            if self.reason is None
            else '"' + self.reason.replace("\\", "\\\\").replace('"', "'").replace("\n", " ") + '"'
        )
        return (
            f'    {{"{self.name}", {reason}, {", ".join(slots)}, {{{", ".join(map(str, self.bits))}}}, '
            f"{{{', '.join('number::' + one for one in self.types)}}}, {self.result_bits}, number::{self.result_type}, "
            f"{boolean('carry_out')}, {boolean('EXEC')}, {boolean('carry_in')}, {'true' if self.zeroes else 'false'}, "
            f"{boolean('adds_offset')}, {boolean('MEM_read')}, {boolean('MEM_write')}, {self.access_bytes}, {self.loaded_mask:#x}U}},"
        )


class Handlers:
    """Functions, the same text once."""

    def __init__(self):
        self.known = {}

    def add(self, lines):
        return self.known.setdefault("\n".join(line for line in lines if line), len(self.known))


def encoding_row(cls, index_of, ops, fields, lacking):
    from tinygrad.renderer.amd.dsl import EnumBitField, FixedBitField

    name = cls.__name__
    fixed, places, op_table = [], {}, []
    for field_name, field in cls._fields:
        if field_name in OTHER_NAMES and not (field_name == "vaddr" and form_of(name) == "mubuf"):
            field_name = OTHER_NAMES[field_name]
        if isinstance(field, FixedBitField):
            fixed.append((field.lo // 32, field.mask << field.lo % 32, field.default << field.lo % 32))
        elif field_name in fields:
            places[field_name] = (field.lo, field.hi - field.lo + 1)
        if isinstance(field, EnumBitField) and field_name == "op":
            allowed = field.allowed if field.allowed is not None else set(field._enum)
            op_table = [0] * (1 << (field.hi - field.lo + 1))
            for op in allowed:
                op_table[op.value] = ops.index(op)
            for (encoding, value), at in lacking.items():
                if encoding == name:
                    op_table[value] = at + 1
    for suffix, number in (("_DPP16", 0xFA), ("_SDWA", 0xF9), ("_SDWA_SDST", 0xF9)):
        if name.endswith(suffix):
            fixed.append((0, 0x1FF, number))
    variants = {"with_literal": -1, "with_dpp": -1, "with_sdwa": -1}
    for suffix, key in VARIANTS.items():
        if name + suffix in index_of:
            variants[key] = index_of[name + suffix]
    listed = ", ".join(f"{{{low}, {bits}}}" for low, bits in (places.get(one, (-1, 0)) for one in fields))
    patterns = ", ".join(f"{{{dword}, {mask:#x}U, {value:#x}U}}" for dword, mask, value in fixed)
    return op_table, (f'"{name}", form::{form_of(name)}, {cls._base_size}, {len(fixed)}, {{{patterns}}}', variants, listed)


class Ops:
    def __init__(self, kinds):
        self.kinds = kinds

    def index(self, op):
        return self.kinds[op] + 1 if op in self.kinds else 0


def main():
    family, folder, files = sys.argv[1], sys.argv[2], int(sys.argv[3])
    package = f"tinygrad.runtime.autogen.amd.{family}"
    ins, pcode = importlib.import_module(package + ".ins"), importlib.import_module(package + ".str_pcode").PCODE
    operands = importlib.import_module(package + ".operands").OPERANDS
    from tinygrad.renderer.amd import _load_formats
    from tinygrad.renderer.amd.dsl import Inst

    order = list(_load_formats()[family])
    order += [cls for cls in (ins.VBUFFER if family == "rdna4" else ins.MUBUF,) if cls not in order]
    listed = {cls.__name__ for cls in order}
    variants = [
        cls
        for name, cls in vars(ins).items()
        if isinstance(cls, type)
        and issubclass(cls, Inst)
        and name not in listed
        and any(name.endswith(suffix) for suffix in VARIANTS)
    ]
    handlers, kinds, index = Handlers(), [], {}
    groups = {
        type(op) for cls in order + variants for _, field in cls._fields if hasattr(field, "_enum") for op in list(field._enum)
    }
    for group in sorted(groups, key=lambda one: one.__name__):
        for op in group:
            index[op] = len(kinds)
            kinds.append(Kind(op, pcode.get(op), operands.get(op, {}), family, handlers))
    lacking = {}
    for place, (name, like, text) in LACKING.get(family, {}).items():
        op = next(one for one in index if one.name == like and type(one).__name__ == place[0] + "Op")
        lacking[place] = len(kinds)
        kinds.append(Kind(type(place[0] + "Op", (), {"name": name})(), text, operands.get(op, {}), family, handlers))
    fields = fields_of_kinds_hpp()
    index_of = {cls.__name__: at for at, cls in enumerate(order + variants)}
    tables, rows = [], []
    for at, cls in enumerate(order + variants):
        op_table, (head, links, places) = encoding_row(cls, index_of, Ops(index), fields, lacking)
        tables.append(f"const std::uint16_t ops_{at}[] = {{{', '.join(map(str, op_table or [0]))}}};")
        rows.append(
            f"    {{{head}, ops_{at}, {links['with_literal']}, {links['with_dpp']}, {links['with_sdwa']}, "
            f"{'true' if cls in variants else 'false'}, {{{places}}}}},"
        )
    by_name = {kind.name: at for at, kind in reversed(list(enumerate(kinds)))}
    duals = {}
    for op in getattr(importlib.import_module(package + ".enum"), "VOPDOp", ()):
        name = op.name.replace("_DUAL_", "_")
        name = {"V_ADD_NC_U32": "V_ADD_NC_U32_E32"}.get(name, name + "_E32")
        duals[op.value] = by_name.get(name, -1) + 1
    dual_list = [duals.get(value, 0) for value in range(max(duals, default=0) + 1)]

    os.makedirs(folder, exist_ok=True)
    names = sorted(handlers.known.items(), key=lambda item: item[1])
    signature = lambda text: text[: text.index("{")].rstrip()
    with open(os.path.join(folder, "tables.cpp"), "w", encoding="utf-8") as out:
        out.write('#include "kinds.hpp"\n\nnamespace emulator {\n\n')
        out.writelines(f"void h{number}{signature(text)};\n" for text, number in names)
        out.write("\nnamespace {\n\n" + "\n".join(tables) + "\n\n")
        out.write("const kind kind_list[] = {\n" + "\n".join(kind.row() for kind in kinds) + "\n};\n\n")
        out.write("const encoding encoding_list[] = {\n" + "\n".join(rows) + "\n};\n\n")
        out.write(f"const std::uint16_t dual_list[] = {{{', '.join(map(str, dual_list))}}};\n\n}}  // namespace\n\n")
        out.write(
            "const std::span<const kind> kinds{kind_list};\nconst std::span<const encoding> encodings{encoding_list};\n"
            "const std::span<const std::uint16_t> dual_kinds{dual_list};\n\n}  // namespace emulator\n"
        )
    for part in range(files):
        with open(os.path.join(folder, f"handlers_{part}.cpp"), "w", encoding="utf-8") as out:
            out.write('#include "kinds.hpp"\n\nnamespace emulator {\n\n')
            out.writelines(f"void h{number}{text}\n\n" for text, number in names[part::files])
            out.write("}  // namespace emulator\n")
    translated = sum(kind.slot is not None for kind in kinds)
    print(f"{family}: {translated} of {len(kinds)} kinds of instruction translated, {len(names)} functions")


if __name__ == "__main__":
    main()
