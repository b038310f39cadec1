"""The roster: every node's own copy of who belongs to the ring, kept alike by comparing it with neighbours.

A member announces itself to its leaves when it has joined, with what it brings, and says goodbye when it leaves. From
there news travels by comparison: every minute a node shows a random neighbour one mark of its whole book; where the
marks differ the two find the parts that do, then the members, and tell each other what is missing. While there is news,
that is every two seconds for some rounds. So an idle ring pays a few bytes a minute and node, and every side of a
partition, down to a single node, knows whom to expect.

Whether a member is there this moment is not in the book: it would have to be told again and again. A spread finds
out: whoever covers a stretch of the ring, and asks nobody there, says which members it expects there (`Spread`).
What the book has is the word of a lost member's neighbours since when they miss it, from which on it is kept for a
configured time. One that is there all the same speaks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from overlay.ring import MASK, Arc, from_wire, to_wire
from overlay.roster.book import Book, Kept
from overlay.roster.config import RosterConfig
from overlay.roster.member import MARK_BYTES, Member, Profile, Standing, described
from overlay.roster.messages import BUCKETS, TOLD_MAX, RosterAsk, RosterMarks, RosterParts, RosterTell
from overlay.roster.namesakes import Namesakes
from overlay.router import Router
from overlay.spread.account import Account
from overlay.spread.branch import Branch
from overlay.spread.spread import Spread
from runtime.api import Address, Messenger, Runtime, Timer

#: Neighbours that are told straight away when this node speaks: those that may have its place when it is gone.
LEAVES_TOLD = 12
#: Gateways that a joining node asks for the roster.
GATEWAYS_ASKED = 3
#: Rounds at the quick period beyond those that double the knowing until they are all.
ROUNDS_MORE = 3
#: How long a namesake with a later life has to show itself before its record is taken for a stale one of ours.
NAMESAKE_S = 10.0
#: To find out who is there; to retire a member everywhere at once.
TOPIC_PRESENT = "roster-present"
TOPIC_RETIRE = "roster-retire"

_decode = msgspec.msgpack.Decoder(Member).decode
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class RosterStatistics:
    members: int
    expected: int
    lost: int
    asked: int
    exchanges: int
    told: int
    heard: int
    malformed: int
    refused: int
    forgotten: int
    spoken: int
    namesakes: int
    namesakes_unproven: int


@dataclass(frozen=True, slots=True)
class Present:
    """The book, and who of it was missing a moment ago."""

    members: tuple[Kept, ...]
    absent: frozenset[bytes]
    #: Whether the whole ring has answered.
    whole: bool


class Roster:
    """One node's copy."""

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        router: Router,
        spread: Spread,
        config: RosterConfig,
        namesakes: Namesakes,
    ) -> None:
        self.book = Book()
        self.namesakes = namesakes
        self._runtime = runtime
        self._messenger = messenger
        self._router = router
        self._spread = spread
        self._config = config
        self._rng = runtime.rng("roster")
        me = router.me
        self._me = me.id
        self._profile = Profile()
        self._own = Member(me.id, me.address, namesakes.began, 0)
        self._running = self._announced = self._left = False
        #: Quick comparisons that are left, and the next one's timer.
        self._rounds = 0
        self._next: Timer | None = None
        #: Members that were missing beside this node at the last look.
        self._missed: set[int] = set()
        self._asked = self._exchanges = self._told = self._heard = 0
        self._malformed = self._forgotten = self._spoken = 0
        messenger.on(RosterAsk, self._on_ask)
        messenger.on(RosterParts, self._on_parts)
        messenger.on(RosterMarks, self._on_marks)
        messenger.on(RosterTell, self._on_tell)
        spread.on_arrival(TOPIC_PRESENT, lambda branch: branch.reply())
        spread.on_arrival(TOPIC_RETIRE, self._on_retire)
        spread.expected = self.book
        router.on_arc(self._arc_changed)

    # -- the node's own

    def describe(self, profile: Profile) -> None:
        """What this node says of itself from now on."""
        if profile != self._profile:
            self._profile = profile
            if self._announced and not self._left:
                self._speak(Standing.HERE)

    def load(self, kept: Iterable[tuple[Member, float]]) -> None:
        """Takes up what was kept from an earlier life, with the wall times since when each member stood so."""
        wall = self._runtime.wall()
        for member, since in kept:
            self._take(msgspec.structs.replace(member, age_s=max(0, int(wall - since))))

    def begin(self, gateways: Sequence[Address] = ()) -> None:
        """The node starts a ring, or joins one through somebody who may be asked already."""
        for gateway in gateways[:GATEWAYS_ASKED]:
            self._ask(gateway)
        if not self._running:
            self._running = True
            self._news()
            self._later(self._config.review_period_s, self._review)

    def leave(self) -> None:
        """Tells all neighbours that this node is not to be expected any more."""
        if self._announced and not self._left:
            self._left = True
            self._speak(Standing.LEFT, [each.node.address for each in self._router.neighbours()])

    def withdraw(self) -> None:
        """Ends this node's part without a word: another life of its id goes on."""
        self._left = True

    def _arc_changed(self, old: Arc | None, new: Arc | None) -> None:
        if new is not None and not self._announced and not self._left:
            self._announced = True
            self._speak(Standing.HERE)

    def _speak(self, standing: Standing, to: Sequence[Address] | None = None) -> None:
        """Says how this node stands, over whatever is said of it."""
        held = self.book.get(self._me)
        own = self._own
        if held is not None and held.member.life == own.life:
            own = msgspec.structs.replace(own, word=max(own.word, held.member.word) + 1)
        elif held is not None and held.member.life > own.life:
            own = msgspec.structs.replace(own, life=held.member.life + 1, word=0)
        self._own = described(msgspec.structs.replace(own, standing=standing), self._profile)
        self._spoken += 1
        if self._take(self._own):
            self._news()
        for address in to if to is not None else self._leaves():
            self._told += 1
            self._messenger.send(address, RosterTell((self._own,)))

    def _leaves(self) -> list[Address]:
        return [leaf.address for leaf in self._router.replicas(LEAVES_TOLD)]

    # -- who is there

    def present(self, done: Callable[[Present], None]) -> None:
        """Asks the ring who is missing, and calls done with the book and those."""

        def counted(reply: bytes | None, coverage: Account) -> None:
            missing = {*coverage.absent_nodes, *coverage.failed_nodes, *coverage.unreachable_nodes}
            lost = set(self.book.lost())
            if coverage.absent <= len(coverage.absent_nodes):
                # All of them are named: who is not is there, whatever was said of it.
                lost &= missing
            done(Present(tuple(self.book), frozenset(missing | lost), coverage.uncovered == 0))

        self._spread.start(TOPIC_PRESENT, b"", counted)

    def retire(self, node_id: bytes, done: Callable[[bool], None]) -> None:
        """Tells every node that a member is not expected any more; done(whether all of them were told)."""
        held = self.book.get(node_id)
        if held is None:
            done(False)
            return
        retired = msgspec.structs.replace(held.member, standing=Standing.RETIRED, age_s=0)

        def told(reply: bytes | None, coverage: Account) -> None:
            done(coverage.complete)

        self._spread.start(TOPIC_RETIRE, _encode(retired), told)

    def _on_retire(self, branch: Branch) -> None:
        try:
            member = _decode(branch.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._malformed += 1
            branch.fail()
            return
        self._hear((member,))
        branch.reply()

    def _review(self, _: None) -> None:
        """Notes who is missing between this node and its neighbours, when that has lasted; forgets the long gone."""
        if self._left:
            return
        self._later(self._config.review_period_s, self._review)
        self._forgotten += self.book.expire(self._runtime.wall(), self._config.keep_s)
        gaps = self._gaps() if self._router.joined else []
        missing = {each for gap in gaps for each in self.book.expected_in(gap)}
        for each in sorted(missing & self._missed):
            kept = self.book.get(to_wire(each))
            if kept is not None and kept.member.standing is Standing.HERE:
                self._take(msgspec.structs.replace(kept.member, standing=Standing.LOST, age_s=0))
                self._news()
        self._missed = missing

    def _gaps(self) -> list[Arc]:
        """Between this node and its neighbours, those counted in that are silent and not given up."""
        me, place = from_wire(self._me), self._router.place()
        after_me = (me + 1) & MASK
        if place.before is None or place.after is None:
            return [Arc(after_me, me)]
        before, after = from_wire(place.before.id), from_wire(place.after.id)
        gaps = [Arc((before + 1) & MASK, me), Arc(after_me, after)]
        return [gap for gap in gaps if gap.start != gap.end]

    # -- comparing

    def _later(self, period_s: float, task: Callable[[None], None]) -> Timer:
        return self._runtime.call_later(period_s * (0.5 + self._rng.random()), task, None)

    def _news(self) -> None:
        """Something is new here: it is carried on, soon and some times."""
        calm = self._rounds == 0
        self._rounds = len(self.book).bit_length() + ROUNDS_MORE
        if self._running and calm:
            if self._next is not None:
                self._next.cancel()
            self._next = self._later(self._config.news_period_s, self._compare)

    def _compare(self, _: None) -> None:
        if self._left:
            return
        others = self._router.neighbours() if self._router.joined else []
        if others:
            self._ask(self._rng.choice(others).node.address)
            self._rounds = max(0, self._rounds - 1)
        period_s = self._config.news_period_s if self._rounds else self._config.period_s
        self._next = self._later(period_s, self._compare)

    def _ask(self, address: Address) -> None:
        self._asked += 1
        self._messenger.send(address, RosterAsk(self.book.mark()))

    def _on_ask(self, sender: Address, ask: RosterAsk) -> None:
        if ask.mark != self.book.mark():
            self._exchanges += 1
            self._messenger.send(sender, RosterParts(self.book.part_marks()))

    def _on_parts(self, sender: Address, parts: RosterParts) -> None:
        differing = self.book.differing(parts.marks)
        if differing:
            self._messenger.send(sender, RosterMarks(differing, self.book.marks_in(differing)))

    def _on_marks(self, sender: Address, marks: RosterMarks) -> None:
        parts = sorted(set(marks.parts))
        if len(marks.marks) % MARK_BYTES or any(part >= BUCKETS for part in parts):
            self._malformed += 1
            return
        lacking, unknown = self.book.compared(bytes(parts), marks.marks)
        self._tell(sender, lacking, unknown)

    def _tell(self, address: Address, kept: Sequence[Kept], wanted: bytes = b"") -> None:
        wall = self._runtime.wall()
        members = [
            msgspec.structs.replace(each.member, age_s=max(0, int(wall - each.since))) for each in kept
        ]
        self._told += len(members)
        for first in range(0, max(1, len(members)), TOLD_MAX):
            some = tuple(members[first : first + TOLD_MAX])
            if some or wanted:
                self._messenger.send(address, RosterTell(some, wanted))
            wanted = b""

    def _on_tell(self, sender: Address, tell: RosterTell) -> None:
        if len(tell.wanted) % MARK_BYTES:
            self._malformed += 1
            return
        behind = self._hear(tell.members)
        wanted = {kept.member.id: kept for kept in (*behind, *self.book.marked(tell.wanted))}
        if wanted:
            self._tell(sender, list(wanted.values()))

    def _hear(self, members: Sequence[Member]) -> list[Kept]:
        """Takes what is newer; returns what the teller is behind with."""
        behind: list[Kept] = []
        for member in members:
            held = self.book.get(member.id)
            if held is not None and member.rank < held.member.rank:
                behind.append(held)
            elif member.id == self._me and self._announced and not self._left:
                self._about_me(member)
            elif self._take(member):
                self._heard += 1
                self._news()
        return behind

    def _take(self, member: Member) -> bool:
        if member.standing is not Standing.HERE and member.age_s >= self._config.keep_s:
            return False
        return self.book.take(member, self._runtime.wall(), self._config.members_max)

    def _about_me(self, member: Member) -> None:
        """Somebody says of this node what it did not say itself: it contradicts. A later life of its id may live."""
        if member.life > self._own.life:
            self.namesakes.tell(member.address)
            self._runtime.call_later(NAMESAKE_S, self._outlast, member)
        elif member.rank > self._own.rank:
            self._take(member)
            self._speak(Standing.HERE)

    def _outlast(self, member: Member) -> None:
        """Nobody has put this node out: what claims to be a later life is over, or never was."""
        if not self._left and member.life > self._own.life:
            self._take(member)
            self._speak(Standing.HERE)

    # -- figures

    def statistics(self) -> RosterStatistics:
        standings = [kept.member.standing for kept in self.book]
        return RosterStatistics(
            members=len(standings),
            expected=sum(each.expected for each in standings),
            lost=standings.count(Standing.LOST),
            asked=self._asked,
            exchanges=self._exchanges,
            told=self._told,
            heard=self._heard,
            malformed=self._malformed,
            refused=self.book.refused,
            forgotten=self._forgotten,
            spoken=self._spoken,
            namesakes=len(self.namesakes.seen),
            namesakes_unproven=self.namesakes.unproven,
        )
