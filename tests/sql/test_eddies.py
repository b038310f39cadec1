"""`/*+ EDDY */`: joins and conditions in whatever order give DuckDB's answer; EXPLAIN says what is done."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from tests.sql.harness import Sql
from ufl import UflError
from ufl.sql import TableInfo, compile_sql


def loaded(nodes: int, seed: int, rows: int = 60) -> Sql:
    rng = random.Random(seed)
    sql = Sql(nodes, seed=seed)
    for name in ("r", "s", "t", "u"):
        keys = {
            column: [None if rng.random() < 0.1 else rng.randint(0, 12) for _ in range(rows)]
            for column in "ab"
        }
        columns = {column: pa.array(values, pa.int64()) for column, values in keys.items()}
        sql.load(name, pa.table({**columns, "n": pa.array(range(rows), pa.int64())}))
    return sql


QUERIES = (
    "SELECT /*+ EDDY */ r.n, s.n, t.n FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b WHERE r.n < 20 AND t.n > 30",
    # A star, by commas; the first two tables are connected by the third alone.
    "SELECT /*+ EDDY */ r.n, s.n, t.n FROM r, s, t WHERE r.a = t.a AND s.b = t.b AND r.n + s.n < 30",
    # A circle, and a condition on three tables.
    "SELECT /*+ EDDY */ r.n, s.n, t.n FROM r, s, t WHERE r.a = s.a AND s.b = t.b AND t.a = r.b AND r.n + s.n > t.n",
    # Two equalities between the same tables, and a chain of four.
    "SELECT /*+ EDDY */ r.n, u.n FROM r, s, t, u WHERE r.a = s.a AND r.b = s.b AND s.a = t.b AND t.a = u.a AND u.n < 9",
    "SELECT /*+ EDDY */ x.n, y.n FROM r x JOIN r y ON x.a = y.b WHERE x.n < y.n",
    "SELECT /*+ EDDY */ r.a, count(*) AS n, sum(t.n) AS m FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b GROUP BY r.a",
    # Another way for one of the joins; outer joins around and below.
    "SELECT /*+ EDDY JOIN(t, hash) */ r.n, s.n, t.n FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b WHERE t.n < 9",
    "SELECT /*+ EDDY JOIN(t, hash) */ r.n, s.n, t.n FROM r JOIN s ON r.a = s.a AND r.n > 40 LEFT JOIN t ON s.b = t.b",
    "SELECT /*+ EDDY */ n FROM r WHERE a < 6 AND b > 3 AND n % 2 = 0 AND (a + b < 12 OR n IS NULL)",
)


@pytest.mark.parametrize("nodes", [1, 4])
def test_any_order_gives_duckdbs_answer(nodes: int) -> None:
    sql = loaded(nodes, seed=nodes)
    for text in QUERIES:
        sql.check(text)
    sql.cluster.world.run_for(1.0)
    assert sql.cluster.leftovers() == []


def compiled(text: str, rows: dict[str, int] | None = None) -> list[str]:
    columns: dict[str, Any] = {"a": pa.int64(), "b": pa.int64(), "n": pa.int64()}
    sizes = rows or {}
    tables = {
        name: TableInfo(columns, ("source",), rows=sizes.get(name), bytes=24 * sizes.get(name, 0), nodes=4)
        for name in "rstu"
    }
    return list(compile_sql(text, "q", 0, tables).notes)


def test_explain_says_what_stays_and_what_is_ordered() -> None:
    notes = compiled(QUERIES[0], {"r": 100, "s": 9_000, "t": 100})
    assert any("of 3 tables the largest stays" in note for note in notes), notes
    assert any("orders 4 conditions" in note for note in compiled(QUERIES[-1])), compiled(QUERIES[-1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT /*+ EDDY */ r.n FROM r LEFT JOIN s ON r.a = s.a", "cannot be made by eddy"),
        (
            "SELECT /*+ EDDY */ r.n FROM r JOIN s ON r.a = s.a JOIN t ON r.b + s.b = t.a",
            "an equality of two",
        ),
        ("SELECT /*+ EDDIE */ r.n FROM r", "is no hint"),
    ],
)
def test_what_an_eddy_cannot_do_is_said(text: str, says: str) -> None:
    with pytest.raises(UflError, match=says):
        compiled(text)
