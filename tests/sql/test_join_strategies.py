"""Every way to join gives DuckDB's answer: kinds, NULLs, duplicates, further conditions, one node and many."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from overlay.dht.messages import Code
from overlay.dht.operations import PutObject
from overlay.objects.name import Name
from query.batch import from_arrow
from query.operators.put.placement import by_key
from query.wire import encode
from tests.sql.harness import Sql
from ufl import UflError
from ufl.sql import TableInfo, compile_sql
from ufl.sql.hints import STRATEGIES

#: What each strategy can do; `fetch` needs the inner side published.
KINDS = {
    "hash": ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"),
    "fetch": ("JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"),
    "semi": ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"),
    "bloom": ("JOIN", "LEFT JOIN", "RIGHT JOIN", "SEMI JOIN", "ANTI JOIN"),
    "hierarchical": ("JOIN",),
    "skew": ("JOIN", "LEFT JOIN", "RIGHT JOIN", "SEMI JOIN", "ANTI JOIN"),
    "nested": ("JOIN", "LEFT JOIN", "RIGHT JOIN", "SEMI JOIN", "ANTI JOIN"),
    "eddy": ("JOIN",),
}


def rows(rng: random.Random, count: int, name: str) -> pa.Table:
    keys = [None if rng.random() < 0.15 else rng.randint(0, max(2, count // 3)) for _ in range(count)]
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "n": pa.array([rng.choice([None, "x", "y", "zz"]) for _ in range(count)], pa.string()),
            name: pa.array(range(count), pa.int64()),
        }
    )


def publish(sql: Sql, name: str, table: pa.Table, *keys: str) -> None:
    """Puts a table into the DHT, from the nodes in turn."""
    sql.duck.register(f"{name}__rows", table)
    sql.duck.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM "{name}__rows"')
    codes: list[Code] = []
    for number, data in enumerate(table.to_batches(max_chunksize=17)):
        batch = from_arrow(name, data)
        puts = [
            PutObject(Name(name, key, f"{number}"), encode(part, inline_schema=True), 3_600.0)
            for key, part in by_key(batch, [batch.column(key) for key in keys])
        ]
        sql.cluster.nodes[number % len(sql.cluster.nodes)].overlay.dht.put_many(puts, codes.extend)
    sql.cluster.world.run_for(10.0)
    assert codes
    assert set(codes) == {Code.OK}
    sql.tables[name] = TableInfo({field.name: field.type for field in table.schema}, ("published",), keys)


def loaded(nodes: int, seed: int) -> Sql:
    rng = random.Random(seed)
    sql = Sql(nodes, seed=seed)
    sql.load("r", rows(rng, 120, "r"))
    sql.load("s", rows(rng, 150, "s"))
    publish(sql, "p", rows(rng, 140, "p"), "k")
    sql.load("e", rows(rng, 0, "e"))
    return sql


def select(kind: str, strategy: str, inner: str, more: str = "") -> str:
    columns = f"r.k, r.n, r.r{'' if kind.startswith(('SEMI', 'ANTI')) else f', x.k, x.{inner}'}"
    return f"SELECT /*+ JOIN({strategy}) */ {columns} FROM r {kind} {inner} AS x ON r.k = x.k{more}"


@pytest.mark.parametrize("nodes", [1, 4, 16])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_kind_of_join_gives_duckdbs_answer(strategy: str, nodes: int) -> None:
    sql = loaded(nodes, seed=nodes)
    inner = "p" if strategy == "fetch" else "s"
    for kind in KINDS[strategy]:
        sql.check(select(kind, strategy, inner))
        if strategy != "semi" or kind == "JOIN":
            sql.check(select(kind, strategy, inner, f" AND r.r + x.{inner} > 60"))
    sql.check(select("JOIN", strategy, inner, f" AND r.n = 'x' AND x.{inner} < 90 AND r.r > x.{inner}"))
    if strategy != "fetch":
        sql.check(select("JOIN", strategy, "e"))
    sql.cluster.world.run_for(1.0)
    assert sql.cluster.leftovers() == []
    held = [node.executor._services["kept"].held for node in sql.cluster.nodes]
    assert held == [0] * nodes


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_keys_and_texts(strategy: str) -> None:
    rng = random.Random(5)
    sql = Sql(4, seed=5)
    sql.load("r", rows(rng, 80, "r"))
    if strategy == "fetch":
        publish(sql, "s", rows(rng, 90, "s"), "n", "k")
    else:
        sql.load("s", rows(rng, 90, "s"))
    sql.check(f"SELECT /*+ JOIN({strategy}) */ r.r, s.s FROM r, s WHERE r.k = s.k AND s.n = r.n")


@pytest.mark.parametrize("strategy", [each for each in STRATEGIES if each != "skew"])
def test_joins_of_many_tables_left_deep_and_bushy(strategy: str) -> None:
    sql = loaded(4, seed=9)
    rng = random.Random(3)
    sql.load("t", rows(rng, 60, "t"))
    inner = "p" if strategy == "fetch" else "t"
    hint = f"/*+ JOIN({strategy}) */"
    sql.check(
        f"SELECT {hint} r.r, s.s, x.{inner} FROM r JOIN /* s by hash */ s ON r.k = s.k JOIN {inner} x ON s.k = x.k"
        if strategy != "fetch"
        else "SELECT /*+ JOIN(x, fetch) */ r.r, s.s, x.p FROM r JOIN s ON r.k = s.k JOIN p x ON s.k = x.k"
    )
    if strategy != "fetch":
        sql.check(
            f"SELECT {hint} a.r, b.t FROM (SELECT {hint} r.k, r.r FROM r JOIN s ON r.k = s.k) a "
            f"JOIN (SELECT {hint} t.k, t.t FROM t JOIN e ON t.k > e.k OR t.k = t.k JOIN s ON t.k = s.k) b ON a.k = b.k"
        )
        sql.check(
            f"SELECT {hint} r.n, count(*) AS n FROM r JOIN s ON r.k = s.k WHERE r.k IN (SELECT k FROM t) GROUP BY r.n"
        )


@pytest.mark.parametrize("nodes", [1, 4, 16])
def test_joins_without_an_equality(nodes: int) -> None:
    sql = loaded(nodes, seed=nodes + 20)
    for kind in ("JOIN", "LEFT JOIN", "RIGHT JOIN", "SEMI JOIN", "ANTI JOIN"):
        columns = "r.r" if kind[0] in "SA" else "r.r, s.s"
        sql.check(f"SELECT {columns} FROM r {kind} s ON r.k < s.k AND r.n = 'x' AND s.s % 7 = 0")
    sql.check("SELECT r.r, s.s FROM r FULL JOIN s ON r.k + 30 < s.k")
    sql.check("SELECT count(*) AS n FROM r, s")
    sql.check("SELECT r.r FROM r WHERE r.r > (SELECT avg(s.s) FROM s)")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT /*+ JOIN(blom) */ r.k FROM r JOIN s ON r.k = s.k", "no way to join called 'blom'"),
        ("SELECT /*+ HASH */ r.k FROM r JOIN s ON r.k = s.k", "'HASH' is no hint"),
        ("SELECT /*+ JOIN(u, hash) */ r.k FROM r JOIN s ON r.k = s.k", "names no table that is joined"),
        ("SELECT /*+ JOIN(fetch) */ r.k FROM r JOIN s ON r.k = s.k", "published under exactly"),
        ("SELECT /*+ JOIN(bloom) */ r.k FROM r FULL JOIN s ON r.k = s.k", "must keep rows without partner"),
        (
            "SELECT /*+ JOIN(semi) */ r.k FROM r LEFT JOIN s ON r.k = s.k AND r.r < s.s",
            "needs the rows themselves",
        ),
        ("SELECT /*+ JOIN(a, b, c) */ r.k FROM r JOIN s ON r.k = s.k", "a table and a strategy"),
    ],
)
def test_a_hint_that_cannot_be_followed_is_an_error(text: str, says: str) -> None:
    columns: dict[str, Any] = {"k": pa.int64(), "r": pa.int64(), "s": pa.int64()}
    tables = {name: TableInfo(columns, ("source",)) for name in "rs"}
    with pytest.raises(UflError, match=says):
        compile_sql(text, "q", 0, tables)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_pair_comes_once_whatever_the_network_does(strategy: str, seed: int) -> None:
    """Messages are lost, doubled and held back; on 16 nodes rows take several hops."""
    sql = loaded(16, seed=40 + seed)
    faults = sql.cluster.world.faults
    faults.loss.set_rate(0.1)
    faults.duplication.set_rate(0.3)
    faults.reordering.set_rate(0.3)
    inner = "p" if strategy == "fetch" else "s"
    for kind in ("JOIN", KINDS[strategy][-1]):
        sql.check(select(kind, strategy, inner))


def test_rows_of_a_frequent_key_are_shared_among_the_owners() -> None:
    rng = random.Random(4)
    sql = Sql(8, seed=3)
    keys = [7 if rng.random() < 0.6 else rng.randint(0, 500) for _ in range(3_000)]
    pads = [rng.randbytes(60).hex() for _ in keys]
    sql.load("r", pa.table({"k": keys, "r": pads}))
    sql.load("s", pa.table({"k": [*range(500), 7, None], "s": list(range(502))}))
    loads: dict[str, float] = {}
    for strategy in ("hash", "skew"):
        text = f"SELECT /*+ JOIN({strategy}) */ r.r, s.s FROM r JOIN s ON r.k = s.k"
        before = [host.counters.bytes_in for host in sql.cluster.hosts]
        sql.check(text)
        came = [host.counters.bytes_in - had for host, had in zip(sql.cluster.hosts, before, strict=True)]
        # The asker gets the results, whoever makes them.
        loads[strategy] = max(came[1:])
        for kind in ("LEFT JOIN", "RIGHT JOIN"):
            sql.check(text.replace(" JOIN s", f" {kind} s"))
    # Alone one owner gets the rows of the frequent key; dealt out, no owner has more than two shares.
    assert loads["skew"] < 0.5 * loads["hash"]


def test_keys_of_a_large_join_are_counted_without_a_hint() -> None:
    columns: dict[str, Any] = {"k": pa.int64(), "r": pa.int64(), "s": pa.int64()}

    def notes(rows: int, kind: str = "JOIN") -> str:
        tables = {
            name: TableInfo(columns, ("source",), rows=rows, bytes=100 * rows, nodes=8) for name in ("r", "s")
        }
        text = f"SELECT r.r, s.s FROM r {kind} s ON r.k = s.k"
        return "\n".join(compile_sql(text, "q", 0, tables).notes)

    assert "join by hash" in notes(100_000)
    assert "join by skew" in notes(10_000_000)
    assert "frequent keys are looked for first" in notes(10_000_000)
    assert "join by hash" in notes(10_000_000, "FULL JOIN")
