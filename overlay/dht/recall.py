"""Objects come back at once when their owner died: its heirs ask all publishers to look after what they have there.

A node whose arc is in doubt sends the doubtful pieces around the ring, in one spread; every node renews what it
publishes in them, which puts again what is gone, and answers when that is done. When all have, nothing is missing that
anybody publishes, and the doubts end. Where somebody could not, it is tried again. What it costs grows with the ring,
so a node waits the longer before it does so the more nodes there are; what came in doubt meanwhile goes with it.

With its answer a node says whether it knows of objects that are made from others. Where nobody does, nothing has to be
made again: a ring without indexes pays for none.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from overlay.dht.doubts import DOUBTS_MAX, Doubts
from overlay.dht.publisher import Publisher
from overlay.ring import Arc, WireArc, from_wire, to_wire
from overlay.router import Router
from overlay.spread.account import Account
from overlay.spread.branch import Branch
from overlay.spread.messages import NODES_MAX
from overlay.spread.spread import Spread
from runtime.api import Runtime, Timer

TOPIC = "dht-recall"
#: Before the first try: those that had the arc before may say that nothing is missing.
FIRST_S = 0.3
#: For each node there is, so much longer: with all of them in doubt all the time, one has twenty of these a second.
PER_NODE_S = 0.05
#: Before it is tried again, at least.
AGAIN_S = 2.0

Pieces: TypeAlias = Annotated[tuple[WireArc, ...], msgspec.Meta(max_length=2 * DOUBTS_MAX)]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Pieces).decode
#: Nodes that know of nothing made from other objects. They are counted, not those that do: an answer that says nothing,
#: or cannot be read, is none of them.
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=NODES_MAX)]
_decode_count = msgspec.msgpack.Decoder(Count).decode


class Recall:
    """This node's part in bringing back what is lost: as an heir, and as a publisher."""

    __slots__ = (
        "_doubts",
        "_out",
        "_publisher",
        "_router",
        "_runtime",
        "_spread",
        "_timer",
        "failed",
        "sent",
    )

    def __init__(
        self, runtime: Runtime, router: Router, spread: Spread, publisher: Publisher, doubts: Doubts
    ) -> None:
        self._runtime = runtime
        self._router = router
        self._spread = spread
        self._publisher = publisher
        self._doubts = doubts
        self._timer: Timer | None = None
        self._out = False
        self.sent = self.failed = 0
        doubts.arose.append(lambda: self._arm(FIRST_S))
        spread.on_arrival(TOPIC, self._asked)

    def _arm(self, after_s: float) -> None:
        if self._timer is None and not self._out:
            after_s += PER_NODE_S * self._spread.about_nodes()
            self._timer = self._runtime.call_later(after_s, self._ask, None)

    def _ask(self, _: None) -> None:
        self._timer = None
        pieces = self._doubts.pieces()
        if not pieces or not self._router.joined:
            return
        self._out = True
        self.sent += 1

        def done(reply: bytes | None, account: Account) -> None:
            self._out = False
            if account.complete:
                self._doubts.cleared(list(pieces), nothing_made=_count(reply) == account.answered)
            else:
                self.failed += 1
            if self._doubts:
                self._arm(AGAIN_S)

        arcs = tuple(WireArc(to_wire(each.start), to_wire(each.end)) for each in pieces.values())
        self._spread.start(TOPIC, _encode(arcs), done, combine=_sum)

    def _asked(self, branch: Branch) -> None:
        branch.combine = _sum

        def looked_after(ok: bool) -> None:
            if ok:
                branch.reply(_encode(0 if self._doubts.knows_of_made() else 1))
            else:
                branch.fail()

        try:
            pieces = _decode(branch.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            branch.fail()
            return
        arcs = [Arc(from_wire(each.start), from_wire(each.end)) for each in pieces]
        self._publisher.look_after(arcs, looked_after)


def _count(reply: bytes | None) -> int:
    """What nodes say; nothing when it cannot be read."""
    try:
        return _decode_count(reply) if reply else 0
    except msgspec.MsgspecError:
        return 0


def _sum(one: bytes, other: bytes) -> bytes:
    return _encode(min(NODES_MAX, _count(one) + _count(other)))
