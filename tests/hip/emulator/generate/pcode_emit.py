# SPDX-License-Identifier: MIT
"""Writes an instruction's parsed pseudocode as C++.

A value has C++ text, a letter and a number of bits: u and i are integers, b is bits that have no type yet, f a float, g a
bfloat16, n a literal that takes the type of what it meets.
"""

from pcode_parse import NotUnderstood

LANES, SCALAR, MEMORY = "lanes", "scalar", "memory"

# What these return; others return the type of their first argument, or what their name says (f32_to_i32, v_max_u16).
RETURNS = {
    "exponent": ("i", 32),
    "sign": ("u", 1),
    "isNAN": ("u", 1),
    "isSignalNAN": ("u", 1),
    "isQuietNAN": ("u", 1),
    "isEven": ("u", 1),
    "signext_from_bit": ("i", 32),
    "bitCount": ("u", 32),
    "countbits": ("u", 32),
    "count_ones": ("u", 32),
    "BYTE_PERMUTE": ("u", 8),
    "LT_NEG_ZERO": ("u", 1),
    "GT_NEG_ZERO": ("u", 1),
    "ABSDIFF": ("u", 32),
    "s_ff1_i32_b32": ("i", 32),
    "s_ff1_i32_b64": ("i", 32),
}
SAME = {
    "abs",
    "trunc",
    "floor",
    "fract",
    "sqrt",
    "sin",
    "cos",
    "log2",
    "pow",
    "fma",
    "ldexp",
    "cvtToQuietNAN",
    "mantissa",
    "flush",
    "reverse_bits",
}
NAN_TESTS = {"isNAN", "isSignalNAN", "isQuietNAN"}
CONSTANTS = {
    "INF": ("HUGE_VAL", "f", 64),
    "PI": ("3.14159265358979323846", "f", 64),
    "UNDERFLOW_F32": ("0.0F", "f", 32),
    "OVERFLOW_F32": ("HUGE_VALF", "f", 32),
    "UNDERFLOW_F64": ("0.0", "f", 64),
    "OVERFLOW_F64": ("HUGE_VAL", "f", 64),
}


def parse_type(text):
    if text == "bf16":
        return "g", 16
    if text[0] in "uifb" and text[1:].isdigit():
        return text[0], int(text[1:])
    raise NotUnderstood(f"type {text}")


def c_type(letter, bits):
    if letter == "g":
        return "bfloat"
    if letter == "f":
        try:
            return {16: "half", 32: "float", 64: "double"}[bits]
        except KeyError:
            raise NotUnderstood(f"a float of {bits} bits") from None
    if letter == "n":
        return "std::int32_t"
    for size in (8, 16, 32, 64):
        if bits <= size:
            return f"std::{'' if letter == 'i' else 'u'}int{size}_t"
    if bits <= 128:
        return "int128" if letter == "i" else "uint128"
    raise NotUnderstood(f"{bits} bits")


def constant(expression):
    """The value of a constant expression, else None."""
    if expression[0] == "number":
        text = expression[1].split("'")[-1].rstrip("ULF")
        return int(text, 0) if "." not in text else None
    if expression[0] == "binary":
        left, right = constant(expression[2]), constant(expression[3])
        if None not in (left, right):
            return {"+": left + right, "-": left - right, "*": left * right}.get(expression[1])
    return None


class Emitter:
    """`sources` and `result` are the operands' bits; what the code uses is in the sets and flags afterwards."""

    def __init__(self, mode, sources, result, zeroes_high_half):
        self.mode, self.sources, self.result, self.zeroes_high_half = mode, sources, result, zeroes_high_half
        self.used, self.written = set(), set()
        self.locals, self.arrays, self.loops = {}, {}, set()
        self.lines = []
        self.loaded_bits, self.loaded_mask = 0, 0xFFFFFFFF

    # --- Values

    def value(self, expression):
        return getattr(self, "value_" + expression[0])(*expression[1:])

    def value_number(self, text):
        if "'" in text:
            bits, digits = text.split("'")
            if "." in digits:
                return f"static_cast<{c_type('f', int(bits))}>({digits})", "f", int(bits)
            return f"static_cast<{c_type('u', int(bits))}>({digits.rstrip('U')})", "u", int(bits)
        if "." in text or (text.endswith("F") and not text.startswith("0x")):
            return (text, "f", 32) if text.endswith("F") else (text, "f", 64)
        if text.startswith("0x") and not text.endswith(("U", "L")):
            return (f"{text}U", "n", 32) if int(text, 16) < 1 << 32 else (f"{text}ULL", "u", 64)
        if text.endswith("ULL"):
            return text, "u", 64
        if text.endswith("LL"):
            return text, "i", 64
        return (text, "u", 32) if text.endswith("U") else (text, "n", 32)

    def value_name(self, name):
        if name in self.locals:
            return (f"p_{name}", *self.locals[name])
        if name in self.loops:
            return f"p_{name}", "i", 32
        if name in CONSTANTS:
            return CONSTANTS[name]
        return self.register(name)

    def register(self, name):
        """A value that the instruction is given."""
        self.used.add(name)
        if name in ("S0", "S1", "S2"):
            bits = self.sources[int(name[1])] if int(name[1]) < len(self.sources) else 0
            if not bits:
                raise NotUnderstood(f"{name}, which the operands lack")
            return name, "b", max(32, bits)
        if name == "D0" and self.result:
            return name, "b", max(32, self.result)
        if name == "laneId" and self.mode != SCALAR:
            return "lane", "u", 32
        if name in ("WAVE64", "WAVE32"):
            return ("(lanes == 64)" if name == "WAVE64" else "(lanes == 32)"), "u", 1
        if name == "SIMM32":
            return "c.literal", "b", 32
        if self.mode == LANES and name in ("OPSEL", "OPSEL_HI", "NEG"):
            return f"c.{name.lower()}", "b", 32
        if self.mode == SCALAR:
            if name == "SCC":
                return "SCC", "u", 1
            if name in ("EXEC", "VCC"):
                return name, "b", 64
            if name == "SIMM16":
                return "c.literal", "b", 16
        if self.mode == MEMORY:
            if name in ("ADDR", "addr"):
                return "address", "u", 64
            if name in ("OFFSET", "OFFSET0", "OFFSET1"):
                return f"c.{name.lower()}", "b", 32
        raise NotUnderstood(f"name {name}")

    def value_type(self, inner, text):
        if inner == ("name", "WAVE_MODE") and text == "IEEE" and self.mode == LANES:
            return "c.ieee", "u", 1
        letter, bits = parse_type(text)
        if inner[0] == "name" and inner[1] in ("INF", "NAN", "DENORM"):
            if inner[1] == "DENORM":
                return f"denormal<{c_type(letter, bits)}>{{}}", letter, bits
            return f"static_cast<{c_type(letter, bits)}>({'HUGE_VALF' if inner[1] == 'INF' else 'NAN'})", letter, bits
        if inner[0] == "index" and inner[1] == ("name", "MEM"):
            self.used.add("MEM")
            return f"c.load<{c_type(letter, bits)}>({self.value(inner[2])[0]})", letter, bits
        if self.mode == MEMORY and self.is_data(inner):
            return self.retype(self.data(inner, bits), letter, bits)
        return self.retype(self.value(inner), letter, bits)

    @staticmethod
    def retype(value, letter, bits):
        """The low bits of a value, read as another type."""
        code, from_letter, from_bits = value
        if (letter, bits) == (from_letter, from_bits):
            return value
        if from_letter in "fg":
            if letter in "fg":
                raise NotUnderstood("a float read as a float of another size")
            code, from_letter = f"bits_of({code})", "u"
        if letter in "fg":
            return f"from_bits<{c_type(letter, bits)}>({code})", letter, bits
        name = c_type(letter, bits)
        code = f"static_cast<{name}>({code})"
        if bits not in (8, 16, 32, 64, 128) and from_bits > bits:
            if letter == "i" and bits == 24:
                code = f"sign_extended<24>({code})"
            elif letter == "i" and bits > 1:
                raise NotUnderstood(f"an integer of {bits} bits")
            else:
                mask = f"static_cast<{name}>((uint128(1) << {bits}) - 1)" if bits > 64 else f"{(1 << bits) - 1}ULL"
                code = f"static_cast<{name}>({code} & {mask})"
        return code, letter, bits

    def value_slice(self, inner, high, low):
        if self.mode == MEMORY and self.is_data(inner):
            return self.data_slice(inner, constant(high), constant(low))
        code, letter, bits = self.value(inner)
        if letter in "fg":
            code = f"bits_of({code})"
        first, last = constant(low), constant(high)
        if None in (first, last):
            width = constant(high[3]) if high[0] == "binary" and high[1] == "+" and high[2] == low else None
            if width is None:
                raise NotUnderstood("a slice of no constant width")
            width, first = width + 1, self.value(low)[0]
        else:
            width = last - first + 1
            if width < 1:
                raise NotUnderstood("a slice whose bits are reversed")
        wide = c_type("u", max(bits, 32))
        return (
            f"static_cast<{c_type('u', width)}>((static_cast<{wide}>({code}) >> {first}) & {(1 << width) - 1}ULL)",
            "b",
            width,
        )

    def value_index(self, inner, index):
        if inner[0] == "name" and inner[1] in self.arrays:
            return (f"p_{inner[1]}[{self.value(index)[0]}]", *self.arrays[inner[1]])
        if index == ("name", "laneId") and self.mode == LANES:
            base = inner[1] if inner[0] == "type" else inner
            if base == ("name", "VCC"):
                self.used.add("carry_in")
                return "c.carry_in[lane]", "u", 1
            raise NotUnderstood("a lane's bit of what is no mask")
        code, letter, _ = self.value(inner)
        if letter in "fg":
            code = f"bits_of({code})"
        return f"(({code} >> {self.value(index)[0]}) & 1U)", "u", 1

    def value_cast(self, text, inner):
        letter, bits = parse_type(text)
        if letter == "f" and inner[0] == "number" and inner[1].startswith("0x"):
            return f"from_bits<{c_type(letter, bits)}>({inner[1]}U)", letter, bits
        code, from_letter, from_bits = self.value(inner)
        if letter == "b":
            return self.retype((code, from_letter, from_bits), letter, bits)
        if letter in "ui" and bits not in (8, 16, 32, 64) and bits < 64:
            raise NotUnderstood(f"a cast to {text}")
        if letter == "f" and from_letter == "b" and from_bits == bits:
            return self.retype((code, from_letter, from_bits), letter, bits)
        return f"static_cast<{c_type(letter, bits)}>({code})", letter, bits

    def value_join(self, parts):
        values = [self.value(part) for part in parts]
        total = sum(bits for _, _, bits in values)
        if total > 64:
            raise NotUnderstood(f"a value of {total} bits")
        code, shift = [], total
        for text, letter, bits in values:
            shift -= bits
            raw = f"bits_of({text})" if letter in "fg" else text
            code.append(f"(static_cast<std::uint64_t>(static_cast<{c_type('u', bits)}>({raw})) << {shift})")
        return f"static_cast<{c_type('u', total)}>({' | '.join(code)})", "u", total

    def value_unary(self, operator, inner):
        if operator == "-" and inner[0] == "number" and "." in inner[1]:
            code, letter, bits = self.value(inner)
            return f"-{code}", letter, bits
        code, letter, bits = self.value(inner)
        if operator == "!":
            return f"!({code})", "u", 1
        if operator == "~" and letter in "fg":
            raise NotUnderstood("the complement of a float")
        if bits == 1 and operator == "~":
            return f"({code} ^ 1U)", "u", 1
        return f"static_cast<{c_type(letter, bits)}>({operator}({code}))", letter, bits

    def value_binary(self, operator, left, right):
        if operator in ("&&", "||"):
            return f"({self.value(left)[0]} {operator} {self.value(right)[0]})", "u", 1
        (a, a_letter, a_bits), (b, b_letter, b_bits) = self.value(left), self.value(right)
        if operator == "**":
            letter, bits = a_letter, a_bits
            if a not in ("2.0F", "2.0"):
                raise NotUnderstood("a power of what is not 2")
            return f"static_cast<{c_type(letter, bits)}>(std::exp2(double({b})))", letter, bits
        if operator in ("<<", ">>"):
            letter, bits = (a_letter, a_bits) if a_letter != "n" else ("i", 32)
            name = "shift_left" if operator == "<<" else "shift_right"
            return f"{name}(static_cast<{c_type(letter, bits)}>({a}), {b})", letter, bits
        letter, bits = self.common((a_letter, a_bits), (b_letter, b_bits))
        name = c_type(letter, bits)
        if operator in ("==", "!=", "<>", "<", "<=", ">", ">="):
            operator = "!=" if operator == "<>" else operator
            if "denormal<" in b or "denormal<" in a:
                return f"({a} {operator} {b})", "u", 1
            return f"(static_cast<{name}>({a}) {operator} static_cast<{name}>({b}))", "u", 1
        if letter == "g":
            raise NotUnderstood("arithmetic of bfloat16")
        if letter in "fg" and operator in "&|^%":
            raise NotUnderstood(f"{operator} of floats")
        if bits == 1 and operator in "+-*":
            raise NotUnderstood("arithmetic of one bit")
        return f"static_cast<{name}>(static_cast<{name}>({a}) {operator} static_cast<{name}>({b}))", letter, bits

    @staticmethod
    def common(a, b):
        if a[0] == "n":
            return b
        if b[0] == "n":
            return a
        floats = [one for one in (a, b) if one[0] in "fg"]
        if floats:
            return max(floats, key=lambda one: one[1])
        if a[1] != b[1]:
            return max(a, b, key=lambda one: one[1])
        return ("i" if a[0] == b[0] == "i" else "u"), a[1]

    def value_choose(self, condition, yes, no):
        test = self.value(condition)[0]
        (a, *a_type), (b, *b_type) = self.value(yes), self.value(no)
        letter, bits = self.common(tuple(a_type), tuple(b_type))
        if letter == "b" or "b" in (a_type[0], b_type[0]):
            if letter in "fg":
                raise NotUnderstood("a choice of a float and bits")
        name = c_type(letter, bits)
        return f"(({test}) ? static_cast<{name}>({a}) : static_cast<{name}>({b}))", letter, bits

    def value_call(self, name, arguments):
        if name.startswith("Calc") and self.mode == MEMORY:
            self.used.add("ADDR")
            return "address", "u", 64
        if name in NAN_TESTS | {"cvtToQuietNAN"} and arguments[0][0] == "cast":
            arguments = [arguments[0][2]]  # a conversion would make a signalling NaN a quiet one
        values = [self.value(argument) for argument in arguments]
        code = ", ".join(text for text, _, _ in values)
        if name == "signext":
            return f"static_cast<std::int64_t>({values[0][0]})", "i", 64
        if name in RETURNS:
            return (f"{name}({code})", *RETURNS[name])
        if name in SAME:
            letter, bits = values[0][1:]
            name_of_type = c_type(letter, bits)
            if name in ("fma", "pow"):
                code = ", ".join(f"static_cast<{name_of_type}>({text})" for text, _, _ in values)
            return f"{'p_' if name not in ('fma', 'cvtToQuietNAN') else ''}{name}({code})", letter, bits
        parts = name.split("_to_")
        if len(parts) == 2 and all(part[0] in "uifb" and part[-1].isdigit() for part in parts):
            return (f"{name}({code})", *parse_type(parts[1]))
        for start in ("v_max_", "v_min_", "v_max3_", "v_min3_"):
            if name.startswith(start):
                letter, bits = parse_type(name[len(start) :])
                return f"{start[:-1]}<{c_type(letter, bits)}>({code})", letter, bits
        raise NotUnderstood(f"function {name}")

    # --- The data of memory instructions, dword by dword

    @staticmethod
    def is_data(expression):
        return expression[0] == "name" and expression[1] in ("DATA", "DATA2", "VDATA", "RETURN_DATA", "SDATA")

    def data(self, expression, bits):
        return self.data_slice(expression, bits - 1, 0)

    def data_slice(self, expression, high, low):
        if None in (high, low) or (low // 32 != high // 32 and (low % 32 or high - low != 63)):
            raise NotUnderstood("a part of the data that crosses dwords")
        name = expression[1]
        self.used.add(name)
        row = f"c.{'data2' if name == 'DATA2' else 'data'}[{low // 32}][lane]"
        if high - low == 63:
            next_row = f"c.{'data2' if name == 'DATA2' else 'data'}[{low // 32 + 1}][lane]"
            return f"(static_cast<std::uint64_t>({row}) | static_cast<std::uint64_t>({next_row}) << 32)", "b", 64
        width = high - low + 1
        return (row, "b", 32) if width == 32 else (f"static_cast<{c_type('u', width)}>({row} >> {low % 32})", "b", width)

    def store_data(self, high, low, value):
        """Into the loaded data: RETURN_DATA, or VDATA and SDATA of a load."""
        self.written.add("data")
        self.loaded_bits = max(self.loaded_bits, (high + 32) // 32 * 32)
        width = high - low + 1
        code = self.converted(value, "u", width)
        if width == 64 and low % 32 == 0:
            self.line(f"c.result[{low // 32}][lane] = static_cast<std::uint32_t>({code});")
            self.line(f"c.result[{low // 32 + 1}][lane] = static_cast<std::uint32_t>({code} >> 32);")
        elif width == 32 and low % 32 == 0:
            self.line(f"c.result[{low // 32}][lane] = {code};")
        elif width < 32:
            row = f"c.result[{low // 32}][lane]"
            self.loaded_mask = (1 << width) - 1 << low % 32
            self.line(
                f"{row} = ({row} & ~{(1 << width) - 1 << low % 32}U) | (static_cast<std::uint32_t>({code}) << {low % 32});"
            )
        else:
            raise NotUnderstood("a part of the result that crosses dwords")

    # --- Statements

    def line(self, text):
        self.lines.append(text)

    def converted(self, value, letter, bits):
        """A value as what it is assigned to."""
        code, from_letter, from_bits = value
        if letter in "fg":
            if from_letter in "bu" and from_letter != "n" and from_bits == bits and from_letter == "b":
                return self.retype(value, letter, bits)[0]
            return f"static_cast<{c_type(letter, bits)}>({code})"
        if from_letter in "fg":
            return f"static_cast<{c_type(letter, bits)}>(bits_of({code}))"
        return f"static_cast<{c_type(letter, bits)}>({code})"

    def assign(self, target, value):
        kind = target[0]
        if kind == "name":
            return self.assign_name(target[1], value, None)
        if kind == "type":
            return self.assign_typed(target[1], parse_type(target[2]), value)
        if kind == "slice":
            return self.assign_slice(target[1], target[2], target[3], value)
        if kind == "index":
            return self.assign_index(target[1], target[2], value)
        if kind == "join" and self.mode == LANES and len(target[1]) == 2 and target[1][0][1] == ("name", "D1"):
            bits = parse_type(target[1][1][2])[1]
            self.written |= {"D0", "carry_out"}
            self.line(f"const uint128 joined = {value[0]};")
            self.line(f"c.carry_out[lane] = static_cast<std::uint32_t>(joined >> {bits}) & 1U;")
            return self.line(f"D0 = static_cast<{c_type('u', bits)}>(joined);")
        raise NotUnderstood("an assignment to what is no register")

    def assign_typed(self, inner, kind, value):
        letter, bits = kind
        if inner[0] == "name":
            return self.assign_name(inner[1], value, kind)
        if inner[0] == "slice":
            return self.assign_slice(inner[1], inner[2], inner[3], (self.converted(value, letter, bits), letter, bits))
        if inner[0] == "index" and inner[1] == ("name", "MEM"):
            self.written.add("MEM")
            return self.line(
                f"c.store<{c_type(letter, bits)}>({self.value(inner[2])[0]}, {self.converted(value, letter, bits)});"
            )
        if inner[0] == "index":
            return self.assign_index(inner[1], inner[2], value)
        raise NotUnderstood("an assignment to what is no register")

    def assign_name(self, name, value, kind):
        if name == "D0" and self.result:
            letter, bits = kind or ("b", max(32, self.result))
            self.written.add("D0")
            code = self.converted(value, letter, bits)
            raw = f"bits_of({code})" if letter in "fg" else f"static_cast<{c_type('u', bits)}>({code})"
            wide = max(32, self.result)
            if bits < 32 and not self.zeroes_high_half:
                self.used.add("D0")
                return self.line(f"D0 = (D0 & ~{(1 << bits) - 1}U) | {raw};")
            if bits > wide:
                raise NotUnderstood("a result that is wider than its register")
            return self.line(f"D0 = {raw};")
        if self.mode == LANES and name == "VCC":
            self.written.add("carry_out")
            return self.line(f"c.carry_out[lane] = static_cast<std::uint32_t>({value[0]}) & 1U;")
        if self.mode == SCALAR and name in ("SCC", "EXEC", "VCC"):
            self.written.add(name)
            code = self.converted(value, "u", 64)
            return self.line(f"SCC = {code} & 1U;" if name == "SCC" else f"{name} = {code};")
        if self.mode == MEMORY and name in ("RETURN_DATA", "VDATA", "SDATA"):
            bits = (kind or ("u", 32))[1]
            return self.store_data(bits - 1, 0, (self.converted(value, *(kind or ("u", 32))), *(kind or ("u", 32))))
        if name.isupper() or name in CONSTANTS:
            raise NotUnderstood(f"an assignment to {name}")
        if self.mode == MEMORY and name == "addr":
            self.used.add("ADDR")
            return None  # the address is computed before
        if name not in self.locals:
            letter, bits = kind or value[1:]
            self.locals[name] = ("i", 32) if letter == "n" else (letter, bits)
        letter, bits = self.locals[name]
        if kind is not None and kind != (letter, bits):
            value = self.retype((self.converted(value, *kind), *kind), letter, bits)
        return self.line(f"p_{name} = {self.converted(value, letter, bits)};")

    def assign_slice(self, inner, high, low, value):
        if self.mode == MEMORY and inner[0] == "name" and inner[1] in ("RETURN_DATA", "VDATA", "SDATA"):
            if None in (constant(high), constant(low)):
                raise NotUnderstood("a part of the result that is no constant")
            return self.store_data(constant(high), constant(low), value)
        if inner[0] == "type":
            inner = inner[1]
        first, last = constant(low), constant(high)
        if inner[0] != "name" or None in (first, last):
            raise NotUnderstood("an assignment to a slice of no constant bounds")
        name, width = inner[1], last - first + 1
        if name == "D0" and self.result:
            self.used.add("D0")
            self.written.add("D0")
            text, total = "D0", max(32, self.result)
        elif self.mode == LANES and name not in ("VCC", "EXEC", "VGPR"):
            if name not in self.locals:
                self.locals[name] = ("b", 64 if last > 31 else 32)
            text, total = f"p_{name}", self.locals[name][1]
        else:
            raise NotUnderstood(f"an assignment to a part of {name}")
        whole = c_type("u", total)
        mask = ((1 << width) - 1) << first
        suffix = "ULL" if total > 32 else "U"
        placed = f"(static_cast<{whole}>({self.converted(value, 'u', width)}) << {first}) & {mask}{suffix}"
        return self.line(f"{text} = static_cast<{whole}>(({text} & ~{mask}{suffix}) | ({placed}));")

    def assign_index(self, inner, index, value):
        if inner[0] == "name" and inner[1] in self.arrays:
            return self.line(f"p_{inner[1]}[{self.value(index)[0]}] = {self.converted(value, *self.arrays[inner[1]])};")
        base = inner[1] if inner[0] == "type" else inner
        if self.mode == LANES and index == ("name", "laneId") and base[0] == "name" and base[1] in ("VCC", "D0", "EXEC"):
            self.written.add("EXEC" if base[1] == "EXEC" else "carry_out")
            return self.line(f"c.carry_out[lane] = static_cast<std::uint32_t>({value[0]}) & 1U;")
        if base == ("name", "D0") and self.mode == SCALAR:
            self.written.add("D0")
            bit = f"(static_cast<{c_type('u', max(32, self.result))}>(1) << ({self.value(index)[0]}))"
            return self.line(f"D0 = ({value[0]}) ? (D0 | {bit}) : (D0 & ~{bit});")
        raise NotUnderstood("an assignment to one bit")

    def statements(self, body):
        for statement in body:
            kind = statement[0]
            if kind == "assign":
                _, operator, target, expression = statement
                if operator != "=":
                    expression = ("binary", operator[0], target, expression)
                self.assign(target, self.value(expression))
            elif kind == "assign_both":
                value = self.value(statement[3])
                self.assign(statement[1], value)
                self.assign(statement[2], value)
                self.written.add("both")
            elif kind == "declare":
                self.declare(*statement[1:])
            elif kind == "if":
                self.choice(*statement[1:])
            elif kind == "for":
                _, name, first, last, inner = statement
                self.loops.add(name)
                self.line(f"for (int p_{name} = {self.value(first)[0]}; p_{name} <= int({self.value(last)[0]}); ++p_{name}) {{")
                self.statements(inner)
                self.line("}")
            elif kind == "break":
                self.line("break;")
            elif statement[:2] != ("call", "nop"):
                raise NotUnderstood(f"a call of {statement[1]}")

    def declare(self, name, text, count):
        bits, letter = text.split("'")
        kind = parse_type(letter.lower() + bits)
        if name == "S" and self.mode == LANES:
            self.used |= {"S0", "S1", "S2"}
            self.arrays[name] = ("b", 32)
            self.line("const std::uint32_t p_S[3] = {S0, S1, S2};")
        elif count is not None and name in self.arrays:
            raise NotUnderstood(f"{name}, declared twice")
        elif count is not None:
            self.arrays[name] = kind
            self.line(f"{c_type(*kind)} p_{name}[{self.value(count)[0]}] = {{}};")
        elif name in ("OFFSET", "DATA0", "VDST"):
            raise NotUnderstood(f"{name}, which is declared")
        else:
            self.locals[name] = kind

    def choice(self, branches, otherwise):
        word = "if"
        for condition, body in branches:
            self.line(f"{word} ({self.value(condition)[0]}) {{")
            self.statements(body)
            word = "} else if"
        if otherwise:
            self.line("} else {")
            self.statements(otherwise)
        self.line("}")

    def declarations(self):
        return [f"{c_type(*kind)} p_{name}{{}};" for name, kind in self.locals.items()]
