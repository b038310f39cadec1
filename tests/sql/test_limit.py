"""ORDER BY with LIMIT k: no node sends more than k rows, counted on the wire."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from query.batch import Batch, from_pydict
from query.engine.messages import PeerBatch, ResultBatch
from query.wire import SchemaReceiver, decode
from tests.query.engine.cluster import Cluster
from ufl.sql import compile_sql

NODES, ROWS, LIMIT = 6, 500, 7


def sent(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Rows that leave each node from now on, by node."""
    rows: Counter[int] = Counter()
    numbers = {id(host.messenger): number for number, host in enumerate(cluster.hosts)}
    kind = type(cluster.hosts[0].messenger)
    send = kind.send

    def counted(self: Any, address: str, message: Any, *rest: Any) -> Any:
        number = numbers[id(self)]
        if isinstance(message, PeerBatch | ResultBatch) and address != cluster.hosts[number].address:
            batch = decode(message.payload, SchemaReceiver())
            assert isinstance(batch, Batch)
            rows[number] += batch.num_rows
        return send(self, address, message, *rest)

    monkeypatch.setattr(kind, "send", counted)
    return rows


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (f"SELECT n, v FROM t ORDER BY v DESC, n LIMIT {LIMIT}", LIMIT),
        (f"SELECT n FROM t WHERE v > 10 ORDER BY v, n LIMIT {LIMIT} OFFSET 3", LIMIT + 3),
        (f"SELECT n FROM t LIMIT {LIMIT}", LIMIT),
        (f"SELECT * FROM t ORDER BY n LIMIT {LIMIT}", LIMIT),
    ],
)
def test_no_node_sends_more_than_the_limit(text: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(NODES)
    cluster.load(
        "t",
        [
            from_pydict("t", {"n": list(range(at, at + ROWS)), "v": [n * 7919 % 1009 for n in range(ROWS)]})
            for at in range(0, NODES * ROWS, ROWS)
        ],
    )
    rows = sent(cluster, monkeypatch)
    answer = cluster.answer(compile_sql(text, "q", 0).plan)
    assert sum(batch.num_rows for batch in answer.batches) == LIMIT
    assert len(rows) == NODES - 1, "all nodes but the asker send"
    assert max(rows.values()) <= most
