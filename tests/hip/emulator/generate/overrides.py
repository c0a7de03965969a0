# SPDX-License-Identifier: MIT
"""Where the published pseudocode is not what the hardware does, or leaves it open."""

import re

# What gfx90a has and the tables, which are of its successors, lack: by encoding and opcode, with the kind whose operands it has,
# and its pseudocode.
LACKING = {
    "cdna": {
        # It rounds the product, and denormal numbers are flushed.
        ("VOP3", 449): ("V_MAD_F32", "V_FMA_F32_E64", "D0.f32 = flush(flush(flush(S0.f32) * flush(S1.f32)) + flush(S2.f32))"),
        # Of the cache, which is not emulated: decode.cpp.
        ("MUBUF", 63): ("BUFFER_WBINVL1_VOL", "BUFFER_INV", None),
    },
}


def corrected(name, text, family):
    if family == "rdna4":
        # An exception that is not taken, and other names of what the older families have.
        text = re.sub(r"if [^\n]* then\nTRAPSTS\.INVALID = 1\nendif;\n?", "", text)
        text = re.sub(r"\bv_(max|min)(3?)_num_f", r"v_\1\2_f", text)
    if match := re.match(r"S_CMPK_(EQ|LG|GT|GE|LT|LE)_([IU])32", name):
        # The register is where others have their result, and the constant's name differs from family to family.
        operator = {"EQ": "==", "LG": "!=", "GT": ">", "GE": ">=", "LT": "<", "LE": "<="}[match.group(1)]
        constant = "32'I(signext(SIMM16.i16))" if match.group(2) == "I" else "32'U(SIMM16.u16)"
        return f"SCC = D0.{match.group(2).lower()}32 {operator} {constant}"
    if name.startswith("V_DIV_SCALE_F"):
        bits = name[len("V_DIV_SCALE_F") :][:2]
        # What is not scaled passes.
        return f"D0.f{bits} = S0.f{bits};\n" + text
    if match := re.match(r"V_DIV_FMAS_F(32|64)", name):
        bits, scale, middle = match.group(1), *(("64", "127") if match.group(1) == "32" else ("128", "1023"))
        # v_div_scale scales by 2^64 (f64: 2^128): what undoes it depends on the way the quotient was moved.
        fused = f"fma(S0.f{bits}, S1.f{bits}, S2.f{bits})"
        letter = "F" if bits == "32" else ""
        return (
            f"if VCC.u64[laneId] then\nif exponent(S2.f{bits}) > {middle} then\nD0.f{bits} = 2.0{letter} ** {scale} * {fused}\n"
            f"else\nD0.f{bits} = 2.0{letter} ** -{scale} * {fused}\nendif\nelse\nD0.f{bits} = {fused}\nendif"
        )
    if match := re.match(r"V_LDEXP_F(32|64)", name):
        # A power of two alone may be out of range where the product is not.
        return f"D0.f{match.group(1)} = ldexp(S0.f{match.group(1)}, S1.i32)"
    if re.match(r"V_RCP_(IFLAG_)?F32|V_RSQ_F32", name):
        # Denormal numbers are flushed: in numbers.hpp, through a square root's and a power's helper.
        root = "sqrt(S0.f32)" if "RSQ" in name else "flush(S0.f32)"
        return f"D0.f32 = flush(1.0F / {root})"
    if name.startswith("V_BITOP3_B"):
        # The table lies in the fields of modifiers: decode.cpp puts it together as a literal.
        return re.sub(r"^TTBL = .*\n", "", text).replace("TTBL.b32", "SIMM32.b32").replace("D.b", "D0.b")
    if name == "V_CVT_PK_F16_F32":
        # To nearest even, whatever the mode of rounding.
        return "D0[15 : 0].f16 = f32_to_f16(S0.f32);\nD0[31 : 16].f16 = f32_to_f16(S1.f32)"
    if name == "V_CVT_PK_BF16_F32":
        # To nearest even, too.
        return "\n".join(
            f"D0[{high} : {high - 15}].u16 = isNAN(64'F({of}.f32)) ? 16'U(({of}.u32 >> 16U) | 64U) : "
            f"16'U(({of}.u32 + 32767U + (({of}.u32 >> 16U) & 1U)) >> 16U);"
            for of, high in (("S0", 15), ("S1", 31))
        )
    if name.startswith("V_MAD_MIX"):
        # Fused, as v_fma_mix: the older name is what the wheel's table has.
        return text.replace("in[0] * in[1] + in[2]", "fma(in[0], in[1], in[2])")
    if name in ("V_MAX_F32_E32", "V_MAX_F32_E64"):
        return "D0.f32 = v_max_f32(S0.f32, S1.f32)"
    if name in ("V_MIN_F32_E32", "V_MIN_F32_E64"):
        return "D0.f32 = v_min_f32(S0.f32, S1.f32)"
    if match := re.match(r"[SV]_(?:BREV|BFREV)_B(32|64)", name):
        return f"D0.u{match.group(1)} = reverse_bits(S0.u{match.group(1)})"
    return text
