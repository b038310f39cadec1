"""Who answered: every answer ends with one of these.

Each node that was asked is in exactly one of four places, by whose data is in the answer:

answered     rows of its own, or states made of them, left it towards the answer: as results, up a tree, to another node
             or into the ring. Whether they find a partner in a join or a place above a LIMIT further on is not asked.
             Its own are the rows of its sources, those that it holds of published tables, those it fetched, those the
             query spells out; not such as other nodes sent it for this query.
empty        it took part to the end and had nothing that passed.
failed       it gave up with an error, came to a limit before it gave anything, or fell silent.
unreachable  it was known and never got the query.

So `asked = answered + empty + failed + unreachable`, always. Members that should have been on the ring and were not
are a number of their own: `asked + absent` were expected. How the query ended is another matter: a node whose rows came
before a limit or a cancellation has answered. When a query is cancelled, those that had not said how it
went by then are not counted as asked; when its time is up they have failed.

`ended` follows from causes (`query.causes`) and these numbers alone:

failed       the asker could not carry it through.
cancelled    somebody ended it.
limit        a limit ended some of it: `Cause.LIMIT`.
partial      a node is missing, or a cause that loses rows has a count.
complete     none of these.

Whatever is not complete says why, in a cause or a missing node, and in words.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from overlay.spread.account import Account as Coverage
from query.causes import Cause, WireCauses, added, cause_of, loses_rows
from query.engine.absentees import NOBODY, Absentees
from query.engine.spec import Report

#: Nodes that took part without being counted when the query went out: a few, while parts of a ring become one. More is
#: a member's invention.
UNSEEN_MAX = 16


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
    #: complete, partial, limit, cancelled, failed: see above.
    ended: str = "complete"
    #: Why rows are not in the answer, or why it ended, with how often; also what loses nothing, as rows that did
    #: not fit.
    causes: dict[Cause, int] = field(default_factory=dict)
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


def best_known(earlier: Report, cut: Report) -> Report:
    """How a query stands whose last stage was cut short: nodes that had answered before have not failed since."""
    if cut.answered + cut.empty >= earlier.answered + earlier.empty:
        return cut
    causes = {
        number: max(earlier.causes.get(number, 0), cut.causes.get(number, 0))
        for number in (*earlier.causes, *cut.causes)
    }
    return msgspec.structs.replace(earlier, causes=causes)


def settled(
    query: str,
    first: Coverage,
    last: Report,
    errors: tuple[str, ...],
    rows: int,
    elapsed_s: float,
    ended: str,
    owners: int = 0,
    gave: int = 0,
    takes_all: bool = True,
    absent: Absentees = NOBODY,
) -> Account:
    """The account of a query whose first spread reached `first` and whose last stage reported `last`; its partition
    groups are held by so many `owners`, so many nodes `gave` rows before they said how it went, and its plan
    `takes_all` that is put.

    A node that answered the first stage and is not in the last report has failed on the way. Rows that no node could
    be made to take are missing from the answer although every node did its part: that is no complete answer either. Nor
    is one whose rows went in part to a node that was not asked, as happens while two parts of a ring become one."""
    gave = max(0, gave - last.failed)
    # A node of which the tree of the first call lost sight, and which took part all the same, was asked like any other.
    unseen = min(max(0, last.answered + last.empty - first.received), UNSEEN_MAX)
    asked = max(first.received + unseen, gave) + first.unreachable
    done = max(min(last.answered + last.empty, first.received + unseen), gave)
    answered = max(min(last.answered, done), gave)
    missing = asked - done
    unreachable = min(first.unreachable, missing)
    causes, words = dict(last.causes), dict.fromkeys(errors)
    if ended == "complete":
        causes, said = _with_losses(last, first, rows, missing, owners, takes_all)
        words.update(dict.fromkeys(said))
        if causes.get(Cause.LIMIT.number):
            ended = "limit"
        elif missing or loses_rows(causes):
            ended = "partial"
    if missing and ended != "cancelled":
        words[f"{missing} of {asked} nodes are missing from the answer"] = None
    return Account(
        query=query,
        asked=asked,
        answered=answered,
        empty=done - answered,
        failed=missing - unreachable,
        unreachable=unreachable,
        rows=rows,
        result_bytes=last.bytes,
        elapsed_s=elapsed_s,
        ended=ended,
        causes={cause_of(number): count for number, count in causes.items() if count > 0},
        dropped=dict(last.dropped),
        errors=tuple(words),
        hints=tuple(_hint(column, nodes, asked, close) for column, (nodes, close) in last.missing.items()),
        missing_nodes=first.failed_nodes + first.unreachable_nodes,
        absent=absent.count,
        absent_hosts=absent.names,
    )


def _with_losses(
    last: Report, first: Coverage, rows: int, missing: int, owners: int, takes_all: bool
) -> tuple[WireCauses, list[str]]:
    """What the reports together show to be lost, beside what each of them says; with words for all that is."""
    causes, words = dict(last.causes), []
    if first.uncovered:
        causes = added(causes, {Cause.UNOWNED.number: first.uncovered})
    untaken = last.sent - last.received
    if takes_all and untaken > 0 and not missing and not last.sated:
        causes = added(causes, {Cause.NOT_TAKEN.number: untaken})
        strangers = max(0, owners - last.holders)
        if strangers:
            words.append(f"{strangers} of {owners} nodes that rows were sent to took no part; ask again")
    if rows < last.rows and not missing:
        causes = added(causes, {Cause.NOT_DELIVERED.number: last.rows - rows})
    for number, count in causes.items():
        cause = cause_of(number)
        if count > 0 and cause.loses_rows and cause not in _TOLD:
            words.append(f"{cause.words}: {count}")
    return causes, words


#: Causes for which whoever notes them has words of its own.
_TOLD = (Cause.LIMIT, Cause.ERROR, Cause.CANCELLED, Cause.ABSENT)
