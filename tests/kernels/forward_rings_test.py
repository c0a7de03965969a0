# SPDX-License-Identifier: MIT
"""A model of the rings of hopper_forward_buffered.cu, run with tiles and schedules at random.

  forward_rings_test.py [RUNS]

The producer and the two warpgroups are generators that yield a condition to wait for; who goes on is drawn. A run fails where
none can (a deadlock), where a stage is filled or read out of turn, where a block of keys is taken in another order than it was
copied, or where what the producer says of a tile is replaced before its result is written.
"""

import random

from rings import Barrier, Rings, main, run_actors

TILE_SLOTS = 4
QUERY_STAGES = 2


class Turns:
    """The named barriers by which warpgroups take turns at a section."""

    def __init__(self):
        self.passed, self.taken = [1, 0], [0, 0]  # the second has passed its turn to the first

    def take(self, group):
        self.taken[group] += 1
        return lambda: self.passed[group] >= self.taken[group]

    def give(self, group):
        self.passed[1 - group] += 1


class Block(Rings):
    """Tiles are lists of blocks of keys, and for each warpgroup how many of the first and of the last it does not see."""

    def __init__(self, tiles, stages, turns, chained):
        self.tiles, self.stages, self.chained = tiles, stages, chained
        self.turns = Turns() if turns else None
        self.full = {
            name: [Barrier(1) for _ in range(count)] for name, count in (("q", QUERY_STAGES), ("k", stages), ("v", stages))
        }
        self.empty = {name: [Barrier(2) for _ in barriers] for name, barriers in self.full.items()}
        self.held = {}
        self.places = [None] * TILE_SLOTS
        self.inside = 0  # warpgroups in the section that one at a time may be in

    def announce(self, index):
        yield self.wait_empty("q", index)
        self.places[index % TILE_SLOTS] = index
        self.fill("q", index, index)

    def producer(self):
        filled = 0
        yield from self.announce(0)
        for index, (count, _) in enumerate(self.tiles):
            for block in range(count):
                for name in ("k", "v"):
                    yield self.wait_empty(name, filled)
                    self.fill(name, filled, (index, block))
                filled += 1
                if block == 0:
                    yield from self.announce(index + 1)

    def pass_over(self, taken, index, blocks):
        for block in blocks:
            for name in ("k", "v"):
                yield self.wait_full(name, taken)
                self.holds(name, taken, (index, block))
                self.leave(name, taken)
            taken += 1
        return taken

    def soften(self, group):
        yield lambda: True  # the mask, maxima
        if self.turns:
            yield self.turns.take(group)
            self.inside += 1
            assert self.inside == 1
            yield lambda: True  # exponentials
            self.inside -= 1
            self.turns.give(group)

    def values(self, taken, what):
        """Between the start and the end of a product with a block of values."""
        self.holds("v", taken, what)
        yield lambda: True
        self.holds("v", taken, what)
        self.leave("v", taken)

    def scores(self, taken, what):
        yield self.wait_full("k", taken)
        self.holds("k", taken, what)
        self.holds("q", what[0], what[0])
        yield lambda: True
        self.holds("k", taken, what)
        self.holds("q", what[0], what[0])
        self.leave("k", taken)

    def next_tile(self, index):
        yield self.wait_full("q", index)
        assert self.places[index % TILE_SLOTS] == index

    def plain_worker(self, group):
        taken = 0
        for index, (count, unseen) in enumerate(self.tiles):
            yield from self.next_tile(index)
            first, last = unseen[group]
            taken = yield from self.pass_over(taken, index, range(first))
            for block in range(first, count - last):
                yield from self.scores(taken, (index, block))
                yield from self.soften(group)
                yield self.wait_full("v", taken)
                yield from self.values(taken, (index, block))
                taken += 1
            self.leave("q", index)
            taken = yield from self.pass_over(taken, index, range(count - last, count))
            yield lambda: True  # the result
            assert self.places[index % TILE_SLOTS] == index
        yield from self.next_tile(len(self.tiles))

    def chained_worker(self, group):
        yield from self.next_tile(0)
        if not self.tiles:
            return
        taken = yield from self.pass_over(0, 0, range(self.tiles[0][1][group][0]))
        yield from self.scores(taken, (0, self.tiles[0][1][group][0]))
        for index, (count, unseen) in enumerate(self.tiles):
            first, last = unseen[group]
            for block in range(first, count - last - 1):
                yield from self.soften(group)
                yield self.wait_full("v", taken)
                yield self.wait_full("k", taken + 1)
                yield from self.values(taken, (index, block))
                taken += 1
                yield from self.scores(taken, (index, block + 1))
            self.leave("q", index)
            yield from self.soften(group)
            yield from self.next_tile(index + 1)
            yield self.wait_full("v", taken)
            what = (index, count - last - 1)
            ends = index + 1 == len(self.tiles)
            left_out = last + (0 if ends else self.tiles[index + 1][1][group][0])
            if ends or left_out > 0:
                yield from self.values(taken, what)
                taken = yield from self.pass_over(taken + 1, index, range(count - last, count))
                if not ends:
                    taken = yield from self.pass_over(taken, index + 1, range(left_out - last))
            else:
                yield self.wait_full("k", taken + 1)
                yield from self.values(taken, what)
                taken += 1
            yield lambda: True  # the result
            assert self.places[index % TILE_SLOTS] == index
            if not ends:
                yield from self.scores(taken, (index + 1, self.tiles[index + 1][1][group][0]))

    def actors(self):
        worker = self.chained_worker if self.chained else self.plain_worker
        return [self.producer(), worker(0), worker(1)]


def run(seed):
    draw = random.Random(seed)
    turns, chained, stages = draw.choice(((True, True, 2), (False, True, 2), (False, False, 3), (False, False, 2)))
    tiles = []
    for _ in range(draw.randint(0, 9)):
        count = draw.choice((1, 1, 2, 3, draw.randint(1, 9)))
        unseen = [(0, 0), (0, 0)]
        if not turns and count > 2 and draw.random() < 0.7:  # under a mask; who takes turns leaves none out
            unseen = draw.choice(
                ([(0, draw.randint(0, 1)), (draw.randint(0, 1), 0)], [(draw.randint(0, 1), 0), (0, draw.randint(0, 1))])
            )
        tiles.append((count, unseen))
    block = Block(tiles, stages, turns, chained)
    run_actors(block.actors(), draw, f"seed {seed}, tiles {tiles}, stages {stages}, turns {turns}, chained {chained}")


if __name__ == "__main__":
    main(run)
