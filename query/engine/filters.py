"""How the Bloom filters of a query meet: they ride in the reports of their stage up the tree, are OR-ed at each node on
the way, and go down again with the call of the next stage (PIER 4.3: the Bloom join; docs/decisions/0012).

So a filter costs each node one message up and one down that it would send anyway, and no node collects those of all
others. Without the whole filter every row passes, which is slower and never wrong. Counts of frequent keys go
the same way, for joins of skewed keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from query.engine.stages import FILTER
from query.keys.bloom import BloomFilter
from query.keys.heavy import HeavyKeys

#: A filter on the wire; what is larger becomes NONE. Several have to fit into one call.
FILTER_BYTES_MAX = 1 << 20
#: What stands for a filter that is too large, or that cannot be read.
NONE = b""
#: The rate of false positives that the whole filter is cut to.
ERROR_RATE = 0.02
#: A filter that lets through more than this is not worth sending.
ERROR_RATE_MAX = 0.7
#: Rows of one key that are no burden to anybody.
HEAVY_ROWS_LEAST = 64


class QueryFilters:
    """The service "bloom" of one query on one node."""

    def __init__(self, nodes: int, when_complete: Callable[[str, Callable[[], None]], None]) -> None:
        self.nodes = max(1, nodes)
        #: This node's filters for the report, and those of all nodes as they came with a call.
        self.given: dict[str, bytes] = {}
        self.taken: dict[str, bytes] = {}
        self._when_complete = when_complete

    def put(self, name: str, filter_: BloomFilter, done: Callable[[], None]) -> None:
        self.give(name, _bounded(filter_))
        done()

    def get(self, name: str, handler: Callable[[BloomFilter | None], None]) -> None:
        self.take(name, lambda data: handler(_read(data)))

    def give(self, name: str, summary: bytes) -> None:
        self.given[name] = summary

    def take(self, name: str, handler: Callable[[bytes], None]) -> None:
        self._when_complete(FILTER + name, lambda: handler(self.taken.get(name, NONE)))


def merged(left: Mapping[str, bytes], right: Mapping[str, bytes]) -> dict[str, bytes]:
    """The filters of two parts of the tree; a name that one part has not is one without keys there."""
    whole = dict(left)
    for name, value in right.items():
        whole[name] = _merged(whole[name], value) if name in whole else value
    return whole


def _merged(left: bytes, right: bytes) -> bytes:
    counts = _read_heavy(left), _read_heavy(right)
    if counts[0] is not None and counts[1] is not None:
        return counts[0].merged(counts[1]).to_bytes()
    ours, theirs = _read(left), _read(right)
    if ours is None or theirs is None or ours.hashes != theirs.hashes:
        return NONE
    ours.merge(theirs)
    return _bounded(ours)


def cut(filters: Mapping[str, bytes], nodes: int) -> dict[str, bytes]:
    """Filters of all nodes as small as they may be, before every node gets them; of counted keys those that would give
    one of so many nodes more than its share of the rows."""
    small = {}
    for name, value in filters.items():
        heavy = _read_heavy(value)
        if heavy is not None:
            small[name] = heavy.above(max(HEAVY_ROWS_LEAST, heavy.rows // max(1, nodes))).to_bytes()
            continue
        filter_ = _read(value)
        small[name] = NONE if filter_ is None else filter_.folded(ERROR_RATE).to_bytes()
    return small


def _bounded(filter_: BloomFilter) -> bytes:
    """A filter as it travels, halved until it fits into a report."""
    data = filter_.to_bytes()
    while len(data) > FILTER_BYTES_MAX and filter_.error_rate <= ERROR_RATE_MAX:
        filter_ = filter_.halved()
        data = filter_.to_bytes()
    return data if filter_.error_rate <= ERROR_RATE_MAX else NONE


def _read_heavy(data: bytes) -> HeavyKeys | None:
    try:
        return HeavyKeys.from_bytes(data)
    except ValueError:
        return None


def _read(data: bytes) -> BloomFilter | None:
    try:
        return BloomFilter.from_bytes(data)
    except ValueError:
        return None
