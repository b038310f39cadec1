"""How the Bloom filters of a query meet: they ride in the reports of their stage up the tree, are OR-ed at each node on
the way, and go down again with the call of the next stage (PIER 4.3: the Bloom join; DESIGN D8).

So a filter costs each node one message up and one down that it would send anyway, and no node collects those of all
others. Without the whole filter every row passes, which is slower and never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from query.engine.stages import FILTER
from query.keys.bloom import BloomFilter

#: A filter on the wire; what is larger becomes NONE. Several have to fit into one call.
FILTER_BYTES_MAX = 1 << 20
#: What stands for a filter that is too large, or that cannot be read.
NONE = b""
#: The rate of false positives that the whole filter is cut to.
ERROR_RATE = 0.02
#: A filter that lets through more than this is not worth sending.
ERROR_RATE_MAX = 0.7


class QueryFilters:
    """The service "bloom" of one query on one node."""

    def __init__(self, nodes: int, when_complete: Callable[[str, Callable[[], None]], None]) -> None:
        self.nodes = max(1, nodes)
        #: This node's filters for the report, and those of all nodes as they came with a call.
        self.given: dict[str, bytes] = {}
        self.taken: dict[str, bytes] = {}
        self._when_complete = when_complete

    def put(self, name: str, filter_: BloomFilter, done: Callable[[], None]) -> None:
        self.given[name] = _bounded(filter_)
        done()

    def get(self, name: str, handler: Callable[[BloomFilter | None], None]) -> None:
        self._when_complete(FILTER + name, lambda: handler(_read(self.taken.get(name, NONE))))


def merged(left: Mapping[str, bytes], right: Mapping[str, bytes]) -> dict[str, bytes]:
    """The filters of two parts of the tree; a name that one part has not is one without keys there."""
    whole = dict(left)
    for name, value in right.items():
        if name in whole:
            ours, theirs = _read(whole[name]), _read(value)
            if ours is None or theirs is None or ours.hashes != theirs.hashes:
                whole[name] = NONE
            else:
                ours.merge(theirs)
                whole[name] = _bounded(ours)
        else:
            whole[name] = value
    return whole


def cut(filters: Mapping[str, bytes]) -> dict[str, bytes]:
    """Filters of all nodes as small as they may be, before every node gets them."""
    small = {}
    for name, value in filters.items():
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


def _read(data: bytes) -> BloomFilter | None:
    try:
        return BloomFilter.from_bytes(data)
    except ValueError:
        return None
