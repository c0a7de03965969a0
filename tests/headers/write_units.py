# SPDX-License-Identifier: MIT
"""Writes units that together show that each header is complete by itself, in few units: each parses much.

  write_units.py INCLUDE_FOLDER OUTPUT_FOLDER COUNT HEADER...

HEADER: names as programs include them. COUNT: how many units there are to be, as CMake knows them; 0: as many as needed, whose
number is printed. Units past those needed are empty.

A unit includes several headers one after another where each one includes all that was there before it: what it fails to
include it then lacks, as it would alone. A header comes twice, and for itself; then again with what defines its functions.
"""

import functools
import os
import re
import sys


def includes_of(path, own_bodies):
    """What a file includes in any case, and under some condition. Its own function bodies aside: only the header-only form has them there."""
    always, perhaps, depth = set(), set(), 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            found = re.match(r'\s*#\s*(if|endif|include)\w*\s*(?:[<"]([^>"]+))?', line)
            if not found:
                continue
            if found[1] == "include":
                if found[2] and " " not in found[2] and found[2] != own_bodies:
                    (perhaps if depth else always).add(found[2])
            else:
                depth += 1 if found[1] == "if" else -1
    return always, perhaps


def join_into_chains(parts, may_follow):
    """The fewest chains in which every part may follow the one before it, by bipartite matching. `parts`: the smallest first."""
    followers = {part: [other for other in parts if other != part and may_follow(part, other)] for part in parts}
    before = {}

    def find(part, seen):
        for other in followers[part]:
            if other not in seen:
                seen.add(other)
                if other not in before or find(before[other], seen):
                    before[other] = part
                    return True
        return False

    for part in reversed(parts):
        find(part, set())
    after = {part: other for other, part in before.items()}
    chains = []
    for part in parts:
        if part not in before:
            chain = [part]
            while chain[-1] in after:
                chain.append(after[chain[-1]])
            chains.append(chain)
    return chains


def write_if_changed(path, text):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    include, folder, count, *headers = sys.argv[1:]
    sys.setrecursionlimit(10000)
    bodies = {header: re.sub(r"\.hpp$", "_impl.hpp", header) for header in headers}
    listed = set(headers)
    direct = {header: includes_of(os.path.join(include, header), bodies[header]) for header in headers}

    @functools.cache
    def reached(header):
        """The header with all it includes: in any case, and at most."""
        always, perhaps = {header}, {header}
        for included in direct.get(header, ((), ()))[0]:
            always |= reached(included)[0]
            perhaps |= reached(included)[1]
        for included in direct.get(header, ((), ()))[1]:
            perhaps |= reached(included)[1]
        return always, perhaps

    parts = []
    for header in headers:
        if not header.endswith("_impl.hpp"):
            parts.append((header,))
            if bodies[header] in listed and bodies[header] != header:
                parts.append((header, bodies[header]))
    always = {part: frozenset().union(*(reached(header)[0] for header in part)) for part in parts}
    perhaps = {part: frozenset().union(*(reached(header)[1] for header in part)) for part in parts}
    parts.sort(key=lambda part: (len(always[part]), part))
    place = {part: index for index, part in enumerate(parts)}
    chains = join_into_chains(parts, lambda one, next: perhaps[one] <= always[next] and place[one] < place[next])

    wanted = int(count)
    if wanted == 0:
        print(len(chains))
        return 0
    if len(chains) > wanted:
        print(f"the headers need {len(chains)} units, and CMake knows {wanted}: configure again")
        return 1
    os.makedirs(folder, exist_ok=True)
    for index in range(wanted):
        text = ""
        for part in chains[index] if index < len(chains) else []:
            text += f"#include <{part[0]}>\n" * 2 + "".join(f"#include <{header}>\n" for header in part[1:])
        write_if_changed(os.path.join(folder, f"unit_{index}.cpp"), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
