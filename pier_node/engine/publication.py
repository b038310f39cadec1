"""A client's rows into the DHT: cut by key, put at their owners, kept alive by this node.

Every row becomes part of an object whose partitioning key is the text of its key columns. The name of an object follows
from its content, and from how often this publication had that content before; so publishing the same rows again
replaces them instead of doubling them, and rows that are there twice count twice. A publication is a load: it is seen
when all of it is there, and a client that vanishes before leaves nothing behind (`loading.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pyarrow as pa

from overlay.dht.operations import PutObject
from overlay.objects.name import Name
from pier_node.engine.cutting import Cut, objects_of
from pier_node.engine.loading import LoadProgress
from pier_node.engine.published import Load, LoadFacts, PublishedLoads
from pier_node.service import Failure, FeedControl, Publication, PublicationResult
from query.batch import Batch, UnsupportedType, from_arrow, type_name
from query.batch.key_text import can_place
from query.dataflow.settings import NAME_CHARS_MAX
from query.engine.describing import COPIES
from query.engine.facts import DICTIONARY, dictionary_key, publisher_entry
from query.wire import encode
from runtime.api import Runtime

#: How many lifetimes of its rows an entry in the dictionary has.
ENTRY_LIFETIMES = 2.0
#: Seconds that published objects outlive their publisher, unless the client says otherwise; and at most, as owners of
#: objects keep them no longer (`StoreLimits.lifetime_max_s`).
LIFETIME_DEFAULT_S = 600.0
LIFETIME_MAX_S = 3_600.0
#: Batches of more rows are made into objects beside the loop.
HERE_ROWS = 256


class Publishing:
    """A publication at work: the `Feed` of one client."""

    def __init__(
        self, runtime: Runtime, publication: Publication, control: FeedControl, loads: PublishedLoads
    ) -> None:
        self._runtime = runtime
        self._publication = publication
        self._control = control
        self._lifetime_s = lifetime_s(publication)
        self._began_s = runtime.now()
        #: How often each object of this publication came.
        self._seen: dict[Name, int] = {}
        self._schemas: dict[pa.Schema, None] = {}
        self._cutting = 0
        self._ended = self._over = False
        self._load: Load | None = None
        facts = LoadFacts(publication.table, loads.draw(), publication.owner)
        begun = refused_name(publication) or loads.begin(facts, self._fail, self._told)
        if isinstance(begun, Failure):
            self._fail(begun)
        else:
            self._load = begun

    def batch(self, batch: pa.RecordBatch, size_bytes: int) -> None:
        if self._over:
            return
        rows = rows_of(self._publication, batch)
        if isinstance(rows, Failure):
            self._give_up(rows)
            return
        self._schemas[rows.schema] = None
        self._cutting += 1

        def cut(made: list[Cut] | Exception) -> None:
            self._cutting -= 1
            if self._over or self._load is None:
                return
            if isinstance(made, Exception):
                self._give_up(Failure("refused", f"rows cannot be published: {made}"))
                return
            self._load.add([self._object(each) for each in made], lambda: self._control.consumed(size_bytes))
            self._end_if_cut()

        self._cut(rows, cut)

    def end(self) -> None:
        self._ended = True
        self._end_if_cut()

    def cancel(self, reason: str) -> None:
        """The client is gone: nobody will see anything of what it sent."""
        if not self._over:
            self._over = True
            if self._load is not None:
                self._load.give_up()

    def _cut(self, rows: Batch, done: Callable[[list[Cut] | Exception], None]) -> None:
        keys = self._publication.keys
        if rows.num_rows > HERE_ROWS:
            # Schemas are interned in tables of the loop's thread; the computation only reads them.
            encode(rows.slice(0, 1), True)
            self._runtime.compute(lambda: list(objects_of(rows, keys)), done)
            return
        try:
            made = list(objects_of(rows, keys))
        except ValueError as error:
            done(error)
        else:
            done(made)

    def _object(self, cut: Cut) -> tuple[PutObject, int]:
        digest = hashlib.blake2b(cut.value, digest_size=12).hexdigest()
        name = Name(self._publication.table, cut.key, digest)
        before = self._seen.get(name, 0)
        self._seen[name] = before + 1
        if before:
            name = name._replace(suffix=f"{digest}.{before}")
        return PutObject(name, cut.value, self._lifetime_s), cut.rows

    def _end_if_cut(self) -> None:
        if not self._ended or self._cutting or self._over or self._load is None:
            return
        table, keys = self._publication.table, self._publication.keys
        described = [dictionary_put(table, keys, schema, self._lifetime_s) for schema in self._schemas]
        self._load.end(described, self._loaded)

    def _loaded(self, result: PublicationResult | Failure) -> None:
        if isinstance(result, Failure):
            self._fail(result)
        elif not self._over:
            self._over = True
            self._control.finish(result)

    def _told(self, progress: LoadProgress) -> None:
        if not self._over:
            elapsed_s = self._runtime.now() - self._began_s
            self._control.progress(progress.objects, progress.confirmed, progress.rows_confirmed, elapsed_s)

    def _give_up(self, failure: Failure) -> None:
        if self._load is not None:
            self._load.give_up()
        self._fail(failure)

    def _fail(self, failure: Failure) -> None:
        if not self._over:
            self._over = True
            self._control.fail(failure)


def lifetime_s(publication: Publication) -> float:
    return min(publication.lifetime_s or LIFETIME_DEFAULT_S, LIFETIME_MAX_S)


def refused_name(publication: Publication) -> Failure | None:
    """A table that nobody could ask for."""
    if 0 < len(publication.table) <= NAME_CHARS_MAX:
        return None
    text = f"the name of a table has 1 to {NAME_CHARS_MAX} characters, not {len(publication.table)}"
    return Failure("refused", text)


def rows_of(publication: Publication, batch: pa.RecordBatch) -> Batch | Failure:
    """A client's rows as batches are here, with all columns of the key; or why they cannot be published."""
    try:
        batch.validate(full=True)
        rows = from_arrow(publication.table, batch)
    except (UnsupportedType, pa.ArrowInvalid) as error:
        return Failure("refused", f"rows cannot be published: {error}")
    missing = [key for key in publication.keys if key not in rows.schema.names]
    if missing or not publication.keys:
        known = ", ".join(rows.schema.names)
        what = f"no key column {missing[0]!r} in the rows" if missing else "no key column is named"
        return Failure("refused", what, hint=f"there is {known}")
    for key in publication.keys:
        kind = rows.schema.field(key).type
        if not can_place(kind):
            text = f"the key column {key!r} has the type {type_name(kind)}: rows cannot be placed by it"
            return Failure("refused", text, hint="texts, numbers, bytes, dates and times can be keys")
    return rows


def dictionary_put(table: str, keys: tuple[str, ...], schema: pa.Schema, lifetime_s: float) -> PutObject:
    """What the ring's dictionary is told of a table."""
    types = [type_name(kind) for kind in schema.types]
    value = publisher_entry(table, schema.names, types, keys)
    suffix = hashlib.blake2b(value, digest_size=12).hexdigest()
    name = Name(DICTIONARY, dictionary_key(table), suffix)
    return PutObject(name, value, ENTRY_LIFETIMES * lifetime_s, copies=COPIES)
