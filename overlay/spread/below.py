"""The edges down of one node's spreads: parts in, children that cover them out, and others in place of the lost.

Silence is a doubt, not a death. A child that has not acknowledged the message in the time peers usually take, or that
the router takes for silent, is asked again while somebody else is looked for who covers its part; it is then
asked for itself alone, by whoever is given its place. Only a child that is given up, because nothing came
from it for long although it was asked or because the router has decided so after its long ping, is gone, and
counted as failed or unreachable. Doubts travel down with the part they lie in: somebody below may know better. A node
that was given up moments ago and is still silent is not waited for again: the stages of a query are spreads one
after the other, and each of them would spend the same time on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from overlay.dht.timing import ReplyTimes
from overlay.ring import MASK, Arc, NodeRef, WireArc, clockwise, from_wire, point, to_wire
from overlay.router import Router
from overlay.spread.account import Account, missing, not_there
from overlay.spread.branch import Branch, Child, ChildLost, Doubt, Version
from overlay.spread.messages import DEPTH_MAX, NAMED_MAX, SpreadDetach, SpreadDown, SpreadEnd, WireMissing
from overlay.spread.search import Search
from runtime.api import Address, Messenger, Runtime
from runtime.message import to_millis

#: Times one node looks for a replacement in one spread before it gives a part up.
REPAIRS_MAX = 16
#: A child that has not acknowledged a message after twice the time peers usually take, and this long at least, is
#: doubted before the transport gives it up.
ACKNOWLEDGED_MIN_S = 1.0
#: Pause before a child is asked again that the transport could not reach.
ASK_AGAIN_S = 1.0
#: A child of which nothing was heard for so long, although it was asked, is gone. Longer than queues on a full link.
DECIDED_S = 10.0
#: How long a node stays given up that the router takes for silent, so that the next spread does not wait for it again.
GIVEN_UP_S = 10.0
#: Nodes remembered as given up; the oldest are forgotten.
GIVEN_UP_MAX = 1024
#: The router's word that a node is dead does not count against one that spoke to us since.
DEATH_HEARD_S = 5.0

Doubts = dict[bytes, Doubt]


class Expected(Protocol):
    """Who should be on the ring: the roster."""

    def expected_in(self, arc: Arc) -> Sequence[int]:
        """Ids of the members in an arc."""
        ...

    def expected_owner(self, key: int) -> int | None:
        """Who would own a key if they were all there."""
        ...


class Below:
    """What this node has handed on."""

    __slots__ = (
        "_branches",
        "_given_up",
        "_messenger",
        "_progress",
        "_router",
        "_runtime",
        "_times",
        "ask",
        "attached",
        "doubted",
        "expected",
        "lost",
    )

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        router: Router,
        branches: dict[bytes, Branch],
        progress: Callable[[Branch], None],
    ) -> None:
        self._runtime = runtime
        self._messenger = messenger
        self._router = router
        self._branches = branches
        self._progress = progress
        self._times = ReplyTimes()
        #: Nodes by id, and when they were given up; in that order.
        self._given_up: dict[bytes, float] = {}
        #: Shows a child that has the message that it is waited for; set by `liveness`.
        self.ask: Callable[[Branch, Child], None]
        #: Who should be on the ring, where that is known.
        self.expected: Expected | None = None
        self.attached = self.doubted = self.lost = 0
        router.on_suspect(self._suspected)
        router.on_death(self._died)
        messenger.on(SpreadDetach, self._detach)

    # --- parts in ----------------------------------------------------------------------------------------------

    def cover(self, branch: Branch, part: Arc, doubts: Doubts) -> None:
        """Divides a part among children. Doubts go with the part they lie in, or are settled here."""
        self._add_silent(part, doubts)
        doubts.pop(self._router.me.id, None)
        shares = self._router.split(part)
        if self.expected is not None:
            for gap in _left_over(part, from_wire(self._router.me.id), [share for _, share in shares]):
                self._count_absent(branch, gap, doubts)
        for node, share in shares:
            theirs = {each: doubt for each, doubt in doubts.items() if share.contains(from_wire(each))}
            for each in theirs:
                del doubts[each]
            self.attach(branch, node, share, 0, theirs)
        self._settle(branch, doubts, 0)

    def _count_absent(self, branch: Branch, gap: Arc, doubts: Doubts) -> None:
        """Nobody is asked in this stretch but the doubtful: whoever else is expected there is absent."""
        if self.expected is not None:
            there = (to_wire(each) for each in self.expected.expected_in(gap))
            absent = [each for each in there if each not in doubts and each != self._router.me.id]
            if absent:
                branch._below = branch._below.plus(not_there(absent))

    def count_owners(self, branch: Branch, arc: Arc, positions: Arc) -> None:
        """The owners of an arc's ends are known. Others may be expected there, outside of what is now asked."""
        if self.expected is not None:
            ends = {self.expected.expected_owner(key) for key in (arc.start, (arc.end - 1) & MASK)}
            outside = sorted(each for each in ends if each is not None and not positions.contains(each))
            if outside:
                branch._below = branch._below.plus(not_there([to_wire(each) for each in outside]))

    def _add_silent(self, part: Arc, doubts: Doubts) -> None:
        for node in self._router.silent_in(part):
            if node.id not in doubts:
                doubts[node.id] = Doubt(node, gone=self._was_given_up(node.id))

    def _was_given_up(self, node_id: bytes) -> bool:
        at = self._given_up.get(node_id)
        return at is not None and self._runtime.now() - at < GIVEN_UP_S

    def attach(self, branch: Branch, node: NodeRef, part: Arc, repair: int, doubts: Doubts) -> None:
        """Hands a part to a node inside it."""
        if len(branch._version) >= DEPTH_MAX:
            branch._below = branch._below.plus(Account(uncovered=1))
            self._count(branch, doubts)
            return
        before = doubts.pop(node.id, None)
        rest = dict(list(doubts.items())[NAMED_MAX:])
        theirs = {each: doubt for each, doubt in doubts.items() if each not in rest}
        child = Child(node, part, (*branch._version, repair), theirs, self._runtime.now())
        if before is not None:
            child.had = before.received
            child.heard_at -= before.silent_s
        branch._children[node.address] = child
        self.attached += 1
        self._send(branch, child)
        self._settle(branch, rest, repair)

    def _settle(self, branch: Branch, doubts: Doubts, repair: int) -> None:
        """Nobody else has the places of these: the living are asked alone, the dead counted."""
        for each, doubt in doubts.items():
            there = self._at(branch, doubt.node.address)
            if doubt.gone or there is not None:
                # Somebody else at its address is its next life: this one is over.
                self._count(branch, {each: doubt} if doubt.gone or there != each else {})
            elif self._was_given_up(each):
                self._count(branch, {each: doubt})
            else:
                self.attach(branch, doubt.node, point(from_wire(each)), repair, {each: doubt})

    def _at(self, branch: Branch, address: Address) -> bytes | None:
        """The node at an address, as far as that is known: this one or a child."""
        if address == self._router.me.address:
            return self._router.me.id
        child = branch._children.get(address)
        return None if child is None else child.node.id

    def _count(self, branch: Branch, doubts: Doubts) -> None:
        for each, doubt in doubts.items():
            branch._below = branch._below.plus(missing(each, doubt.received))

    def _send(self, branch: Branch, child: Child) -> None:
        child.lacking = False
        sent_at = self._runtime.now()
        message = SpreadDown(
            branch.spread,
            child.version,
            branch.topic,
            WireArc(to_wire(child.part.start), to_wire(child.part.end)),
            branch.root,
            self._router.me,
            branch.payload,
            tuple(_to_wire(doubt) for doubt in child.doubts.values()),
            child.node.id,
            to_millis(sent_at - branch.began_at),
        )
        patience_s = self._patience_s(child, len(branch.payload))
        timer = self._runtime.call_later(patience_s, partial(self._late, branch, child), sent_at)

        def notice(arrived: bool) -> None:
            timer.cancel()
            if arrived:
                self._given_up.pop(child.node.id, None)
                child.received = True
                child.heard_at = now = self._runtime.now()
                self._times.replied(child.node.address, now - sent_at)
            else:
                child.lacking = not child.received
                self.unheard(branch, child)

        self._messenger.send(child.node.address, message, notice)

    def _patience_s(self, child: Child, size: int) -> float:
        return max(ACKNOWLEDGED_MIN_S, 2.0 * self._times.timeout_s(child.node.address, size))

    # --- doubt -------------------------------------------------------------------------------------------------

    def _open(self, branch: Branch, child: Child) -> bool:
        """Whether this child is still waited for."""
        return not (
            child.done
            or branch._finished
            or branch._children.get(child.node.address) is not child
            or self._branches.get(branch.spread) is not branch
        )

    def _late(self, branch: Branch, child: Child, since: float) -> None:
        if self._open(branch, child) and child.heard_at <= since:
            self._times.expired(child.node.address)
            self._doubt(branch, child)

    def _suspected(self, node: NodeRef) -> None:
        """The router has found a neighbour silent. One that has the message is asked how it is; for one that has not,
        somebody else is looked for."""
        now = self._runtime.now()
        for branch, child in self._edges_to(node):
            if not child.received:
                self._doubt(branch, child)
                continue
            self.ask(branch, child)
            late = partial(self._late, branch, child)
            self._runtime.call_later(self._patience_s(child, 0), late, now)

    def _died(self, node: NodeRef) -> None:
        before = self._runtime.now() - DEATH_HEARD_S
        for branch, child in self._edges_to(node):
            if child.heard_at < before:
                self._lose(branch, child)

    def _edges_to(self, node: NodeRef) -> list[tuple[Branch, Child]]:
        found = []
        for branch in self._branches.values():
            child = branch._children.get(node.address)
            if child is not None and child.node.id == node.id and self._open(branch, child):
                found.append((branch, child))
        return found

    def unheard(self, branch: Branch, child: Child) -> None:
        """The transport could not reach a child: gone if that has lasted, else it is asked again."""
        if not self._open(branch, child):
            return
        left_s = child.heard_at + DECIDED_S - self._runtime.now()
        if left_s <= 0.0:
            self._lose(branch, child)
            return
        self._runtime.call_later(left_s, partial(self._decide, branch, child), child.heard_at)
        self._runtime.call_later(ASK_AGAIN_S, lambda _: self._ask_again(branch, child), None)
        self._doubt(branch, child)

    def _decide(self, branch: Branch, child: Child, since: float) -> None:
        if self._open(branch, child) and child.heard_at == since:
            self._lose(branch, child)

    def _ask_again(self, branch: Branch, child: Child) -> None:
        if not self._open(branch, child):
            return
        if child.lacking:
            self._send(branch, child)
        elif child.received:
            self.ask(branch, child)

    def _doubt(self, branch: Branch, child: Child) -> None:
        """Looks for somebody else to cover a silent child's part; if it is still silent then, it is left alone."""
        if child.doubted or child.alone or not self._open(branch, child) or branch._repairs >= REPAIRS_MAX:
            return
        child.doubted = True
        self.doubted += 1
        version, since = branch._version, self._runtime.now()

        def found(node: NodeRef | None, settled: bool) -> None:
            child.doubted = False
            if child.lost:
                self._succeed(branch, version, child, node, settled)
                return
            if branch._version != version or not self._open(branch, child) or child.heard_at > since:
                return
            if settled and (node is None or node.id != child.node.id):
                self._replace(branch, child, node, settled, gone=False)
                self._progress(branch)

        Search(self._runtime, self._router, child.part, found).start()

    def _detach(self, sender: Address, message: SpreadDetach) -> None:
        branch = self._branches.get(message.spread)
        child = branch._children.get(sender) if branch is not None else None
        if branch is None or child is None or child.version != message.version:
            return
        if message.by not in (b"", child.node.id):
            if self._open(branch, child):
                self._lose(branch, child)
            return
        child.heard_at = self._runtime.now()
        if message.newer:
            del branch._children[sender]
            self._progress(branch)
        elif self._open(branch, child):
            # It has forgotten: it lives, so it gets the message again.
            child.received, child.lacking = False, True
            self._ask_again(branch, child)

    # --- the end -----------------------------------------------------------------------------------------------

    def end(self, branch: Branch) -> list[Child]:
        """Tells children that are not done that it is over; who they are."""
        waiting = [child for child in branch._children.values() if not child.done]
        for child in waiting:
            self._messenger.send(child.node.address, SpreadEnd(branch.spread, child.version))
        return waiting

    def abandon(self, branch: Branch) -> None:
        """Counts what is not done as failed or unreachable, and what is behind it as uncovered."""
        for child in self.end(branch):
            doubt = Doubt(child.node, child.received or child.had)
            self._count(branch, {**child.doubts, child.node.id: doubt})
            if not child.alone:
                branch._below = branch._below.plus(Account(uncovered=1))
        branch._below = branch._below.plus(Account(uncovered=branch._searching))

    # --- loss --------------------------------------------------------------------------------------------------

    def _lose(self, branch: Branch, child: Child) -> None:
        """A child is gone: somebody else gets its part."""
        self.lost += 1
        if child.alone:
            self._replace(branch, child, None, settled=True, gone=True)
            self._progress(branch)
            return
        del branch._children[child.node.address]
        branch._searching += 1
        child.lost = True
        if child.doubted:
            return
        found = partial(self._succeed, branch, branch._version, child)
        if branch._repairs >= REPAIRS_MAX:
            found(None, False)
        else:
            Search(self._runtime, self._router, child.part, found).start()

    def _succeed(
        self, branch: Branch, version: Version, child: Child, node: NodeRef | None, settled: bool
    ) -> None:
        """The search for somebody in a lost child's place has ended."""
        if branch._version != version or self._branches.get(branch.spread) is not branch:
            return
        branch._searching -= 1
        self._replace(branch, child, node, settled, gone=True)
        self._progress(branch)

    def _replace(self, branch: Branch, child: Child, node: NodeRef | None, settled: bool, gone: bool) -> None:
        """Gives a child's part to another node; to nobody where there is none (`settled`), or none was found."""
        branch._children.pop(child.node.address, None)
        branch._tell(ChildLost(child.node))
        branch._repairs += 1
        now = self._runtime.now()
        silent_s = now - child.heard_at
        if gone:
            self._give_up(child.node.id, now)
        doubt = Doubt(child.node, child.received or child.had, gone, silent_s)
        doubts = {**child.doubts, child.node.id: doubt}
        self._add_silent(child.part, doubts)
        if node is not None:
            self.attach(branch, node, child.part, branch._repairs, doubts)
            return
        if not settled:
            branch._below = branch._below.plus(Account(uncovered=1))
        self._count_absent(branch, child.part, doubts)
        self._settle(branch, doubts, branch._repairs)

    def _give_up(self, node_id: bytes, now: float) -> None:
        self._given_up.pop(node_id, None)
        if len(self._given_up) >= GIVEN_UP_MAX:
            del self._given_up[next(iter(self._given_up))]
        self._given_up[node_id] = now


def _left_over(part: Arc, me: int, shares: Sequence[Arc]) -> Iterator[Arc]:
    """The stretches of a part that are in nobody's share."""
    start = me if part.start == part.end else part.start
    at, end = 0, part.width()
    for share in sorted(shares, key=lambda each: clockwise(start, each.start)):
        begins = clockwise(start, share.start)
        if begins > at:
            yield Arc((start + at) & MASK, share.start)
        at = max(at, begins + share.width())
    if at < end:
        yield Arc((start + at) & MASK, (start + end) & MASK)


def _to_wire(doubt: Doubt) -> WireMissing:
    return WireMissing(doubt.node, doubt.received, doubt.gone, to_millis(doubt.silent_s))


def from_wire_missing(missing: WireMissing) -> Doubt:
    return Doubt(missing.node, missing.received, missing.gone, missing.silent_ms / 1000)
