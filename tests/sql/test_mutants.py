"""Queries with a word too many, too few or in the wrong place: refused, or answered as DuckDB answers them.

So a clause that the parser takes and the plan leaves out would be seen: the answers would differ.
"""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest
from sqlglot import tokenize

from tests.sql.grammar import Writer, loaded
from tests.sql.harness import in_order
from ufl import UflError
from ufl.sql import compile_sql

CHUNKS = 4
MUTANTS = 600
_TEXT = (
    "ALL DISTINCT NULL TRUE 1 0 2 'x' NOT IS IN ANY EXISTS ( ) , . * + - / // % || = <> < >= AND OR "
    "BETWEEN SYMMETRIC LIKE ILIKE GLOB ESCAPE CASE WHEN THEN ELSE END CAST AS BIGINT VARCHAR :: t u "
    "q1 q2 a b c k v w c0 c1 ORDER BY GROUP HAVING LIMIT OFFSET FETCH FIRST ROWS ONLY WITH TIES "
    "PERCENT UNION INTERSECT EXCEPT JOIN LEFT RIGHT FULL OUTER INNER CROSS SEMI ANTI NATURAL ASOF "
    "POSITIONAL LATERAL USING ON (a) (k) FROM WHERE SELECT VALUES (1) RECURSIVE FILTER OVER () "
    "QUALIFY NULLS LAST DESC ASC count(*) sum(1) max(b) EXCLUDE REPLACE RENAME COLUMNS TABLESAMPLE "
    "PIVOT INTERVAL DAY DATE SUBSTRING TRIM MATERIALIZED COLLATE NOCASE AT TIME ZONE FOR UPDATE INTO "
    "WINDOW GROUPING SETS ROLLUP CUBE NAME ISNULL SIMILAR TO [ ] { } -> : => ; ? $1 @ ~ ^ ** << >> & "
    "| "
)
WORDS = _TEXT.split()


class Chance(Writer):
    """Writes queries by a generator of random numbers."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(None)
        self._rng = rng

    def pick(self, *choices: Any) -> Any:
        return self._rng.choice(choices)

    def number(self, low: int, high: int) -> int:
        return self._rng.randint(low, high)


def mutated(text: str, rng: random.Random) -> str:
    words = [text[token.start : token.end + 1] for token in tokenize(text, read="duckdb")]
    at, how = rng.randrange(len(words)), rng.random()
    if how < 0.6:
        words.insert(at, rng.choice(WORDS))
    elif how < 0.8:
        words[at] = rng.choice(WORDS)
    else:
        del words[at]
    return " ".join(words)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_query_with_a_slip_is_refused_or_answered_as_duckdb_does(chunk: int) -> None:
    rng = random.Random(chunk)
    sql = loaded(chunk, nodes=2)
    answered = 0
    for _ in range(MUTANTS):
        text = mutated(Chance(rng).query()[0], rng)
        try:
            compile_sql(text, "q", 0, sql.tables)
        except UflError:
            continue
        try:
            theirs = sql.expected(text)
        except duckdb.Error:
            continue
        answer = sql.answer(text)
        assert answer.account.ended == "complete", (text, answer.account)
        if answer.account.dropped:
            continue
        # Without an order any rows may be the first.
        if any(word in text.upper() for word in ("LIMIT", "OFFSET", "FETCH")):
            assert len(answer.rows) == len(theirs), text
        else:
            assert in_order(answer.rows) == in_order(theirs), text
        assert len(answer.schemas) <= 1, (text, answer.schemas)
        answered += 1
    assert answered > 5
