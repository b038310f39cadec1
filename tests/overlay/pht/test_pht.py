"""The Prefix Hash Tree holds what a sorted list holds: one writer or several, growing, shrinking, losing nodes."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.dht.publisher import Publisher
from overlay.pht.entry import Entry
from overlay.pht.label import BITS, ROOT, common, label_at, label_of, place_of
from overlay.pht.pht import Pht, PhtConfig
from overlay.pht.walk import Answer, Range
from tests.overlay.rings import Ring

SMALL = PhtConfig(leaf_max=8, lifetime_s=60.0)


def number(value: int) -> bytes:
    """Integers in order as bytes in order."""
    return (value + (1 << 63)).to_bytes(8, "big")


class Index:
    """An index with a writer on every node of a ring."""

    def __init__(self, nodes: int, config: PhtConfig = SMALL, seed: int = 1) -> None:
        self.ring = Ring(nodes, seed=seed)
        self.writers = [
            Pht(node.runtime, node.dht, Publisher(node.runtime, node.dht), "index", config)
            for node in self.ring.nodes
        ]

    def insert(self, writer: int, values: Sequence[int]) -> None:
        entries = [Entry(number(value), f"{value}.{writer}", b"%d" % value) for value in values]
        failed = self.ring.call(lambda done: self.writers[writer].insert(entries, done), 600.0)
        assert failed == 0

    def read(
        self, low: int | None, high: int | None, limit: int | None = None, descending: bool = False
    ) -> Answer:
        wanted = Range(
            None if low is None else number(low), None if high is None else number(high), limit, descending
        )
        return self.ring.call(lambda done: self.writers[0].range(wanted, done))

    def values(self, low: int | None, high: int | None, **more: int) -> list[int]:
        answer = self.read(low, high, **more)
        assert answer.unread == 0
        return [int(entry.value) for entry in answer.entries]


@given(st.lists(st.binary(max_size=20), min_size=1))
def test_labels_hold_what_begins_like_them(keys: list[bytes]) -> None:
    places = [place_of(key) for key in keys]
    top = common(places)
    assert all(top.holds(label_at(place, BITS)) and top.first() <= place <= top.last() for place in places)
    assert label_of(top.text) == top
    assert top.ancestors()[:1] in ([ROOT], [])
    if len(set(places)) > 1:
        assert {place >> (BITS - top.length - 1) & 1 for place in places} == {0, 1}


@pytest.mark.parametrize("nodes", [1, 8])
def test_ranges_exact_first_and_last(nodes: int) -> None:
    index = Index(nodes)
    rng = random.Random(nodes)
    values = sorted(rng.sample(range(-5_000, 5_000), 600))
    for writer in range(nodes):
        index.insert(writer, values[writer::nodes])
    assert index.values(None, None) == values
    for _ in range(20):
        low, high = sorted((rng.randint(-6_000, 6_000), rng.randint(-6_000, 6_000)))
        assert index.values(low, high) == values[bisect_left(values, low) : bisect_right(values, high)]
    assert index.values(values[7], values[7]) == [values[7]]
    assert index.values(None, None, limit=5) == values[:5]
    assert index.values(None, None, limit=7, descending=True) == values[:-8:-1]
    assert index.values(values[100], None, limit=3) == values[100:103]
    assert index.read(None, None, limit=5).rounds < 30


def test_writers_at_the_same_time() -> None:
    index = Index(8)
    rng = random.Random(3)
    values = [rng.randint(0, 1 << 40) for _ in range(800)]
    ended: list[int] = []
    for at, writer in enumerate(index.writers):
        mine = [Entry(number(value), f"{value}.{at}", b"%d" % value) for value in values[at::8]]
        for start in range(0, len(mine), 10):
            writer.insert(mine[start : start + 10], ended.append)
    index.ring.world.run_for(20.0)
    assert ended == [0] * 80
    assert index.values(None, None) == sorted(values)
    # After a period everybody has moved what was overtaken by a split, and nothing is there twice.
    index.ring.world.run_for(2 * SMALL.lifetime_s)
    assert index.values(None, None) == sorted(values)
    assert index.writers[0].statistics.splits > 0


def test_equal_keys_and_long_ones_that_begin_alike() -> None:
    index = Index(4)
    keys = [b"the same beginning of many keys" + bytes((n,)) for n in range(40)]
    entries = [Entry(key, f"{at}.{copy}", key) for at, key in enumerate(keys) for copy in range(2)]
    assert index.ring.call(lambda done: index.writers[1].insert(entries, done)) == 0
    answer = index.ring.call(lambda done: index.writers[2].exact(keys[3], done))
    assert [entry.value for entry in answer.entries] == [keys[3]] * 2
    whole = index.ring.call(lambda done: index.writers[2].range(Range(keys[10], keys[19]), done))
    assert [entry.value for entry in whole.entries] == [key for key in keys[10:20] for _ in range(2)]


def test_deleting_merges_leaves() -> None:
    index = Index(4)
    values = list(range(400))
    for writer in range(4):
        index.insert(writer, values[writer::4])
    rounds = index.read(None, None).rounds
    for writer in range(4):
        gone = [f"{value}.{writer}" for value in values[writer::4] if value % 50]
        for start in range(0, len(gone), 9):
            index.ring.call(
                lambda done, w=writer, ids=gone[start : start + 9]: index.writers[w].delete(
                    ids, lambda: done(0)
                )
            )
        assert index.values(None, 10) == [
            value for value in range(11) if value % 50 == 0 or value % 4 > writer
        ]
    assert index.values(None, None) == values[::50]
    assert sum(writer.statistics.merges for writer in index.writers) > 5
    index.ring.world.run_for(4 * SMALL.lifetime_s)
    assert index.values(None, None) == values[::50]
    assert index.read(None, None).rounds <= rounds


def test_a_quarter_of_the_nodes_dies_and_publishers_bring_it_back() -> None:
    index = Index(16)
    rng = random.Random(8)
    values = sorted(rng.sample(range(100_000), 500))
    for writer in range(12):
        index.insert(writer, values[writer::12])
    for node in index.ring.nodes[12:]:
        index.ring.kill(node)
    index.ring.world.run_for(SMALL.lifetime_s)
    assert index.values(None, None) == values
    low, high = values[100], values[300]
    assert index.values(low, high) == values[100:301]


def test_an_index_nobody_feeds_goes() -> None:
    index = Index(4)
    index.insert(1, range(100))
    index.writers[1].close()
    index.ring.world.run_for(2 * SMALL.lifetime_s)
    assert index.values(None, None) == []
    assert sum(node.dht.statistics().store.objects for node in index.ring.nodes) == 0


@pytest.mark.slow
def test_a_hundred_thousand_keys_are_a_sorted_list() -> None:
    index = Index(8, PhtConfig(leaf_max=256, lifetime_s=3_600.0))
    rng = random.Random(1)
    values = sorted(rng.sample(range(1 << 40), 100_000))
    for writer in range(8):
        index.insert(writer, values[writer::8])
    for width in (0, 10, 1_000, 20_000):
        for _ in range(5):
            at = rng.randrange(len(values) - width)
            low, high = values[at] - rng.randint(0, 3), values[at + width] + rng.randint(0, 3)
            assert index.values(low, high) == values[bisect_left(values, low) : bisect_right(values, high)]
    assert index.values(None, None, limit=10) == values[:10]
    assert index.values(None, None, limit=10, descending=True) == values[:-11:-1]
