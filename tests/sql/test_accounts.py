"""Who answered, for every shape of plan: nodes with rows of their own in the answer, and nodes without, by whatever way
the rows leave them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import ufl
from query.batch import from_arrow, from_pydict
from query.causes import Cause, loses_rows
from query.dataflow.budget import Limits
from query.engine.account import Account
from tests.query.engine.cluster import Cluster, Collector, MemoryTable
from tests.sql.harness import Sql
from tests.sql.test_join_strategies import publish
from ufl.sql import TableInfo, compile_sql
from ufl.sql.hints import STRATEGIES

NODES = 4
#: One node has rows of neither table that pass; one has no rows at all.
ROWS = {0: range(40), 1: range(40, 80), 2: range(900, 910), 3: range(0)}
WITH_ROWS = 2
PASSES = "v < 100"


@pytest.fixture(scope="module")
def sql() -> Sql:
    """Rows that pass on two nodes of four."""
    sql = Sql(NODES, seed=7)
    for name in ("r", "s"):
        for number, tables in enumerate(sql.cluster.tables):
            data = pa.record_batch({"k": [v % 20 for v in ROWS[number]], "v": list(ROWS[number])})
            tables.tables[name] = MemoryTable([from_arrow(name, data)] if data.num_rows else [])
        sql.tables[name] = TableInfo({"k": pa.int64(), "v": pa.int64()}, ("source",))
    publish(sql, "p", pa.table({"k": list(range(20)), "w": list(range(20))}), "k")
    return sql


def account_of(sql: Sql, text: str) -> Account:
    account = sql.answer(text).account
    assert account.asked == account.answered + account.empty + account.failed + account.unreachable, account
    return account


SHAPES = {
    "selection": f"SELECT v FROM r WHERE {PASSES}",
    "projection and order": f"SELECT v + 1 FROM r WHERE {PASSES} ORDER BY 1",
    "limit": f"SELECT v FROM r WHERE {PASSES} ORDER BY v DESC LIMIT 3",
    "one group in a tree": f"SELECT count(*) FROM r WHERE {PASSES}",
    "groups in a tree": f"SELECT k, count(*) FROM r WHERE {PASSES} GROUP BY k",
    "groups, order, limit": f"SELECT k, count(*) AS n FROM r WHERE {PASSES} GROUP BY k ORDER BY n DESC, k LIMIT 2",
    "groups of no single state": f"SELECT k, count(DISTINCT v) FROM r WHERE {PASSES} GROUP BY k",
    "distinct": f"SELECT DISTINCT k FROM r WHERE {PASSES}",
    "union": f"SELECT v FROM r WHERE {PASSES} UNION ALL SELECT v FROM s WHERE {PASSES}",
    "union of sets": f"SELECT k FROM r WHERE {PASSES} UNION SELECT k FROM s WHERE {PASSES}",
    "subquery": f"SELECT count(*) FROM (SELECT k FROM r WHERE {PASSES} GROUP BY k) q",
    "recursion": f"WITH RECURSIVE c(k) AS (SELECT k FROM r WHERE {PASSES} "
    f"UNION SELECT c.k + 1 FROM c JOIN s ON s.k = c.k WHERE s.{PASSES} AND c.k < 3) SELECT k FROM c",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_nodes_with_rows_in_the_answer_have_answered(sql: Sql, shape: str) -> None:
    account = account_of(sql, SHAPES[shape])
    assert (account.asked, account.answered, account.ended) == (NODES, WITH_ROWS, "complete"), account
    assert not any(cause.loses_rows for cause in account.causes), account.causes


@pytest.mark.parametrize("strategy", [each for each in STRATEGIES if each != "fetch"])
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_in_joins_those_whose_rows_went_to_meet_others_have_answered(
    sql: Sql, strategy: str, kind: str
) -> None:
    if kind == "LEFT JOIN" and strategy in ("hierarchical", "eddy"):
        pytest.skip("inner joins only")
    text = (
        f"SELECT /*+ JOIN({strategy}) */ r.v, x.v FROM r {kind} "
        f"(SELECT k, v FROM s WHERE {PASSES}) AS x ON r.k = x.k WHERE r.{PASSES}"
    )
    account = account_of(sql, text)
    assert (account.asked, account.answered, account.ended) == (NODES, WITH_ROWS, "complete"), account


def test_a_join_that_fetches_is_answered_by_those_who_fetched(sql: Sql) -> None:
    text = f"SELECT /*+ JOIN(fetch) */ r.v, x.w FROM r JOIN p AS x ON r.k = x.k WHERE r.{PASSES}"
    account = account_of(sql, text)
    assert (account.asked, account.answered, account.ended) == (NODES, WITH_ROWS, "complete"), account


def test_an_equality_on_the_key_asks_one_node_which_answers(sql: Sql) -> None:
    account = account_of(sql, "SELECT w FROM p WHERE k = 3")
    assert (account.asked, account.answered, account.ended) == (1, 1, "complete"), account
    account = account_of(sql, "SELECT w FROM p WHERE k = 1000")
    assert (account.asked, account.answered, account.empty, account.ended) == (1, 0, 1, "complete"), account


def test_a_published_table_is_answered_by_its_holders(sql: Sql) -> None:
    holders = sum("p" in node.overlay.dht.namespaces() for node in sql.cluster.nodes)
    account = account_of(sql, "SELECT count(*) FROM p")
    assert (account.asked, account.answered, account.empty) == (NODES, holders, NODES - holders), account


def test_values_that_a_query_spells_out_are_its_askers(sql: Sql) -> None:
    account = account_of(sql, "SELECT 1")
    assert (account.answered, account.empty, account.ended) == (1, NODES - 1, "complete"), account


CENTRAL = """
%opgraph(each) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(send) { type = put implementation = IP sources[0] = log channel = rows }
}
%opgraph(one) { at = asker
    %operator(arrived) { type = scan implementation = IP channel = rows }
    %operator(answer) { type = result sources[0] = arrived }
}
"""
ELSEWHERE = """
%opgraph(each) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(send) { type = put implementation = DHT sources[0] = log ns = kept keys[0] = $src placement = key }
}
"""


@pytest.mark.parametrize("text", [CENTRAL, ELSEWHERE], ids=["put IP", "put DHT"])
def test_rows_that_leave_by_put_are_answers_too(text: str) -> None:
    cluster = Cluster(NODES)
    for tables in cluster.tables[:3]:
        tables.tables["fw"] = MemoryTable([from_pydict("fw", {"src": ["a", "b"]})])
    account = cluster.answer(ufl.expand(ufl.parse(text), query_id="q", query_time_s=0)).account
    assert account is not None
    assert (account.asked, account.answered, account.empty, account.ended) == (NODES, 3, 1, "complete")


def test_twenty_thousand_rows_a_node_in_groups_with_an_order_and_a_limit() -> None:
    sql = Sql(NODES, seed=2)
    data = pa.record_batch({"k": [n % 10_000 for n in range(20_000)]})
    for tables in sql.cluster.tables:
        tables.tables["t"] = MemoryTable([from_arrow("t", data)])
    sql.tables["t"] = TableInfo({"k": pa.int64()}, ("source",))
    account = account_of(sql, "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC, k LIMIT 3")
    assert (account.answered, account.empty, account.ended) == (NODES, 0, "complete"), account


# -- cut short


def slow(sql: Sql, text: str, limits: Limits, cancel_after_s: float | None = None) -> Account:
    sink = Collector()
    query = sql.cluster.ask(compile_sql(text, "cut", 0, sql.tables).plan, limits, sink=sink)
    if cancel_after_s is not None:
        sql.cluster.world.run_for(cancel_after_s)
        query.cancel("enough")
    sql.cluster.world.run_for(60.0)
    assert sink.account is not None
    return sink.account


def test_a_limit_of_rows_does_not_turn_nodes_that_answered_into_failed_ones() -> None:
    sql = Sql(NODES, seed=2)
    data = pa.record_batch({"k": list(range(20_000))})
    for tables in sql.cluster.tables:
        tables.tables["t"] = MemoryTable(
            [from_arrow("t", data.slice(at, 1_000)) for at in range(0, 20_000, 1_000)]
        )
    sql.tables["t"] = TableInfo({"k": pa.int64()}, ("source",))
    account = slow(sql, "SELECT k FROM t", Limits(rows=15_000))
    assert account.ended == "limit"
    assert (account.asked, account.answered, account.failed) == (NODES, NODES, 0), account
    assert account.causes[Cause.LIMIT] == NODES


def test_who_has_answered_before_a_cancellation_has_answered() -> None:
    """Three nodes give their rows at once; the fourth is never heard of."""
    sql = Sql(NODES, seed=2)
    data = pa.record_batch({"k": list(range(100))})
    for tables in sql.cluster.tables:
        tables.tables["t"] = MemoryTable([from_arrow("t", data)])
    sql.tables["t"] = TableInfo({"k": pa.int64()}, ("source",))
    sql.cluster.world.crash(sql.cluster.hosts[3])
    account = slow(sql, "SELECT k FROM t", Limits(), cancel_after_s=1.0)
    assert account.ended == "cancelled"
    assert (account.asked, account.answered, account.failed) == (3, 3, 0), account
    assert account.causes == {Cause.CANCELLED: 1}


def test_what_is_not_complete_has_a_cause_or_a_missing_node_and_words() -> None:
    """The same for every report that nodes can give."""
    from overlay.spread.account import Account as Coverage
    from query.engine.account import settled
    from query.engine.spec import Report

    for cause in Cause:
        report = Report(answered=2, causes={cause.number: 3})
        account = settled("q", Coverage(received=2), report, ("limit x",), 0, 0.1, "complete")
        expected = "limit" if cause is Cause.LIMIT else "partial" if cause.loses_rows else "complete"
        assert account.ended == expected, cause
        assert account.causes == {cause: 3}
    for coverage in (
        Coverage(received=3),
        Coverage(received=2, unreachable=1),
        Coverage(received=2, uncovered=1),
    ):
        account = settled("q", coverage, Report(answered=2), (), 0, 0.1, "complete")
        assert account.ended == "partial"
        assert account.errors
        assert account.failed + account.unreachable > 0 or loses_rows(
            {cause.number: count for cause, count in account.causes.items()}
        )
