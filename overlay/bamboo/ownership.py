"""When this node may deliver: its neighbours on the circle are watched, keys it cannot be sure of wait.

Changes of the leaf set come in from `view`; changes of the owned arc go to whoever asked. Two nodes must not
both deliver a key, so a member delivers on a side only after its neighbour there has sent its leaf set since
becoming the neighbour, and everybody named in between has answered or is silent. A joining node uses the rule
twice: as a scout, to find who its neighbours are, and then, announced, to become a member. So its neighbours
hold it in their leaf sets before it delivers anything; what they pass on to it in between, it holds.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.bamboo.core import Core, State
from overlay.bamboo.peer import Peer
from overlay.bamboo.probes import EXCHANGE, Probes
from overlay.ring import HALF, MASK, Arc

#: A neighbour that did not confirm is asked again after this long: the right one may be found meanwhile.
ASK_AGAIN_S = 1.0


class _Side:
    """One immediate neighbour, since when, and whether it has confirmed its place."""

    __slots__ = ("asked", "asked_at", "clockwise", "peer", "settled", "since")

    def __init__(self, clockwise: bool) -> None:
        self.clockwise = clockwise
        self.peer: Peer | None = None
        self.since = -1.0
        #: Whom we asked for a confirmation last, and when.
        self.asked: Peer | None = None
        self.asked_at = 0.0
        self.settled = True


class Ownership:
    __slots__ = (
        "_after",
        "_arc",
        "_before",
        "_core",
        "_probes",
        "_reviews",
        "arc_changed",
        "member_seen",
        "peaceful",
        "place_arc",
        "place_changed",
        "reviewed",
        "settled",
    )

    def __init__(self, core: Core, probes: Probes) -> None:
        self._core = core
        self._probes = probes
        self._after = _Side(clockwise=True)
        self._before = _Side(clockwise=False)
        self._arc: Arc | None = None
        #: Whether a side will be looked at again without an occasion.
        self._reviews = False
        #: Whether a member has confirmed this node's place: joiners alone make no ring.
        self.member_seen = False
        #: The same as it is with the silent neighbours in their places, and who hears of its changes: (old, new,
        #: whether what was gained was handed over).
        self.place_arc: Arc | None = None
        self.place_changed: list[Callable[[Arc | None, Arc | None, bool], None]] = []
        #: Set while a neighbour that said goodbye is taken out: it has given its objects away.
        self.peaceful = False
        #: Called with (old, new); None is no arc.
        self.arc_changed: list[Callable[[Arc | None, Arc | None], None]] = []
        #: Called whenever something was learned that may settle a side.
        self.reviewed: list[Callable[[], None]] = []
        #: Called when keys that waited may be delivered, or the join is complete.
        self.settled: list[Callable[[], None]] = []
        core.view.changed = self._changed
        probes.settle = self.review

    def ready(self, key: int) -> bool:
        """Whether a key closest to this node may be delivered here now."""
        if self._core.state is not State.MEMBER:
            return False
        side = self._after if (key - self._core.view.me_id) & MASK <= HALF else self._before
        return side.settled

    def complete(self) -> bool:
        """Whether both neighbours have confirmed this node's place, and nobody closer is being asked."""
        return (
            self.member_seen
            and bool(self._core.view.leaves.after)
            and self._confirmed(self._after)
            and self._confirmed(self._before)
        )

    @property
    def neighbours(self) -> list[Peer]:
        """Those whose word this node's arc stands on."""
        return [side.peer for side in (self._after, self._before) if side.peer is not None]

    @property
    def both_settled(self) -> bool:
        return self._core.state is State.MEMBER and self._after.settled and self._before.settled

    def publish(self) -> None:
        """Tells of the arc owned now, if it is another than before; of what is certain of it first."""
        member = self._core.state is State.MEMBER
        place, before = self._core.view.place_arc() if member else None, self.place_arc
        if place != before:
            self.place_arc = place
            for told in list(self.place_changed):
                told(before, place, self.peaceful)
        arc = self._core.view.arc() if member else None
        old = self._arc
        if arc != old:
            self._arc = arc
            for handler in list(self.arc_changed):
                handler(old, arc)

    def review(self) -> None:
        """Something was learned: looks whether a side has settled."""
        self._settle()
        for handler in self.reviewed:
            handler()

    def _settle(self) -> None:
        after, before = self._after, self._before
        joining = self._core.joining
        if after.settled and before.settled and not joining:
            return
        news = joining
        for side in (after, before):
            if side.settled:
                continue
            if self._confirmed(side):
                side.settled = news = True
            else:
                self._ask(side)
        if news:
            for handler in self.settled:
                handler()

    def _ask(self, side: _Side) -> None:
        """Asks a neighbour for its confirmation, unless somebody closer is being asked or it was just now."""
        now = self._core.runtime.now()
        peer = side.peer
        if peer is None or peer.synced_at >= side.since or self._asks_closer(side):
            return
        if side.asked is not peer or now - side.asked_at >= ASK_AGAIN_S:
            side.asked, side.asked_at = peer, now
            self._probes.begin(peer.ref, EXCHANGE)
        elif not self._reviews:
            # It confirmed a place it has lost and won again since; nothing else may come to remind us.
            self._reviews = True
            self._core.runtime.call_later(ASK_AGAIN_S, self._review_again, None)

    def _review_again(self, _: None) -> None:
        self._reviews = False
        self.review()

    def announce(self) -> None:
        """Both neighbours have to confirm anew, since they are only now told of this node."""
        for side in (self._after, self._before):
            side.since = self._core.runtime.now()
            side.settled = False
            side.asked = None

    def returned(self, neighbour: Peer) -> None:
        """A neighbour did not know this node of late: it had given it up, or belonged to another ring. What was stored
        in this node's arc meanwhile went to others, who may be gone; so all of it is as if gained now."""
        if self._core.state is State.MEMBER and neighbour in self.neighbours:
            self._core.count("returned")
            for told in list(self.place_changed):
                told(None, self.place_arc, False)

    def reset(self) -> None:
        """The neighbours as they stand are right: a ring built whole."""
        for side in (self._after, self._before):
            side.peer = self._neighbour(side)
            side.settled = True

    def _changed(self) -> None:
        self._look(self._after)
        self._look(self._before)
        if self._core.state is State.MEMBER:
            # A leaf that was only ever pinged may not know that it has us for one.
            for peer in self._core.view.leaves.members:
                if not peer.met:
                    self._probes.begin(peer.ref, EXCHANGE)
        self.publish()
        self.review()

    def _look(self, side: _Side) -> None:
        """Notes it if this side's neighbour is another than before."""
        peer = self._neighbour(side)
        if peer is side.peer:
            return
        now = self._core.runtime.now()
        side.peer = peer
        side.since = now
        side.settled = peer is None or (peer.synced_at >= now and not self._core.joining)

    def _neighbour(self, side: _Side) -> Peer | None:
        leaves = self._core.view.leaves
        return leaves.successor if side.clockwise else leaves.predecessor

    def _confirmed(self, side: _Side) -> bool:
        peer = side.peer
        if peer is None:
            return True
        return peer.synced_at >= side.since and not self._asks_closer(side)

    def _asks_closer(self, side: _Side) -> bool:
        """Whether somebody between this node and its neighbour is being asked."""
        view = self._core.view
        peer = side.peer
        for probe in self._probes.asked.values():
            if view.leaves.between(probe.id, peer, side.clockwise):
                asked = view.known(probe.ref)
                # A suspect is asked too, but only to be restored or buried: it is out of use already.
                if asked is not peer and (asked is None or not asked.suspect):
                    return True
        return False
