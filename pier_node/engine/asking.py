"""One query of one client: between the engine's proxy and the client's session.

Invariant: the client gets exactly one last word, and gets it within the query's time and `WATCH_GRACE_S`, whatever
happens in the engine or on the way to it. A query ends by itself well before that; one that does not is a fault of
ours, and is given up here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from pier_node.engine.epochs import Epochs
from pier_node.protocol.fields import BYTES_MAX
from pier_node.protocol.messages import Account as WireAccount
from pier_node.service import AnswerSink, Failure, QueryRequest
from query.batch import Batch
from query.causes import Cause
from query.dataflow.marks import mark_of
from query.engine.account import Account
from query.engine.messages import Remark
from query.engine.proxy import GRACE_S, ProxyQuery
from runtime.api import Clock, Timer

#: Notes shown with an account: errors of nodes, then nodes that are missing.
MISSING_SHOWN = 16
#: What a query gets on top of its time before it is given up here: the engine takes GRACE_S of it to end it in order.
WATCH_GRACE_S = 2 * GRACE_S


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
        #: Empty while it is planned.
        self._id = ""
        self.ended = False
        self._asked = self._answered = 0
        self._epochs = Epochs(sink.epoch_account)
        self._watch: Timer | None = None

    def watch(self, time_s: float) -> None:
        """From now on it has so much time, and is given up a little later."""
        if self._watch is not None:
            self._watch.cancel()
        self._watch = None
        if not self.ended:
            self._watch = self._clock.call_later(time_s + WATCH_GRACE_S, self._overdue, time_s)

    def _overdue(self, time_s: float) -> None:
        if self.ended:
            return
        reason = f"limit time_s = {time_s:g} was over {WATCH_GRACE_S:g} s ago and the query had not ended: given up"
        missing = max(0, self._asked - self._answered)
        account = WireAccount(
            query=self._id,
            asked=self._asked,
            answered=self._asked - missing,
            failed=missing,
            rows=self.rows_given,
            elapsed_s=round(self.age_s, 6),
            ended="limit",
            notes=(reason,),
        )
        # The client first: what is broken inside may be so broken that it cannot even be cancelled.
        self.end(account)
        if self._query is not None:
            self._query.cancel(reason)

    @property
    def age_s(self) -> float:
        return self._clock.now() - self._started_s

    def attach(self, query: Asking, query_id: str) -> None:
        """The query has started."""
        self._query, self._id = query, query_id
        self._sink.on_ready(query.ready)

    # -- for the engine

    def rows(self, batch: Batch) -> bool:
        if self.ended:
            return True
        mark = mark_of(batch)
        if mark is not None:
            assert isinstance(self._query, ProxyQuery), "marks come from a plan"
            expected = self._query.expected
            self._asked = max(self._asked, mark.nodes, expected or 0)
            if expected is None:
                mark = mark.lacking(Cause.UNCOUNTED)
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
        """The last word on the whole query; what comes behind it goes nowhere."""
        if self.ended:
            return
        account = msgspec.structs.replace(account, notes=(*account.notes, *self.remarks))
        self._ends()
        self._over(self, account)
        self._sink.finish(account)

    def _ends(self) -> None:
        self.ended = True
        if self._watch is not None:
            self._watch.cancel()

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
        if self.ended:
            return
        self._ends()
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
