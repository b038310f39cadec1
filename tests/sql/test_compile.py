"""Compiling: mistakes are told with their place, plans are well formed, nothing needs a catalog."""

from __future__ import annotations

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

import ufl
from query.plan import Opgraph
from tests.sql.grammar import TABLES, queries
from ufl.sql import TableInfo, compile_sql, explain_sql
from ufl.sql.dialect import Continuous

FW = {"fw": TableInfo({"src": pa.string(), "dpt": pa.int32(), "ts": pa.timestamp("us")})}


def plan(text: str, tables: dict[str, TableInfo] | None = None) -> tuple[Opgraph, ...]:
    return compile_sql(text, "q1", 0, tables).plan.opgraphs


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("SELECT src,\n  sum(dpt) OVER ()\nFROM fw", 2, 3, "OVER"),
        ("SELECT src FROM fw WHERE nosuch = 1", 1, 26, "no column 'nosuch'"),
        ("SELECT src\nFROM fw\nORDER BY dpt +", 3, 14, "not understood"),
        ("SELECT src FROM fw GROUP BY ROLLUP (src)", 1, 37, "ROLLUP is not supported"),
        ("SELECT dpt + src FROM fw", 1, 8, "add"),
        ("SELECT lenght(src) FROM fw", 1, 8, "no function 'lenght'"),
        ("", 1, 1, "empty"),
        ("SELECT $limit", 1, 8, "parameter $limit has no value"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(ufl.UflError) as caught:
        compile_sql(text, "q1", 0, FW)
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


@given(queries())
@settings(max_examples=60, deadline=None)
def test_plans_can_be_printed_and_read_back(query: tuple[str, bool]) -> None:
    kinds = {"i": pa.int64(), "s": pa.string(), "f": pa.float64()}
    known = {
        name: TableInfo({column: kinds[kind] for column, kind in columns.items()})
        for name, columns in TABLES.items()
    }
    compiled = compile_sql(query[0], "q1", 0, known).plan
    assert ufl.parse(ufl.unparse(compiled)) == compiled


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_plan_or_a_mistake(text: str) -> None:
    try:
        compile_sql(text, "q1", 0, FW)
    except ufl.UflError as error:
        assert str(error)


WORDS = (
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "BY",
        "ORDER",
        "LIMIT",
        "fw",
        "src",
        "dpt",
        "(",
        ")",
        ",",
        "*",
        "=",
    ),
    *("<", "1", "'x'", "AND", "OR", "NOT", "IN", "EXISTS", "JOIN", "ON", "AS", "UNION", "ALL", "WITH", "q"),
    *("count", "sum", ".", "HAVING", "DISTINCT", "NULL", "CASE", "WHEN", "THEN", "END", "INTERVAL", "EVERY"),
    *("FOR", "OVER"),
)


@given(st.lists(st.sampled_from(WORDS), max_size=25))
@settings(max_examples=400, deadline=None)
def test_any_words_are_a_plan_or_a_mistake(words: list[str]) -> None:
    try:
        compile_sql(" ".join(words), "q1", 0, FW)
    except ufl.UflError as error:
        assert str(error)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    for text in (
        "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
        "SELECT " + "-" * 3_000 + "1",
        "SELECT 1" + " + 1" * 3_000,
        "SELECT * FROM " + "(SELECT * FROM " * 200 + "fw" + ")" * 200,
        "SELECT " + " AND ".join(["src = 'x'"] * 2_000) + " FROM fw",
    ):
        try:
            compile_sql(text, "q1", 0, FW)
        except ufl.UflError as error:
            assert str(error)


def test_conditions_and_columns_are_applied_where_the_rows_lie() -> None:
    first = plan("SELECT f.src FROM fw f JOIN hosts h ON f.host = h.host WHERE f.dpt = 22 AND h.site = 'x'")[
        0
    ]
    types = [operator.type for operator in first.operators]
    assert types.index("selection") < types.index("put")
    columns = next(operator for operator in first.operators if operator.type == "projection")
    assert "dpt" not in str(columns.settings)


def test_at_most_k_rows_of_each_node_travel() -> None:
    graphs = plan("SELECT src, count(*) n FROM fw GROUP BY src ORDER BY n DESC LIMIT 10 OFFSET 5")
    senders = [graph for graph in graphs if any(each.implementation == "IP" for each in graph.operators[-1:])]
    assert len(senders) == 1
    top = next(each for each in senders[0].operators if each.implementation == "TopK")
    assert top.settings["limit"] == "15"


def test_groups_that_lie_together_are_not_sent_again() -> None:
    text = (
        "SELECT q.src, q.n FROM (SELECT src, count(*) n FROM fw GROUP BY src) q JOIN hosts h ON q.src = h.ip"
    )
    puts = [each for graph in plan(text) for each in graph.operators if each.type == "put"]
    assert len(puts) == 2


def test_explain_says_who_is_asked_how_and_why() -> None:
    text = explain_sql("SELECT src, count(*) FROM fw GROUP BY src", "q1", 0, FW)
    assert "asked: every node" in text
    assert "rehashed by" in text
    assert "stage 1" in text
    assert "%opgraph(part1)" in text
    ufl.parse(text[text.index("%opgraph") :])


def test_a_parameter_is_a_value_and_never_text_of_the_query() -> None:
    compiled = compile_sql("SELECT src FROM fw WHERE src = $who", "q1", 0, FW, {"who": "x' OR 1=1 --"})
    where = next(each for each in compiled.plan.opgraphs[0].operators if each.type == "selection")
    assert "x' OR 1=1 --" in str(where.settings["where"])


def test_continuous_clauses_are_part_of_the_language() -> None:
    text = "SELECT src FROM fw EVERY INTERVAL '5' SECOND RANGE INTERVAL '1' MINUTE FOR INTERVAL '1' HOUR"
    tree = sqlglot.parse_one(text, dialect="pier")
    assert isinstance(tree, Continuous)
    assert [tree.args[name].this.this for name in ("every", "range", "duration")] == ["5", "1", "1"]
    assert sqlglot.parse_one("SELECT every FROM range", dialect="pier").find(Continuous) is None


def test_an_equality_on_the_key_of_a_published_table_concerns_one_node() -> None:
    tables = {"t": TableInfo({"k": pa.int64(), "v": pa.string()}, ("published",), ("k",))}
    (only,) = plan("SELECT v FROM t WHERE k = 7 AND v > 'a'", tables)
    assert (only.settings["ns"], only.settings["rid"]) == ("t", "7")
    (grouped,) = plan("SELECT v, count(*) FROM t WHERE 7 = k GROUP BY v ORDER BY 1 LIMIT 3", tables)
    assert grouped.settings["rid"] == "7"
    for text in (
        "SELECT v FROM t WHERE k > 7",
        "SELECT v FROM t WHERE k = 7.5",
        "SELECT v FROM t WHERE k = 7 OR k = 8",
    ):
        assert all("rid" not in graph.settings for graph in plan(text, tables))
    both = {"t": TableInfo({"k": pa.int64()}, ("published", "source"), ("k",))}
    assert all("rid" not in graph.settings for graph in plan("SELECT k FROM t WHERE k = 7", both))
