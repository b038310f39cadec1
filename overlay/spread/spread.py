"""Dissemination by arcs: one message to every node that owns part of an arc, and one combined reply (DESIGN D8).

`start` makes this node the root. It divides the arc's node positions among the neighbours it knows
(`Router.split`); each takes its part, shows the message to its own handler, and divides the rest further.
Parts are disjoint, so each node gets the message once, from one parent, in N-1 messages. When a node has
answered and all its children are done, it sends the combined reply and account of its part to its parent: N-1
more. The root's `done` is exact: every node is answered, failed or unreachable, and it comes when the last
one is, not when a timer fires.

    spread.on_arrival("topic", handler)       on every node; handler(branch) soon calls branch.reply(...)
    spread.start("topic", payload, done)      on one node; done(reply, account), once
    branch.send_up, on_up, send_down, on_down, on_event, cancel    along the edges, while it lasts

A child that falls silent (failure notice, the router's suspicion, or no acknowledgement of `SpreadWait`)
before it is done is replaced: its part is given to somebody found in it by lookup, with a higher *version*,
and that subtree is built anew. A version is the path of repair counts from the root; of two trees over the
same nodes the greater is the newer. A node that gets a newer version leaves its old edges, keeps its own
answer, does not call its handler again, and answers in the new tree: so each answer is counted once however
often trees are rebuilt. Nodes tried in vain travel down as `missing`; whoever ends up with their place counts
them, unless they turn out to live.

A parent's waiting shows as `SpreadWait` every few seconds along edges that are not done; a node whose parent
shows nothing for long ends the spread for itself. Nothing else is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.dht.loopback import Loopback
from overlay.dht.timing import ReplyTimes
from overlay.ring import MASK, SPACE, WHOLE, Arc, NodeRef, WireArc, clockwise, from_wire, to_wire
from overlay.router import Owner, Router
from overlay.spread.account import Account, missing
from overlay.spread.account import from_wire as account_from_wire
from overlay.spread.branch import Branch, Child, ChildLost, Combine, Ended, Own, ParentChanged, Version
from overlay.spread.liveness import Liveness
from overlay.spread.messages import (
    DEPTH_MAX,
    NAMED_MAX,
    PAYLOAD_BYTES_MAX,
    SpreadDetach,
    SpreadDone,
    SpreadDown,
    SpreadEnd,
    SpreadInto,
    SpreadUp,
    WireMissing,
)
from overlay.spread.search import Search
from runtime.api import Address, Messenger, Notice, Runtime

#: Spreads one node takes part in at once, finished ones that are still remembered included.
BRANCHES_MAX = 4096
#: Times one node looks for a replacement in one spread before it gives a part up.
REPAIRS_MAX = 16
#: A child that has not acknowledged the message after twice the time peers usually take, and this long at least, is
#: replaced before the transport gives it up. If it lives after all it joins the new tree and nothing is lost.
ACKNOWLEDGED_MIN_S = 1.0

OnArrival = Callable[[Branch], None]
OnDone = Callable[[bytes | None, Account], None]


@dataclass(frozen=True, slots=True)
class SpreadStatistics:
    started: int
    arrived: int
    rebuilt: int
    repeats: int
    children: int
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
        "_attached",
        "_branches",
        "_ended",
        "_handlers",
        "_liveness",
        "_lost",
        "_messenger",
        "_rebuilt",
        "_refused",
        "_repeats",
        "_rng",
        "_router",
        "_runtime",
        "_stale",
        "_started",
        "_times",
    )

    def __init__(self, runtime: Runtime, messenger: Messenger, router: Router) -> None:
        self._runtime = runtime
        self._messenger = Loopback.over(runtime, messenger)
        self._router = router
        self._rng = runtime.rng("spread")
        self._times = ReplyTimes()
        self._handlers: dict[str, OnArrival] = {}
        self._branches: dict[bytes, Branch] = {}
        self._liveness = Liveness(runtime, self._messenger, self._branches, self._child_lost, self._drop)
        self._started = self._arrived = self._rebuilt = self._repeats = 0
        self._attached = self._lost = self._stale = self._refused = self._ended = 0
        self._messenger.on(SpreadDown, self._down)
        self._messenger.on(SpreadDone, self._done)
        self._messenger.on(SpreadUp, self._up)
        self._messenger.on(SpreadInto, self._into)
        self._messenger.on(SpreadDetach, self._detach)
        self._messenger.on(SpreadEnd, self._end)
        router.on_suspect(self._liveness.suspected)

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

    def renew(self, branch: Branch) -> None:
        """The root of a spread over the whole ring builds its tree anew: nodes that came since get the message,
        those that have it keep their answers. For queries that run for long."""
        assert branch.is_root and branch._arc is not None
        branch._restart((branch._version[0] + 1,), None)
        self._cover(branch, branch._arc, {})
        self.progress(branch)

    def statistics(self) -> SpreadStatistics:
        finished = sum(1 for branch in self._branches.values() if branch._finished)
        return SpreadStatistics(
            started=self._started,
            arrived=self._arrived,
            rebuilt=self._rebuilt,
            repeats=self._repeats,
            children=self._attached,
            children_lost=self._lost,
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
        if positions.contains(from_wire(self._router.me.id)):
            self._spread_from_here(branch, positions)
        else:
            branch._arc = positions
            self._attach(branch, first.node, positions, 0, {})

    def _spread_from_here(self, branch: Branch, positions: Arc) -> None:
        branch._arc = positions
        branch._own = Own.WORKING
        self._cover(branch, positions, {})
        self._arrive(branch)
        self.progress(branch)

    def cancel(self, branch: Branch) -> None:
        self._drop(branch, "cancelled")

    # --- down --------------------------------------------------------------------------------------------------

    def _down(self, sender: Address, message: SpreadDown) -> None:
        branch = self._branches.get(message.spread)
        if branch is not None and (message.version <= branch._version or branch.is_root):
            if message.version == branch._version and branch.parent == message.parent:
                self._repeats += 1
            else:
                self._messenger.send(sender, SpreadDetach(message.spread, message.version, newer=True))
            return
        now = self._runtime.now()
        fresh = branch is None
        if branch is None:
            branch = Branch(
                self, message.spread, message.topic, message.payload, message.root, Own.WORKING, now
            )
            if not self._remember(branch):
                refusal = missing(self._router.me.id, received=True).plus(Account(uncovered=1))
                self._messenger.send(sender, SpreadDone(message.spread, message.version, refusal.to_wire()))
                return
        else:
            self._rebuilt += 1
        branch._restart(message.version, message.parent)
        branch._touched_at = now
        self._liveness.arm()
        lost = {each.id: each.received for each in message.missing if each.id != self._router.me.id}
        self._cover(branch, Arc(from_wire(message.part.start), from_wire(message.part.end)), lost)
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

    def _cover(self, branch: Branch, part: Arc, lost: dict[bytes, bool]) -> None:
        """Divides a part among children; what was tried in vain goes with it, or is counted here."""
        for node, share in self._router.split(part):
            theirs = {each: got for each, got in lost.items() if share.contains(from_wire(each))}
            for each in theirs:
                del lost[each]
            self._attach(branch, node, share, 0, theirs)
        self._count_missing(branch, lost)

    def _count_missing(self, branch: Branch, lost: dict[bytes, bool]) -> None:
        for each, got in lost.items():
            branch._below = branch._below.plus(missing(each, got))

    def _attach(self, branch: Branch, node: NodeRef, part: Arc, repair: int, lost: dict[bytes, bool]) -> None:
        if len(branch._version) >= DEPTH_MAX:
            branch._below = branch._below.plus(Account(uncovered=1))
            self._count_missing(branch, lost)
            return
        version = (*branch._version, repair)
        child = Child(node, part, version, lost)
        branch._children[node.address] = child
        self._attached += 1
        message = SpreadDown(
            branch.spread,
            version,
            branch.topic,
            WireArc(to_wire(part.start), to_wire(part.end)),
            branch.root,
            self._router.me,
            branch.payload,
            tuple(WireMissing(each, got) for each, got in lost.items()),
        )

        sent_at = self._runtime.now()
        patience_s = max(ACKNOWLEDGED_MIN_S, 2.0 * self._times.timeout_s(node.address, len(branch.payload)))
        timer = self._runtime.call_later(patience_s, lambda _: self._child_lost(branch, child), None)

        def notice(arrived: bool) -> None:
            timer.cancel()
            if arrived:
                child.received = True
                self._times.replied(node.address, self._runtime.now() - sent_at)
            else:
                self._child_lost(branch, child)

        self._messenger.send(node.address, message, notice)
        self._liveness.arm()

    # --- trouble below -----------------------------------------------------------------------------------------

    def _child_lost(self, branch: Branch, child: Child) -> None:
        """Finds somebody else for what a silent child was to cover."""
        if child.done or branch._finished or branch._children.get(child.node.address) is not child:
            return
        del branch._children[child.node.address]
        self._lost += 1
        lost = {**child.missing, child.node.id: child.received or child.missing.get(child.node.id, False)}
        while len(lost) > NAMED_MAX:
            each = next(iter(lost))
            branch._below = branch._below.plus(missing(each, lost.pop(each)))
        branch._tell(ChildLost(child.node))
        branch._repairs += 1
        if branch._repairs > REPAIRS_MAX:
            self._count_missing(branch, lost)
            branch._below = branch._below.plus(Account(uncovered=1))
            self.progress(branch)
            return
        branch._searching += 1
        version, repair = branch._version, branch._repairs

        def found(node: NodeRef | None, rest: Arc | None) -> None:
            if branch._version != version or self._branches.get(branch.spread) is not branch:
                return
            branch._searching -= 1
            if rest is None:
                branch._below = branch._below.plus(Account(uncovered=1))
            if node is None or rest is None:
                self._count_missing(branch, lost)
            else:
                outside = {each: got for each, got in lost.items() if not rest.contains(from_wire(each))}
                inside = {each: got for each, got in lost.items() if each not in outside}
                self._count_missing(branch, outside)
                self._attach(branch, node, rest, repair, inside)
            self.progress(branch)

        Search(self._runtime, self._router, child.part, found).start()

    def _detach(self, sender: Address, message: SpreadDetach) -> None:
        branch = self._branches.get(message.spread)
        child = self._child_of(branch, sender, message.version)
        if branch is None or child is None:
            return
        if message.newer:
            del branch._children[sender]
            self.progress(branch)
        else:
            self._child_lost(branch, child)

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
        return True

    def _drop(self, branch: Branch, reason: str) -> None:
        """Ends a spread here and below."""
        if self._branches.pop(branch.spread, None) is None:
            return
        was_finished, branch._finished = branch._finished, True
        for child in branch._children.values():
            if not child.done:
                self._messenger.send(child.node.address, SpreadEnd(branch.spread, child.version))
        if not was_finished:
            self._ended += 1
            branch._on_done = None
            branch._tell(Ended(reason))
