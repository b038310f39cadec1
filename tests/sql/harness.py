"""SQL on a simulated cluster, beside DuckDB on the same rows."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from query.batch import Batch, from_arrow, type_name
from query.engine.account import Account
from tests.query.engine.cluster import Cluster, Collector, MemoryTable
from ufl.sql import TableInfo, compile_sql

Rows = list[tuple[Any, ...]]
#: Floating-point sums differ in their last digits with the order of the rows.
FLOAT_DIGITS = 9


@dataclass
class Answer:
    rows: Rows
    names: list[str]
    account: Account
    #: Those of its batches; an answer over tables that are known has one.
    schemas: list[pa.Schema]


class Sql:
    """Tables on a cluster of nodes, rows spread at random; the same tables in DuckDB."""

    def __init__(
        self, nodes: int = 4, seed: int = 1, catalog: bool = True, *, serialise: bool = False
    ) -> None:
        self.cluster = Cluster(nodes, seed=seed, serialise=serialise)
        self.duck = duckdb.connect()
        # A division by zero is NULL, as DuckDB had it before it became an error.
        self.duck.execute("SET error_on_division_by_zero = false")
        self.tables: dict[str, TableInfo] = {}
        self._catalog = catalog
        self._rng = random.Random(seed)
        self._queries = 0

    def load(self, name: str, table: pa.Table) -> None:
        """Cuts a table into small batches and deals them out; some nodes get none."""
        self.duck.register(f"{name}__rows", table)
        self.duck.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM "{name}__rows"')
        for tables in self.cluster.tables:
            tables.tables[name] = MemoryTable([])
        chosen = self._rng.sample(
            range(len(self.cluster.tables)), self._rng.randint(1, len(self.cluster.tables))
        )
        order = list(range(table.num_rows))
        self._rng.shuffle(order)
        schema = table.schema
        while order:
            size = self._rng.randint(1, max(1, len(order) // 2))
            part, order = order[:size], order[size:]
            batch = table.take(part).combine_chunks().to_batches()[0]
            schema = from_arrow(name, batch).schema
            self.cluster.tables[self._rng.choice(chosen)].tables[name].batches.append(from_arrow(name, batch))
        self.tables[name] = TableInfo({field.name: field.type for field in schema}, ("source",))

    def answer(self, text: str, catalog: bool | None = None) -> Answer:
        """What the cluster says."""
        self._queries += 1
        known = self.tables if (self._catalog if catalog is None else catalog) else None
        compiled = compile_sql(text, f"t{self._queries}", 0, known)
        sink = self.cluster.answer(compiled.plan, for_s=120.0)
        assert sink.account is not None
        return Answer(rows_of(sink), names_of(sink), sink.account, schemas_of(sink))

    def rows(self, text: str, catalog: bool | None = None) -> Rows:
        """The rows of a query that must run without losing any."""
        answer = self.answer(text, catalog)
        account = answer.account
        assert account.ended == "complete", (text, account)
        assert not account.errors, (text, account.errors)
        assert not account.dropped, (text, account.dropped)
        if catalog is not False and self._catalog:
            assert len(answer.schemas) <= 1, (text, answer.schemas)
        return answer.rows

    def expected(self, text: str) -> Rows:
        """What DuckDB says."""
        return [tuple(normal(value) for value in row) for row in self.duck.execute(text).fetchall()]

    def check(self, text: str, ordered: bool = False, catalog: bool | None = None) -> None:
        """Both say the same."""
        ours, theirs = self.rows(text, catalog), self.expected(text)
        if not ordered:
            ours, theirs = in_order(ours), in_order(theirs)
        assert ours == theirs, f"{text}\nours   {ours[:20]}\nDuckDB {theirs[:20]}"


def rows_of(sink: Collector) -> Rows:
    return [
        tuple(normal(value) for value in row)
        for batch in sink.batches
        for row in zip(*(column.to_pylist() for column in batch.data.columns), strict=True)
    ]


def names_of(sink: Collector) -> list[str]:
    return list(sink.batches[0].schema.names) if sink.batches else []


def schemas_of(sink: Collector) -> list[pa.Schema]:
    found: list[pa.Schema] = []
    for batch in sink.batches:
        if batch.schema not in found:
            found.append(batch.schema)
    return found


def normal(value: Any) -> Any:
    """Values that SQL holds equal, as equal Python values."""
    if isinstance(value, bool):
        return value
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else _float(float(value))
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC)
    if type(value).__name__ == "MonthDayNano":
        days = value.months * 30 + value.days
        return datetime.timedelta(days=days, microseconds=value.nanoseconds // 1000)
    if isinstance(value, list):
        return tuple(normal(each) for each in value)
    return value


def _float(value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return str(value)
    rounded = float(f"{value:.{FLOAT_DIGITS}g}")
    return int(rounded) if rounded == int(rounded) else rounded


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def table(columns: Mapping[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})


__all__ = ["Answer", "Batch", "Sql", "in_order", "table", "type_name"]
