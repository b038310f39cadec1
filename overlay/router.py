"""The router interface: messages to whoever owns a key (PIER 3.2.2; docs/decisions/0012).

Above this line nothing knows which overlay is at work. A router owns membership, neighbours and the arc of
the circle this node is responsible for; it carries messages hop by hop and lets each hop look at them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from overlay.ring import Arc, NodeRef
from runtime.api import Address, Notice
from runtime.message import Message

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns a key, and the whole arc that node owned when it answered."""

    node: NodeRef
    arc: Arc


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands if everybody lives that it has not given up: its arc then, and its neighbours."""

    arc: Arc
    before: NodeRef | None = None
    after: NodeRef | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """How a routed message stands when it passes or arrives: PIER's `midway` and `locallySent` and more."""

    key: int
    origin: NodeRef
    previous: NodeRef
    hops: int
    at_owner: bool
    locally_sent: bool


class Verdict(enum.Enum):
    """What an upcall may say of a message instead of replacing it."""

    FORWARD = "forward"
    STOP = "stop"


#: Sees a message at every hop, first and last included, before it goes on. A returned message replaces it.
Upcall: TypeAlias = Callable[[M, Passage], Verdict | Message]
#: Gets a message at the node that owns its key.
Deliver: TypeAlias = Callable[[M, Passage], None]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A node this one knows, for `pier ring` and for whoever chooses among neighbours."""

    node: NodeRef
    role: str
    rtt_s: float | None


class Router(Protocol):
    """One overlay node's routing."""

    @property
    def me(self) -> NodeRef: ...

    @property
    def joined(self) -> bool:
        """Whether this node is a member and owns an arc."""
        ...

    def start(self) -> None:
        """Becomes the first member of a new ring."""
        ...

    def join(self, gateways: Sequence[Address]) -> None:
        """Joins through any member; tries for ever, in turn, until one lets it in."""
        ...

    def leave(self, whole: bool = True) -> None:
        """Tells the neighbours and stops; what this node owned passes to them at once. `whole`: so did all objects in
        it."""
        ...

    def route(self, key: int, message: Message, notice: Notice | None = None) -> None:
        """Carries a message to the owner of key, with an upcall at each hop. `notice` tells whether it was
        delivered or stopped by an upcall (True), or given up (False)."""
        ...

    def lookup(self, key: int, done: Callable[[Owner | None], None]) -> None:
        """Finds the owner of key; None when the attempts are spent."""
        ...

    def next_hop(self, key: int, avoid: Sequence[Address] = ()) -> NodeRef | None:
        """Whom `route` would hand a message for key to, those to avoid left out; None when that is this node itself.
        For whoever goes hop by hop and keeps count of what each hop took."""
        ...

    def owns(self, key: int) -> bool: ...

    def arc(self) -> Arc:
        """The arc this node owns now; only meaningful once joined."""
        ...

    def place(self) -> Place:
        """This node's place, those counted in that it found silent and has not given up: what it owns for certain."""
        ...

    def certain(self) -> Arc | None:
        """The arc that this node answers for, and nobody else, as its neighbours have agreed just now: that of `place`.
        None where they have to be asked first."""
        ...

    def confirm(self, done: Callable[[Arc | None], None], wait_s: float) -> None:
        """Asks the neighbours where need be, and calls done with `certain`: as soon as it is there, or after so
        long."""
        ...

    def split(self, arc: Arc) -> list[tuple[NodeRef, Arc]]:
        """Divides the node ids in `arc`, this node's own left out, among the neighbours known inside it.

        Each returned neighbour's id lies in its own part, the parts are disjoint, and together they cover
        every position of `arc` where another node could be. Empty when nobody else can be there."""
        ...

    def silent_in(self, arc: Arc) -> list[NodeRef]:
        """Neighbours inside `arc` that were found silent and are not given up: `split` leaves them out, and they may
        live."""
        ...

    def replicas(self, count: int) -> list[NodeRef]:
        """The `count` neighbours most likely to own this node's arc if it dies, likeliest first."""
        ...

    def neighbours(self) -> list[Neighbour]: ...

    def on_deliver(self, kind: type[M], handler: Deliver[M]) -> None: ...

    def on_upcall(self, kind: type[M], handler: Upcall[M]) -> None: ...

    def on_arc(self, handler: Callable[[Arc | None, Arc | None], None]) -> None:
        """Calls handler(old, new) whenever the owned arc changes; None means not a member."""
        ...

    def on_place(self, handler: Callable[[Arc | None, Arc | None, bool], None]) -> None:
        """Calls handler(old, new, peaceful) whenever the arc of `place` changes, before `on_arc`. Peaceful: what was
        gained was handed over by who had it, or nobody had it before."""
        ...

    def on_suspect(self, handler: Callable[[NodeRef], None]) -> None:
        """Calls handler for each neighbour found silent, when it is taken out of use."""
        ...

    def on_death(self, handler: Callable[[NodeRef], None]) -> None:
        """Calls handler for each of the nearest neighbours that is given up, long after it was found silent."""
        ...

    def on_namesake(self, handler: Callable[[Address], None]) -> None:
        """Calls handler with the address of a node that says it has this node's own id."""
        ...
