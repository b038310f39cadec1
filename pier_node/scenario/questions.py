"""Questions whose right answers are known from outside, whatever happens to the nodes, and who judges the answers.

Every node has the same rows of a table `TABLE`, but for one column that has the node's own number. So an answer's
account says how many rows there must be: as many as that many nodes have. An answer that calls itself complete has
exactly those, and none has more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from pier_node.engine.service import PLAN_S, SPREAD_S
from pier_node.protocol.messages import Account
from pier_node.service import Failure, QueryHandle
from pier_node.sources.static import StaticTable

TABLE = "rows"
GROUPS = 5
#: Of each node: so many rows of each group.
ROWS_PER_GROUP = 2
#: Continuous queries: an epoch so often, so many of them.
EVERY_S, EPOCHS = 10, 4
#: What a query may take beyond its limit of time: the grace in which nodes that ran out of it say so, and a timer's
#: turn on a host that is slow or whose clock drifts.
SLACK_S = 7.0


@dataclass(frozen=True, slots=True)
class Question:
    """Asks for a count, in one row or several; each node adds so much to it."""

    name: str
    text: str
    per_node: int
    #: How often it is asked, in proportion to the others.
    share: int
    epochs: bool = False
    #: A node's rows are in the answer with its report, or not at all: they go nowhere else on the way.
    adds_up: bool = False

    def time_s(self, limit_s: float) -> float:
        """When it must have ended at the latest. The time of a continuous query runs from when it is planned."""
        lasts_s = PLAN_S + EVERY_S * (EPOCHS + 2) + SPREAD_S if self.epochs else limit_s
        return lasts_s + SLACK_S


ROWS = GROUPS * ROWS_PER_GROUP
QUESTIONS = (
    Question("count", f"SELECT count(*) AS n FROM {TABLE}", ROWS, 4, adds_up=True),
    Question("groups", f"SELECT g, count(*) AS n FROM {TABLE} GROUP BY g", ROWS, 3),
    # Rows meet at the owners of their keys: each of a node's with each of the same node's.
    Question(
        "join",
        f"SELECT count(*) AS n FROM {TABLE} a JOIN {TABLE} b ON a.node = b.node WHERE a.g = 0 AND b.g = 0",
        ROWS_PER_GROUP**2,
        2,
    ),
    Question(
        "epochs",
        f"SELECT count(*) AS n FROM {TABLE} EVERY '{EVERY_S} seconds' FOR '{EVERY_S * EPOCHS} seconds'",
        ROWS,
        1,
        epochs=True,
    ),
)
DRAWN = tuple(question for question in QUESTIONS for _ in range(question.share))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one node, as a reader of them."""

    rows: pa.RecordBatch

    def schema(self) -> pa.Schema:
        return self.rows.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield self.rows


def table_of(node: int, rows: int = ROWS) -> StaticTable:
    """The table as one node has it; with fewer rows than it should have, to see whether the judges notice."""
    columns = {"g": [n % GROUPS for n in range(rows)], "node": pa.array([node] * rows, pa.int64())}
    return StaticTable(TABLE, _Rows(pa.record_batch(columns)))


class Asked:
    """One question on its way: takes the answer as a client does, and judges it.

    `complain(kind, text)` hears what is wrong; `over` how it ended, once."""

    def __init__(
        self,
        question: Question,
        now: Callable[[], float],
        limit_s: float,
        complain: Callable[[str, str], None],
        over: Callable[[Asked, str], None],
    ) -> None:
        self.question = question
        self.handle: QueryHandle | None = None
        self.ended = ""
        #: When the client changed its mind; and whether somebody has cancelled it elsewhere, of which the node that was
        #: asked may never hear if it is cut off.
        self.cancelled_at: float | None = None
        self.may_be_cancelled = False
        self._now = now
        self._asked_at = now()
        self._until = self._asked_at + question.time_s(limit_s)
        self._complain = complain
        self._over = over
        self._counted = 0

    @property
    def age_s(self) -> float:
        return self._now() - self._asked_at

    def is_late(self) -> bool:
        """A client that has changed its mind does not wait for the limit."""
        until = self._until if self.cancelled_at is None else min(self._until, self.cancelled_at + SLACK_S)
        return not self.ended and self._now() > until

    # -- the client

    def batch(self, table: str, batch: pa.RecordBatch, epoch: int | None = None) -> bool:
        self._counted += sum(batch.column("n").to_pylist())
        return True

    def ready(self) -> bool:
        return True

    def on_ready(self, handler: Callable[[], None]) -> None:
        """It is never behind."""

    def progress(self, asked: int, answered: int, rows: int, elapsed_s: float) -> None:
        """Nobody watches."""

    def tap(self, node: str, operator: str, text: str) -> None:
        """Nobody listens."""

    def epoch_account(self, account: Account) -> None:
        """An epoch says how many nodes' data is in it: it has the rows of just those."""
        counted, self._counted = self._counted, 0
        self._adds_up(account)
        expected = self.question.per_node * account.answered
        if account.rows and counted != expected:
            self._complain("answers", f"{counted} and not {expected} in an epoch: {account}")

    def finish(self, account: Account) -> None:
        late = self.is_late()
        self._end(account.ended)
        self._adds_up(account)
        if late:
            self._complain("budgets", f"{self.question.name} took {self.age_s:.1f} s: {account}")
        cancelled = account.ended == "cancelled"
        if cancelled != (self.cancelled_at is not None) and not (cancelled and self.may_be_cancelled):
            self._complain("cancels", f"cancelled at {self.cancelled_at}: {account}")
        self.judge(account)

    def judge(self, account: Account) -> None:
        """Whether the answer is what its account says."""
        if self.question.epochs:
            return
        expected = self.question.per_node * account.asked
        if account.ended == "complete" and self._counted < expected:
            self._complain(
                "answers", f"{self._counted} and not {expected} of {self.question.name}: {account}"
            )
        if self._counted > expected:
            self._complain("answers", f"{self._counted} of nodes that are not counted: {account}")
        self._tells_who_answered(account)

    def _tells_who_answered(self, account: Account) -> None:
        """*Answered* are the nodes of which rows, or states made of them, went into the answer. Every node has rows, so
        in a complete one that is all of them; and in a count, complete or not, just those that were counted."""
        if account.ended == "complete" and (account.answered, account.empty) != (account.asked, 0):
            self._complain("accounts", f"all have rows, and some are said to have none: {account}")
        counted = self.question.per_node * account.answered
        if self.question.adds_up and account.ended in ("complete", "partial") and self._counted != counted:
            self._complain("accounts", f"{self._counted} and not {counted} of those that answered: {account}")

    def fail(self, failure: Failure) -> None:
        """Nothing here is the author's fault."""
        self._end("failed")
        self._complain("failures", f"{self.question.name}: {failure.kind}: {failure.message}")

    def _adds_up(self, account: Account) -> None:
        parts = account.answered + account.empty + account.failed + account.unreachable
        if account.asked != parts:
            self._complain("accounts", f"{account.asked} asked are not {parts}: {account}")

    def _end(self, how: str) -> None:
        if self.ended:
            self._complain("accounts", f"a query that had ended {self.ended} ended again: {how}")
        self.ended = how
        self._over(self, how)
