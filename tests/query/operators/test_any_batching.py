"""Any split of the input into batches and any interleaving of inputs gives the same answer, for every operator that
turns rows into rows; where SQL has a word for it, DuckDB says what the answer is.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import query.operators  # noqa: F401 - makes the operators known
from query import plan
from query.dataflow.registry import all_operators
from query.plan import Field, Setting
from tests.query.dataflow.harness import operator, sink
from tests.query.operators.feeding import (
    answer,
    call,
    cuts,
    fed,
    fields,
    interleaved,
    long,
    oracle,
    split,
    table,
    tables,
    texts,
)

AGGREGATES = table(
    n=call("count"),
    m=call("count", Field("d")),
    low=call("min", Field("s")),
    high=call("max", Field("n")),
    total=call("sum", Field("n")),
    mean=call("avg", Field("n")),
)
GROUPED = "count(*), count(d), min(s), max(n), sum(n)::BIGINT, avg(n)"


def one(kind: str, **settings_: Setting) -> list[plan.Operator]:
    return [fed(), operator("o", kind, "s", **settings_), sink("o")]


#: Operators over one input, with what DuckDB would say.
ONE_INPUT: dict[str, tuple[list[plan.Operator], str]] = {
    "null/Null": (one("null/Null"), "SELECT * FROM s"),
    "queue/Basic": (one("queue"), "SELECT * FROM s"),
    "flowcontrol/Basic": (one("flowcontrol"), "SELECT * FROM s"),
    "cache/MemCache": (one("cache/MemCache"), "SELECT * FROM s"),
    "cache/MemUpdateCache": (one("cache/MemUpdateCache", keys=texts("k")), "SELECT * FROM s"),
    "selection/Basic": (
        one("selection", where=call("greater", Field("n"), Field("k"))),
        "SELECT * FROM s WHERE n > k",
    ),
    "projection/Basic": (one("projection", columns=texts("n", "s")), "SELECT n, s FROM s"),
    "projection/Generate": (
        one("projection/Generate", columns=table(x=call("add", Field("n"), Field("k")), k=Field("k"))),
        "SELECT n + k, k FROM s",
    ),
    "dupelim/Basic": (
        [
            fed(),
            operator("p", "projection", "s", columns=texts("k", "s", "d")),
            operator("o", "dupelim", "p"),
            sink("o"),
        ],
        "SELECT DISTINCT k, s, d FROM s",
    ),
    "dupelim by key": (
        one("dupelim", columns=texts("k")),
        "SELECT * EXCLUDE r FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM s) WHERE r = 1",
    ),
    "groupby/Basic": (
        one("groupby", keys=table(k=Field("k"), d=Field("d")), aggregates=AGGREGATES),
        f"SELECT k, d, {GROUPED} FROM s GROUP BY k, d",
    ),
    "groupby of all": (one("groupby", aggregates=table(n=call("count"))), "SELECT count(*) FROM s"),
    "groupby/DualFlow": (
        [
            fed(),
            operator("below", "flowcontrol", "s"),
            operator("o", "groupby/DualFlow", "below", keys=table(s=Field("s")), aggregates=AGGREGATES),
            operator("above", "flowcontrol", "o", probe="stream"),
            sink("above"),
        ],
        f"SELECT s, {GROUPED} FROM s GROUP BY s",
    ),
    "groupby in two steps": (
        [
            fed(),
            operator("part", "groupby", "s", keys=table(k=Field("k")), aggregates=AGGREGATES, mode="partial"),
            operator("o", "groupby", "part", keys=table(k=Field("k")), aggregates=AGGREGATES, mode="final"),
            sink("o"),
        ],
        f"SELECT k, {GROUPED} FROM s GROUP BY k",
    ),
    "sort/Basic": (one("sort", keys=fields("d", "s")), "SELECT * FROM s"),
    "sort/TopK": (
        one("sort/TopK", keys=fields("d", "n"), order=texts("desc", "asc"), limit="5", offset="1"),
        "SELECT * FROM s ORDER BY d DESC NULLS LAST, n LIMIT 5 OFFSET 1",
    ),
    "eddy/Basic": (
        [
            fed(),
            operator("e", "eddy", "s", rows="3"),
            operator("a", "selection", "e", where=call("less", Field("k"), long(4))),
            operator("back a", "put/Eddy", "a", eddy="e"),
            operator("b", "selection", "e", where=call("greater", Field("n"), Field("k"))),
            operator("back b", "put/Eddy", "b", eddy="e"),
            sink("e"),
        ],
        "SELECT * FROM s WHERE k < 4 AND n > k",
    ),
}
KEYS: dict[str, Setting] = {
    "leftkeys": fields("k"),
    "rightkeys": fields("k"),
    "leftcolumns": texts("k", "n"),
    "rightcolumns": texts("m"),
}
#: Operators over two inputs, l and r.
TWO_INPUTS: dict[str, tuple[list[plan.Operator], str]] = {
    "join/SymmetricHash": (
        [fed("l"), fed("r"), operator("o", "join", "l", "r", **KEYS), sink("o")],
        "SELECT l.k, n, m FROM l JOIN r ON l.k = r.k",
    ),
    "union/Basic": (
        [
            fed("l"),
            fed("r"),
            operator("a", "projection", "l", columns=texts("k", "s")),
            operator("b", "projection", "r", columns=texts("k", "s")),
            operator("o", "union", "a", "b"),
            sink("o"),
        ],
        "SELECT k, s FROM l UNION ALL SELECT k, s FROM r",
    ),
    "tee/Basic": (
        [
            fed("l"),
            fed("r"),
            operator("all", "union", "l", "r"),
            operator("t", "tee", "all"),
            operator("a", "groupby", "t", keys=table(k=Field("k")), aggregates=table(c=call("count"))),
            operator("b", "groupby", "t", keys=table(k=Field("k")), aggregates=table(c=call("count"))),
            operator("o", "union", "a", "b"),
            sink("o"),
        ],
        """WITH g AS (SELECT k, count(*) FROM (SELECT k FROM l UNION ALL SELECT k FROM r) GROUP BY k)
           SELECT * FROM g UNION ALL SELECT * FROM g""",
    ),
}
#: Tested elsewhere in the same way, or without rows to turn into rows.
ELSEWHERE = {
    *("join/Index", "put/Eddy", "put/Bloom", "selection/Bloom", "null/NullSource", "null/NullSink"),
    *("scan/CSV", "scan/Parquet", "scan/JDBC", "scan/Local", "scan/DHT", "scan/DHTMessage", "scan/IP"),
    *("scan/Values", "projection/Repeat", "sort/Limit", "groupby/Single"),
    *(
        "put/Tree",
        "scan/Tree",
        "scan/Overflow",
        "put/Epochs",
        "scan/Epochs",
        "put/EpochRows",
        "scan/EpochRows",
    ),
    *("result/Epochs", "cache/Windows", "groupby/Windows"),
    *("put/DHT", "put/DHTMessage", "put/IP", "result/NetSend"),
    *(
        "cache/Rows",
        "join/Rows",
        "selection/Unmet",
        "scan/Index",
        "put/Index",
        "put/Heavy",
        "projection/Heavy",
    ),
}


def test_every_operator_is_here_or_known_to_be_elsewhere() -> None:
    known = {*ONE_INPUT, *TWO_INPUTS, *ELSEWHERE}
    ours = {f"{kind.TYPE}/{kind.IMPLEMENTATION}" for kind in all_operators() if kind.TYPE != "test"}
    assert ours <= known, ours - known


@pytest.mark.parametrize("name", ONE_INPUT)
@given(st.data())
@settings(deadline=None, max_examples=25)
def test_batches_do_not_change_the_answer(name: str, data: st.DataObject) -> None:
    operators, sql = ONE_INPUT[name]
    rows = data.draw(tables())
    events = [("s", batch) for batch in split(rows, data.draw(cuts))]
    assert answer(operators, [*events, ("s", None)]) == oracle(sql, s=rows)


@pytest.mark.parametrize("name", TWO_INPUTS)
@given(st.data())
@settings(deadline=None, max_examples=25)
def test_interleaving_does_not_change_the_answer(name: str, data: st.DataObject) -> None:
    operators, sql = TWO_INPUTS[name]
    left, right = data.draw(tables()), data.draw(tables("m"))
    events = data.draw(interleaved(l=split(left, data.draw(cuts)), r=split(right, data.draw(cuts))))
    assert answer(operators, events) == oracle(sql, l=left, r=right)
