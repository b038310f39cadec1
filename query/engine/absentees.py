"""Members that a query lacks: expected by the roster, and not on the ring when it was asked.

A spread counts them where nobody was asked (`overlay.spread`); the asker's roster has their names and the tables they
bring. The rule by which an answer is partial for it: an absent member may have had rows for a query that reads a table
which the member brings, or anything that lies in the ring itself, published rows and indexes, of which any member may
keep a part or be the publisher. A query that only reads tables which no absent member brings is whole without them.
A member of which the asker's roster knows nothing yet may have had anything. Where the asker fetches from the ring
by itself, no spread has looked who is there: whoever is lost by the word of its neighbours is absent then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from overlay.roster.book import Book
from overlay.roster.member import Member
from overlay.spread.account import Account as Coverage
from query.dataflow.registry import find
from query.dataflow.settings import read
from query.dataflow.source import Lies, Source
from query.engine.stages import namespace_of
from query.plan import Plan

#: Members that an account names; more are counted.
NAMED_MAX = 16
#: Of an id of 40 digits: enough to tell members apart.
ID_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Reading:
    """What a plan reads that is not its own."""

    #: Tables that nodes bring.
    tables: frozenset[str] = frozenset()
    #: Whether it reads what any member may keep, and whether the asker fetches that alone.
    ring: bool = False
    fetched: bool = False

    def lacks(self, member: Member | None) -> bool:
        """Whether a member that is not there may have had rows for it."""
        if self.ring or (member is None and self.tables):
            return True
        return member is not None and (
            (member.more_tables and bool(self.tables)) or not self.tables.isdisjoint(member.tables)
        )


def reading_of(plan: Plan) -> Reading:
    """What the plan's scans read. What the asker reads for itself lies on no other node; what one opgraph puts for
    another comes from the other's scans."""
    puts = {
        namespace_of(operator)
        for opgraph in plan.opgraphs
        for operator in opgraph.operators
        if operator.type == "put"
    }
    tables: set[str] = set()
    ring = fetched = False
    for opgraph in plan.opgraphs:
        for operator in opgraph.operators:
            kind = find(operator.type, operator.implementation)
            if kind is None or not issubclass(kind, Source) or namespace_of(operator) in puts - {None}:
                continue
            alone = opgraph.settings.get("at") == "asker"
            if kind.LIES is Lies.NODE and not alone:
                tables.add(read(kind.OPTIONS, operator.settings)["table"])
            ring = ring or kind.LIES is Lies.RING
            fetched = fetched or (alone and kind.LIES is Lies.RING)
    return Reading(frozenset(tables), ring, fetched)


@dataclass(frozen=True, slots=True)
class Absentees:
    """Members that were expected where a query went and were not there."""

    count: int = 0
    #: Those of them that may have had rows for it.
    lacking: int = 0
    #: Host names and ids of the latter, and of the others behind them, as far as they fit.
    names: tuple[str, ...] = ()

    def text(self) -> str:
        """For people: who is lacking."""
        named = self.names[: min(self.lacking, NAMED_MAX)]
        more = f" and {self.lacking - len(named)} more" if self.lacking > len(named) else ""
        verb = "was" if self.lacking == 1 else "were"
        return f"expected and {verb} not on the ring: {', '.join(named)}{more} (pier members)"


NOBODY = Absentees()


class Roll:
    """Calls the roll for queries, by the roster of the asker; without one nobody is missed."""

    def __init__(self, book: Book | None = None) -> None:
        self._book = book

    @property
    def expected(self) -> int:
        """How many members should be on the ring, as far as the asker has heard."""
        return 0 if self._book is None else self._book.expected

    def of(self, plan: Plan) -> Callable[[Coverage], Absentees]:
        """What tells who is lacking to a query with this plan, of what a spread of it has covered."""
        if self._book is None:
            return lambda coverage: NOBODY
        return partial(absentees, reading=reading_of(plan), book=self._book)


def absentees(coverage: Coverage, reading: Reading, book: Book) -> Absentees:
    """Who of those that a spread has found absent is lacking. One that was asked after all, and did not answer, is
    counted there."""
    asked = {*coverage.failed_nodes, *coverage.unreachable_nodes}
    found = (*coverage.absent_nodes, *(book.lost() if reading.fetched else ()))
    absent = list(dict.fromkeys(each for each in found if each not in asked))
    unnamed = coverage.absent - len(coverage.absent_nodes)
    if not absent and not unnamed:
        return NOBODY
    members = [(each, kept.member if (kept := book.get(each)) else None) for each in absent]
    lacking = [pair for pair in members if reading.lacks(pair[1])]
    others = [pair for pair in members if pair not in lacking]
    names = tuple(_name(*pair) for pair in (*lacking, *others)[:NAMED_MAX])
    may = unnamed if reading.ring or reading.tables else 0
    return Absentees(len(absent) + unnamed, len(lacking) + may, names)


def _name(node_id: bytes, member: Member | None) -> str:
    short = node_id.hex()[:ID_DIGITS]
    return f"{member.host} ({short})" if member is not None and member.host else short
