"""Join, Rows: takes pairs of row ids, fetches the rows from where they are kept, and makes the pairs. An addition to
PIER's operators: the second half of its symmetric semi-join (PIER 4.3.2).

A pair has the columns of `cache Rows` for each side, NULL where an outer join found no partner. The rows of both sides
are fetched in parallel, each row of a batch once. So many batches are in hand at a time; producers of more are asked to
pause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from query.batch import Batch
from query.causes import Cause
from query.dataflow.flow import Flow
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.turns import InTurns
from query.engine.kept import WANTED_ROWS_MAX
from query.keys import RowStore
from query.keys.store import taken
from query.keys.table import Ids
from query.operators.cache.rows import id_columns
from query.operators.join.pairs import Pairs
from query.operators.join.settings import OUTPUT

#: Batches whose rows are being fetched at a time, and below how many the producer is asked to go on.
PENDING_MAX, PENDING_LOW = 8, 4
#: Stands for "no partner" among places.
NOBODY = -1


@dataclass(slots=True)
class _Side:
    """The rows of one side of a batch of pairs: which row each pair has, and the rows as they come."""

    #: For each pair the place of its row among the distinct ones; NOBODY when it has none.
    places: Ids
    #: Where the rows of each holder begin in the order of the answers.
    holders: list[tuple[str, Ids]]
    answers: list[list[Batch] | None] = field(default_factory=list)

    def rows(self) -> tuple[RowStore, Ids]:
        """The rows that came, and for each pair which of them is its own; NOBODY also for those that did not."""
        store = RowStore()
        where: list[npt.NDArray[np.int64]] = []
        for (_, numbers), answer in zip(self.holders, self.answers, strict=True):
            came = sum(batch.num_rows for batch in answer or ())
            if answer is None or came != len(numbers):
                where.append(np.full(len(numbers), NOBODY))
                continue
            where.append(np.arange(store.rows, store.rows + came))
            for batch in answer:
                store.append(batch)
        placed = np.concatenate([*where, np.array([NOBODY])])
        return store, placed[self.places]


@dataclass(slots=True, eq=False)
class _Pending:
    tag: int
    pairs: int
    bytes: int
    sides: list[_Side | None]
    unanswered: int = 0


@register
class JoinRows(InTurns):
    """Pairs of ids become pairs of rows."""

    TYPE = "join"
    IMPLEMENTATION = "Rows"
    OPTIONS: ClassVar = (
        Option("leftchannel", "text", "where cache Rows keeps the left rows", required=True),
        Option("rightchannel", "text", "the same for the right; absent where only left rows are wanted"),
        Option("leftid", "text", "what the columns that identify a left row are called", "left"),
        Option("rightid", "text", "the same for a right row", "right"),
        *OUTPUT,
    )

    def open(self) -> None:
        super().open()
        self._kept = self.context.services["kept"]
        self._pairs = Pairs(self)
        self._pending: deque[_Pending] = deque()
        self._finished: dict[int, None] = {}
        self._full = False
        self._samples: list[Batch | None] = [None, None]
        self._closed = False

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        sides = [
            None if self.options[f"{name}channel"] is None else _side(batch, self.options[f"{name}id"])
            for name in ("left", "right")
        ]
        pending = _Pending(tag, batch.num_rows, batch.nbytes, sides)
        self.context.budget.hold(pending.bytes, self.name)
        self._pending.append(pending)
        self._ask(pending)
        self._full = self._full or len(self._pending) >= PENDING_MAX
        return Flow.PAUSE if self._full else Flow.MORE

    def finish(self, tag: int) -> None:
        self.work(self._finish(tag))

    def idle(self) -> bool:
        return super().idle() and not self._pending

    def close(self) -> None:
        super().close()
        self._closed = True
        self.context.budget.hold(-sum(pending.bytes for pending in self._pending), self.name)
        self._pending.clear()

    def _ask(self, pending: _Pending) -> None:
        for side, name in zip(pending.sides, ("left", "right"), strict=True):
            for number, (holder, rows) in enumerate(side.holders if side is not None else ()):
                assert side is not None
                side.answers.append(None)
                pending.unanswered += 1
                channel = self.options[f"{name}channel"]
                self._fetch(pending, side, number, channel, holder, rows)
        if pending.unanswered == 0:
            self.work(self._pair(pending))

    def _fetch(
        self, pending: _Pending, side: _Side, number: int, channel: str, holder: str, rows: Ids
    ) -> None:
        def got(batches: list[Batch] | None) -> None:
            side.answers[number] = batches
            pending.unanswered -= 1
            if pending.unanswered == 0 and not self._closed:
                self.context.guard(lambda: self.work(self._pair(pending)))

        self._kept.fetch(self.context.query_id, channel, holder, rows, got)

    def _pair(self, pending: _Pending) -> Iterator[Flow]:
        """All rows that can be had are here."""
        left, right = (None if side is None else side.rows() for side in pending.sides)
        assert left is not None, "there is always a left side"
        if right is None:
            yield from self._alone(left, np.flatnonzero(left[1] != NOBODY), 0, pending)
            lost = left[1] == NOBODY
        else:
            had = [side.places != NOBODY for side in pending.sides if side is not None]
            got = [left[1] != NOBODY, right[1] != NOBODY]
            lost = (had[0] & ~got[0]) | (had[1] & ~got[1])
            yield from self._both(left, right, np.flatnonzero(got[0] & got[1]), pending)
            yield from self._alone(left, np.flatnonzero(got[0] & ~had[1]), 0, pending)
            yield from self._alone(right, np.flatnonzero(got[1] & ~had[0]), 1, pending)
        if lost.any():
            self.drop(
                int(lost.sum()),
                "rows of a pair could not be fetched from the node that keeps them",
                Cause.NOT_FETCHED,
            )
        self._pending.remove(pending)
        self.context.budget.hold(-pending.bytes, self.name)
        if self._full and len(self._pending) <= PENDING_LOW:
            self._full = False
            self.inputs[0].resume()
        yield from self._end_if_done(pending.tag)

    def _both(
        self, left: tuple[RowStore, Ids], right: tuple[RowStore, Ids], pairs: Ids, pending: _Pending
    ) -> Iterator[Flow]:
        if len(pairs) == 0:
            return
        for places, lefts in left[0].fetch(left[1][pairs]):
            mine = pairs if places is None else pairs[places]
            for inner, rights in right[0].fetch(right[1][mine]):
                self._samples = [lefts.slice(0, 0), rights.slice(0, 0)]
                result, _ = self._pairs.pair(lefts if inner is None else taken(lefts, inner), rights)
                if result.num_rows:
                    yield self.emit(result, pending.tag)

    def _alone(
        self, side: tuple[RowStore, Ids], pairs: Ids, number: int, pending: _Pending
    ) -> Iterator[Flow]:
        if len(pairs) == 0:
            return
        for _, rows in side[0].fetch(side[1][pairs]):
            if self.options["rightchannel"] is None:
                yield self.emit(rows, pending.tag)
            else:
                yield self.emit(self._pairs.alone(rows, number, self._samples[1 - number]), pending.tag)

    def _finish(self, tag: int) -> Iterator[Flow]:
        self._finished[tag] = None
        yield from self._end_if_done(tag)

    def _end_if_done(self, tag: int) -> Iterator[Flow]:
        if tag in self._finished and not any(pending.tag == tag for pending in self._pending):
            del self._finished[tag]
            self.emit_end(tag)
        yield from ()


def _side(batch: Batch, name: str) -> _Side:
    """Which rows of whom a batch of pairs needs, each once."""
    # A side that never had a row has no types.
    kinds = (pa.string(), pa.int64())
    at, row = (batch.column(c).cast(kind) for c, kind in zip(id_columns(name), kinds, strict=True))
    numbers = row.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    holders = at.dictionary_encode()
    codes = holders.indices.fill_null(NOBODY).to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.lexsort((numbers, codes))
    ordered = np.stack([codes[order], numbers[order]])
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    fresh &= ordered[0] != NOBODY
    places = np.full(len(order), NOBODY)
    there = ordered[0] != NOBODY
    places[order[there]] = (np.cumsum(fresh) - 1)[there]
    asked: list[tuple[str, Ids]] = []
    for code, holder in enumerate(holders.dictionary.to_pylist()):
        wanted = ordered[1][fresh & (ordered[0] == code)]
        asked += [
            (holder, wanted[start : start + WANTED_ROWS_MAX])
            for start in range(0, len(wanted), WANTED_ROWS_MAX)
        ]
    return _Side(places, asked)
