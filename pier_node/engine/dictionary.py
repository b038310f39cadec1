"""What the tables of the ring look like, as SQL wants it before running: looked up, and remembered for moments.

The tables that a query names are looked up in the data dictionary; if one of them is not in it, all nodes are asked,
so a table is known the moment a node has it. A query that fails by what was remembered is tried again with what the
ring says now, so nothing is ever refused for having been unknown a second ago. A ring that takes long to answer,
because part of it is cut off, is not waited for: a query can do without, and its time is running.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from overlay.spread.account import Account as Coverage
from pier_node.engine.compilers import Told
from query.batch.types import parse_type
from query.engine.catalog import Catalog
from query.engine.facts import TableFacts
from runtime.api import Clock
from ufl.sql import TableInfo

#: How long an answer of the ring is good for: people ask again within moments, tables change over minutes.
AGE_MAX_S = 5.0
#: Tables of one query that are looked up one by one; for more, all nodes are asked.
LOOKED_UP_MAX = 16
#: Tables that are remembered.
REMEMBERED_MAX = 1_024

Tables = dict[str, TableInfo]


class Dictionary:
    """Tables by name, as of now or of a moment ago."""

    def __init__(self, clock: Clock, catalog: Catalog) -> None:
        self._clock = clock
        self._catalog = catalog
        #: By name in small letters: when it was asked, and what was found, nothing if there is none.
        self._known: dict[str, tuple[float, Tables]] = {}
        #: The same for all tables together.
        self._all: tuple[float, Tables] | None = None

    def recent(self, names: Collection[str] | None) -> Tables | None:
        """What is remembered of the tables, if all of it is young enough. None asks for all tables."""
        found: Tables = {}
        entries = [self._all] if names is None else [self._known.get(name.lower()) for name in names]
        for entry in entries:
            if entry is None or self._clock.now() - entry[0] > AGE_MAX_S:
                return None
            found.update(entry[1])
        return found

    def ask(
        self, names: Collection[str] | None, until_s: float, done: Callable[[Tables, Told], None]
    ) -> None:
        """What the ring says now of some tables, or of all; and how much of it had said so by a time of the clock."""
        wanted = None if names is None else list(dict.fromkeys(name.lower() for name in names))
        if wanted is None or len(wanted) > LOOKED_UP_MAX:
            self._ask_all(wanted, until_s, done)
            return
        if not wanted:
            done({}, Told.ALL)
            return
        found: dict[str, Tables] = {}

        def looked_up(name: str, facts: list[TableFacts]) -> None:
            found[name] = {each.name: info_of(each) for each in facts}
            if len(found) < len(wanted):
                return
            if all(found.values()):
                self._remember(found)
                done({name: info for tables in found.values() for name, info in tables.items()}, Told.ALL)
            else:
                self._ask_all(wanted, until_s, done)

        for name in wanted:
            self._catalog.look_up(
                name,
                lambda facts, name=name: looked_up(name, facts),  # type: ignore[misc]
                self._left_s(until_s),
            )

    def _left_s(self, until_s: float) -> float:
        return max(0.0, until_s - self._clock.now())

    def _ask_all(
        self, wanted: Collection[str] | None, until_s: float, done: Callable[[Tables, Told], None]
    ) -> None:
        def answered(facts: list[TableFacts], coverage: Coverage) -> None:
            tables = {each.name: info_of(each) for each in facts}
            if not self._left_s(until_s):
                done(tables, Told.LATE)
                return
            if not coverage.complete or coverage.absent:
                # What the others have may be missing from it: that is not worth remembering.
                done(tables, Told.SOME)
                return
            self._all = (self._clock.now(), tables)
            self._remember(
                {
                    name: {each: info for each, info in tables.items() if each.lower() == name}
                    for name in wanted or ()
                }
            )
            done(tables, Told.ALL)

        self._catalog.ask(answered, self._left_s(until_s))

    def _remember(self, found: dict[str, Tables]) -> None:
        now_s = self._clock.now()
        self._known = {name: entry for name, entry in self._known.items() if now_s - entry[0] <= AGE_MAX_S}
        if len(self._known) < REMEMBERED_MAX:
            self._known.update((name, (now_s, tables)) for name, tables in found.items())


def info_of(facts: TableFacts) -> TableInfo:
    types = (parse_type(text) for text in facts.types)
    keys = facts.key_columns[0] if len(facts.key_columns) == 1 else ()
    # Nodes that could not tell are taken for as large as those that could.
    scale = facts.nodes / facts.sized if facts.sized else 0.0
    rows, size_bytes = (
        (round(facts.rows * scale), round(facts.bytes * scale)) if facts.sized else (None, None)
    )
    columns = dict(zip(facts.columns, types, strict=False))
    kinds = tuple(facts.kind.split("+"))
    return TableInfo(
        columns, kinds, keys, rows, size_bytes, facts.nodes, facts.indexes, facts.columns_left_out
    )
