# SPDX-License-Identifier: MIT
"""A model of attention backward on Hopper with sums in a fixed order, run with calls and schedules at random.

  backward_order_test.py [RUNS]

Several blocks of threads, those of backward_rings_test.py, take tiles of keys from one counter. Each has a thread that adds to the
sums of dq in the order of hopper_backward_order.hpp, and blocks that share a KV head write one after the other. A run fails where
none can go on (a block waits for a tile that nobody has begun), where a sum is added to out of order or twice, or where dq that lies
on its way is overwritten.
"""

import random

from backward_rings_test import Block, WideBlock
from rings import Barrier, main, run_actors


class Call:
    """A causal or full call whose tiles of queries and keys have the same size. `back`: keys in ascending order, queries from the last."""

    def __init__(self, draw, back):
        self.back, self.causal = back, draw.random() < 0.7
        self.heads_kv, self.group = draw.randint(1, 3), draw.choice((1, 1, 2, 3))
        self.members = draw.choice([n for n in range(1, self.group + 1) if self.group % n == 0]) if back else self.group
        self.queries, self.keys = draw.randint(1, 6), draw.randint(1, 6)
        self.section = draw.randint(1, 4)
        self.units = list(self.deal())
        self.next_unit = 0
        self.added = {}  # by head and tile of queries: the tiles of keys that have added
        self.written = {}  # by KV head, tile of keys and warpgroup: the heads that have written

    def deal(self):
        """Tiles of keys and the first of the query heads that are taken with them, in the order of the counter."""
        parts = self.heads_kv * self.group // self.members
        for first in range(0, parts, self.section):
            for key in range(self.keys):
                for part in range(first, min(first + self.section, parts)):
                    if self.back:
                        head = part % self.heads_kv * self.group + part // self.heads_kv * self.members
                        yield key, head
                    else:
                        yield (self.keys - 1 - key if self.causal else key), part * self.members

    def sees(self, query, key):
        return not self.causal or key <= query + self.keys - self.queries

    def walk(self, key, head):
        """The heads and tiles of queries that see a tile of keys, in the order in which they are taken."""
        queries = [query for query in range(self.queries) if self.sees(query, key)]
        heads = range(head, head + self.members)
        return [(one, query) for one in heads for query in (reversed(queries) if self.back else queries)]

    def turn(self, query, key):
        """How many tiles of keys add before this one."""
        earlier = range(key) if self.back or not self.causal else range(key + 1, self.keys)
        return sum(self.sees(query, other) for other in earlier)


def ordered(kind):
    """A block of that kind whose sums are ordered."""

    class OrderedBlock(kind):
        def __init__(self, call, staged, *sizes):
            super().__init__(None, *sizes)
            self.call, self.staged, self.units = call, staged, []
            makers = 1 if self.single else 2
            # Staged: dq lies in shared memory until the thread has added it. Else the thread calls, and warps add from registers.
            self.full["sums"] = [Barrier(makers if staged else 1)]
            self.empty["sums"] = [Barrier(1 if staged else makers)]
            self.lying = {}

        def readers(self, name):
            return super().readers(name) + (name == "tile")

        def given(self):
            call = self.call
            while call.next_unit < len(call.units):
                key, head = call.units[call.next_unit]
                call.next_unit += 1
                self.units.append((key, head))
                yield len(call.walk(key, head)), (), False
            yield -1, (), False

        def actors(self):
            return [*super().actors(), self.adder()]

        def lay_down(self, group, n, content):
            if self.staged:
                yield self.wait_empty("sums", n)
                assert group not in self.lying, "dq is overwritten"
                self.lying[group] = content
                return
            yield self.wait_full("sums", n)
            self.lying[group] = content
            yield lambda: True
            self.leave("sums", n)

        def send(self, group, n):
            if self.staged:
                self.full["sums"][0].arrive()

        def adder(self):
            call, n, tiles = self.call, 0, 0
            while True:
                yield self.wait_full("tile", tiles)
                index, steps, _, _ = self.held["tile", tiles % 2]
                if steps < 0:
                    return
                key, head = self.units[index]
                for step, (one, query) in enumerate(call.walk(key, head)):
                    added, turn = call.added.setdefault((one, query), []), call.turn(query, key)
                    yield lambda: len(added) == turn  # pylint: disable=cell-var-from-loop
                    if self.staged:
                        yield self.wait_full("sums", n)
                    else:
                        self.full["sums"][0].arrive()
                        yield self.wait_empty("sums", n + 1)
                    assert set(self.lying.values()) == {(index, step)}, (self.lying, index, step)
                    self.lying.clear()
                    if self.staged:
                        self.leave("sums", n)
                    yield lambda: True
                    added.append(key)
                    n += 1
                self.leave("tile", tiles)
                tiles += 1

        def write(self, group, index):
            call = self.call
            key, head = self.units[index]
            if call.members == call.group:
                return
            written = call.written.setdefault((head // call.group, key, group), [])
            yield lambda: len(written) == head % call.group // call.members
            written.append(head)

    return OrderedBlock


def run(seed):
    draw = random.Random(seed)
    # Head dims 128; 64; 96; 192; 256. Those beyond 128 go back alone.
    kind, staged, *sizes = draw.choice(
        (
            (Block, True, 2, 2),
            (Block, True, 2, 2, True),
            (Block, True, 2, 2, False, True),
            (WideBlock, True, 1, 2, True),
            (WideBlock, False, 1, 2),
        )
    )
    call = Call(draw, kind is WideBlock or draw.random() < 0.5)
    blocks = [ordered(kind)(call, staged, *sizes) for _ in range(draw.randint(1, 5))]
    text = f"seed {seed}, {kind.__name__}, {vars(call)}"
    run_actors([actor for block in blocks for actor in block.actors()], draw, text)
    for (head, query), added in call.added.items():
        keys = [key for key in range(call.keys) if call.sees(query, key)]
        assert added == (keys if call.back or not call.causal else keys[::-1]), (text, head, query, added)
    for written in call.written.values():
        assert written == sorted(written) and len(written) == call.group // call.members, (text, written)


if __name__ == "__main__":
    main(run)
