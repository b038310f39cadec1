"""Bloom filters: no false negatives, the error they promise, and the two operators that meet in one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.keys import stable_hash
from query.keys.bloom import BloomFilter
from tests.query.dataflow.harness import operator, sink
from tests.query.operators.feeding import fed, fields, play, rows, rows_of, started


class Shelf:
    """Filters of one node, handed on when told."""

    def __init__(self) -> None:
        self.filters: dict[str, BloomFilter] = {}
        self.waiting: list[tuple[str, Callable[[BloomFilter | None], None]]] = []
        self.nodes = 1

    def put(self, name: str, filter_: BloomFilter, done: Callable[[], None]) -> None:
        self.filters[name] = BloomFilter.from_bytes(filter_.to_bytes())
        done()

    def get(self, name: str, handler: Callable[[BloomFilter | None], None]) -> None:
        self.waiting.append((name, handler))

    def hand_on(self) -> None:
        for name, handler in self.waiting:
            handler(self.filters.get(name))


def test_the_rate_of_false_positives_is_what_it_promises() -> None:
    for error in (0.1, 0.01, 0.001):
        filter_ = BloomFilter.sized(20_000, error)
        filter_.add(stable_hash([pa.array(range(20_000))], 20_000))
        assert filter_.contains(stable_hash([pa.array(range(20_000))], 20_000)).all()
        wrong = float(
            np.mean(filter_.contains(stable_hash([pa.array(range(1_000_000, 1_200_000))], 200_000)))
        )
        assert wrong <= error * 1.2
        assert abs(filter_.error_rate - wrong) <= max(0.2 * wrong, 1e-4)


@given(st.lists(st.text(max_size=4)), st.lists(st.text(max_size=4)))
def test_merged_filters_hold_the_keys_of_both_also_after_travelling(one: list[str], other: list[str]) -> None:
    filters = []
    for keys in (one, other):
        filter_ = BloomFilter.sized(100, 0.01)
        filter_.add(stable_hash([pa.array(keys, pa.string())], len(keys)))
        filters.append(BloomFilter.from_bytes(filter_.to_bytes()))
    filters[0].merge(filters[1])
    both = one + other
    assert filters[0].contains(stable_hash([pa.array(both, pa.string())], len(both))).all()


@pytest.mark.parametrize("data", [b"", b"x" * 8, BloomFilter.sized(9, 0.1).to_bytes()[:-1], bytes(200)])
def test_bytes_that_are_no_filter_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="Bloom"):
        BloomFilter.from_bytes(data)


@given(st.integers(1, 2_000), st.integers(1, 50))
def test_filters_of_different_sizes_merge_and_fold_without_losing_a_key(many: int, few: int) -> None:
    hashes = stable_hash([pa.array(range(many + few))], many + few)
    large, small = BloomFilter.sized(20_000, 0.01), BloomFilter.sized(100, 0.01)
    large.add(hashes[:many])
    small.add(hashes[many:])
    for one, other in ((large, small), (small, large)):
        whole = BloomFilter.from_bytes(one.to_bytes())
        whole.merge(other)
        assert whole.contains(hashes).all()
        folded = whole.folded(0.05)
        assert folded.contains(hashes).all()
        assert folded.bits <= whole.bits
        assert folded.error_rate <= max(0.05, whole.error_rate)


def test_filters_that_hash_otherwise_do_not_merge() -> None:
    with pytest.raises(ValueError, match="numbers of hashes"):
        BloomFilter(10, 3).merge(BloomFilter(10, 4))


def test_rows_without_partner_are_left_out_once_the_filter_is_there() -> None:
    shelf = Shelf()
    graph = [
        *(fed("l"), fed("r")),
        operator("put", "put/Bloom", "l", name="keys", keys=fields("k"), rows="1000", error="0.001"),
        operator("only", "selection/Bloom", "r", name="keys", keys=fields("id")),
        sink("only"),
    ]
    harness = started(graph, bloom=shelf)
    play(harness, [("r", rows(id=[1, 2, None], v=["a", "b", "c"])), ("l", rows(k=[2, 3, None])), ("l", None)])
    assert rows_of(harness) == []
    assert harness.context.budget.memory_bytes > 0
    shelf.hand_on()
    play(harness, [("r", rows(id=list(range(3, 1_000)), v=["x"] * 997)), ("r", None)])
    got = rows_of(harness)
    assert (2, "b") in got
    assert (3, "x") in got
    assert len(got) < 20
    assert harness["out"].ends == [2] or harness.done == 1
    harness.flow.close()
    assert harness.context.budget.memory_bytes == 0


def test_without_a_filter_all_rows_pass() -> None:
    shelf = Shelf()
    graph = [fed(), operator("only", "selection/Bloom", "s", name="none", keys=fields("a")), sink("only")]
    harness = started(graph, bloom=shelf)
    shelf.hand_on()
    play(harness, [("s", rows(a=[1, None])), ("s", None)])
    assert len(rows_of(harness)) == 2
    assert "all rows pass" in harness.complaints[0][1]
