# SPDX-License-Identifier: MIT
"""A model of how attention_decode_persistent.cu deals tiles of keys to groups of blocks, run with lengths at random.

  decode_deal_test.py [RUNS]

A run fails where a tile is taken twice or by nobody, where a warp copies other tiles than it computes, or where the launch that joins
looks for a part that no group has written, or in another of the group's two places.
"""

import dataclasses
import random
import sys

SEQUENCE_COST = 6


@dataclasses.dataclass
class Line:
    """`tile_line`: the tiles of sequences one behind the other, each with a gap behind it."""

    tiles: list
    groups: int

    def __post_init__(self):
        self.lengths = [n + SEQUENCE_COST if n > 0 else 0 for n in self.tiles]
        self.starts = [sum(self.lengths[:b]) for b in range(len(self.tiles))]
        self.total = sum(self.lengths)

    def first_of(self, group):
        each = self.total // self.groups
        return group * each + group * (self.total - each * self.groups) // self.groups

    def sequence_of(self, place):
        return next(b for b, start in enumerate(self.starts) if start <= place < start + self.lengths[b])

    def group_of(self, place):
        return next(g for g in range(self.groups) if self.first_of(g) <= place < self.first_of(g + 1))


class LineTile:
    """`line_tile`."""

    def __init__(self, line, first):
        self.line, self.place, self.b = line, first, line.sequence_of(first)
        self.tile = first - line.starts[self.b]
        if self.tile >= line.tiles[self.b]:
            self.place -= self.tile - line.tiles[self.b]
            self.tile = line.tiles[self.b]
            self.advance(0)

    def advance(self, tiles):
        self.tile += tiles
        self.place += tiles
        while self.tile >= self.line.tiles[self.b]:
            self.tile -= self.line.tiles[self.b]
            if self.line.tiles[self.b] > 0:
                self.place += SEQUENCE_COST
            self.b += 1
            if self.b == len(self.line.tiles):
                return


def copied_by(line, first, last, warp, warps):
    at, out = LineTile(line, first), []
    if at.place < last:
        at.advance(warp)
    while at.place < last:
        out.append((at.b, at.tile))
        at.advance(warps)
    return out


def deal(line, warps):
    """The group of each tile, and of each group and sequence the place of its part, or "whole"."""
    taken, parts = {}, {}
    for group in range(line.groups):
        first, last = line.first_of(group), line.first_of(group + 1)
        if first >= last:
            continue
        computed = [[] for _ in range(warps)]
        at, seen = LineTile(line, first), 0
        while at.place < last:
            here = min(line.tiles[at.b] - at.tile, last - at.place)
            for warp in range(warps):
                computed[warp] += [(at.b, at.tile + i) for i in range((warp - seen) % warps, here, warps)]
            for tile in range(at.tile, at.tile + here):
                assert (at.b, tile) not in taken, f"tile {tile} of sequence {at.b} is taken twice"
                taken[at.b, tile] = group
            parts[group, at.b] = "whole" if at.tile == 0 and here == line.tiles[at.b] else int(seen != 0)
            seen += here
            at.advance(here)
        for warp in range(warps):
            copied = copied_by(line, first, last, warp, warps)
            assert copied == computed[warp], f"warp {warp} copies {copied} and computes {computed[warp]}"
    return taken, parts


def check(line, warps):
    taken, parts = deal(line, warps)
    for b, tiles in enumerate(line.tiles):
        assert all((b, tile) in taken for tile in range(tiles)), f"nobody takes a tile of sequence {b}"
        if tiles == 0:
            continue
        begin = line.starts[b]
        groups = range(line.group_of(begin), line.group_of(begin + tiles - 1) + 1)
        expected = {}
        for group in groups:
            first = line.first_of(group)
            if first < line.first_of(group + 1):
                expected[group] = int(first < begin - SEQUENCE_COST)
        written = {group: place for (group, of), place in parts.items() if of == b}
        if len(groups) == 1:
            expected = {groups[0]: "whole"}
        assert written == expected, f"parts of sequence {b} are {written}, read are {expected}"


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    for run in range(runs):
        tiles = [draw.choice((0, 1, 2, 5, draw.randint(0, 60))) for _ in range(draw.randint(1, 9))]
        line = Line(tiles, draw.choice((1, 2, 3, 16, 33, 132)))
        if line.total == 0:
            continue
        try:
            check(line, draw.choice((1, 4, 8)))
        except AssertionError as problem:
            print(f"FAILED: seed {seed}, run {run}, tiles {tiles}, {line.groups} groups: {problem}")
            return 1
    print(f"{runs} runs, seed {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
