"""What tables there are: looked up in the data dictionary, or asked of the nodes themselves.

A table is looked up at the owner of its entries, which adds them up: one message there and back, however many nodes
have rows. All tables are asked of all nodes: each tells what lies with it, right at that moment, and what entries it
owns; answers are merged on the way. So a table is known as soon as a node has it, and quickly once it was told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from overlay.dht.operations import GotObject
from overlay.dht.verbs import Dht
from overlay.objects.name import Prefix
from overlay.ring import MASK, WHOLE, Arc, routing_id
from overlay.spread.account import Account as Coverage
from overlay.spread.branch import Branch
from overlay.spread.spread import Spread
from query.engine.describing import Holdings
from query.engine.facts import (
    DICTIONARY,
    TABLES_MAX,
    TableFacts,
    by_name,
    dictionary_key,
    merge,
    read,
    write,
)
from runtime.api import Clock, Timer

TOPIC = "tables"


class Catalog:
    """Answers for this node, asks for all."""

    def __init__(
        self,
        clock: Clock,
        spread: Spread,
        dht: Dht,
        holdings: Holdings,
        as_known: Callable[[TableFacts], TableFacts] = lambda facts: facts,
    ) -> None:
        """`as_known` adds to what the ring says of a table what this node has seen of its indexes."""
        self._as_known = as_known
        self._clock = clock
        self._spread = spread
        self._dht = dht
        self._holdings = holdings
        spread.on_arrival(TOPIC, self._asked)

    def ask(self, done: Callable[[list[TableFacts], Coverage], None], within_s: float | None = None) -> None:
        """Tables of the whole ring, by name; if there is no time to wait for all nodes, what is known by then."""
        self._ask("", done, WHOLE, within_s)

    def look_up(
        self, table: str, done: Callable[[list[TableFacts]], None], within_s: float | None = None
    ) -> None:
        """What the dictionary says of a table, in any case of letters; nothing when it does not know it."""
        key = dictionary_key(table)
        at = routing_id(DICTIONARY, key)
        self._ask(key, lambda facts, coverage: done(facts), Arc(at, (at + 1) & MASK), within_s)

    def _ask(
        self,
        key: str,
        done: Callable[[list[TableFacts], Coverage], None],
        arc: Arc,
        within_s: float | None,
    ) -> None:
        deadline: Timer | None = None

        def answered(reply: bytes | None, coverage: Coverage) -> None:
            if deadline is not None:
                deadline.cancel()
            facts = [] if reply is None else read(reply)
            done(sorted(map(self._as_known, facts), key=lambda each: each.name), coverage)

        branch = self._spread.start(TOPIC, key.encode(), answered, arc=arc, combine=merge)
        if within_s is not None:
            deadline = self._clock.call_later(within_s, lambda _: branch.conclude(), None)

    def _asked(self, branch: Branch) -> None:
        """An empty payload asks for everything here, any other for the entries of one key."""
        branch.combine = merge
        key = branch.payload.decode(errors="replace")
        entries: list[TableFacts] = []

        def each(objects: list[GotObject]) -> None:
            found = (entry for got in objects for entry in read(got.value))
            entries[:] = by_name((*entries, *(found if key else map(_uncounted, found))))[:TABLES_MAX]

        def done() -> None:
            facts: Iterable[TableFacts] = entries if key else (*self._holdings.here(), *entries)
            branch.reply(write(by_name(facts)))

        self._dht.local_scan(Prefix(DICTIONARY, key or None), each, done)


def _uncounted(entry: TableFacts) -> TableFacts:
    """An entry beside the answers of all nodes: they count themselves."""
    return msgspec.structs.replace(entry, nodes=0, rows=0, bytes=0, sized=0)
