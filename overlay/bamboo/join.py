"""Joining: gateways in, membership out; and the same question asked again to heal a partition.

A gateway routes the join to the joiner's own id. Every hop adds itself; the closest node answers with the path
and its leaf set. The joiner looks for its immediate neighbours, asks the path for rows, then announces itself to
its leaves, and is a member once `ownership` says that both neighbours hold it. A gateway that does not help is
followed by the next, for ever. A member that asks a node believed down the same question learns of a ring it
was cut off from.
"""

from __future__ import annotations

from collections.abc import Sequence

from overlay.bamboo.candidates import Candidates
from overlay.bamboo.core import Core, State
from overlay.bamboo.exchange import Exchange
from overlay.bamboo.forward import Forwarder
from overlay.bamboo.messages import Join, JoinAsk, JoinReply, RowAsk
from overlay.bamboo.ownership import Ownership
from overlay.bamboo.probes import Probes
from overlay.bamboo.table import shared_digits
from overlay.ring import MASK, NodeRef, from_wire
from runtime.api import Address, Timer

#: Between two questions for the right neighbours, so that wrong ones are not asked in a circle.
MISPLACED_S = 0.5


class Joiner:
    __slots__ = (
        "_asked_at",
        "_attempts",
        "_candidates",
        "_core",
        "_forwarder",
        "_hearsay",
        "_ownership",
        "_probes",
        "_timer",
        "_untried",
        "gateways",
    )

    def __init__(
        self,
        core: Core,
        probes: Probes,
        hearsay: Candidates,
        exchange: Exchange,
        ownership: Ownership,
        forwarder: Forwarder,
    ) -> None:
        self._core = core
        self._probes = probes
        self._hearsay = hearsay
        self._ownership = ownership
        self._forwarder = forwarder
        self.gateways: list[Address] = []
        self._attempts = 0
        #: Who may be a neighbour, as the last answer to the join has it.
        self._candidates: list[NodeRef] = []
        #: Those of them that were not asked yet, since nearer ones were.
        self._untried: list[NodeRef] = []
        self._timer: Timer | None = None
        self._asked_at = -MISPLACED_S
        forwarder.on_join = self._answer
        exchange.misplaced = self._misplaced
        ownership.settled.insert(0, self._settled)
        core.messenger.on(JoinAsk, self._on_ask)
        core.messenger.on(JoinReply, self._on_reply)

    def join(self, gateways: Sequence[Address]) -> None:
        self.gateways = [gateway for gateway in gateways if gateway != self._core.me.address]
        assert self.gateways, "a join needs a gateway other than the node itself"
        self._core.state = State.SCOUTING
        self._ownership.member_seen = False
        self._attempts = 0
        self._try(None)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ask(self, gateway: Address) -> None:
        """Asks for this node's neighbours as that node's ring knows them."""
        self._core.messenger.send(gateway, JoinAsk(self._core.me.id))

    def _misplaced(self, neighbour: Address) -> None:
        """Whom we took for a neighbour is none: it may know the way to those who are."""
        now = self._core.runtime.now()
        if now - self._asked_at >= MISPLACED_S:
            self._asked_at = now
            self.ask(neighbour)

    def _try(self, _: None) -> None:
        core = self._core
        config = core.config
        gateway = self.gateways[self._attempts % len(self.gateways)]
        rounds = min(self._attempts // len(self.gateways), 16)
        wait_s = min(config.join_retry_floor_s * (1 << rounds), config.join_retry_ceiling_s)
        self._attempts += 1
        self._timer = core.runtime.call_later(core.jittered(wait_s) + wait_s / 2, self._try, None)
        if self._attempts > 1:
            core.count("joins_repeated")
        self.ask(gateway)

    def _settled(self) -> None:
        core = self._core
        if not core.joining:
            return
        if not self._ownership.complete():
            # Whoever was asked in vain makes room for the next.
            if not self._probes.asked:
                self._untried = self._hearsay.consider_leaves(self._untried, per_side=1)
            return
        if core.state is State.SCOUTING:
            core.state = State.ANNOUNCING
            self._ownership.announce()
            self._probes.announce()
        else:
            self.stop()
            core.state = State.MEMBER
            self._ownership.publish()
            for ref in self._candidates:
                self._hearsay.consider_cell(ref)
            self._candidates = self._untried = []

    def _on_ask(self, sender: Address, ask: JoinAsk) -> None:
        core = self._core
        core.named(ask.id, sender)
        if core.state is not State.MEMBER or ask.id == core.me.id:
            core.count("joins_ignored")
            return
        joiner = NodeRef(ask.id, sender)
        self._forwarder.submit(from_wire(ask.id), Join(joiner, ()), 0, receipt=False)

    def _answer(self, join: Join) -> None:
        core = self._core
        core.named(join.joiner.id, join.joiner.address)
        leaves = tuple(ref for ref in core.view.leaf_refs() if ref.id != join.joiner.id)
        reply = JoinReply(join.path, leaves, core.churn.session_s)

        def told(arrived: bool) -> None:
            # The joiner cannot ask anybody else for it: whoever is closest to it answers, whichever gateway it takes.
            if not arrived and core.present:
                core.messenger.send(join.joiner.address, reply)

        core.messenger.send(join.joiner.address, reply, told)

    def _on_reply(self, sender: Address, reply: JoinReply) -> None:
        core = self._core
        if not core.present:
            return
        if core.joining:
            core.churn.hear(reply.session_s)
            self._ask_rows(reply.path)
            self._candidates = self._untried = self._nearest_first((*reply.leaves, *reply.path))
        else:
            self._hearsay.consider_leaves((*reply.leaves, *reply.path), core.config.leaf_per_side)
        self._ownership.review()

    def _nearest_first(self, refs: Sequence[NodeRef]) -> list[NodeRef]:
        """Both sides in turn, so that the nearest are asked first."""
        me = self._core.view.me_id
        ranked = sorted(
            {ref.address: ref for ref in refs}.values(), key=lambda ref: (from_wire(ref.id) - me) & MASK
        )
        ordered: dict[Address, NodeRef] = {}
        for after, before in zip(ranked, reversed(ranked), strict=True):
            ordered.setdefault(after.address, after)
            ordered.setdefault(before.address, before)
        return list(ordered.values())

    def _ask_rows(self, path: Sequence[NodeRef]) -> None:
        """Each node on the path shares some digits with this one: its rows up to there fit here."""
        core = self._core
        low = 0
        for ref in path:
            high = shared_digits(core.view.me_id, from_wire(ref.id))
            if high >= low and ref.id != core.me.id:
                core.messenger.send(ref.address, RowAsk(low, min(high, 39)))
                low = high + 1
