"""Indexes of this node: each node indexes the rows of published tables that it owns, and keeps their entries alive.

What indexes there are stands in the data dictionary, beside the table. A node asks for those of a table when rows of
it come, when an index is defined or dropped, of which every node is told, and now and then. Rows that arrive get
entries at once; from time to time the node compares what it owns with what it has indexed, and entries of rows that
went are taken out, or left to the new owner of rows that moved. An index that is dropped is fed on for a moment, for
those who have not heard of it, and forgotten.

Entries are soft state. Where a part of the index came to a node without what lay there, because its owner died, it is
unsettled until all nodes have indexed what they own (`settling.py`); whoever reads it is told (`Reading.whole`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got, GotObject
from overlay.dht.publisher import Publisher
from overlay.dht.verbs import Dht
from overlay.dht.watch import NewData, Subscription
from overlay.objects.name import Prefix
from overlay.pht.entry import Entry
from overlay.pht.pht import Pht
from overlay.pht.walk import Range
from overlay.ring import WHOLE, Arc
from overlay.spread.branch import Branch
from overlay.spread.spread import Spread
from query.engine.facts import DICTIONARY, HIDDEN, IndexFacts, TableFacts, dictionary_key, read
from query.index.defining import (
    CLAIMS,
    DEFINITION_LIFETIME_S,
    INDEX_SUFFIX,
    TOPIC,
    Defining,
    claim,
    definition,
)
from query.index.feeding import Feeding
from query.index.settling import Settling
from runtime.api import Runtime

#: Between looks at what this node owns.
LOOK_S = 5.0
#: Rows that arrive are indexed together, so long after the first.
ARRIVED_S = 0.1
#: Between questions to the dictionary about one table: what a node that was not told of an index is behind at most.
ASK_S = 60.0
#: How long an index that was found not to be whole is not used: parts that were lost are mostly back by then.
DOUBTED_S = 10.0
#: How long a dropped index is fed on: longer than what planners remember, and than a reading takes.
DROPPED_S = 15.0
#: Indexes that are remembered as not whole.
DOUBTED_MAX = 1_024
#: Entries of the dictionary at this node that are looked through for indexes; where there are more, there may be some.
DICTIONARY_LOOKED_AT_MAX = 4_096


def partitioning_keys(entries: Sequence[Entry]) -> list[str]:
    """Where the rows of entries lie, each place once."""
    return list({each.value.decode(errors="replace"): None for each in entries})


@dataclass(frozen=True, slots=True)
class Reading:
    """What an index says."""

    entries: list[Entry]
    #: Whether no entry can be missing.
    whole: bool


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
        self.defining = Defining(runtime, dht, spread, self._build)
        #: By table and mark.
        self._kept: dict[tuple[str, str], Feeding] = {}
        self._watches: dict[str, Subscription] = {}
        self._arrived: dict[str, list[GotObject]] = {}
        #: By mark: until when an index is not taken for whole.
        self._doubted: dict[str, float] = {}
        self._looking = False
        publisher.also(self._repair)
        self.settling = Settling(runtime, dht, spread, self._settle, self._knows_any)
        runtime.call_later(LOOK_S, self._look, None)

    def _told(self, branch: Branch) -> None:
        """Somebody has defined or dropped an index of a table."""
        key = branch.payload.decode(errors="replace")
        for table in [each for each in self._ask_at if dictionary_key(each) == key]:
            del self._ask_at[table]
            self._quiet_until = 0.0
        branch.reply()

    # -- reading

    def as_known(self, facts: TableFacts) -> TableFacts:
        """What the ring says of a table, with indexes that this node has found not to be whole marked as such."""
        if not self._doubted or not facts.indexes:
            return facts
        now = self._runtime.now()
        seen = tuple(
            msgspec.structs.replace(each, whole=each.whole and self._doubted.get(each.mark, now) <= now)
            for each in facts.indexes
        )
        return msgspec.structs.replace(facts, indexes=seen)

    def equal(self, index: IndexFacts, keys: Iterable[str], done: Callable[[Reading], None]) -> None:
        """Entries of rows with one of these values, by a hash index."""
        gets = [GetObject(index.namespace, key) for key in keys]

        def got(answers: list[Got]) -> None:
            entries = [
                Entry(b"", each.name.suffix, each.value) for answer in answers for each in answer.objects
            ]
            whole = all(answer.code is Code.OK and answer.settled for answer in answers)
            done(self._read(index, entries, whole))

        self._dht.get_many(gets, got)

    def between(self, index: IndexFacts, wanted: Range, done: Callable[[Reading], None]) -> None:
        """Entries of rows in a range of values, by a Prefix Hash Tree."""
        pht = Pht(self._runtime, self._dht, self._publisher, index.namespace)

        pht.range(wanted, lambda each: done(self._read(index, list(each.entries), each.is_whole)))

    def _read(self, index: IndexFacts, entries: list[Entry], whole: bool) -> Reading:
        """What was read; an index that may lack entries is not used here for a while."""
        if not whole:
            now = self._runtime.now()
            self._doubted = {mark: until for mark, until in self._doubted.items() if until > now}
            if len(self._doubted) < DOUBTED_MAX:
                self._doubted[index.mark] = now + DOUBTED_S
        return Reading(entries, whole)

    # -- feeding

    def _look(self, _: None) -> None:
        self._runtime.call_later(LOOK_S, self._look, None)
        now = self._runtime.now()
        if self._looking or (now < self._quiet_until and self._shape == self._dht.shape()):
            return
        self._shape = self._dht.shape()
        tables = set(self._tables())
        self._ask_at = {table: at for table, at in self._ask_at.items() if table in tables and at > now}
        for (table, mark), kept in list(self._kept.items()):
            if kept.ends_s is not None and now >= kept.ends_s:
                self._forget(table, mark)
            elif table in self._ask_at or kept.ends_s is not None:
                kept.catch_up()
        self._ask(sorted(tables.difference(self._ask_at)))
        # Rows of indexed tables are compared at every look: another value may have come under a known key.
        self._quiet_until = 0.0 if self._kept else min(self._ask_at.values(), default=now + ASK_S)

    def _tables(self) -> list[str]:
        """Published tables of which this node holds rows, and those whose indexes it feeds."""
        here = {each for each in self._dht.namespaces() if not each.startswith(HIDDEN)}
        return sorted(here.union(table for table, _ in self._kept))

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
                    indexes.update((each.mark, each) for each in facts.indexes)
                    if facts.indexes and found.lifetime_s < DEFINITION_LIFETIME_S / 2:
                        for each in facts.indexes:
                            self._dht.put_many([definition(table, each, each.name), claim(each)])
        now = self._runtime.now()
        for (of, mark), kept in self._kept.items():
            if of == table and mark not in indexes:
                kept.ends_s = now + DROPPED_S if kept.ends_s is None else kept.ends_s
        for each in indexes.values():
            self._keeping(table, each).catch_up()
            if not each.whole:
                self.defining.finish(table, each)

    def _keeping(self, table: str, facts: IndexFacts) -> Feeding:
        """The index as this node feeds it, from now on if it did not before."""
        kept = self._kept.get((table, facts.mark))
        if kept is None:
            kept = Feeding(self._runtime, self._dht, self._publisher, table, facts)
            self._kept[table, facts.mark] = kept
            if table not in self._watches:
                self._watches[table] = self._dht.new_data(Prefix(table), self._new)
        kept.ends_s = None
        return kept

    def _forget(self, table: str, mark: str) -> None:
        self._kept.pop((table, mark)).close()
        if all(of != table for of, _ in self._kept):
            self._watches.pop(table).cancel()

    def _build(self, table: str, facts: IndexFacts, done: Callable[[bool], None]) -> None:
        """All that this node owns into an index that is being made."""
        self._keeping(table, facts).catch_up(done)

    @property
    def unreadable(self) -> int:
        """Objects of indexed tables that have no such column, or none that can be indexed."""
        return sum(kept.unreadable for kept in self._kept.values())

    def _repair(self, arcs: Sequence[Arc], done: Callable[[bool], None]) -> None:
        """Parts of the ring were lost: what was there of the trees that this node feeds is put again."""
        trees = [kept.pht for kept in self._kept.values() if kept.pht is not None]
        left, ok = len(trees), True

        def one(repaired: bool) -> None:
            nonlocal left, ok
            left, ok = left - 1, ok and repaired
            if left == 0:
                done(ok)

        for pht in trees:
            pht.repair(arcs, one)
        if not trees:
            done(True)

    def _knows_any(self) -> bool:
        """Whether this node feeds an index, or holds a word of one: a claim, or a definition in the dictionary."""
        if self._kept or CLAIMS in self._dht.namespaces():
            return True
        return self._dht.holds(DICTIONARY, INDEX_SUFFIX, DICTIONARY_LOOKED_AT_MAX)

    def _settle(self, done: Callable[[bool], None]) -> None:
        """Every row that this node owns into every index there is of its table, as the dictionary says now."""
        tables = self._tables()

        def got(answers: list[Got]) -> None:
            if any(answer.code is not Code.OK for answer in answers):
                done(False)
                return
            for table, answer in zip(tables, answers, strict=True):
                self._known(table, answer)
            kept = list(self._kept.values())
            left, fed = len(kept) + 1, True

            def one(stored: bool) -> None:
                nonlocal left, fed
                left, fed = left - 1, fed and stored
                if left == 0:
                    self._repair([WHOLE], lambda ok: done(ok and fed))

            for each in kept:
                each.catch_up(one)
            self._runtime.call_later(0.0, one, True)

        self._dht.get_many([GetObject(DICTIONARY, dictionary_key(table)) for table in tables], got)

    def _new(self, data: NewData) -> None:
        """A row has come; others will have come with it."""
        table = data.name.namespace
        if table not in self._arrived:
            self._arrived[table] = []
            self._runtime.call_later(ARRIVED_S, self._index_arrived, table)
        self._arrived[table].append(GotObject(data.name, data.value, 0.0))

    def _index_arrived(self, table: str) -> None:
        objects = self._arrived.pop(table)
        for (of, _), kept in self._kept.items():
            if of == table:
                kept.add(objects)
