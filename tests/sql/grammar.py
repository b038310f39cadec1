"""Queries at random, for comparing with an oracle: joins, groups, NULLs, subqueries, sets, orders.

Every query is one that both sides accept and whose answer is unique: LIMIT comes with an order over all columns,
numbers are small enough never to overflow, and fractions are exact in binary.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.sql.harness import Sql, table

#: Columns of the tables by type: i are integers, s texts, f fractions.
TABLES = {
    "t": {"a": "i", "b": "i", "c": "s", "d": "f"},
    "u": {"k": "i", "v": "s", "w": "i"},
    "e": {"k": "i", "v": "s"},
    "Mixed": {"Id": "i", "Näme": "s"},
}
_KINDS = {"i": pa.int64(), "s": pa.string(), "f": pa.float64()}
_TEXTS = ["", "x", "y", "xy", "Ünï", "x%", "Zed"]


def loaded(seed: int, nodes: int = 4) -> Sql:
    """The tables with rows at random on a cluster."""
    rng = random.Random(seed)
    sql = Sql(nodes, seed=seed)
    values: dict[str, Callable[[], Any]] = {
        "i": lambda: rng.randint(-2, 6),
        "s": lambda: rng.choice(_TEXTS),
        "f": lambda: rng.randint(-8, 8) / 4,
    }
    for name, columns in TABLES.items():
        count = 0 if name == "e" else rng.randint(1, 30)
        sql.load(
            name,
            table(
                {
                    column: (
                        _KINDS[kind],
                        [None if rng.random() < 0.2 else values[kind]() for _ in range(count)],
                    )
                    for column, kind in columns.items()
                }
            ),
        )
    return sql


class Writer:
    """Writes one query, choosing by `draw`."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._aliases = 0

    def pick(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def number(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def alias(self) -> str:
        self._aliases += 1
        return f"q{self._aliases}"

    # -- values

    def value(self, kind: str, columns: list[tuple[str, str]], depth: int = 2) -> str:
        own = [name for name, of in columns if of == kind]
        leaf = depth == 0 or self.number(0, 2) == 0
        if leaf:
            return self.pick(*own) if own and self.number(0, 3) else self.literal(kind)

        def inner() -> str:
            return self.value(kind, columns, depth - 1)

        def test() -> str:
            return self.test(columns, depth - 1)

        common = [
            lambda: f"coalesce({inner()}, {inner()})",
            lambda: f"CASE WHEN {test()} THEN {inner()} ELSE {inner()} END",
            lambda: f"CASE WHEN {test()} THEN {inner()} END",
            lambda: f"nullif({inner()}, {inner()})",
            lambda: f"greatest({inner()}, {inner()})",
        ]
        special: dict[str, list[Callable[[], str]]] = {
            "i": [
                lambda: f"({inner()} + {inner()})",
                lambda: f"({inner()} - {inner()})",
                lambda: f"({inner()} * {self.number(-3, 3)})",
                lambda: f"({inner()} % {self.number(1, 4)})",
                lambda: f"({inner()} // {self.number(0, 3)})",
                lambda: f"abs({inner()})",
                lambda: f"CAST({inner()} AS INTEGER)",
                lambda: f"length({self.value('s', columns, depth - 1)})",
            ],
            "s": [
                lambda: f"upper({inner()})",
                lambda: f"({inner()} || {inner()})",
                lambda: f"substring({inner()}, 1, {self.number(0, 2)})",
                lambda: f"replace({inner()}, 'x', {inner()})",
                lambda: f"CAST({self.value('i', columns, depth - 1)} AS VARCHAR)",
            ],
            "f": [
                lambda: f"({inner()} + {inner()})",
                lambda: f"({inner()} * 0.5)",
                lambda: f"({self.value('i', columns, depth - 1)} / 2)",
                lambda: f"floor({inner()})",
            ],
        }
        return str(self.pick(*common, *special[kind])())

    def literal(self, kind: str) -> str:
        if self.number(0, 9) == 0:
            return {"i": "CAST(NULL AS BIGINT)", "s": "CAST(NULL AS VARCHAR)", "f": "CAST(NULL AS DOUBLE)"}[
                kind
            ]
        if kind == "i":
            return str(self.number(-3, 7))
        if kind == "f":
            return f"CAST({self.number(-4, 4) / 2} AS DOUBLE)"
        return "'" + str(self.pick(*_TEXTS)) + "'"

    # -- conditions

    def test(self, columns: list[tuple[str, str]], depth: int = 2, queries: bool = False) -> str:
        kind = self.pick("i", "i", "s", "f")

        def one() -> str:
            return self.value(kind, columns, min(depth, 1))

        plain = [
            lambda: f"{one()} {self.pick('=', '<>', '<', '<=', '>', '>=')} {one()}",
            lambda: f"{one()} IS {self.pick('', 'NOT ')}NULL",
            lambda: f"{one()} IS {self.pick('', 'NOT ')}DISTINCT FROM {one()}",
            lambda: f"{one()} {self.pick('', 'NOT ')}BETWEEN {one()} AND {one()}",
            lambda: f"{one()} {self.pick('', 'NOT ')}IN ({one()}, {one()}, {one()})",
            lambda: (
                f"{self.value('s', columns, 1)} {self.pick('LIKE', 'ILIKE', 'NOT LIKE')} "
                f"'{self.pick('x%', '%y', '_', 'X_', '%')}'"
            ),
        ]
        if depth == 0:
            return f"({self.pick(*plain)()})"

        def inner() -> str:
            return self.test(columns, depth - 1, queries)

        joined = [
            lambda: f"{inner()} AND {inner()}",
            lambda: f"{inner()} OR {inner()}",
            lambda: f"NOT {inner()}",
        ]
        tests = [lambda: self.subtest(columns)] if queries else []
        return f"({self.pick(*plain, *joined, *tests, *tests)()})"

    def subtest(self, columns: list[tuple[str, str]]) -> str:
        """A condition with a subquery, depending on the query around or not."""
        own, below = self.table()
        where = f" WHERE {self.test(below, 1)}" if self.number(0, 1) else ""
        outer = [name for name, kind in columns if kind == "i"]
        inner = [name for name, kind in below if kind == "i"]
        tied = bool(outer) and self.number(0, 1) == 1
        if tied:
            where = (f"{where} AND " if where else " WHERE ") + f"{self.pick(*inner)} = {self.pick(*outer)}"
        choice = self.pick("exists", "in", "value", "count")
        if choice == "exists":
            return f"{self.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {own}{where})"
        if choice == "in":
            kind = self.pick("i", "s")
            mine = self.value(kind, columns, 1)
            return f"{mine} {self.pick('', 'NOT ')}IN (SELECT {self.value(kind, below, 1)} FROM {own}{where})"
        number = self.value("i", columns, 1)
        function = (
            "count(*)" if choice == "count" else f"{self.pick('max', 'min', 'sum')}({self.pick(*inner)})"
        )
        return f"{number} {self.pick('=', '<', '>=')} (SELECT {function} FROM {own}{where})"

    # -- FROM

    def table(self) -> tuple[str, list[tuple[str, str]]]:
        name = self.pick("t", "u", "t", "u", "e", "Mixed")
        alias = self.alias()
        shown = self.pick(name, name.lower(), name.upper())
        return f"{shown} {alias}", [(f'{alias}."{column}"', kind) for column, kind in TABLES[name].items()]

    def source(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        how = self.number(0, 5) if depth else 0
        if how <= 2:
            return self.table()
        if how == 3:
            text, kinds = self.select(depth - 1)
            alias = self.alias()
            return f"({text}) {alias}", [(f"{alias}.c{n}", kind) for n, kind in enumerate(kinds)]
        left, lefts = self.source(depth - 1)
        right, rights = self.source(0) if self.number(0, 2) else self.inside(depth - 1)
        kind = self.pick("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
        if kind == "CROSS JOIN":
            return f"{left} {kind} {right}", [*lefts, *rights]
        return f"{left} {kind} {right} ON {self.on(lefts, rights, kind)}", [*lefts, *rights]

    def inside(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        """A join in parentheses; its first part may be a subquery."""
        left, lefts = self.source(depth)
        right, rights = self.source(0)
        if self.number(0, 1):
            return f"({left} CROSS JOIN {right})", [*lefts, *rights]
        return f"({left} LEFT JOIN {right} ON {self.on(lefts, rights, 'LEFT JOIN')})", [*lefts, *rights]

    def on(self, lefts: list[tuple[str, str]], rights: list[tuple[str, str]], kind: str) -> str:
        of = self.pick("i", "i", "s")
        mine = [name for name, each in lefts if each == of] or [self.literal(of)]
        theirs = [name for name, each in rights if each == of] or [self.literal(of)]
        text = f"{self.pick(*mine)} = {self.pick(*theirs)}"
        if self.number(0, 2) == 0:
            # DuckDB plans only equalities for a FULL JOIN with conditions on both sides; keep to what it can.
            more = self.test(lefts if kind == "FULL JOIN" else [*lefts, *rights], 0)
            text += f" AND {more}" if kind != "FULL JOIN" else ""
        elif kind == "JOIN" and self.number(0, 2) == 0:
            text += f" AND {self.subtest([*lefts, *rights])}"
        elif kind == "LEFT JOIN" and self.number(0, 3) == 0:
            text += f" AND {self.subtest(rights)}"
        elif kind != "FULL JOIN" and self.number(0, 9) == 0:
            text = "NULL"
        return text

    # -- queries

    def select(self, depth: int) -> tuple[str, list[str]]:
        """A query whose columns are c0, c1, …, and their types."""
        source, columns = self.source(depth)
        if depth and self.number(0, 4) == 0:
            other, others = self.source(1)
            source, columns = f"{source}, {other}", [*columns, *others]
        where = f" WHERE {self.test(columns, 2, queries=True)}" if self.number(0, 1) else ""
        where = " WHERE NULL" if self.number(0, 30) == 0 else where
        if self.number(0, 2) == 0:
            return self.grouped(source, columns, where)
        kinds = [self.pick("i", "s", "f") for _ in range(self.number(1, 3))]
        items = ", ".join(f"{self.value(kind, columns)} AS c{n}" for n, kind in enumerate(kinds))
        distinct = "DISTINCT " if self.number(0, 4) == 0 else ""
        return f"SELECT {distinct}{items} FROM {source}{where}", kinds

    def grouped(self, source: str, columns: list[tuple[str, str]], where: str) -> tuple[str, list[str]]:
        keys = [self.pick("i", "s") for _ in range(self.number(0, 2))]
        items, kinds = [], []
        for kind in keys:
            items.append(self.value(kind, columns, 1) if self.number(0, 1) else self.column(kind, columns))
            kinds.append(kind)
        for _ in range(self.number(1, 3)):
            text, kind = self.call(columns)
            items.append(text)
            kinds.append(kind)
        group = f" GROUP BY {', '.join(str(n + 1) for n in range(len(keys)))}" if keys else ""
        having = f" HAVING {self.call(columns)[0]} IS NOT NULL" if self.number(0, 4) == 0 else ""
        having = " HAVING NULL" if self.number(0, 30) == 0 else having
        listed = ", ".join(f"{item} AS c{n}" for n, item in enumerate(items))
        return f"SELECT {listed} FROM {source}{where}{group}{having}", kinds

    def column(self, kind: str, columns: list[tuple[str, str]]) -> str:
        own = [name for name, of in columns if of == kind]
        return str(self.pick(*own)) if own else self.literal(kind)

    def call(self, columns: list[tuple[str, str]]) -> tuple[str, str]:
        choice = self.pick("count(*)", "count", "sum", "min", "max", "avg", "min", "distinct", "text")
        kept = f" FILTER (WHERE {self.test(columns, 0)})" if self.number(0, 4) == 0 else ""
        number = self.value("i", columns, 1)
        if choice == "count(*)":
            return f"count(*){kept}", "i"
        if choice == "text":
            return f"{self.pick('min', 'max')}({self.value('s', columns, 1)}){kept}", "s"
        if choice == "distinct":
            return f"{self.pick('count', 'sum')}(DISTINCT {number}){kept}", "i"
        if choice == "avg":
            return f"avg({self.value('f', columns, 1)}){kept}", "f"
        return f"{choice}({number}){kept}", "i"

    def query(self) -> tuple[str, bool]:
        """A whole query, and whether the order of its rows is part of the answer."""
        text, kinds = self.select(self.number(0, 2))
        if self.number(0, 5) == 0:
            other = self.matching(kinds)
            operation = self.pick("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
            text = f"{text} {operation} {other}"
        if self.number(0, 5) == 0:
            name = self.alias()
            text = f"WITH {name} AS ({text}) SELECT x.* FROM {name} x"
        if self.number(0, 2):
            return text, False
        nulls = self.pick("", " NULLS FIRST", " NULLS LAST")
        order = ", ".join(
            f"{self.pick(f'c{n}', str(n + 1))}{self.pick('', ' DESC')}{nulls}" for n in range(len(kinds))
        )
        order = f"ALL{self.pick('', ' DESC')}{nulls}" if self.number(0, 9) == 0 else order
        limit = f" LIMIT {self.number(0, 6)}" if self.number(0, 1) else ""
        offset = f" OFFSET {self.number(0, 4)}" if self.number(0, 2) == 0 else ""
        return f"{text} ORDER BY {order}{limit}{offset}", True

    def matching(self, kinds: list[str]) -> str:
        source, columns = self.table()
        items = ", ".join(f"{self.value(kind, columns, 1)} AS c{n}" for n, kind in enumerate(kinds))
        return f"SELECT {items} FROM {source}"


@st.composite
def queries(draw: Any) -> tuple[str, bool]:
    return Writer(draw).query()
