"""A client's rows into the DHT: cut by key, put at their owners, kept alive by this node (rows O6, D2).

Every row becomes part of an object whose partitioning key is the text of its key columns. The name of an object follows
from its content and position, so publishing the same rows again replaces them instead of doubling them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pyarrow as pa

from overlay.dht.messages import Code
from overlay.dht.operations import PutObject
from overlay.dht.publisher import Publisher
from overlay.objects.name import Name
from pier_node.service import Failure, FeedControl, Publication, PublicationResult
from query.batch import Batch, UnsupportedType, from_arrow, type_name
from query.engine.describing import COPIES
from query.engine.facts import DICTIONARY, dictionary_key, publisher_entry
from query.operators.put.placement import by_key
from query.wire import encode

#: How many lifetimes of its rows an entry in the dictionary has.
ENTRY_LIFETIMES = 2.0
#: Seconds that published objects outlive their publisher, unless the client says otherwise.
LIFETIME_DEFAULT_S = 600.0


class Publishing:
    """A publication at work: the `Feed` of one client."""

    def __init__(self, publication: Publication, control: FeedControl, publisher: Publisher) -> None:
        self._publication = publication
        self._control = control
        self._publisher = publisher
        self._lifetime_s = publication.lifetime_s or LIFETIME_DEFAULT_S
        self._rows = self._objects = self._refused = 0
        self._dropped: dict[str, int] = {}
        self._under_way = 0
        self._ended = self._over = False
        #: The schema that the dictionary was last told.
        self._described: pa.Schema | None = None

    def batch(self, batch: pa.RecordBatch, size_bytes: int) -> None:
        if self._over:
            return
        rows = rows_of(self._publication, batch)
        if isinstance(rows, Failure):
            self._fail(rows)
            return
        puts, counts = self._puts(rows)
        self._describe(rows)
        self._rows += rows.num_rows
        self._under_way += 1
        self._publisher.publish(puts, self._stored(counts, size_bytes))

    def end(self) -> None:
        self._ended = True
        self._finish_if_stored()

    def cancel(self, reason: str) -> None:
        """What was stored stays and is kept alive; the client hears no more."""
        self._over = True

    def _puts(self, rows: Batch) -> tuple[list[PutObject], list[int]]:
        puts, counts = [], []
        for key, part in by_key(rows, [rows.column(name) for name in self._publication.keys]):
            value = encode(part, inline_schema=True)
            suffix = hashlib.blake2b(value, digest_size=12).hexdigest()
            puts.append(PutObject(Name(self._publication.table, key, suffix), value, self._lifetime_s))
            counts.append(part.num_rows)
        return puts, counts

    def _describe(self, rows: Batch) -> None:
        """Says in the ring's dictionary what the table looks like, so that a query about one key can go to its owner.
        The entry outlives the rows: they must never be there without it."""
        if rows.schema == self._described:
            return
        self._described = rows.schema
        table, keys = self._publication.table, self._publication.keys
        entry = dictionary_put(table, keys, rows.schema, self._lifetime_s)
        self._publisher.publish([entry], lambda codes: None)

    def _stored(self, counts: list[int], size_bytes: int) -> Callable[[list[Code]], None]:
        def stored(codes: list[Code]) -> None:
            self._under_way -= 1
            self._objects += sum(code is Code.OK for code in codes)
            for code, rows in zip(codes, counts, strict=True):
                if code is not Code.OK:
                    self._refused += rows
                    self._dropped[code.name] = self._dropped.get(code.name, 0) + rows
            if not self._over:
                self._control.consumed(size_bytes)
                self._finish_if_stored()

        return stored

    def _finish_if_stored(self) -> None:
        if self._ended and self._under_way == 0 and not self._over:
            self._over = True
            self._control.finish(
                PublicationResult(self._rows, self._objects, self._refused, dict(self._dropped))
            )

    def _fail(self, failure: Failure) -> None:
        self._over = True
        self._control.fail(failure)


def rows_of(publication: Publication, batch: pa.RecordBatch) -> Batch | Failure:
    """A client's rows as batches are here, with all columns of the key; or why they cannot be published."""
    try:
        rows = from_arrow(publication.table, batch)
    except (UnsupportedType, pa.ArrowInvalid) as error:
        return Failure("refused", f"rows cannot be published: {error}")
    missing = [key for key in publication.keys if key not in rows.schema.names]
    if missing or not publication.keys:
        known = ", ".join(rows.schema.names)
        what = f"no key column {missing[0]!r} in the rows" if missing else "no key column is named"
        return Failure("refused", what, hint=f"there is {known}")
    return rows


def dictionary_put(table: str, keys: tuple[str, ...], schema: pa.Schema, lifetime_s: float) -> PutObject:
    """What the ring's dictionary is told of a table."""
    types = [type_name(kind) for kind in schema.types]
    value = publisher_entry(table, schema.names, types, keys)
    suffix = hashlib.blake2b(value, digest_size=12).hexdigest()
    name = Name(DICTIONARY, dictionary_key(table), suffix)
    return PutObject(name, value, ENTRY_LIFETIMES * lifetime_s, copies=COPIES)
