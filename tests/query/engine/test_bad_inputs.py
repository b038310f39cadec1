"""Every bad question gets its words, hurts nobody else, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pytest

from pier_node.engine.service import QueryService
from pier_node.protocol.messages import Account
from pier_node.service import Failure, QueryRequest
from query.batch import from_pydict
from query.dataflow.budget import Limits
from tests.query.engine.bad_inputs import BAD, DIVISION, Bad, query
from tests.query.engine.cluster import Cluster

NODES = 4
LIMITS = Limits(time_s=30.0, memory_bytes=64 << 20, rows=200_000, steps=2_000)
GOOD = query("%operator(m) { type = dupelim sources[0] = s }")
DOCS = Path(__file__).parents[3] / "docs" / "ufl.md"


class Client:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.rows = 0
        self.account: Account | None = None
        self.failure: Failure | None = None

    def batch(self, table: str, batch: pa.RecordBatch, epoch: int | None = None) -> bool:
        self.rows += batch.num_rows
        return True

    def ready(self) -> bool:
        return True

    def on_ready(self, handler: Callable[[], None]) -> None:
        """It is always ready."""

    def progress(self, asked: int, answered: int, rows: int, elapsed_s: float) -> None:
        """Seen."""

    def epoch_account(self, account: Account) -> None:
        raise AssertionError("no epochs here")

    def tap(self, node: str, operator: str, text: str) -> None:
        """Seen."""

    def finish(self, account: Account) -> None:
        assert self.account is None and self.failure is None
        self.account = account

    def fail(self, failure: Failure) -> None:
        assert self.account is None and self.failure is None
        self.failure = failure


@lru_cache
def nodes() -> tuple[Cluster, QueryService]:
    cluster = Cluster(NODES)
    cluster.load("fw", [from_pydict("fw", {"src": ["a", "b"], "dpt": [22, 80 + n]}) for n in range(8)])
    return cluster, QueryService(cluster.hosts[1].runtime, cluster.nodes[1], LIMITS)


def ask(text: str) -> Client:
    cluster, service = nodes()
    client = Client()
    service.query(QueryRequest(text, "ufl"), client)
    until_s = cluster.world.now + 60.0
    while client.account is None and client.failure is None and cluster.world.now < until_s:
        cluster.world.run_for(0.1)
    assert client.account is not None or client.failure is not None, "no answer"
    return client


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.what)
def test_a_bad_question_gets_its_words_and_leaves_nothing(bad: Bad) -> None:
    client = ask(bad.text)
    if bad.outcome == "rejected":
        assert client.failure is not None and client.failure.kind == "syntax"
        assert bad.words in client.failure.message
        assert client.failure.position is not None and client.failure.position.line >= 1
        assert len(client.failure.message) < 2_000
    else:
        account = client.account
        assert account is not None
        assert account.asked == account.answered + account.empty + account.failed + account.unreachable
        said = account.dropped if bad.outcome == "dropped" else account.notes
        assert any(bad.words in text for text in said), (account.dropped, account.notes)
        assert account.ended == ("complete" if bad.outcome == "dropped" else "limit")
    cluster, _ = nodes()
    cluster.world.run_for(5.0)
    assert cluster.leftovers() == []
    assert not cluster.nodes[1].proxy.queries
    after = ask(GOOD)
    assert after.account is not None and (after.account.ended, after.account.asked) == ("complete", NODES)


def test_division_by_zero_is_null() -> None:
    client = ask(DIVISION)
    assert client.account is not None
    assert (client.rows, client.account.dropped) == (16, {})


def test_the_table_in_the_documentation_is_this_one() -> None:
    page = DOCS.read_text()
    missing = [bad.what for bad in BAD if f"| {bad.what} | {bad.outcome} | " not in page]
    assert not missing, missing
