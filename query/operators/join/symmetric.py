"""Join, SymmetricHash: both sides build and probe as their rows arrive (PIER Table 3.3, 4.3).

A batch of either side is looked up among the rows the other side has brought so far and then kept for those still
to come, so every pair is found exactly once, by the later of its rows, whatever the order of arrival. When
one side has ended, rows of the other need not be kept, and those without a partner are known: outer, semi and anti
joins cost no more than that. Keys with a NULL match nothing.

Where nobody wants results before the end, one side may go `first`: rows of the other wait as they came until it is
complete, and are then looked up and never kept. That is the classic hash join, and about half the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from query import plan
from query.batch import Batch
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow
from query.dataflow.registry import register
from query.dataflow.turns import InTurns
from query.expr import TypeClash
from query.keys import KeyIndex, NullKeys
from query.keys.encode import kind_of
from query.keys.store import taken
from query.keys.table import Ids
from query.operators.join.pairs import Pairs
from query.operators.join.settings import (
    ANTI,
    FIRST,
    FULL,
    INNER,
    KEYS,
    LEFT,
    OUTPUT,
    RIGHT,
    SEMI,
    kind_option,
    require_same_number,
)
from query.operators.join.side import OUT_ROWS, Mask, Side

#: Probes answered at a time.
TAGS_MAX = 1_024


class _State:
    """The join of one probe: one index of keys for both sides, and the rows of each."""

    def __init__(self, join: SymmetricHash) -> None:
        kind = join.options["kind"]
        once = kind in (SEMI, ANTI)
        rows = not once or join.pairs.conditional
        self.index = KeyIndex(len(join.options["leftkeys"]), join.seed, NullKeys.NEVER)
        self.sides = [
            Side(True, kind in (LEFT, FULL, SEMI, ANTI)),
            Side(rows, kind in (RIGHT, FULL)),
        ]
        self.kinds: list[tuple[str, ...] | None] = [None, None]
        self.ended = [False, False]
        #: Rows with their keys that wait for the side that goes first, and whether their own side has ended meanwhile.
        self.waiting: list[tuple[Batch, list[pa.Array]]] = []
        self.waiting_bytes = 0
        self.over = False
        self.held_bytes = 0

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + sum(side.nbytes for side in self.sides) + self.waiting_bytes


@register
class SymmetricHash(InTurns):
    """Joins two inputs on equal keys, in the order in which rows arrive."""

    TYPE = "join"
    IMPLEMENTATION = "SymmetricHash"
    OPTIONS: ClassVar = (*KEYS, kind_option(INNER, LEFT, RIGHT, FULL, SEMI, ANTI), FIRST, *OUTPUT)
    SOURCES = (2, 2)

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        require_same_number(options["leftkeys"], options["rightkeys"])

    def open(self) -> None:
        super().open()
        left, right = self.options["leftkeys"], self.options["rightkeys"]
        self.seed = self.context.rng.bits64()
        self.pairs = Pairs(self)
        self._kind: str = self.options["kind"]
        #: The side that waits for the other; none when both build and probe as rows arrive.
        self._waits: int | None = {"left": 1, "right": 0}.get(self.options["first"])
        self._keys = [Evaluator(self, left), Evaluator(self, right)]
        self._states: dict[int, _State] = {}

    def needs(self, port: int) -> frozenset[str]:
        return frozenset(plan.fields_of(*self.options[("leftkeys", "rightkeys")[port]]))

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return self.work(self._join(batch, tag, port), batch.num_rows, batch.nbytes)

    def receive_end(self, tag: int, port: int) -> None:
        if not self.has_ended(tag, port):
            self.work(self._end(tag, port))

    def finish(self, tag: int) -> None:
        self._charge(self._states.pop(tag, None), 0)
        self.emit_end(tag)

    def close(self) -> None:
        super().close()
        for state in self._states.values():
            self._charge(state, 0)
        self._states.clear()

    def _join(self, batch: Batch, tag: int, port: int) -> Iterator[Flow]:
        state = self._of(tag)
        batch, keys = self._keys[port](batch)
        self._require_kinds(state, port, tuple(kind_of(key.type) for key in keys))
        if port == self._waits and not state.ended[1 - port]:
            state.waiting.append((batch, keys))
            state.waiting_bytes += batch.nbytes + sum(key.nbytes for key in keys)
            self._charge(state, state.nbytes)
        else:
            yield from self._paired(batch, keys, tag, port)

    def _paired(self, batch: Batch, keys: list[pa.Array], tag: int, port: int) -> Iterator[Flow]:
        """Looks rows up on the other side, and keeps them for those of it that are still to come."""
        state = self._of(tag)
        own, other = state.sides[port], state.sides[1 - port]
        own.see(batch)
        # With the other side ended, a key that is new now will match nothing and need not be remembered.
        if state.ended[1 - port]:
            ids = state.index.find(keys, batch.num_rows)
        else:
            ids, _ = state.index.add(keys, batch.num_rows)
        matched = np.zeros(batch.num_rows, dtype=np.bool_)
        if self._kind in (SEMI, ANTI):
            yield from self._once(batch, ids, tag, port, state, matched)
        else:
            for places, rows in _bounded(other, ids):
                yield from self._pair(batch, places, rows, tag, port, state, matched)
        if not state.ended[1 - port]:
            own.add(batch, ids, matched)
        elif not matched.all() and self._wants_unmatched(port):
            yield self._emit_alone(batch.take(pa.array(~matched)), tag, port, state)
        self._charge(state, state.nbytes)

    def _pair(
        self, batch: Batch, places: Ids, rows: Ids, tag: int, port: int, state: _State, matched: Mask
    ) -> Iterator[Flow]:
        """Emits pairs of rows of a batch and rows of the other side."""
        for where, partners in state.sides[1 - port].fetch(rows):
            at = places if where is None else places[where]
            numbers = rows if where is None else rows[where]
            own = batch if _is_everything(at, batch.num_rows) else taken(batch, at)
            result, kept = self.pairs.pair(own, partners) if port == 0 else self.pairs.pair(partners, own)
            if kept is not None:
                at, numbers = at[kept], numbers[kept]
            matched[at] = True
            state.sides[1 - port].mark(numbers)
            if result.num_rows:
                yield self.emit(result, tag)

    def _once(
        self, batch: Batch, ids: Ids, tag: int, port: int, state: _State, matched: Mask
    ) -> Iterator[Flow]:
        """Semi and anti: which left rows have found their first partner."""
        left = state.sides[0]
        if not self.pairs.conditional and port == 0:
            matched |= state.sides[1].counts(ids) > 0
        fresh: list[Ids] = []
        if self.pairs.conditional or port == 1:
            # Each key is asked for once; a condition needs every pair.
            asked = ids if self.pairs.conditional else np.unique(ids)
            for places, rows in _bounded(state.sides[1 - port], asked):
                if self.pairs.conditional:
                    places, rows = self._holding(batch, places, rows, port, state)
                    matched[places] = True
                if port == 1:
                    fresh.append(left.mark(rows))
        if self._kind == ANTI:
            return
        if port == 0 and matched.any():
            yield self.emit(batch.take(pa.array(matched)), tag)
        for rows in fresh:
            for start in range(0, len(rows), OUT_ROWS):
                for _, found in left.fetch(rows[start : start + OUT_ROWS]):
                    yield self.emit(found, tag)

    def _holding(self, batch: Batch, places: Ids, rows: Ids, port: int, state: _State) -> tuple[Ids, Ids]:
        """The pairs for which the condition holds."""
        found: list[tuple[Ids, Ids]] = []
        for where, partners in state.sides[1 - port].fetch(rows):
            at = places if where is None else places[where]
            numbers = rows if where is None else rows[where]
            own = taken(batch, at)
            _, kept = self.pairs.pair(own, partners) if port == 0 else self.pairs.pair(partners, own)
            found.append((at, numbers) if kept is None else (at[kept], numbers[kept]))
        return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])

    def _end(self, tag: int, port: int) -> Iterator[Flow]:
        """One side is complete: the other's rows without partner are known, and none of them is needed more."""
        state = self._of(tag)
        if port == self._waits and not state.ended[1 - port]:
            state.over = True
            return
        state.ended[port] = True
        if self._wants_unmatched(1 - port):
            for batch in state.sides[1 - port].unmatched():
                yield self._emit_alone(batch, tag, 1 - port, state)
        state.sides[1 - port] = state.sides[1 - port].emptied()
        self._release(state, tag, port)
        self._charge(state, state.nbytes)
        super().receive_end(tag, port)

    def _release(self, state: _State, tag: int, port: int) -> None:
        """The side that goes first is complete: what waited for it is work now, each batch by itself."""
        waiting, state.waiting, state.waiting_bytes = state.waiting, [], 0
        for batch, keys in waiting:
            self.work(self._paired(batch, keys, tag, 1 - port), batch.num_rows, batch.nbytes)
        if state.over:
            state.over = False
            self.work(self._end(tag, 1 - port))

    def _wants_unmatched(self, port: int) -> bool:
        return self._kind in ((LEFT, FULL, ANTI), (RIGHT, FULL))[port]

    def _emit_alone(self, batch: Batch, tag: int, port: int, state: _State) -> Flow:
        if self._kind == ANTI:
            return self.emit(batch, tag)
        return self.emit(self.pairs.alone(batch, port, state.sides[1 - port].sample), tag)

    def _of(self, tag: int) -> _State:
        state = self._states.get(tag)
        if state is None:
            assert len(self._states) < TAGS_MAX, "too many open probes"
            state = self._states[tag] = _State(self)
        return state

    def _require_kinds(self, state: _State, port: int, kinds: tuple[str, ...]) -> None:
        """Keys that can never be equal are a mistake of the query, not an empty answer."""
        other = state.kinds[1 - port]
        for mine, theirs in zip(kinds, other or kinds, strict=True):
            if mine and theirs and mine != theirs:
                raise TypeClash(f"join keys cannot be equal: {mine} here, {theirs} on the other side")
        if state.kinds[port] is None:
            state.kinds[port] = kinds

    def _charge(self, state: _State | None, size: int) -> None:
        if state is not None:
            self.context.budget.hold(size - state.held_bytes, self.name)
            state.held_bytes = size


def _bounded(side: Side, ids: Ids) -> Iterator[tuple[Ids, Ids]]:
    """Matches in pieces of about OUT_ROWS pairs, however many rows share a key."""
    ends = np.cumsum(side.counts(ids))
    total = int(ends[-1]) if len(ends) else 0
    first = 0
    while first < len(ids) and total:
        done = int(ends[first - 1]) if first else 0
        if done == total:
            return
        stop = max(first + 1, int(np.searchsorted(ends, done + OUT_ROWS, side="right")))
        places, rows = side.match(ids[first:stop])
        places += first
        for start in range(0, len(rows), OUT_ROWS):
            yield places[start : start + OUT_ROWS], rows[start : start + OUT_ROWS]
        first = stop


def _is_everything(places: Ids, rows: int) -> bool:
    """Whether the places are 0 … rows-1, so that nothing need be copied."""
    return len(places) == rows and bool((places == np.arange(rows)).all())
