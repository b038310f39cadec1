"""What planning costs is linear in the text, or refused: steps are counted, and each takes about as long."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from ufl import UflError
from ufl.sql import TableInfo, TooLarge, compile_sql, tables_named
from ufl.sql.compiler import TEXT_CHARS_MAX, TOKENS_MAX
from ufl.sql.steps import STEPS_MAX

TABLES = {
    "t": TableInfo({"x": pa.int64(), "y": pa.int64()}, ("source",)),
    "wide": TableInfo({f"c{number}": pa.int64() for number in range(4_000)}, ("source",)),
}
#: Far more than any of these takes, far less than what is not linear would.
PATIENCE_S = 4.0


def columns(count: int) -> str:
    return ", ".join(f"c{number}" for number in range(count))


LARGE: dict[str, Callable[[int], str]] = {
    "equal labels": lambda n: f"SELECT {', '.join(['x'] * n)} FROM t",
    "labels": lambda n: f"SELECT {columns(n)} FROM wide ORDER BY {columns(n)}",
    "groups": lambda n: f"SELECT {columns(n)} FROM wide GROUP BY {columns(n)}",
    "aggregates": lambda n: f"SELECT {', '.join(f'sum(c{k}) AS s{k}' for k in range(n))} FROM wide",
    "aliases": lambda n: (
        f"SELECT {', '.join(f'c{k} AS a{k}' for k in range(n))} FROM wide WHERE "
        + " AND ".join(f"a{k} > 0" for k in range(n))
    ),
    "conditions": lambda n: f"SELECT 1 FROM wide WHERE {' AND '.join(f'c{k} > 0' for k in range(n))}",
    "stars": lambda n: "SELECT * FROM wide",
    "a list": lambda n: f"SELECT x FROM t WHERE x IN ({', '.join(str(k) for k in range(n))})",
    "a case": lambda n: f"SELECT CASE x {' '.join(f'WHEN {k} THEN {k}' for k in range(n))} END FROM t",
}


@pytest.mark.parametrize("what", LARGE)
def test_a_large_text_is_planned_in_moments(what: str) -> None:
    text = LARGE[what](1_900)
    began_s = time.process_time()
    compile_sql(text, "q", 0, TABLES)
    assert time.process_time() - began_s < PATIENCE_S


HOSTILE = {
    "names of WITH that double": "WITH c0 AS (SELECT * FROM wide), "
    + ", ".join(f"c{n + 1} AS (SELECT a.* FROM c{n} a, c{n} b)" for n in range(8))
    + " SELECT * FROM c8",
    "aliases that double": "SELECT x AS a0, "
    + ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(60))
    + " FROM t",
    "cases in cases": "SELECT "
    + "CASE " * 4
    + "x"
    + (" ".join(f" WHEN {n} THEN {n}" for n in range(60)) + " END") * 4
    + " FROM t",
    "blanks behind an index": "DROP INDEX x" + " " * 500_000 + "y",
    "blanks before a parenthesis": "CREATE INDEX x ON t" + " " * 500_000 + "y",
    "too many tables": "SELECT 1 FROM " + ", ".join(f"t t{n}" for n in range(3_000)),
    "too many unions": " UNION ALL ".join(["SELECT 1"] * 3_000),
    "too many values": "VALUES " + ", ".join(["(1, 2, 3)"] * 5_000),
    "too deep": "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
    "too many words": "SELECT x FROM t WHERE x IN (" + ",".join(["1"] * TOKENS_MAX) + ")",
    "too many columns": f"SELECT {', '.join(['x'] * 5_000)} FROM t",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_text_that_means_too_much_is_refused_in_moments(what: str) -> None:
    began_s = time.process_time()
    with pytest.raises(UflError):
        compile_sql(HOSTILE[what], "q", 0, TABLES)
    assert time.process_time() - began_s < PATIENCE_S


def test_steps_are_a_budget() -> None:
    assert compile_sql("SELECT x, y FROM t WHERE x > 1", "q", 0, TABLES, steps=200).plan
    with pytest.raises(TooLarge):
        compile_sql("SELECT x, y FROM t WHERE x > 1", "q", 0, TABLES, steps=5)
    assert STEPS_MAX > 10_000


def test_too_many_words_are_told_when_they_are_first_counted() -> None:
    with pytest.raises(UflError, match="TOKENS_MAX"):
        tables_named(HOSTILE["too many words"])


@pytest.mark.parametrize("read", [tables_named, lambda text: compile_sql(text, "q", 0, TABLES)])
def test_a_length_is_looked_at_before_anything_is_done(read: Callable[[str], object]) -> None:
    text = "SELECT 1 WHERE 1 IN (" + "1," * (5 * TEXT_CHARS_MAX) + "1)"
    began_s = time.process_time()
    with pytest.raises(UflError, match="TEXT_CHARS_MAX"):
        read(text)
    assert time.process_time() - began_s < 0.1
