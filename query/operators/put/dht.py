"""Put, DHT: stores rows in a namespace of the DHT (PIER Table 3.3).

Rows are collected until there are enough for a message to pay, placed by group or by key (`placement.py`), and put in
one message per owner. At the end of the probe everything is flushed, and the operator is done when every object has
been acknowledged by its owner. While too much is unacknowledged, producers pause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlay.dht.messages import Code
from overlay.dht.operations import PutObject, Target
from overlay.objects.name import Name
from overlay.ring import routing_id
from query.batch import Batch, concat
from query.causes import Cause
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import NAME_CHARS_MAX, Option
from query.operators.put.placement import by_group, by_key, parts_of, without_nulls
from query.wire import encode, split
from runtime.api import Timer

#: Rows and bytes that wait to be put together, and how long at most.
COLLECT_ROWS = 16_384
COLLECT_BYTES = 1 << 20
COLLECT_AGE_S = 0.05
#: Unacknowledged bytes above which producers pause.
OUTSTANDING_BYTES_MAX = 8 << 20
#: The longest lifetime that can be asked for; the owners of objects cut it to what they allow.
LIFETIME_S_MAX = 1e9
#: How long the query's own rows wait for an opgraph that starts late (PIER 3.3.8: at least a minute).
TEMPORARY_LIFETIME_S = 120.0


@register
class PutDht(Operator):
    """Rows into a namespace, hashed by the keys."""

    TYPE = "put"
    IMPLEMENTATION = "DHT"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar = (
        Option("ns", "text", "the namespace", required=True, most=NAME_CHARS_MAX),
        Option(
            "meet",
            "text",
            "where rows of several namespaces meet: equal keys put with the same `meet` go to the same node, "
            "as the two sides of a join must; the namespace itself when absent",
        ),
        Option("keys", "expressions", "what rows are hashed by; none puts all rows into one group", ()),
        Option(
            "placement",
            "choice",
            "group: a few objects per owner, for rows that meet in this query; "
            "key: an object per key, for a table that others look up; near: rows stay at this node if it owns a group; "
            "all: every owner of a group gets all rows",
            "group",
            choices=("group", "key", "near", "all"),
        ),
        Option(
            "nulls",
            "choice",
            "whether rows with a NULL among their keys are put",
            "keep",
            choices=("keep", "drop"),
        ),
        Option("heavy", "text", "a column that marks rows which are dealt out or copied; it does not travel"),
        Option(
            "marked",
            "choice",
            "deal: marked rows go to the owners in turn; copy: all of them get each",
            "deal",
            choices=("deal", "copy"),
        ),
        Option(
            "lifetime",
            "number",
            "seconds the objects live; for placement by key",
            600.0,
            least=0.001,
            most=LIFETIME_S_MAX,
        ),
    )

    @classmethod
    def writes(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (options["ns"],)

    def open(self) -> None:
        services = self.context.services
        self.dht = services["dht"]
        self._exchange = services["exchange"]
        self._keys = Evaluator(self, self.options["keys"])
        self._placement: str = self.options["placement"]
        self._heavy: str | None = self.options["heavy"]
        #: Rows of heavy keys so far, and where the next of them goes.
        self.heavy_rows = 0
        self._dealt = int.from_bytes(services["node"][:4], "big")
        self._drops_nulls = self.options["nulls"] == "drop"
        self._temporary = self._exchange.is_internal(self.options["ns"])
        spec = services["run"].spec
        self._owners, self._group_owner, self._groups = spec.owners, spec.group_owner, spec.groups
        #: The groups of one owner travel together.
        self._together: Sequence[int] | None = self._group_owner or None
        run = "" if self._temporary else f"{self.context.query_id}."
        self._origin = f"{run}{self.name}.{services['node'][:8].hex()}"
        self.meet = self.options["meet"] or self.options["ns"]
        self._waiting: list[tuple[Batch, list[pa.Array]]] = []
        self._waiting_rows = self._waiting_bytes = self._outstanding_bytes = 0
        self._timer: Timer | None = None
        self._puts = 0
        self._unanswered = 0
        self._finished = self._paused = False

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        rows, keys = self._keys(batch)
        if self._drops_nulls:
            rows, keys = without_nulls(rows, keys)
        if rows.num_rows == 0:
            return Flow.MORE
        if self._waiting and rows.schema_id != self._waiting[0][0].schema_id:
            self._flush()
        self._waiting.append((rows, keys))
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= COLLECT_ROWS or self._waiting_bytes >= COLLECT_BYTES:
            self._flush()
        elif self._timer is None:
            self._timer = self.context.clock.call_later(COLLECT_AGE_S, self._aged, None)
        if self._outstanding_bytes > OUTSTANDING_BYTES_MAX:
            self._paused = True
            return Flow.PAUSE
        return Flow.MORE

    def finish(self, tag: int) -> None:
        self._flush()
        self._finished = True
        self._end_if_answered()

    def idle(self) -> bool:
        return not self._waiting and self._unanswered == 0

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()

    def _aged(self, _: None) -> None:
        self._timer = None
        self.context.guard(self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        batch = concat([rows for rows, _ in self._waiting])
        keys = [
            pa.concat_arrays(columns) for columns in zip(*(keys for _, keys in self._waiting), strict=True)
        ]
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0
        objects, rows = [], []
        for key, part in self._parts(batch, keys):
            value = encode(part, inline_schema=True)
            for target in self.targets(key):
                objects.append(self._object(key, value, target))
                rows.append(part.num_rows)
        self._put(objects, rows)

    def _parts(self, batch: Batch, keys: list[pa.Array]) -> Iterator[tuple[str, Batch]]:
        if self._placement == "key":
            return by_key(batch, keys)
        if self._heavy is not None:
            return self._marked_parts(batch, keys)
        if self._placement == "group":
            return by_group(batch, keys, self._groups, self.meet, self._together)
        return (("", piece) for piece in split(batch))

    def _marked_parts(self, batch: Batch, keys: list[pa.Array]) -> Iterator[tuple[str, Batch]]:
        """Rows of heavy keys go to the owners in turn, or to all of them; the others where their key belongs."""
        assert self._heavy is not None, "only marked rows come here"
        marks = batch.column(self._heavy)
        rows = Batch(batch.table, batch.data.drop_columns([self._heavy]))
        plain = pc.invert(marks)
        yield from by_group(
            rows.take(plain), [key.filter(plain) for key in keys], self._groups, self.meet, self._together
        )
        marked = rows.take(marks)
        if marked.num_rows == 0:
            return
        self.heavy_rows += marked.num_rows
        if self.options["marked"] == "copy":
            yield from ((str(owner), marked) for owner in range(len(self._owners)))
            return
        places = (np.arange(marked.num_rows) + self._dealt) % len(self._owners)
        self._dealt += marked.num_rows
        yield from parts_of(marked, places)

    def _object(self, key: str, value: bytes, target: Target) -> PutObject:
        self._puts += 1
        suffix = f"{self._origin}.{self._puts}"
        name = Name(self.options["ns"], key, suffix)
        lifetime_s = TEMPORARY_LIFETIME_S if self._temporary else self.options["lifetime"]
        return PutObject(name, value, lifetime_s, target, temporary=self._temporary)

    def targets(self, key: str) -> list[Target]:
        """Groups have had their nodes since the query began; keys have the owners the ring gives them."""
        if self._placement == "key":
            return [Target(id=routing_id(self.meet, key))]
        if self._placement == "group":
            return [Target(address=self._owners[int(key)])]
        if self._placement == "all":
            return [Target(address=owner) for owner in self._owners]
        me = self.context.services["address"]
        spare = self._owners[int.from_bytes(self.context.services["node"][-4:], "big") % len(self._owners)]
        return [Target(address=me if me in self._owners else spare)]

    def _put(self, objects: list[PutObject], rows: list[int]) -> None:
        size = sum(len(each.value) for each in objects)
        self.context.budget.send(0, size, self.name)
        self._exchange.count_sent(self.options["ns"], len(objects))
        self._unanswered += 1
        self._outstanding_bytes += size
        self.counters.rows_out += sum(rows)

        def answered(codes: list[Code]) -> None:
            self._unanswered -= 1
            self._outstanding_bytes -= size
            self.context.guard(lambda: self._answered(codes, rows))

        self.submit(objects, answered)

    def submit(self, objects: list[PutObject], done: Callable[[list[Code]], None]) -> None:
        """Hands objects to the DHT; `done` gets how each ended."""
        self.dht.put_many(objects, done)

    def _answered(self, codes: list[Code], rows: list[int]) -> None:
        for code, count in zip(codes, rows, strict=True):
            if code is not Code.OK:
                self._exchange.count_sent(self.options["ns"], -1)
                self.drop(count, f"not stored: {code.name}", Cause.NOT_STORED)
        if self._paused and self._outstanding_bytes <= OUTSTANDING_BYTES_MAX // 2:
            self._paused = False
            self.resume()
        self._end_if_answered()

    def _end_if_answered(self) -> None:
        if self._unanswered == 0:
            if self._finished:
                self.context.sink_ended(self.name)
            self.context.settle()
