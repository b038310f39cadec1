"""Indexes of this node: each node indexes the rows of published tables that it owns, and keeps their entries alive.

What indexes there are stands in the data dictionary, beside the table. A node asks for those of a table when rows of
it come, when an index is defined or dropped, of which every node is told, and now and then. From time to time it
compares what it owns with what it has indexed: new rows get entries, entries of rows that went are taken out. So an
index follows its table within `LOOK_S`, and when a node dies the new owner of its rows indexes them. An index that is
dropped is forgotten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got, GotObject, PutObject
from overlay.dht.publisher import Publisher
from overlay.dht.verbs import Dht
from overlay.objects.name import Name, Prefix
from overlay.pht.entry import Entry
from overlay.pht.pht import Pht, PhtConfig
from overlay.pht.walk import Range
from overlay.spread.branch import Branch
from overlay.spread.spread import Spread
from query.batch import Batch
from query.batch.key_text import key_texts
from query.engine.facts import DICTIONARY, HIDDEN, IndexFacts, TableFacts, dictionary_key, read, write
from query.index.keys import PHT, can_index, ordered_keys
from query.wire import SchemaReceiver, WireError, decode
from runtime.api import Runtime

#: Between looks at what this node owns.
LOOK_S = 5.0
#: Between questions to the dictionary about one table: what a node that was not told of an index is behind at most.
ASK_S = 60.0
TOPIC = "indexes"
#: How long entries outlive the node that keeps them, and the definition of an index those who feed it.
ENTRY_LIFETIME_S = 120.0
DEFINITION_LIFETIME_S = 600.0
COPIES = 2
#: Keys that one question to an index may find.
FOUND_MAX = 1_000_000


def namespace_of(index: str) -> str:
    return f"pier.x.{index}"


def definition(table: str, index: IndexFacts | None, name: str) -> PutObject:
    """The entry that makes an index known; without facts the one that takes it back."""
    facts = TableFacts(table, "published", nodes=0, indexes=() if index is None else (index,))
    return PutObject(
        Name(DICTIONARY, dictionary_key(table), f"index.{name.lower()}"),
        write([facts]),
        DEFINITION_LIFETIME_S,
        copies=COPIES,
    )


def partitioning_keys(entries: Sequence[Entry]) -> list[str]:
    """Where the rows of entries lie, each place once."""
    return list({each.value.decode(errors="replace"): None for each in entries})


class _Kept:
    """One index as this node feeds it."""

    def __init__(self, facts: IndexFacts, pht: Pht | None) -> None:
        self.facts = facts
        self.pht = pht
        #: For each object of the table: the ids of its entries. For each id of a hash index: its name in the DHT.
        self.objects: dict[Name, list[str]] = {}
        self.names: dict[str, Name] = {}
        self.uses: dict[str, int] = {}


class Indexes:
    """Feeds the indexes of tables this node owns parts of, and reads any (service "indexes")."""

    def __init__(self, runtime: Runtime, dht: Dht, publisher: Publisher, spread: Spread) -> None:
        self._runtime = runtime
        self._dht = dht
        self._publisher = publisher
        self._spread = spread
        #: When the dictionary is next asked for the indexes of a table.
        self._ask_at: dict[str, float] = {}
        #: The store's shape at the last look, and until when nothing is to be done while it is the same.
        self._shape = -1
        self._quiet_until = 0.0
        spread.on_arrival(TOPIC, self._told)
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._looking = False
        self.unreadable = 0
        runtime.call_later(LOOK_S, self._look, None)

    # -- defining

    def define(self, table: str, index: IndexFacts | None, name: str, done: Callable[[Code], None]) -> None:
        def put(code: Code) -> None:
            if code is Code.OK:
                self._spread.start(TOPIC, dictionary_key(table).encode(), lambda reply, account: None)
            done(code)

        self._dht.put(definition(table, index, name), put)

    def _told(self, branch: Branch) -> None:
        """Somebody has defined or dropped an index of a table."""
        key = branch.payload.decode(errors="replace")
        for table in [each for each in self._ask_at if dictionary_key(each) == key]:
            del self._ask_at[table]
            self._quiet_until = 0.0
        branch.reply()

    # -- reading

    def equal(
        self, index: IndexFacts, texts: Iterable[str], done: Callable[[list[str] | None], None]
    ) -> None:
        """Partitioning keys of rows with one of these values, by a hash index; None when it cannot be read."""
        gets = [GetObject(namespace_of(index.name), text) for text in texts]

        def got(answers: list[Got]) -> None:
            if any(answer.code is not Code.OK for answer in answers):
                done(None)
                return
            found = {
                each.value.decode(errors="replace"): None for answer in answers for each in answer.objects
            }
            done(list(found))

        self._dht.get_many(gets, got)

    def between(self, index: IndexFacts, wanted: Range, done: Callable[[list[str] | None], None]) -> None:
        """Partitioning keys of rows in a range of values, by a Prefix Hash Tree."""

        def found(entries: list[Entry] | None) -> None:
            done(None if entries is None else partitioning_keys(entries))

        self.entries(index, wanted, found)

    def entries(self, index: IndexFacts, wanted: Range, done: Callable[[list[Entry] | None], None]) -> None:
        """The same with the values, as ordered keys; None when parts could not be read."""
        pht = Pht(self._runtime, self._dht, self._publisher, namespace_of(index.name), _config())
        pht.range(wanted, lambda answer: done(None if answer.unread else list(answer.entries)))

    # -- feeding

    def _look(self, _: None) -> None:
        self._runtime.call_later(LOOK_S, self._look, None)
        now = self._runtime.now()
        if self._looking or (now < self._quiet_until and self._shape == self._dht.shape()):
            return
        self._shape = self._dht.shape()
        tables = {each for each in self._dht.namespaces() if not each.startswith(HIDDEN)}
        tables.update(table for table, _ in self._kept)
        self._ask_at = {table: at for table, at in self._ask_at.items() if table in tables and at > now}
        for (table, _name), kept in self._kept.items():
            if table in self._ask_at:
                self._feed(table, kept)
        self._ask(sorted(tables.difference(self._ask_at)))
        # Rows of indexed tables are compared at every look: another value may have come under a known key.
        self._quiet_until = 0.0 if self._kept else min(self._ask_at.values(), default=now + ASK_S)

    def _ask(self, tables: list[str]) -> None:
        if not tables:
            return
        self._looking = True
        # Whoever is told of an index while the answer is on its way asks again.
        self._ask_at.update(dict.fromkeys(tables, self._runtime.now() + ASK_S))

        def got(answers: list[Got]) -> None:
            self._looking = False
            for table, answer in zip(tables, answers, strict=True):
                if answer.code is Code.OK:
                    self._known(table, answer)
                else:
                    self._ask_at.pop(table, None)
            self._quiet_until = 0.0

        self._dht.get_many([GetObject(DICTIONARY, dictionary_key(table)) for table in tables], got)

    def _known(self, table: str, answer: Got) -> None:
        """What indexes a table has now."""
        indexes: dict[str, IndexFacts] = {}
        for found in answer.objects:
            for facts in read(found.value):
                if facts.name == table:
                    indexes.update((each.name, each) for each in facts.indexes)
                    if facts.indexes and found.lifetime_s < DEFINITION_LIFETIME_S / 2:
                        for each in facts.indexes:
                            self._dht.put(definition(table, each, each.name))
        for key in [key for key in self._kept if key[0] == table and key[1] not in indexes]:
            self._forget(self._kept.pop(key))
        for name, each in indexes.items():
            kept = self._kept.get((table, name))
            if kept is not None and kept.facts != each:
                self._forget(self._kept.pop((table, name)))
                kept = None
            if kept is None:
                kept = self._kept[table, name] = self._opened(each)
            self._feed(table, kept)

    def _opened(self, facts: IndexFacts) -> _Kept:
        if facts.using != PHT:
            return _Kept(facts, None)
        namespace = namespace_of(facts.name)
        return _Kept(facts, Pht(self._runtime, self._dht, self._publisher, namespace, _config()))

    def _forget(self, kept: _Kept) -> None:
        if kept.pht is not None:
            kept.pht.close()
        self._publisher.withdraw(list(kept.names.values()))

    def _feed(self, table: str, kept: _Kept) -> None:
        here: dict[Name, None] = {}
        fresh: list[GotObject] = []

        def each(objects: list[GotObject]) -> None:
            for found in objects:
                here[found.name] = None
                if found.name not in kept.objects:
                    fresh.append(found)

        def done() -> None:
            self._add(kept, fresh)
            self._remove(kept, [name for name in kept.objects if name not in here])

        self._dht.local_scan(Prefix(table), each, done)

    def _add(self, kept: _Kept, objects: list[GotObject]) -> None:
        entries: dict[str, tuple[Entry, str]] = {}
        for found in objects:
            ids = kept.objects[found.name] = []
            for key, text in self._values(kept.facts.column, found.value):
                where = found.name.key
                ident = hashlib.blake2b(key + b"\0" + where.encode(), digest_size=12).hexdigest()
                ids.append(ident)
                kept.uses[ident] = kept.uses.get(ident, 0) + 1
                if kept.uses[ident] == 1:
                    entries[ident] = (Entry(key, ident, where.encode()), text)
        if not entries:
            return
        if kept.pht is not None:
            kept.pht.insert([entry for entry, _ in entries.values()], lambda failed: None)
            return
        puts = []
        for ident, (entry, text) in entries.items():
            name = kept.names[ident] = Name(namespace_of(kept.facts.name), text, ident)
            puts.append(PutObject(name, entry.value, ENTRY_LIFETIME_S))
        self._publisher.publish(puts)

    def _remove(self, kept: _Kept, gone: list[Name]) -> None:
        ended: list[str] = []
        for name in gone:
            for ident in kept.objects.pop(name):
                kept.uses[ident] -= 1
                if kept.uses[ident] == 0:
                    del kept.uses[ident]
                    ended.append(ident)
        if not ended:
            return
        if kept.pht is not None:
            kept.pht.delete(ended, lambda: None)
        else:
            self._publisher.withdraw([kept.names.pop(ident) for ident in ended])

    def _values(self, column: str, value: bytes) -> Iterable[tuple[bytes, str]]:
        """The distinct values of a column in an object, as keys and as texts."""
        try:
            batch = decode(value, SchemaReceiver())
        except WireError:
            batch = None
        if not isinstance(batch, Batch) or column not in batch.schema.names:
            self.unreadable += 1
            return ()
        values = batch.column(column).unique()
        if not can_index(values.type):
            self.unreadable += 1
            return ()
        pairs = zip(ordered_keys(values), key_texts([values]), strict=True)
        return [(key, text) for key, text in pairs if key is not None]


def _config() -> PhtConfig:
    return PhtConfig(lifetime_s=ENTRY_LIFETIME_S)
