"""One index as one node feeds it: entries for the rows that the node owns, kept alive, taken out when rows go.

An entry says under which partitioning key rows with a value lie. Rows of one key with one value share it, so it ends
with the last of them. Entries of rows that move are left to their new owner, which indexes them, too: one that ended at
the old owner would be missing until the new one looks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

from overlay.dht.messages import Code
from overlay.dht.operations import GotObject, PutObject
from overlay.dht.publisher import Publisher
from overlay.dht.verbs import Dht
from overlay.objects.name import Name, Prefix
from overlay.pht.entry import Entry
from overlay.pht.pht import Pht, PhtConfig
from overlay.ring import WHOLE
from query.batch import Batch
from query.engine.facts import IndexFacts
from query.index.keys import PHT, can_index, equal_keys, ordered_keys
from query.wire import SchemaReceiver, WireError, decode
from runtime.api import Runtime

#: How long entries outlive the node that keeps them.
ENTRY_LIFETIME_S = 120.0


class Feeding:
    """The entries of one index that this node keeps."""

    def __init__(
        self, runtime: Runtime, dht: Dht, publisher: Publisher, table: str, facts: IndexFacts
    ) -> None:
        self.facts = facts
        self.pht: Pht | None = None
        if facts.using == PHT:
            config = PhtConfig(lifetime_s=ENTRY_LIFETIME_S)
            self.pht = Pht(runtime, dht, publisher, facts.namespace, config)
        #: When it is forgotten, if it was dropped.
        self.ends_s: float | None = None
        self.unreadable = 0
        self._runtime = runtime
        self._dht = dht
        self._publisher = publisher
        self._table = table
        #: For each object of the table: its value, and the ids of its entries. For each id of a hash index: its name.
        self._objects: dict[Name, tuple[bytes, list[str]]] = {}
        self._names: dict[str, Name] = {}
        self._uses: dict[str, int] = {}
        #: Insertions under way, who waits for all of them, and whether entries of some could not be stored at once.
        self._inserting = 0
        self._waiting: list[Callable[[bool], None]] = []
        self._lacking = False

    def close(self) -> None:
        """The index is no more: own entries end."""
        if self.pht is not None:
            self.pht.close()
        self._publisher.withdraw(list(self._names.values()))

    def catch_up(self, done: Callable[[bool], None] | None = None) -> None:
        """Compares what is here with what is indexed; `done` tells whether all entries are stored."""
        here: dict[Name, None] = {}
        fresh: list[GotObject] = []
        before = list(self._objects)

        def each(objects: list[GotObject]) -> None:
            for found in objects:
                here[found.name] = None
                known = self._objects.get(found.name)
                # A value that was replaced is another object.
                if known is None or known[0] is not found.value:
                    fresh.append(found)

        def ended() -> None:
            self._remove([name for name in before if name not in here and name in self._objects])
            self.add(fresh)
            if done is not None:
                self._when_stored(done)

        self._dht.local_scan(Prefix(self._table), each, ended)

    def add(self, objects: Sequence[GotObject]) -> None:
        """Objects that are here, new ones, others with a new value, or known ones."""
        entries: dict[str, tuple[Entry, str]] = {}
        replaced: list[str] = []
        for found in objects:
            before = self._objects.get(found.name)
            if before is not None and before[0] == found.value:
                self._objects[found.name] = (found.value, before[1])
                continue
            ids: list[str] = []
            for key, text in self._values(found.value):
                where = found.name.key.encode()
                # Long texts that begin alike share a place in the order, and are told apart in a hash index.
                at = key if self.pht is not None else text.encode()
                ident = hashlib.blake2b(at + b"\0" + where, digest_size=12).hexdigest()
                ids.append(ident)
                self._uses[ident] = self._uses.get(ident, 0) + 1
                if self._uses[ident] == 1:
                    entries[ident] = (Entry(key, ident, where), text)
            if before is not None:
                replaced += self._unused(before[1])
            self._objects[found.name] = (found.value, ids)
        self._end(replaced, moved=False)
        if entries:
            self._insert(entries)

    def _insert(self, entries: dict[str, tuple[Entry, str]]) -> None:
        self._inserting += 1
        if self.pht is not None:
            self.pht.insert([entry for entry, _ in entries.values()], self._inserted)
            return
        puts = []
        for ident, (entry, text) in entries.items():
            name = self._names[ident] = Name(self.facts.namespace, text, ident)
            puts.append(PutObject(name, entry.value, ENTRY_LIFETIME_S))
        self._publisher.publish(
            puts, lambda codes: self._inserted(sum(code is not Code.OK for code in codes))
        )

    def _inserted(self, failed: int) -> None:
        self._inserting -= 1
        self._lacking = self._lacking or failed > 0
        if self._inserting == 0:
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                self._when_stored(done)

    def _when_stored(self, done: Callable[[bool], None]) -> None:
        """Tells whether all entries are stored, once those under way have arrived or failed. What failed is tried again
        with all that the publisher keeps."""

        def looked_after(ok: bool) -> None:
            self._lacking = self._lacking and not ok
            done(ok)

        if self._inserting:
            self._waiting.append(done)
        elif self._lacking:
            self._publisher.look_after([WHOLE], looked_after)
        else:
            self._runtime.call_later(0.0, done, True)

    def _remove(self, gone: list[Name]) -> None:
        """Rows that are no longer this node's; it still holds a copy of those that moved."""
        for moved in (True, False):
            names = [name for name in gone if (self._dht.peek(name) is not None) is moved]
            self._end([each for name in names for each in self._unused(self._objects.pop(name)[1])], moved)

    def _unused(self, ids: list[str]) -> list[str]:
        """Of entries that one object less stands for, those that nothing stands for any more."""
        ended: list[str] = []
        for ident in ids:
            self._uses[ident] -= 1
            if self._uses[ident] == 0:
                del self._uses[ident]
                ended.append(ident)
        return ended

    def _end(self, idents: list[str], moved: bool) -> None:
        if not idents:
            return
        if self.pht is None:
            names = [self._names.pop(each) for each in idents]
            if moved:
                self._publisher.forget(names)
            else:
                self._publisher.withdraw(names)
        elif moved:
            self.pht.let_go(idents)
        else:
            self.pht.delete(idents, lambda: None)

    def _values(self, value: bytes) -> Iterable[tuple[bytes, str]]:
        """The distinct values of the column in an object, as keys in order and as texts."""
        try:
            batch = decode(value, SchemaReceiver())
        except WireError:
            batch = None
        column = self.facts.column
        if not isinstance(batch, Batch) or column not in batch.schema.names:
            self.unreadable += 1
            return ()
        values = batch.column(column).unique()
        if not can_index(values.type):
            self.unreadable += 1
            return ()
        pairs = zip(ordered_keys(values), equal_keys(values), strict=True)
        return [(key, text) for key, text in pairs if key is not None and text is not None]
