"""The epochs of a continuous query on their way to a client: whose rows they are, and an account behind each.

Rows come behind a mark that says how many they are (`query.dataflow.marks`); with the last of them goes the account of
that epoch: how many nodes' data is in it, of how many that were asked, and whether it revises an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from pier_node.protocol.messages import Account as WireAccount
from query.causes import Cause, added, cause_of, loses_rows
from query.dataflow.marks import Mark
from query.engine.absentees import NOBODY, Absentees

REVISED = "revised: data came late"


def _notes(mark: Mark, missing: int, asked: int, absent: Absentees) -> Iterator[str]:
    """What there is to say of an epoch: why it is not whole, what it replaces, what is not there at all."""
    if mark.revision:
        yield REVISED
    if missing:
        yield f"{missing} of {asked} nodes are missing from the epoch"
    if absent.lacking:
        yield absent.text()
    for number, count in mark.causes.items():
        if count and cause_of(number).loses_rows:
            yield f"{cause_of(number).words}: {count}"
    if mark.skipped:
        yield f"epochs left out before this one: {mark.skipped}; the client was too slow for them"


class Epochs:
    """Which epoch the rows at hand belong to."""

    def __init__(self, tell: Callable[[WireAccount], None]) -> None:
        self._tell = tell
        self._mark: Mark | None = None
        self._left = 0
        self._asked = 0
        self._absent = NOBODY
        self._query = ""
        self._last: WireAccount | None = None

    @property
    def current(self) -> int | None:
        """The epoch of the rows that come next; None outside of one."""
        return None if self._mark is None else self._mark.epoch

    def begin(self, mark: Mark, query: str, asked: int, elapsed_s: float, absent: Absentees = NOBODY) -> None:
        self._mark, self._left, self._absent = mark, mark.rows, absent
        self._query, self._asked = query, max(asked, mark.nodes)
        self.took(0, elapsed_s)

    def took(self, rows: int, elapsed_s: float) -> None:
        """Rows of the epoch have gone to the client; behind the last goes the account."""
        self._left -= rows
        if self._mark is None or self._left > 0:
            return
        mark, self._mark = self._mark, None
        missing, absent = self._asked - mark.nodes, self._absent
        causes = added(mark.causes, {Cause.ABSENT.number: absent.lacking})
        self._last = WireAccount(
            query=self._query,
            asked=self._asked,
            answered=mark.nodes,
            failed=missing,
            rows=mark.rows,
            elapsed_s=round(elapsed_s, 6),
            ended="partial" if missing or loses_rows(causes) else "complete",
            epoch=mark.epoch,
            revision=mark.revision,
            notes=tuple(_notes(mark, missing, self._asked, absent)),
            causes={cause_of(number).name.lower(): count for number, count in causes.items() if count},
            absent=absent.count,
            absent_hosts=absent.names,
        )
        self._tell(self._last)

    def closed(self, account: WireAccount) -> WireAccount:
        """The account of the whole query. When it ends before its nodes have reported, what is known of them is what
        the last epoch said."""
        if account.asked or self._last is None:
            return account
        last = self._last
        return msgspec.structs.replace(account, asked=last.asked, answered=last.answered, failed=last.failed)
