"""Who answered (row Q12): every answer ends with one of these.

Each node that was asked is in exactly one of four places: it answered with rows, it answered that it had none, it
failed (an error, a limit, or it fell silent), or it could not be reached. So
`asked = answered + empty + failed + unreachable`, always. Members that should have been on the ring and were not are a
number of their own: `asked + absent` were expected.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from overlay.spread.account import Account as Coverage
from query.causes import loses_rows
from query.engine.absentees import NOBODY, Absentees
from query.engine.spec import Report


@dataclass(frozen=True, slots=True)
class Account:
    """How a query went."""

    query: str
    asked: int = 0
    answered: int = 0
    empty: int = 0
    failed: int = 0
    unreachable: int = 0
    #: Rows the asker was given, and their bytes on the wire.
    rows: int = 0
    result_bytes: int = 0
    elapsed_s: float = 0.0
    #: complete, partial (a node failed or was not reached, or rows were lost between nodes), cancelled, limit, failed.
    ended: str = "complete"
    #: Rows that could not be processed, by operator and reason.
    dropped: dict[str, int] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    #: What the author may have meant: columns that rows lacked.
    hints: tuple[str, ...] = ()
    #: Ids of nodes that failed or were not reached, as far as they fit.
    missing_nodes: tuple[bytes, ...] = ()
    #: Members that were expected and not on the ring, beside those asked; and their names as far as they fit.
    absent: int = 0
    absent_hosts: tuple[str, ...] = ()


def _hint(column: str, nodes: int, asked: int, close: str) -> str:
    table, _, name = column.partition(" ")
    meant = f"; did you mean `{close}`?" if close else ""
    return f"column `{name}` not in {table} on {nodes} of {asked} nodes{meant}"


def settled(
    query: str,
    first: Coverage,
    last: Report,
    errors: tuple[str, ...],
    rows: int,
    elapsed_s: float,
    ended: str,
    owners: int = 0,
    absent: Absentees = NOBODY,
) -> Account:
    """The account of a query whose first spread reached `first` and whose last stage reported `last`; its partition
    groups are held by so many `owners`.

    A node that answered the first stage and is not in the last report has failed on the way. Rows that no node could
    be made to take are missing from the answer although every node did its part: that is no complete answer either. Nor
    is one whose rows went in part to a node that was not asked, as happens while two parts of a ring become one."""
    asked = first.received + first.unreachable
    done = min(last.answered + last.empty, first.received)
    empty = min(last.empty, done)
    missing = asked - done
    unreachable = min(first.unreachable, missing)
    lost = loses_rows(last.causes)
    strangers = max(0, owners - last.holders) if last.received < last.sent else 0
    if ended == "complete" and (missing or first.uncovered or lost or strangers):
        ended = "partial"
        if strangers and not missing:
            errors = (
                *errors,
                f"{strangers} of {owners} nodes that rows were sent to took no part; ask again",
            )
    return Account(
        query=query,
        asked=asked,
        answered=done - empty,
        empty=empty,
        failed=missing - unreachable,
        unreachable=unreachable,
        rows=rows,
        result_bytes=last.bytes,
        elapsed_s=elapsed_s,
        ended=ended,
        dropped=dict(last.dropped),
        errors=errors,
        hints=tuple(_hint(column, nodes, asked, close) for column, (nodes, close) in last.missing.items()),
        missing_nodes=first.failed_nodes + first.unreachable_nodes,
        absent=absent.count,
        absent_hosts=absent.names,
    )
