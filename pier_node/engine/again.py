"""A query that is asked as a whole in every epoch: for continuous queries that cannot be computed epoch by epoch, as
joins of whole tables.

Each epoch is a query of its own, with an account of its own; its rows are given on when it is complete. One that is not
complete when the next is due makes the next wait, and epochs that could not begin are counted. To the client and in
lists it is one query with one id; who cancels the query of an epoch, at whatever node, has cancelled it all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from pier_node.engine.asking import WATCH_GRACE_S, Asked, wire_account
from pier_node.service import Failure
from query.batch import Batch
from query.causes import Cause
from query.engine.account import Account
from query.engine.messages import Remark
from query.engine.proxy import ProxyQuery, Sink
from runtime.api import Clock, Timer
from ufl.sql import Repetition

#: Bytes of one epoch's answer that are kept until it is complete.
EPOCH_BYTES_MAX = 64 << 20
SKIPPED = "epochs left out: the query took longer than EVERY"

Submit: TypeAlias = Callable[[Sink, Callable[[ProxyQuery | Failure], None]], None]


class Again:
    """Asks, waits until the next epoch, asks again; until its time is over or it is cancelled."""

    def __init__(
        self,
        query_id: str,
        clock: Clock,
        repetition: Repetition,
        asked: Asked,
        submit: Submit,
        epoch_s: float,
        lasting_s: float,
    ) -> None:
        """`submit` plans the query anew and starts it, or says why it cannot: each epoch has namespaces of its own,
        and tables may have come since the last. The query of one epoch has `epoch_s`, all of
        them `lasting_s`."""
        self._epoch_s, self._lasting_s = epoch_s, lasting_s
        self._watch: Timer | None = None
        self._id = query_id
        self._clock = clock
        self._repetition = repetition
        self._asked = asked
        self._submit = submit
        self._began_s = clock.now()
        self._epoch = -1
        #: Epochs that could not begin: in all, and right before the one that runs.
        self._skipped = self._left_out = 0
        self._query: ProxyQuery | None = None
        self._last = Account("")
        self._timer: Timer | None = None
        self._ended = ""

    def begin(self, _: None = None) -> None:
        """The next epoch that is due."""
        self._timer = None
        age_s = self._clock.now() - self._began_s
        if age_s >= self._lasting_s:
            self._ended = f"limit time_s = {self._lasting_s:g} reached; raise it with --limit time_s=…"
            self._finish("limit")
            return
        elapsed = int(age_s / self._repetition.every_s + 1e-9)
        self._left_out = max(0, elapsed - self._epoch - 1)
        self._skipped += self._left_out
        self._epoch = max(elapsed, self._epoch + 1)
        epoch_s = min(self._epoch_s, self._lasting_s - age_s)
        self._watch = self._clock.call_later(epoch_s + WATCH_GRACE_S, self._overdue, self._epoch)
        self._submit(_Epoch(self, self._epoch), self._began)

    def _began(self, query: ProxyQuery | Failure) -> None:
        if isinstance(query, Failure):
            if self._epoch == 0:
                self._asked.fail(query)
            else:
                self._ended = query.message
                self._finish("failed")
            return
        self._query = query
        if self._ended:
            query.cancel(self._ended)

    def _overdue(self, epoch: int) -> None:
        """An epoch that has not ended by then never will."""
        self._ended = (
            f"limit time_s = {self._epoch_s:g} was over in epoch {epoch} and it had not ended: given up"
        )
        self._finish("limit")
        if self._query is not None:
            self._query.cancel(self._ended)

    def ready(self) -> None:
        """Rows of an epoch are held anyway; nothing waits for the client."""

    def cancel(self, reason: str) -> None:
        self._ended = self._ended or reason
        if self._timer is not None:
            self._timer.cancel()
            self._finish("cancelled")
        elif self._query is not None:
            self._query.cancel(reason)

    def taps(self, on: bool, operators: tuple[str, ...]) -> None:
        if self._query is not None:
            self._query.taps(on, operators)

    def over(self, epoch: int, batches: list[Batch], account: Account) -> None:
        """An epoch has its answer."""
        if self._watch is not None:
            self._watch.cancel()
        self._last = account
        if self._ended or account.ended in ("failed", "limit", "cancelled"):
            self._finish("cancelled" if self._ended else account.ended)
            return
        told = msgspec.structs.replace(wire_account(account), query=self._id, epoch=epoch)
        if self._left_out:
            told = msgspec.structs.replace(told, notes=(*told.notes, f"{SKIPPED}: {self._left_out}"))
        self._asked.epoch(epoch, batches, told)
        count = self._repetition.epochs
        if count is not None and epoch + 1 >= count:
            self._finish("complete")
            return
        due_s = self._began_s + min((epoch + 1) * self._repetition.every_s, self._lasting_s)
        self._timer = self._clock.call_later(max(0.0, due_s - self._clock.now()), self.begin, None)

    def _finish(self, ended: str) -> None:
        if self._watch is not None:
            self._watch.cancel()
        account = wire_account(self._last)
        notes = account.notes + ((self._ended,) if self._ended else ())
        dropped, causes = dict(account.dropped), dict(account.causes)
        if self._skipped:
            dropped[SKIPPED] = causes[Cause.SKIPPED.name.lower()] = self._skipped
            ended = "partial" if ended == "complete" else ended
        self._asked.end(
            msgspec.structs.replace(
                account,
                query=self._id,
                ended=ended,
                notes=tuple(dict.fromkeys(notes)),
                dropped=dropped,
                causes=causes,
                rows=self._asked.rows_given,
                elapsed_s=round(self._asked.age_s, 6),
            )
        )


class _Epoch:
    """The sink of one of its queries."""

    def __init__(self, owner: Again, epoch: int) -> None:
        self._owner = owner
        self._epoch = epoch
        self._batches: list[Batch] = []
        self._bytes = 0

    def rows(self, batch: Batch) -> bool:
        self._bytes += batch.nbytes
        if self._bytes > EPOCH_BYTES_MAX:
            self._owner.cancel(f"limit {EPOCH_BYTES_MAX} bytes in the answer of one epoch reached")
        else:
            self._batches.append(batch)
        return True

    def progress(self, asked: int, answered: int) -> None:
        self._owner._asked.progress(asked, answered)

    def remark(self, remark: Remark) -> None:
        self._owner._asked.remark(remark)

    def finish(self, account: Account) -> None:
        self._owner.over(self._epoch, self._batches, account)
