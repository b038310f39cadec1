"""One query of one client: between the engine's proxy and the client's session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from pier_node.engine.epochs import Epochs
from pier_node.protocol.fields import BYTES_MAX
from pier_node.protocol.messages import Account as WireAccount
from pier_node.service import AnswerSink, Failure, QueryRequest
from query.batch import Batch
from query.dataflow.marks import mark_of
from query.engine.account import Account
from query.engine.messages import Remark
from query.engine.proxy import ProxyQuery
from runtime.api import Clock

#: Notes shown with an account: errors of nodes, then nodes that are missing.
MISSING_SHOWN = 16


class Asking(Protocol):
    """What has been started: one query, or one that is asked again and again."""

    def ready(self) -> None: ...

    def cancel(self, reason: str) -> None: ...

    def taps(self, on: bool, operators: tuple[str, ...]) -> None: ...


class Asked:
    """A running query: the engine's sink and the client's handle in one."""

    def __init__(
        self,
        request: QueryRequest,
        sink: AnswerSink,
        clock: Clock,
        over: Callable[[Asked, WireAccount | Failure], None],
    ) -> None:
        """`over` is told how it ended, before the client is."""
        self.request = request
        self._over = over
        self.rows_given = 0
        #: What the client should know about the answer, from before it ran.
        self.remarks: tuple[str, ...] = ()
        self._sink = sink
        self._clock = clock
        self._started_s = clock.now()
        self._query: Asking | None = None
        self.ended = False
        self._asked = self._answered = 0
        self._epochs = Epochs(sink.epoch_account)

    @property
    def age_s(self) -> float:
        return self._clock.now() - self._started_s

    def attach(self, query: Asking) -> None:
        """The query has started."""
        self._query = query
        self._sink.on_ready(query.ready)

    # -- for the engine

    def rows(self, batch: Batch) -> bool:
        mark = mark_of(batch)
        if mark is not None:
            assert isinstance(self._query, ProxyQuery), "marks come from a plan"
            self._asked = max(self._asked, mark.nodes)
            self._epochs.begin(mark, self._query.spec.id, self._asked, self.age_s, self._query.absent)
            return True
        self.rows_given += batch.num_rows
        ready = self._sink.batch(batch.table, batch.data, self._epochs.current)
        self._epochs.took(batch.num_rows, self.age_s)
        self._progress()
        return ready

    def epoch(self, epoch: int, batches: list[Batch], account: WireAccount) -> None:
        """A whole epoch at once, of a query that is asked again and again."""
        for batch in batches:
            self.rows_given += batch.num_rows
            self._sink.batch(batch.table, batch.data, epoch)
        self._sink.epoch_account(account)

    def end(self, account: WireAccount) -> None:
        """The last word on the whole query."""
        account = msgspec.structs.replace(account, notes=(*account.notes, *self.remarks))
        self.ended = True
        self._over(self, account)
        self._sink.finish(account)

    def progress(self, asked: int, answered: int) -> None:
        self._asked, self._answered = asked, answered
        self._progress()

    def remark(self, remark: Remark) -> None:
        self._sink.tap(remark.node.hex(), remark.operator, f"{remark.kind}: {remark.text}")

    def finish(self, account: Account) -> None:
        # Marks of epochs came as rows, too, and are none.
        self.end(self._epochs.closed(msgspec.structs.replace(wire_account(account), rows=self.rows_given)))

    # -- for the client

    def cancel(self, reason: str) -> None:
        """At once, also while it is being planned: then nobody has been asked."""
        if self._query is not None:
            self._query.cancel(reason)
        elif not self.ended:
            self.end(
                WireAccount(query="", ended="cancelled", elapsed_s=round(self.age_s, 6), notes=(reason,))
            )

    def taps(self, on: bool, operators: tuple[str, ...]) -> None:
        if self._query is not None:
            self._query.taps(on, operators)

    def fail(self, failure: Failure) -> None:
        self.ended = True
        self._over(self, failure)
        self._sink.fail(failure)

    def _progress(self) -> None:
        self._sink.progress(self._asked, self._answered, self.rows_given, self.age_s)


def wire_account(account: Account) -> WireAccount:
    """An account as clients get it; what went wrong and who is missing become notes."""
    missing = [f"no answer from node {node.hex()}" for node in account.missing_nodes[:MISSING_SHOWN]]
    return WireAccount(
        query=account.query,
        asked=account.asked,
        answered=account.answered,
        empty=account.empty,
        failed=account.failed,
        unreachable=account.unreachable,
        rows=account.rows,
        bytes=min(account.result_bytes, BYTES_MAX),
        elapsed_s=round(account.elapsed_s, 6),
        ended=account.ended,
        dropped=account.dropped,
        notes=(*account.errors, *account.hints, *missing),
        absent=account.absent,
        absent_hosts=account.absent_hosts,
        causes={cause.name.lower(): count for cause, count in account.causes.items()},
    )
