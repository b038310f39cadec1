"""Join, Index: for each batch of outer rows it asks its inner source for the rows with their keys (PIER 3.3.5).

The outer rows come from sources[0], asked for as the consumer asks. Their distinct keys go to sources[1] as one
set-predicate probe with a tag of its own; what comes back under that tag is matched with the batch that asked. With
a DHT scan as inner source this is the Fetch Matches join (PIER 3.3.3). So many probes wait for their answer at a
time; more outer rows wait here, charged to the query's memory, while their producer is asked to pause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from query import plan
from query.batch import Batch
from query.causes import Cause
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow, Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import SettingError
from query.dataflow.turns import InTurns
from query.expr.errors import EvalError, ExprError
from query.keys import KeyIndex, NullKeys
from query.keys.kernels import new_chains
from query.keys.lookup import key_columns
from query.keys.store import taken
from query.operators.join.pairs import Pairs
from query.operators.join.settings import (
    ANTI,
    INNER,
    KEYS,
    LEFT,
    OUTPUT,
    SEMI,
    kind_option,
    require_same_number,
)
from query.operators.join.side import OUT_ROWS
from query.plan import Expression, Field

#: Probes that wait for their answer at a time: enough to hide a network's delay, few enough for any source.
PENDING_MAX = 32
#: Outer batches that wait for a free probe before their producer is asked to pause.
WAITING_MAX = 16


class _Pending:
    """A batch of outer rows whose partners were asked for."""

    def __init__(self, batch: Batch, tag: int, keys: list[pa.Array], seed: int) -> None:
        self.batch = batch
        #: The tag of the consumer's probe.
        self.tag = tag
        self.index = KeyIndex(len(keys), seed, NullKeys.NEVER)
        ids, fresh = self.index.add(keys, batch.num_rows)
        there = np.flatnonzero(ids >= 0)
        self.chains = new_chains()
        self.chains.add(ids[there])
        #: Rows of the batch by their place in the chains; those whose key has a NULL are in none.
        self.rows = there
        self.keys = [key.take(pa.array(fresh)) for key in keys]
        self.matched = np.zeros(batch.num_rows, dtype=np.bool_)


@register
class IndexJoin(InTurns):
    """Looks partners up instead of receiving them all."""

    TYPE = "join"
    IMPLEMENTATION = "Index"
    OPTIONS: ClassVar = (*KEYS, kind_option(INNER, LEFT, SEMI, ANTI), *OUTPUT)
    SOURCES = (2, 2)

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        require_same_number(options["leftkeys"], options["rightkeys"])
        _names(options["rightkeys"])

    def open(self) -> None:
        super().open()
        self._names = _names(self.options["rightkeys"])
        self._keys = Evaluator(self, self.options["leftkeys"])
        self._pairs = Pairs(self)
        self._kind: str = self.options["kind"]
        self._seed = self.context.rng.bits64()
        self._waiting: deque[tuple[Batch, int]] = deque()
        self._pending: dict[int, _Pending] = {}
        #: Batches in hand for each probe of the consumer, and those probes whose outer rows have all come.
        self._in_hand: dict[int, int] = {}
        self._outer_ended: set[int] = set()
        self._full = False
        #: What an inner row looks like, for outer rows without partner.
        self._sample: Batch | None = None

    def needs(self, port: int) -> frozenset[str]:
        return frozenset(plan.fields_of(*self.options[("leftkeys", "rightkeys")[port]]))

    def probe(self, probe: Probe) -> None:
        self.inputs[0].probe(probe)

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        if port == 1:
            pending = self._pending.get(tag)
            if pending is None:
                self.drop(batch.num_rows, "an answer to no question", Cause.OUTSIDE)
                return Flow.DONE
            return self.work(self._match(batch, pending), batch.num_rows, batch.nbytes)
        self.context.budget.hold(batch.nbytes, self.name)
        self._in_hand[tag] = self._in_hand.get(tag, 0) + 1
        self._waiting.append((batch, tag))
        self._ask()
        if len(self._waiting) >= WAITING_MAX:
            self._full = True
        return Flow.PAUSE if self._full else Flow.MORE

    def receive_end(self, tag: int, port: int) -> None:
        if port == 1:
            self.work(self._answered(tag))
        elif not self.has_ended(tag, 0):
            # The inner source is never asked under the consumer's tag, so it does not count for its end.
            super().receive_end(tag, 1)
            super().receive_end(tag, 0)

    def finish(self, tag: int) -> None:
        self._outer_ended.add(tag)
        self._end_if_done(tag)

    def idle(self) -> bool:
        return super().idle() and not self._waiting and not self._pending

    def close(self) -> None:
        super().close()
        held = [batch for batch, _ in self._waiting] + [pending.batch for pending in self._pending.values()]
        self.context.budget.hold(-sum(batch.nbytes for batch in held), self.name)
        self._waiting.clear()
        self._pending.clear()

    def _ask(self) -> None:
        while self._waiting and len(self._pending) < PENDING_MAX:
            self._ask_for(*self._waiting.popleft())
        if self._full and len(self._waiting) < WAITING_MAX // 2:
            self._full = False
            self.inputs[0].resume()

    def _ask_for(self, batch: Batch, tag: int) -> None:
        held_bytes = batch.nbytes
        try:
            batch, keys = self._keys(batch)
            pending = _Pending(batch, tag, keys, self._seed)
        except ValueError as error:
            cause = error.cause if isinstance(error, ExprError | EvalError) else Cause.UNFIT
            self.drop(batch.num_rows, str(error), cause)
            self._let_go(held_bytes, tag)
            return
        self.context.budget.hold(batch.nbytes - held_bytes, self.name)
        own = self.context.next_tag()
        self._pending[own] = pending
        if len(pending.rows) == 0:
            self.work(self._answered(own))
            return
        keys_batch = Batch(batch.table, pa.RecordBatch.from_arrays(pending.keys, names=self._names))
        self.inputs[1].probe(Probe(ProbeKind.SET_PREDICATE, own, keys_batch))

    def _match(self, batch: Batch, pending: _Pending) -> Iterator[Flow]:
        """Pairs of inner rows that came back and the outer rows that asked for them."""
        if self._sample is None:
            self._sample = batch.slice(0, 0)
        ids = pending.index.find(key_columns(batch, self._names), batch.num_rows)
        inner, places = pending.chains.match(ids)
        outer = pending.rows[places]
        if self._kind in (SEMI, ANTI) and not self._pairs.conditional:
            pending.matched[outer] = True
            return
        for start in range(0, len(outer), OUT_ROWS):
            rows = outer[start : start + OUT_ROWS]
            left, right = taken(pending.batch, rows), taken(batch, inner[start : start + OUT_ROWS])
            result, kept = self._pairs.pair(left, right)
            pending.matched[rows if kept is None else rows[kept]] = True
            if self._kind in (INNER, LEFT) and result.num_rows:
                yield self.emit(result, pending.tag)

    def _answered(self, own: int) -> Iterator[Flow]:
        """A question is answered in full: what its outer rows without partner become is known."""
        pending = self._pending.pop(own, None)
        if pending is None:
            return
        batch, matched = pending.batch, pending.matched
        if self._kind == SEMI and matched.any():
            yield self.emit(batch.take(pa.array(matched)), pending.tag)
        elif self._kind == ANTI and not matched.all():
            yield self.emit(batch.take(pa.array(~matched)), pending.tag)
        elif self._kind == LEFT and not matched.all():
            alone = self._pairs.alone(batch.take(pa.array(~matched)), 0, self._sample)
            yield self.emit(alone, pending.tag)
        self._let_go(batch.nbytes, pending.tag)
        self._ask()

    def _let_go(self, bytes_: int, tag: int) -> None:
        self.context.budget.hold(-bytes_, self.name)
        self._in_hand[tag] -= 1
        self._end_if_done(tag)

    def _end_if_done(self, tag: int) -> None:
        if tag in self._outer_ended and not self._in_hand.get(tag):
            self._outer_ended.discard(tag)
            self._in_hand.pop(tag, None)
            self.emit_end(tag)


def _names(keys: list[Expression]) -> list[str]:
    """A source is asked for values of its columns, so the inner keys are columns."""
    for key in keys:
        if not isinstance(key, Field):
            raise SettingError(
                "rightkeys", "are columns of the inner source here", "for example rightkeys[0] = $id"
            )
    return [key.name for key in keys if isinstance(key, Field)]
