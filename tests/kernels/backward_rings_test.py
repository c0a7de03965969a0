# SPDX-License-Identifier: MIT
"""A model of the rings and barriers of hopper_backward.cu and hopper_backward_wide.cu, run with tiles and schedules at random.

  backward_rings_test.py [RUNS]

The producer and the two warpgroups are generators that yield a condition to wait for; who goes on is drawn. A run fails where
none can (a deadlock), where a stage is filled or read out of turn, or where a tile is taken in another order than it was given.
"""

import random

from rings import Barrier, Rings, main, run_actors


class Named:
    """A named barrier of two warpgroups."""

    def __init__(self):
        self.count, self.round = 0, 0

    def arrive(self):
        self.count += 1
        if self.count == 2:
            self.count, self.round = 0, self.round + 1

    def sync(self):
        mine = self.round
        self.arrive()
        return lambda: self.round > mine


class Block(Rings):
    def __init__(self, tiles, key_stages, stages, held=False, single=False):
        self.tiles, self.key_stages, self.stages = tiles, key_stages, stages
        self.values_held = held  # in registers: their stage is left after the first step
        self.single = single  # the first warpgroup alone makes dq
        self.full = {
            name: [Barrier(1) for _ in range(count)]
            for name, count in (("tile", 2), ("k", key_stages), ("v", 1), ("q", stages), ("do", stages))
        }
        self.empty = {name: [Barrier(self.readers(name)) for _ in barriers] for name, barriers in self.full.items()}
        self.full["slopes"] = [Barrier(self.slope_writers), Barrier(self.slope_writers)]
        self.empty["slopes"] = [Barrier(1 if single else 2) for _ in range(2)]
        self.held = {}  # what each stage holds
        self.clear = Named()
        self.slopes = [[None, None], [None, None]]  # of a buffer, by warpgroup

    slope_writers = 2

    def readers(self, name):  # pylint: disable=unused-argument
        return 2

    def actors(self):
        return [self.producer(), self.worker(0), self.worker(1)]

    def lay_down(self, group, n, content):  # pylint: disable=unused-argument
        """A warpgroup's dq of the n-th tile of queries, on its way to the sums. Where those are not ordered, nobody waits for it."""
        return ()

    def send(self, group, n):
        """Says that it lies there."""

    def write(self, group, index):  # pylint: disable=unused-argument
        """dk and dv of a tile of keys."""
        return ()

    def given(self):
        """The tiles, as the producer takes them."""
        yield from self.tiles
        yield (-1, (), False)

    def producer(self):
        taken = filled = 0
        for index, (steps, clears, skips) in enumerate(self.given()):
            yield self.wait_empty("tile", index)
            self.fill("tile", index, (index, steps, clears, skips))

            for step in range(steps):
                yield self.wait_empty("q", taken)
                self.fill("q", taken, (index, step))
                if step == 0:
                    yield self.wait_empty("k", filled)
                    self.fill("k", filled, index)
                    yield self.wait_empty("v", filled)
                    self.fill("v", filled, index)
                    filled += 1
                yield self.wait_empty("do", taken)
                self.fill("do", taken, (index, step))
                taken += 1

    def dq(self, group, n, content):
        """What start_dq reads and leave_slopes leaves."""
        assert self.slopes[n % 2] == [content, content], (self.slopes, content)

    def worker(self, group):
        taken = tiles = filled = 0
        makes_dq = group == 0 or not self.single
        while True:
            yield self.wait_full("tile", tiles)
            index, steps, clears, skips = self.held["tile", tiles % 2]
            assert index == tiles
            if steps < 0:
                return
            if steps > 0:
                yield self.wait_full("k", filled)
                for step in range(steps):
                    if step == 0 and skips and group == 1:
                        yield from self.skip(taken, filled, (index, step))
                    else:
                        yield from self.step(group, taken, filled, index, step, step in clears)
                    taken += 1
                if not self.values_held:
                    self.leave("v", filled)
                if makes_dq:
                    yield self.wait_full("slopes", taken - 1)
                    if steps > 1:
                        self.send(group, taken - 2)
                    yield lambda: True
                    self.dq(group, taken - 1, (index, steps - 1))
                    self.holds("k", filled, index)
                    self.leave("slopes", taken - 1)
                self.leave("k", filled)
                if makes_dq:
                    yield from self.lay_down(group, taken - 1, (index, steps - 1))
                    self.send(group, taken - 1)
                filled += 1
            yield from self.write(group, index)
            self.leave("tile", tiles)
            tiles += 1

    def step(self, group, taken, filled, index, step, clears):
        makes_dq = step > 0 and (group == 0 or not self.single)
        yield self.wait_full("q", taken)
        if clears:
            yield self.wait_full("do", taken)
            yield self.clear.sync()
        self.holds("q", taken, (index, step))
        self.holds("k", filled, index)
        if step == 0:
            yield self.wait_full("v", filled)
        yield self.wait_full("do", taken)
        self.holds("do", taken, (index, step))
        if step == 0 or not self.values_held:
            self.holds("v", filled, index)
        if step == 0 and self.values_held:
            self.leave("v", filled)
        if makes_dq and step > 1:
            self.send(group, taken - 2)
        yield lambda: True  # scores
        yield lambda: True  # exponentials
        yield self.wait_empty("slopes", taken)
        self.slopes[taken % 2][group] = (index, step)
        if makes_dq:
            yield self.wait_full("slopes", taken - 1)
            self.dq(group, taken - 1, (index, step - 1))
        self.full["slopes"][taken % 2].arrive()
        yield lambda: True
        if makes_dq:
            self.dq(group, taken - 1, (index, step - 1))
            self.leave("slopes", taken - 1)
            yield from self.lay_down(group, taken - 1, (index, step - 1))
        yield lambda: True
        self.holds("q", taken, (index, step))
        self.leave("do", taken)
        self.leave("q", taken)

    def skip(self, taken, filled, content):
        """What the second warpgroup does where a causal mask leaves it nothing of a tile's first step."""
        yield self.wait_full("v", filled)
        if self.values_held:
            self.holds("v", filled, content[0])
            self.leave("v", filled)
        yield self.wait_empty("slopes", taken)
        self.slopes[taken % 2][1] = content
        self.full["slopes"][taken % 2].arrive()
        self.leave("do", taken)
        self.leave("q", taken)


class WideBlock(Block):
    """The first warpgroup makes weights, the second slopes of them."""

    slope_writers = 1

    def __init__(self, tiles, key_stages, stages, held=False):
        super().__init__(tiles, key_stages, stages, held)
        self.full["weights"], self.empty["weights"] = [Barrier(1)], [Barrier(1)]

    def readers(self, name):
        return 1 if name == "v" else 2

    def actors(self):
        return [self.producer(), self.worker(False), self.worker(True)]

    def dq(self, group, n, what):
        assert self.slopes[n % 2][0] == what, (self.slopes, what)

    def worker(self, second):  # pylint: disable=arguments-renamed
        taken = tiles = filled = 0
        step_of = self.slopes_step if second else self.weights_step
        while True:
            yield self.wait_full("tile", tiles)
            index, steps, clears, _ = self.held["tile", tiles % 2]
            assert index == tiles
            if steps < 0:
                return
            if steps > 0:
                yield self.wait_full("k", filled)
                for step in range(steps):
                    yield from step_of(taken, filled, index, step, step in clears)
                    taken += 1
                if second and not self.values_held:
                    self.leave("v", filled)
                yield self.wait_full("slopes", taken - 1)
                if steps > 1:
                    self.send(second, taken - 2)
                yield lambda: True
                self.dq(second, taken - 1, (index, steps - 1))
                self.holds("k", filled, index)
                self.leave("slopes", taken - 1)
                self.leave("k", filled)
                yield from self.lay_down(second, taken - 1, (index, steps - 1))
                self.send(second, taken - 1)
                filled += 1
            yield from self.write(second, index)
            self.leave("tile", tiles)
            tiles += 1

    def start_dq(self, second, taken, index, step):
        if step > 0:
            yield self.wait_full("slopes", taken - 1)
            self.dq(second, taken - 1, (index, step - 1))

    def end_dq(self, second, taken, index, step):
        if step > 0:
            yield lambda: True
            self.dq(second, taken - 1, (index, step - 1))
            self.leave("slopes", taken - 1)
            yield from self.lay_down(second, taken - 1, (index, step - 1))

    def weights_step(self, taken, filled, index, step, clears):
        yield self.wait_full("q", taken)
        if clears:
            yield self.clear.sync()
        self.holds("q", taken, (index, step))
        self.holds("k", filled, index)
        if step > 1:
            self.send(False, taken - 2)
        yield lambda: True  # scores, exponentials
        self.holds("q", taken, (index, step))
        self.leave("q", taken)
        yield self.wait_full("do", taken)
        yield self.wait_empty("weights", taken)
        self.held["weights"] = (index, step)
        self.full["weights"][0].arrive()
        yield from self.start_dq(False, taken, index, step)
        self.holds("do", taken, (index, step))
        self.leave("do", taken)
        yield from self.end_dq(False, taken, index, step)

    def slopes_step(self, taken, filled, index, step, clears):
        if step == 0:
            yield self.wait_full("v", filled)
        yield self.wait_full("do", taken)
        if clears:
            yield self.clear.sync()
        self.holds("do", taken, (index, step))
        if step == 0 or not self.values_held:
            self.holds("v", filled, index)
        if step == 0 and self.values_held:
            self.leave("v", filled)
        if step > 1:
            self.send(True, taken - 2)
        yield self.wait_full("weights", taken)
        yield lambda: True  # dP
        assert self.held["weights"] == (index, step)
        self.leave("weights", taken)
        self.leave("do", taken)
        yield self.wait_empty("slopes", taken)
        self.slopes[taken % 2][0] = (index, step)
        yield self.wait_full("q", taken)
        self.holds("q", taken, (index, step))
        yield from self.start_dq(True, taken, index, step)
        self.full["slopes"][taken % 2].arrive()
        yield lambda: True
        self.holds("q", taken, (index, step))
        self.leave("q", taken)
        yield from self.end_dq(True, taken, index, step)


def run(seed):
    draw = random.Random(seed)
    tiles = []
    for _ in range(draw.randint(0, 6)):
        steps = draw.choice((0, 1, 1, 2, 3, draw.randint(0, 12)))
        clears = tuple(step for step in range(steps) if draw.random() < 0.2)
        tiles.append((steps, clears, 0 not in clears and draw.random() < 0.5))
    # Head dims 128; 64; 96, with a soft cap and without; 192 and 256.
    kind, *sizes = draw.choice(
        (
            (Block, 2, 2),
            (Block, 2, 2, True),
            (Block, 2, 2, False, True),
            (Block, 2, 2, True, True),
            (WideBlock, 1, 2),
            (WideBlock, 1, 3),
            (WideBlock, 1, 2, True),
        )
    )
    block = kind(tiles, *sizes)
    run_actors(block.actors(), draw, f"seed {seed}, {kind.__name__}, tiles {tiles}, stages {block.key_stages} {block.stages}")


if __name__ == "__main__":
    main(run)
