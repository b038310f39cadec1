"""What the tables of the ring look like, as SQL wants it before running: asked of the nodes, remembered for moments.

A query that fails by what was remembered is tried again with what the nodes say now, so a table that came up a second
ago is never refused for being unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.spread.account import Account as Coverage
from query.batch.types import parse_type
from query.engine.catalog import Catalog, TableFacts
from runtime.api import Clock
from ufl.sql import TableInfo

#: How long an answer of the ring is good for: people ask again within moments, tables change over minutes.
AGE_MAX_S = 5.0

Tables = dict[str, TableInfo]


class Dictionary:
    """Tables by name, as of now or of a moment ago."""

    def __init__(self, clock: Clock, catalog: Catalog) -> None:
        self._clock = clock
        self._catalog = catalog
        self._known: Tables | None = None
        self._asked_s = 0.0

    def recent(self) -> Tables | None:
        """What is remembered, if it is young enough."""
        return self._known if self._clock.now() - self._asked_s <= AGE_MAX_S else None

    def ask(self, done: Callable[[Tables], None]) -> None:
        """What the nodes say now."""

        def answered(facts: list[TableFacts], coverage: Coverage) -> None:
            self._known = {each.name: info_of(each) for each in facts}
            self._asked_s = self._clock.now()
            done(self._known)

        self._catalog.ask(answered)


def info_of(facts: TableFacts) -> TableInfo:
    types = (parse_type(text) for text in facts.types)
    keys = facts.key_columns[0] if len(facts.key_columns) == 1 else ()
    return TableInfo(dict(zip(facts.columns, types, strict=False)), tuple(facts.kind.split("+")), keys)
