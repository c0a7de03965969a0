# SPDX-License-Identifier: MIT
"""What the models of rings and barriers share: the barrier, and running actors in an order that is drawn."""

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


class Rings:
    """Rings of stages by name: `full` and `empty` have the barriers of each stage, `held` what it holds."""

    def wait_full(self, name, n):
        barriers = self.full[name]
        return barriers[n % len(barriers)].passed(n // len(barriers) % 2)

    def wait_empty(self, name, n):
        barriers = self.empty[name]
        return barriers[n % len(barriers)].passed(n // len(barriers) % 2 ^ 1)

    def leave(self, name, n):
        self.empty[name][n % len(self.empty[name])].arrive()

    def fill(self, name, n, content):
        self.held[name, n % len(self.full[name])] = content
        self.full[name][n % len(self.full[name])].arrive()

    def holds(self, name, n, content):
        assert self.held[name, n % len(self.full[name])] == content, (name, n, content)


def run_actors(actors, draw, text):
    """Runs generators that yield a condition to wait for; who goes on is drawn. Fails with `text` where none can."""
    waits = [next(actor, None) for actor in actors]
    bias = [draw.random() + 0.05 for _ in actors]
    while any(waits):
        ready = [n for n, wait in enumerate(waits) if wait and wait()]
        if not ready:
            raise AssertionError(f"none can go on; {text}")
        n = draw.choices(ready, [bias[actor] for actor in ready])[0]
        waits[n] = next(actors[n], None)


def main(run):
    """Calls `run` with as many seeds as the command line says, otherwise 3,000."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    for seed in range(runs):
        run(seed)
    print(f"{runs} runs")
