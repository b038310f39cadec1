"""Continuous queries and the nodes that come while they run: how many there are, and who has not got a query yet.

The asker of continuous queries sends the ids of all of them around the ring, now and then, in one spread; every node
says which it does not know, and on the way back that is added up. So the asker knows of how many nodes an epoch should
have data, and a query that somebody lacks, who joined or started again, is spread anew (`Spread.renew`): those that
have it go on. What it costs does not depend on the number of queries, and is nothing where none is continuous.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec

from overlay.spread.account import Account as Coverage
from overlay.spread.branch import Branch
from overlay.spread.spread import Spread
from query.counts import Count, total
from query.engine.spec import ID_CHARS_MAX
from runtime.api import Runtime, Timer

TOPIC = "query-census"
#: Between two of them: how long a host that was started again is missing from live answers at most, give or take the
#: time that it takes to join.
PERIOD_S = 15.0
#: Queries in one census; those beyond it are in the next.
QUERIES_MAX = 256

Ids: TypeAlias = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=ID_CHARS_MAX)], ...], msgspec.Meta(max_length=QUERIES_MAX)
]
Counts: TypeAlias = Annotated[tuple[Count, ...], msgspec.Meta(max_length=QUERIES_MAX)]
#: Nodes that there are, those of them that lack the query, and what the spread that counted them has covered.
Counted: TypeAlias = Callable[[int, int, Coverage], None]

_encode = msgspec.msgpack.Encoder().encode
_decode_ids = msgspec.msgpack.Decoder(Ids).decode
_decode_counts = msgspec.msgpack.Decoder(Counts).decode


def _add(one: bytes, other: bytes) -> bytes:
    """Two answers into one; an answer that is none says nothing."""
    try:
        left, right = _decode_counts(one), _decode_counts(other)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return one
    return _encode(tuple(total(a, b) for a, b in zip(left, right, strict=False)))


class Census:
    """Answers for this node, asks for the continuous queries that were asked here."""

    def __init__(self, runtime: Runtime, spread: Spread, knows: Callable[[str], bool]) -> None:
        self.malformed = 0
        self._runtime = runtime
        self._spread = spread
        self._knows = knows
        self._watched: dict[str, Counted] = {}
        self._timer: Timer | None = None
        self._out: Branch | None = None
        #: Somebody has begun to watch since the one that is out left.
        self._due = False
        spread.on_arrival(TOPIC, self._asked)

    def watch(self, query_id: str, counted: Counted) -> None:
        """Counts nodes for a query from now on; the first time at once, when nobody can have it yet."""
        self._watched[query_id] = counted
        self._arm(0.0)

    def forget(self, query_id: str) -> None:
        self._watched.pop(query_id, None)
        if not self._watched and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, after_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._runtime.call_later(after_s, self._take, None)

    def _take(self, _: None) -> None:
        self._timer = None
        if self._out is not None:
            left_s = self._out.began_at + PERIOD_S - self._runtime.now()
            if left_s > 0.0:
                self._due = True
                self._arm(left_s)
                return
            # Nodes that have not answered since the last time are not waited for.
            self._out.conclude()
        self._due = False
        ids = tuple(self._watched)[:QUERIES_MAX]
        for query_id in ids:
            # To the end of the line.
            self._watched[query_id] = self._watched.pop(query_id)

        def done(reply: bytes | None, coverage: Coverage) -> None:
            if self._out is out:
                self._out = None
            self._counted(ids, reply, coverage)
            if self._due and self._watched:
                self._arm(0.0)

        out = self._out = self._spread.start(TOPIC, _encode(ids), done, combine=_add)
        self._arm(PERIOD_S)

    def _counted(self, ids: tuple[str, ...], reply: bytes | None, coverage: Coverage) -> None:
        try:
            lacking = () if reply is None else _decode_counts(reply)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.malformed += 1
            return
        nodes = coverage.received + coverage.unreachable
        for query_id, count in zip(ids, lacking, strict=False):
            counted = self._watched.get(query_id)
            if counted is not None:
                counted(nodes, count, coverage)

    def _asked(self, branch: Branch) -> None:
        try:
            ids = _decode_ids(branch.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.malformed += 1
            branch.fail()
            return
        branch.combine = _add
        branch.reply(_encode(tuple(int(not self._knows(query_id)) for query_id in ids)))
