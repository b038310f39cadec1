"""Aggregates without GROUP BY go up the tree; states too large for it go straight to the asker."""

from __future__ import annotations

import pytest

from query.batch import from_pydict
from tests.query.engine.cluster import Cluster
from ufl.sql import compile_sql


@pytest.mark.parametrize("bytes_max", [256 << 10, 500])
def test_exact_distinct_values_are_counted_whatever_their_number(
    bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("query.engine.trees.CHANNEL_BYTES_MAX", bytes_max)
    cluster = Cluster(5)
    cluster.load(
        "fw", [from_pydict("fw", {"src": [f"s{n}" for n in range(at, at + 60)]}) for at in range(0, 600, 30)]
    )
    text = "SELECT count(*) n, count_distinct(src) d, max(src, 2) top FROM fw"
    answer = cluster.answer(compile_sql(text, "q1", 0).plan)
    assert answer.tuples() == [(1_200, 630, ["s99", "s99"])]
    assert answer.account is not None
    assert answer.account.ended == "complete"
    cluster.world.run_for(5.0)
    assert cluster.leftovers() == []
