"""What the parts of one node share: its runtime, messages, view, estimate of churn, counts and state."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, TypeVar

from overlay.bamboo.churn import Churn
from overlay.bamboo.config import BambooConfig
from overlay.bamboo.peer import Peer
from overlay.bamboo.view import View
from overlay.ring import NodeRef
from runtime.api import Address, Messenger, Runtime
from runtime.message import Message

M = TypeVar("M", bound=Message)


class State(enum.Enum):
    #: Neither started nor joining.
    IDLE = "idle"
    #: Looks for its place; nobody knows of it yet.
    SCOUTING = "scouting"
    #: Has told its neighbours, but owns nothing yet: holds what it is to deliver.
    ANNOUNCING = "announcing"
    MEMBER = "member"
    #: Said goodbye: passes on what still comes, delivers nothing.
    LEFT = "left"


class Core:
    __slots__ = (
        "answers",
        "churn",
        "config",
        "counts",
        "died",
        "me",
        "messenger",
        "namesakes",
        "rng",
        "runtime",
        "state",
        "suspected",
        "unanswered",
        "view",
    )

    def __init__(self, runtime: Runtime, messenger: Messenger, me: NodeRef, config: BambooConfig) -> None:
        self.runtime = runtime
        self.messenger = messenger
        self.me = me
        self.config = config
        self.rng = runtime.rng("bamboo")
        self.view = View(me, config, self.rng, runtime.now)
        self.churn = Churn(config, runtime.now())
        self.state = State.IDLE
        #: What happened, by name; see docs/overlay.md.
        self.counts: dict[str, int] = {}
        self.suspected: list[Callable[[NodeRef], None]] = []
        self.died: list[Callable[[NodeRef], None]] = []
        self.namesakes: list[Callable[[Address], None]] = []
        #: Called for each question that a node left unanswered, before anything follows from it.
        self.unanswered: list[Callable[[NodeRef], None]] = []
        #: Handlers of answers that this node may also give itself, without the network.
        self.answers: dict[type[Message], Callable[[Address, Any], None]] = {}

    @property
    def present(self) -> bool:
        """Whether this node answers others."""
        return self.state is not State.IDLE and self.state is not State.LEFT

    @property
    def joining(self) -> bool:
        return self.state is State.SCOUTING or self.state is State.ANNOUNCING

    def on_answer(self, kind: type[M], handler: Callable[[Address, M], None]) -> None:
        self.answers[kind] = handler
        self.messenger.on(kind, handler)

    def send(self, to: Address, answer: Message) -> None:
        """Sends an answer, perhaps to this node itself: then as soon as the current call is over."""
        if to == self.me.address:
            self.runtime.call_later(0.0, self._answer, answer)
        else:
            self.messenger.send(to, answer)

    def send_again(self, to: Address, answer: Message) -> None:
        """Sends an answer that its receiver asks for again. It may be on its way, or the path may be broken: that shows
        when nobody acknowledges it, and by then another may be known."""

        def told(arrived: bool) -> None:
            if not arrived:
                self.messenger.send(to, answer)

        if to == self.me.address:
            self.send(to, answer)
        else:
            self.messenger.send(to, answer, told)

    def _answer(self, answer: Message) -> None:
        self.answers[type(answer)](self.me.address, answer)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def suspect(self, peer: Peer) -> None:
        """Takes a silent peer out of use."""
        if not peer.suspect:
            self.count("suspected")
            self.view.suspect(peer)
            for handler in list(self.suspected):
                handler(peer.ref)

    def named(self, wire_id: bytes, address: Address) -> None:
        """A node at this address says who it is: perhaps that it is this one."""
        if wire_id == self.me.id and address != self.me.address and self.present:
            self.count("namesakes")
            for handler in list(self.namesakes):
                handler(address)

    def jittered(self, period_s: float) -> float:
        """A wait from [P/2, 3P/2)."""
        return period_s * (0.5 + self.rng.random())
