"""A model of the rings and barriers of hopper_backward.cu, run with tiles and schedules at random.

  backward_rings_test.py [RUNS]

The producer and the two warpgroups are generators that yield a condition to wait for; who goes on is drawn. A run fails where
none can (a deadlock), where a stage is filled or read out of turn, or where a tile is taken in another order than it was given.
"""

import random
import sys


class Barrier:
    """A transaction barrier: phases complete when all have arrived."""

    def __init__(self, arrivals):
        self.arrivals, self.left, self.phase = arrivals, arrivals, 0

    def arrive(self):
        self.left -= 1
        assert self.left >= 0
        if self.left == 0:
            self.left, self.phase = self.arrivals, self.phase + 1

    def passed(self, parity):
        return lambda: (self.phase & 1) != parity


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


class Block:
    def __init__(self, tiles, key_stages, stages):
        self.tiles, self.key_stages, self.stages = tiles, key_stages, stages
        self.full = {name: [Barrier(1) for _ in range(count)] for name, count in
                     (("tile", 2), ("k", key_stages), ("v", 1), ("q", stages), ("do", stages))}
        self.empty = {name: [Barrier(2) for _ in barriers] for name, barriers in self.full.items()}
        self.full["slopes"], self.empty["slopes"] = [Barrier(2), Barrier(2)], [Barrier(2), Barrier(2)]
        self.held = {}  # what each stage holds
        self.clear = Named()
        self.slopes = [[None, None], [None, None]]  # of a buffer, by warpgroup

    def wait_full(self, name, n):
        barriers = self.full[name]
        return barriers[n % len(barriers)].passed(n // len(barriers) % 2)

    def wait_empty(self, name, n):
        barriers = self.empty[name]
        return barriers[n % len(barriers)].passed(n // len(barriers) % 2 ^ 1)

    def leave(self, name, n):
        self.empty[name][n % len(self.empty[name])].arrive()

    def producer(self):
        taken = filled = 0
        for index, (steps, clears) in enumerate(self.tiles + [(-1, ())]):
            yield self.wait_empty("tile", index)
            self.held["tile", index % 2] = (index, steps, clears)
            self.full["tile"][index % 2].arrive()

            def fill(name, n, content):
                stages = len(self.full[name])
                self.held[name, n % stages] = content
                self.full[name][n % stages].arrive()

            for step in range(steps):
                yield self.wait_empty("q", taken)
                fill("q", taken, (index, step))
                if step == 0:
                    yield self.wait_empty("k", filled)
                    fill("k", filled, index)
                    yield self.wait_empty("v", filled)
                    fill("v", filled, index)
                    filled += 1
                yield self.wait_empty("do", taken)
                fill("do", taken, (index, step))
                taken += 1

    def holds(self, name, n, content):
        assert self.held[name, n % len(self.full[name])] == content, (name, n, content)

    def dq(self, group, n, content):
        """What start_dq reads and leave_slopes leaves."""
        assert self.slopes[n % 2] == [content, content], (self.slopes, content)

    def worker(self, group):
        taken = tiles = filled = 0
        while True:
            yield self.wait_full("tile", tiles)
            index, steps, clears = self.held["tile", tiles % 2]
            assert index == tiles
            if steps < 0:
                return
            if steps > 0:
                yield self.wait_full("k", filled)
                for step in range(steps):
                    yield self.wait_full("q", taken)
                    if step in clears:
                        yield self.wait_full("do", taken)
                        yield self.clear.sync()
                    self.holds("q", taken, (index, step))
                    self.holds("k", filled, index)
                    if step == 0:
                        yield self.wait_full("v", filled)
                    yield self.wait_full("do", taken)
                    self.holds("do", taken, (index, step))
                    self.holds("v", filled, index)
                    yield lambda: True  # scores
                    yield lambda: True  # exponentials
                    yield self.wait_empty("slopes", taken)
                    self.slopes[taken % 2][group] = (index, step)
                    if step > 0:
                        yield self.wait_full("slopes", taken - 1)
                        self.dq(group, taken - 1, (index, step - 1))
                    self.full["slopes"][taken % 2].arrive()
                    yield lambda: True
                    if step > 0:
                        self.dq(group, taken - 1, (index, step - 1))
                        self.leave("slopes", taken - 1)
                    yield lambda: True
                    self.holds("q", taken, (index, step))
                    self.leave("do", taken)
                    self.leave("q", taken)
                    taken += 1
                self.leave("v", filled)
                yield self.wait_full("slopes", taken - 1)
                yield lambda: True
                self.dq(group, taken - 1, (index, steps - 1))
                self.holds("k", filled, index)
                self.leave("slopes", taken - 1)
                self.leave("k", filled)
                filled += 1
            self.leave("tile", tiles)
            tiles += 1


def run(seed):
    draw = random.Random(seed)
    tiles = []
    for _ in range(draw.randint(0, 6)):
        steps = draw.choice((0, 1, 1, 2, 3, draw.randint(0, 12)))
        tiles.append((steps, tuple(step for step in range(steps) if draw.random() < 0.2)))
    block = Block(tiles, draw.choice((1, 2)), draw.choice((2, 3)))
    actors = [block.producer(), block.worker(0), block.worker(1)]
    waits = [next(actor, None) for actor in actors]
    bias = [draw.random() + 0.05 for _ in actors]
    while any(waits):
        ready = [n for n, wait in enumerate(waits) if wait and wait()]
        if not ready:
            raise AssertionError(f"seed {seed}: none can go on; tiles {tiles}, stages {block.key_stages} {block.stages}")
        n = draw.choices(ready, [bias[each] for each in ready])[0]
        waits[n] = next(actors[n], None)


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    for seed in range(runs):
        run(seed)
    print(f"{runs} runs")


if __name__ == "__main__":
    main()
