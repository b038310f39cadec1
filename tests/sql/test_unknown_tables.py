"""Queries about tables that no catalog describes: columns are found where the rows are."""

from __future__ import annotations

import pyarrow as pa
import pytest

import ufl
from tests.sql.harness import Sql, table


@pytest.fixture(scope="module")
def sql() -> Sql:
    sql = Sql(4, seed=3, catalog=False)
    sql.load(
        "fw",
        table(
            {
                "src": (pa.string(), ["a", "b", "a", None, "c", "a"]),
                "dpt": (pa.int64(), [22, 80, 22, 23, None, 443]),
                "length": (pa.int64(), [60, 1500, 60, 40, 52, 900]),
            }
        ),
    )
    sql.load("hosts", table({"ip": (pa.string(), ["a", "b", "z"]), "site": (pa.string(), ["n", "s", None])}))
    return sql


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM fw",
        "SELECT * FROM fw WHERE dpt = 22",
        "SELECT * FROM fw ORDER BY length, src LIMIT 2",
        "SELECT DISTINCT * FROM fw",
        "SELECT *, dpt + 1 AS next FROM fw",
        "SELECT * FROM (SELECT * FROM fw WHERE dpt > 22) q WHERE q.length > 100",
        "SELECT * FROM fw WHERE src IN (SELECT ip FROM hosts)",
        "SELECT * FROM fw f WHERE NOT EXISTS (SELECT 1 FROM hosts h WHERE h.ip = f.src)",
        "SELECT src, count(*), max(length) FROM fw GROUP BY src",
        "SELECT f.src, h.site FROM fw f LEFT JOIN hosts h ON f.src = h.ip",
        "SELECT f.src, h.site FROM fw f, hosts h WHERE f.src = h.ip AND f.dpt < 100",
        "SELECT count(*) FROM fw",
        "SELECT src, count(*) AS n FROM fw GROUP BY src HAVING n > 1 ORDER BY n",
        "SELECT sum(dpt) AS dpt FROM fw HAVING sum(dpt) > 1",
        "SELECT dpt // 100 AS band, count(*) FROM fw GROUP BY band",
        "WITH q AS (SELECT src AS s, sum(dpt) AS d FROM fw GROUP BY src) SELECT s, d FROM q WHERE d > 40",
    ],
)
def test_the_answer_is_the_same_without_a_catalog(sql: Sql, text: str) -> None:
    sql.check(text)
    sql.check(text, catalog=True)


def test_a_column_nobody_has_is_counted_where_it_is_missing(sql: Sql) -> None:
    answer = sql.answer("SELECT srcip FROM fw")
    assert answer.rows == []
    assert sum(answer.account.dropped.values()) == 6
    assert all("'srcip'" in reason for reason in answer.account.dropped)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT srcip FROM fw",
        "SELECT count(*) FROM fw WHERE srcip = 'a'",
        "SELECT srcip, count(*) FROM fw GROUP BY 1",
    ],
)
def test_the_account_says_on_how_many_nodes_and_what_may_have_been_meant(sql: Sql, text: str) -> None:
    having = sum(bool(tables.tables["fw"].batches) for tables in sql.cluster.tables)
    (hint,) = sql.answer(text).account.hints
    assert hint == f"column `srcip` not in fw on {having} of 4 nodes; did you mean `src`?"


def test_with_a_catalog_it_is_told_before_anything_runs(sql: Sql) -> None:
    with pytest.raises(ufl.UflError, match="no column 'srcip'") as caught:
        sql.answer("SELECT srcip FROM fw", catalog=True)
    assert "src" in caught.value.hint


def test_a_name_that_two_unknown_tables_may_have_must_be_qualified(sql: Sql) -> None:
    with pytest.raises(ufl.UflError, match="may be of") as caught:
        sql.answer("SELECT src FROM fw JOIN hosts ON fw.src = hosts.ip")
    assert "fw.src" in caught.value.hint


def test_a_star_over_unknown_tables_that_are_joined_is_refused(sql: Sql) -> None:
    with pytest.raises(ufl.UflError, match="a star needs the columns"):
        sql.answer("SELECT * FROM fw JOIN hosts ON fw.src = hosts.ip")


def test_a_table_nobody_has_is_empty(sql: Sql) -> None:
    assert sql.rows("SELECT count(*) FROM nothing") == [(0,)]
    assert sql.rows("SELECT * FROM nothing") == []


def test_names_find_tables_and_columns_in_any_case_when_they_are_known(sql: Sql) -> None:
    assert sorted(sql.rows("SELECT Q.IP FROM HOSTS q", catalog=True)) == [("a",), ("b",), ("z",)]


def test_narrow_integers_widen_before_they_overflow() -> None:
    sql = Sql(2, seed=5)
    sql.load("n", table({"tiny": (pa.int8(), [127, -128]), "i": (pa.int32(), [2**31 - 1, 5])}))
    assert sorted(sql.rows("SELECT tiny + 1, i + 1 FROM n")) == [(-127, 6), (128, 2**31)]
    assert sql.rows("SELECT sum(i) + sum(tiny) FROM n") == [(2**31 + 3,)]
