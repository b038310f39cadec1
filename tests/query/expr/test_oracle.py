from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from query.expr import functions
from query.plan import Expression, Function
from tests.query.expr.cases import CASES, Case
from tests.query.expr.oracle import check, connect, ours, rows

#: Checked against something other than DuckDB: see the named test.
ELSEWHERE = {
    "now": "test_compiler.py",
    "today": "test_functions.py",
    **dict.fromkeys(
        [
            "cidr_match",
            "ip_family",
            "is_ip",
            "ip_in_private",
            "ip_is_loopback",
            "ip_is_link_local",
            "ip_is_multicast",
            "ip_prefix",
            "ip_canonical",
            "ip_to_int",
            "int_to_ip",
        ],
        "test_addresses.py",
    ),
}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    con = connect()
    yield con
    con.close()


#: Enough rows that most pairs of special values meet, and not at the start of their buffers.
BATCH = rows(250).slice(9)
EMPTY = rows(0)


@pytest.mark.parametrize("case", CASES, ids=[c.sql for c in CASES])
def test_duckdb_says_the_same(case: Case, con: duckdb.DuckDBPyConnection) -> None:
    check(con, case.sql, case.expression, BATCH, case.tolerance)
    assert ours(case.expression, EMPTY) == ([], False)


def _names(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Function):
        yield expression.name
        for arg in expression.args:
            yield from _names(arg)


def test_every_function_is_checked() -> None:
    used = {name for case in CASES for name in _names(case.expression)} | set(ELSEWHERE)
    missing = [f.name for f in functions() if not used & {f.name, *f.aliases}]
    assert missing == []
