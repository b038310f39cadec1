"""Two thousand queries at random give DuckDB's answer on the same rows (docs/decisions/0016)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.sql.grammar import loaded, queries

CHUNKS = 20
QUERIES_A_CHUNK = 100


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_queries_at_random_give_duckdbs_answer(chunk: int) -> None:
    sql = loaded(chunk, nodes=4 if chunk % 4 == 0 else 2)
    asked = 0

    @seed(chunk)
    @settings(
        max_examples=QUERIES_A_CHUNK,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        # The message has the whole query; making it smaller would take as long as the run.
        phases=(Phase.generate,),
    )
    @given(queries())
    def run(query: tuple[str, bool]) -> None:
        nonlocal asked
        asked += 1
        text, ordered = query
        sql.check(text, ordered)

    run()
    assert asked >= QUERIES_A_CHUNK
