# SPDX-License-Identifier: MIT
"""Finds what LLVM's register allocator gets wrong on AMD GPUs: vector instructions that run before EXEC is restored.

Where lanes that took a branch meet those that did not, the first thing to do is `s_or exec, exec, saved`, or to save and
turn EXEC where those do something else. Copies of vector registers that the allocator makes there belong behind it. It
puts them in front when a copy of a scalar register is in front already (llvm-project issue 166657; Triton 3.6 has the
fault): the lanes that did not take the branch keep garbage. Only kernels that are short of registers are concerned.
"""

import re

LABEL = re.compile(r"(\.LBB\w+):|; %bb\.\d+:")
INSTRUCTION = re.compile(r"\s+([a-z]\w+)\s*([^;]*)")
# With -1, all lanes are to take part for a while.
RESTORES = re.compile(r"s_or_b\d+ exec(?:_lo)?, exec(?:_lo)?,|s_(?:or|and_not1|andn2)_saveexec_b\d+ \S+ (?!-1\b)")
LEAVES = ("s_branch", "s_cbranch", "s_endpgm", "s_setpc")
# Vector instructions that EXEC does not concern.
ALL_LANES = re.compile(r"v_(readlane|writelane|readfirstlane|nop)")


def early_vector_instructions(assembly):
    """Those that are wrong, each as (line from 1, text)."""
    joins = set(re.findall(r"s_cbranch_execz (\.LBB\w+)", assembly))
    found, early = [], None  # early: of a block in which EXEC is still to be restored
    falls_through = False
    for number, line in enumerate(assembly.splitlines(), 1):
        if label := LABEL.match(line):
            early = [] if falls_through or label.group(1) in joins else None
            continue
        instruction = INSTRUCTION.match(line)
        if not instruction:
            continue
        name, operands = instruction.groups()
        falls_through = not name.startswith(LEAVES) and "saveexec" not in name
        if name.startswith("s_cbranch_execnz"):
            falls_through = True  # to where the lanes meet
        elif not falls_through or operands.startswith("exec") or name.startswith("v_cmpx"):
            if early and RESTORES.match(f"{name} {operands}"):
                found += early
            early = None
            falls_through = falls_through and not operands.startswith("exec")
        elif early is not None and name.startswith(("v_", "ds_", "global_", "flat_", "scratch_", "buffer_")):
            if not ALL_LANES.match(name) and not name.startswith(("buffer_gl", "buffer_inv", "buffer_wb")):
                early.append((number, f"{name} {operands.strip()}"))
    return found
