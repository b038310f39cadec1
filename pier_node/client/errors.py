"""What can go wrong for a client.

PierError
├── ConnectFailed         the node could not be reached, or does not let us in
├── ConnectionLost        it hung up, or went silent
├── RequestFailed         one request failed; `kind`, `hint` and, for queries, `position` and `account`
│   ├── QueryRejected     the query's text is at fault: syntax, plan, unsupported
│   │   └── UnknownTable  it names a table that no node knows
│   ├── LimitReached      a budget or a bound; the message names it
│   ├── Refused           not there, or not in this state
│   │   └── Forbidden     the token does not allow it
│   ├── Unavailable       the node cannot do this, or not now
│   └── NodeFault         an error inside the node
└── AnswerIncomplete      a query has ended, and its answer is not whole; `account` says whose data is in it
    ├── AnswerPartial     nodes or rows are missing
    ├── AnswerLimited     a limit ended it
    ├── AnswerCancelled   somebody else cancelled it
    └── AnswerFailed      it could not be answered
"""

from __future__ import annotations

import pyarrow as pa

from pier_node.protocol.messages import Account, Failed, Position


class PierError(Exception):
    """Base of everything this client raises on its own account."""


class ConnectFailed(PierError):
    """The node could not be reached, or does not let us in."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ConnectionLost(PierError):
    """The connection ended with requests open."""


class RequestFailed(PierError):
    """A request failed; the node's own words."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.kind: str = failed.kind
        self.message: str = failed.message
        self.hint: str = failed.hint
        self.position: Position | None = failed.position
        self.account: Account | None = failed.account


class QueryRejected(RequestFailed):
    """The query's text is at fault."""


class UnknownTable(QueryRejected):
    """It names a table that no node knows."""


class LimitReached(RequestFailed):
    """A budget or a bound."""


class Refused(RequestFailed):
    """Not there, or not in this state."""


class Forbidden(Refused):
    """The token does not allow it."""


class Unavailable(RequestFailed):
    """The node cannot do this, or not now."""


class NodeFault(RequestFailed):
    """An error inside the node."""


class AnswerIncomplete(PierError):
    """A query has ended, and its answer is not whole. What came of it is in `table` where the whole answer was asked
    for at once; who iterated has it already."""

    def __init__(self, account: Account) -> None:
        asked = account.answered + account.empty + account.failed + account.unreachable
        whose = f"{account.answered + account.empty} of {asked} nodes answered"
        notes = "".join(f"; {note}" for note in account.notes[:NOTES_TOLD])
        super().__init__(f"the answer is not whole: {account.ended}, {whose}, {account.rows} rows{notes}")
        self.account: Account = account
        self.table: pa.Table | None = None


class AnswerPartial(AnswerIncomplete):
    """Nodes or rows are missing."""


class AnswerLimited(AnswerIncomplete):
    """A limit ended it."""


class AnswerCancelled(AnswerIncomplete):
    """Somebody else cancelled it."""


class AnswerFailed(AnswerIncomplete):
    """It could not be answered."""


#: Of an account's notes, in the words of an error.
NOTES_TOLD = 3
_BY_KIND: dict[str, type[RequestFailed]] = {
    "syntax": QueryRejected,
    "plan": QueryRejected,
    "unsupported": QueryRejected,
    "unknown_table": UnknownTable,
    "limit": LimitReached,
    "refused": Refused,
    "forbidden": Forbidden,
    "unavailable": Unavailable,
    "internal": NodeFault,
}


def error_of(failed: Failed) -> RequestFailed:
    return _BY_KIND.get(failed.kind, RequestFailed)(failed)


#: By the word with which an account says how its query ended; those that are no whole answer.
_BY_ENDING: dict[str, type[AnswerIncomplete]] = {
    "partial": AnswerPartial,
    "limit": AnswerLimited,
    "cancelled": AnswerCancelled,
    "failed": AnswerFailed,
}


def incomplete(account: Account, allow_partial: bool) -> AnswerIncomplete | None:
    """What is wrong with an answer that ended so; None when it is whole, or less than whole and that is accepted."""
    if account.ended == "complete":
        return None
    kind = _BY_ENDING.get(account.ended, AnswerFailed)
    return None if allow_partial and kind in (AnswerPartial, AnswerLimited) else kind(account)
