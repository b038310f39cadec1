"""Dissemination by arcs: one message to every node that owns part of an arc, one combined reply (docs/decisions/0012).

`start` makes this node the root. It divides the arc's node positions among the neighbours it knows
(`Router.split`); each takes its part, shows the message to its own handler, and divides the rest further.
Parts are disjoint, so each node gets the message once, from one parent, in N-1 messages. When a node has
answered and all its children are done, it sends the combined reply and account of its part to its parent: N-1
more. The root's `done` is exact: every node is answered, failed or unreachable, and it comes when the last
one is, not when a timer fires.

    spread.on_arrival("topic", handler)       on every node; handler(branch) soon calls branch.reply(...)
    spread.start("topic", payload, done)      on one node; done(reply, account), once
    branch.send_up, on_up, send_down, on_down, on_event, cancel    along the edges, while it lasts

A child that stays silent before it is done is replaced (see `below`): its part is given to somebody found in it
by lookup, with a higher *version*, and that subtree is built anew. A version is the path of repair counts from
the root; of two trees over the same nodes the greater is the newer. A node that gets a newer version leaves its
old edges, keeps its own answer, does not call its handler again, and answers in the new tree: so each answer is
counted once however often trees are rebuilt. Nodes found silent travel down as `missing`; whoever ends up with
their place asks them for themselves alone, and counts them only when they are given up.

A parent's waiting shows as `SpreadWait` every few seconds along edges that are not done; a node whose parent
shows nothing for long ends the spread for itself. Nothing else is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.dht.loopback import Loopback
from overlay.ring import MASK, SPACE, WHOLE, Arc, clockwise, from_wire
from overlay.router import Owner, Router
from overlay.spread.account import Account, missing
from overlay.spread.account import from_wire as account_from_wire
from overlay.spread.below import Below, Expected, from_wire_missing
from overlay.spread.branch import Branch, Child, Combine, Ended, Own, ParentChanged, Version
from overlay.spread.liveness import Liveness
from overlay.spread.messages import (
    PAYLOAD_BYTES_MAX,
    SpreadDetach,
    SpreadDone,
    SpreadDown,
    SpreadEnd,
    SpreadInto,
    SpreadUp,
)
from runtime.api import Address, Messenger, Notice, Runtime

#: Spreads one node takes part in at once, finished ones that are still remembered included.
BRANCHES_MAX = 4096
OnArrival = Callable[[Branch], None]
OnDone = Callable[[bytes | None, Account], None]


@dataclass(frozen=True, slots=True)
class SpreadStatistics:
    started: int
    arrived: int
    rebuilt: int
    repeats: int
    children: int
    #: Found silent, and given up.
    children_doubted: int
    children_lost: int
    stale: int
    refused: int
    ended: int
    open: int
    remembered: int


class Spread:
    """One node's part in all spreads."""

    __slots__ = (
        "_arrived",
        "_below",
        "_branches",
        "_ended",
        "_handlers",
        "_liveness",
        "_messenger",
        "_rebuilt",
        "_refused",
        "_repeats",
        "_rng",
        "_router",
        "_runtime",
        "_stale",
        "_started",
    )

    def __init__(self, runtime: Runtime, messenger: Messenger, router: Router) -> None:
        self._runtime = runtime
        self._messenger = Loopback.over(runtime, messenger)
        self._router = router
        self._rng = runtime.rng("spread")
        self._handlers: dict[str, OnArrival] = {}
        self._branches: dict[bytes, Branch] = {}
        self._below = Below(runtime, self._messenger, router, self._branches, self.progress)
        self._liveness = Liveness(
            runtime, self._messenger, router, self._branches, self._below.unheard, self._drop
        )
        self._below.ask = self._liveness.ask
        self._started = self._arrived = self._rebuilt = self._repeats = 0
        self._stale = self._refused = self._ended = 0
        self._messenger.on(SpreadDown, self._down)
        self._messenger.on(SpreadDone, self._done)
        self._messenger.on(SpreadUp, self._up)
        self._messenger.on(SpreadInto, self._into)
        self._messenger.on(SpreadEnd, self._end)

    def on_arrival(self, topic: str, handler: OnArrival) -> None:
        """Called once for each spread of the topic that reaches this node, the root's own included."""
        self._handlers[topic] = handler

    def start(
        self, topic: str, payload: bytes, done: OnDone, *, arc: Arc = WHOLE, combine: Combine | None = None
    ) -> Branch:
        """Sends a message to every node that owns part of `arc`; a point is an arc of one id. `done` gets the
        combined reply and the account when the last of them has answered or is known not to."""
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise ValueError(
                f"a spread's payload has at most {PAYLOAD_BYTES_MAX} bytes; put more into the DHT"
            )
        spread = self._rng.randbytes(16)
        branch = Branch(self, spread, topic, payload, self._router.me, Own.ABSENT, self._runtime.now())
        branch.combine = combine
        branch._on_done = done
        self._started += 1
        if self._remember(branch):
            self._runtime.call_later(0.0, lambda _: self._begin(branch, arc), None)
        else:
            branch._finished = True
            self._runtime.call_later(0.0, lambda _: done(None, Account(uncovered=1)), None)
        return branch

    def about_nodes(self) -> int:
        """About how many nodes a spread over all of the ring reaches, from the arc this one owns."""
        return max(1, SPACE // self._router.arc().width())

    def renew(self, branch: Branch) -> None:
        """The root of a spread over the whole ring builds its tree anew: nodes that came since get the message,
        those that have it keep their answers. For queries that run for long."""
        assert branch.is_root
        if branch._finished or branch._arc != WHOLE:
            return
        branch._restart((branch._version[0] + 1,), None)
        self._liveness.arm()
        self._below.cover(branch, branch._arc, {})
        self.progress(branch)

    @property
    def expected(self) -> Expected | None:
        """Who should be on the ring, if anybody knows; the account then counts those that are not."""
        return self._below.expected

    @expected.setter
    def expected(self, expected: Expected) -> None:
        self._below.expected = expected

    def statistics(self) -> SpreadStatistics:
        finished = sum(1 for branch in self._branches.values() if branch._finished)
        return SpreadStatistics(
            started=self._started,
            arrived=self._arrived,
            rebuilt=self._rebuilt,
            repeats=self._repeats,
            children=self._below.attached,
            children_doubted=self._below.doubted,
            children_lost=self._below.lost,
            stale=self._stale,
            refused=self._refused,
            ended=self._ended,
            open=len(self._branches) - finished,
            remembered=finished,
        )

    # --- from the root -----------------------------------------------------------------------------------------

    def _begin(self, branch: Branch, arc: Arc) -> None:
        if branch._finished:
            return
        if arc.start == arc.end:
            self._spread_from_here(branch, arc)
            return
        branch._searching += 1
        version = branch._version

        def ends(first: Owner | None, last: Owner | None) -> None:
            if branch._finished or branch._version != version:
                return
            branch._searching -= 1
            if first is None or last is None:
                branch._below = branch._below.plus(Account(uncovered=1))
            else:
                self._spread_between(branch, arc, first, last)
            self.progress(branch)

        self._router.lookup(
            arc.start, lambda first: self._router.lookup((arc.end - 1) & MASK, lambda last: ends(first, last))
        )

    def _spread_between(self, branch: Branch, arc: Arc, first: Owner, last: Owner) -> None:
        """Owners of an arc are the nodes from the owner of its first id to the owner of its last."""
        begin, end = from_wire(first.node.id), from_wire(last.node.id)
        around = begin == end and arc.width() > (clockwise(arc.start, first.arc.end) or SPACE)
        positions = WHOLE if around else Arc(begin, (end + 1) & MASK)
        self._below.count_owners(branch, arc, positions)
        if positions.contains(from_wire(self._router.me.id)):
            self._spread_from_here(branch, positions)
        else:
            branch._arc = positions
            self._below.attach(branch, first.node, positions, 0, {})

    def _spread_from_here(self, branch: Branch, positions: Arc) -> None:
        branch._arc = positions
        branch._own = Own.WORKING
        self._below.cover(branch, positions, {})
        self._arrive(branch)
        self.progress(branch)

    def conclude(self, branch: Branch) -> None:
        if branch._finished or self._branches.pop(branch.spread, None) is None:
            return
        branch._finished = True
        self._below.abandon(branch)
        reply, account = branch._result(self._router.me.id)
        if branch._on_done is not None:
            self._runtime.call_later(0.0, lambda _: self._finish_root(branch, reply, account), None)

    def cancel(self, branch: Branch) -> None:
        self._drop(branch, "cancelled")

    # --- down --------------------------------------------------------------------------------------------------

    def _down(self, sender: Address, message: SpreadDown) -> None:
        me = self._router.me.id
        if message.to not in (b"", me):
            self._messenger.send(sender, SpreadDetach(message.spread, message.version, by=me))
            return
        branch = self._branches.get(message.spread)
        if branch is not None and (message.version <= branch._version or branch.is_root):
            if message.version == branch._version and branch.parent == message.parent:
                self._repeats += 1
            else:
                self._messenger.send(sender, SpreadDetach(message.spread, message.version, True, me))
            return
        now = self._runtime.now()
        fresh = branch is None
        if branch is None:
            branch = Branch(
                self,
                message.spread,
                message.topic,
                message.payload,
                message.root,
                Own.WORKING,
                now,
                message.age_ms / 1000,
            )
            if not self._remember(branch):
                refusal = missing(self._router.me.id, received=True).plus(Account(uncovered=1))
                self._messenger.send(sender, SpreadDone(message.spread, message.version, refusal.to_wire()))
                return
        else:
            self._rebuilt += 1
            self._liveness.arm()
        branch._restart(message.version, message.parent)
        branch._touched_at = now
        doubts = {each.node.id: from_wire_missing(each) for each in message.missing}
        self._below.cover(branch, Arc(from_wire(message.part.start), from_wire(message.part.end)), doubts)
        if fresh:
            self._arrive(branch)
        else:
            branch._tell(ParentChanged(message.parent))
        self.progress(branch)

    def _arrive(self, branch: Branch) -> None:
        self._arrived += 1
        handler = self._handlers.get(branch.topic)
        if handler is None:
            branch.fail()
        else:
            handler(branch)

    # --- up ----------------------------------------------------------------------------------------------------

    def progress(self, branch: Branch) -> None:
        """Ends this node's part when everything in it is settled."""
        if branch._finished or not branch._complete():
            return
        branch._finished = True
        branch._touched_at = self._runtime.now()
        reply, account = branch._result(self._router.me.id)
        branch._outcome = SpreadDone(branch.spread, branch._version, account.to_wire(), reply)
        if branch.parent is not None:
            self._messenger.send(branch.parent.address, branch._outcome)
            return
        del self._branches[branch.spread]
        if branch._on_done is not None:
            self._runtime.call_later(0.0, lambda _: self._finish_root(branch, reply, account), None)

    def _finish_root(self, branch: Branch, reply: bytes | None, account: Account) -> None:
        if branch._on_done is not None:
            branch._on_done(reply, account)

    def _done(self, sender: Address, message: SpreadDone) -> None:
        branch = self._branches.get(message.spread)
        child = self._child_of(branch, sender, message.version)
        if branch is None or child is None or child.done:
            self._stale += 1
            return
        child.done = child.received = True
        child.heard_at = self._runtime.now()
        branch._below = branch._below.plus(account_from_wire(message.account))
        branch._fold(message.reply)
        self.progress(branch)

    def _child_of(self, branch: Branch | None, sender: Address, version: Version) -> Child | None:
        child = branch._children.get(sender) if branch is not None else None
        return child if child is not None and child.version == version else None

    # --- along the edges ---------------------------------------------------------------------------------------

    def send_up(self, branch: Branch, body: bytes, notice: Notice | None) -> None:
        if branch.parent is not None:
            message = SpreadUp(branch.spread, branch._version, body)
            self._messenger.send(branch.parent.address, message, notice)
        elif branch.on_up is not None:
            branch.on_up(self._router.me, body)

    def send_down(self, branch: Branch, body: bytes) -> None:
        for child in branch._children.values():
            self._messenger.send(child.node.address, SpreadInto(branch.spread, child.version, body))

    def _up(self, sender: Address, message: SpreadUp) -> None:
        branch = self._branches.get(message.spread)
        child = self._child_of(branch, sender, message.version)
        if branch is None or child is None or branch.on_up is None:
            self._stale += 1
            return
        child.heard_at = self._runtime.now()
        branch.on_up(child.node, message.body)

    def _into(self, sender: Address, message: SpreadInto) -> None:
        branch = self._branches.get(message.spread)
        if branch is None or branch._version != message.version or branch.on_down is None:
            self._stale += 1
            return
        branch.on_down(message.body)

    def _end(self, sender: Address, message: SpreadEnd) -> None:
        branch = self._branches.get(message.spread)
        if branch is not None and branch._version == message.version:
            self._drop(branch, "cancelled")

    # --- state -------------------------------------------------------------------------------------------------

    def _remember(self, branch: Branch) -> bool:
        if len(self._branches) >= BRANCHES_MAX:
            oldest = next((each for each in self._branches.values() if each._finished), None)
            if oldest is None:
                self._refused += 1
                return False
            del self._branches[oldest.spread]
        self._branches[branch.spread] = branch
        self._liveness.arm()
        return True

    def _drop(self, branch: Branch, reason: str, cancelled: bool = True) -> None:
        """Ends a spread here and below."""
        if self._branches.pop(branch.spread, None) is None:
            return
        was_finished, branch._finished = branch._finished, True
        self._below.end(branch)
        if not was_finished:
            self._ended += 1
            branch._on_done = None
            branch._tell(Ended(reason, cancelled))
