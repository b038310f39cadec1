"""One spread as one of its nodes sees it: where it came from, whom it was passed to, what has come back.

Handlers on every node get a `Branch`. They answer with `reply` or `fail`; they may talk along the tree's
edges before that with `send_up` and `send_down`. The service in `spread` does the rest.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from overlay.ring import Arc, NodeRef
from overlay.spread.account import NOBODY, Account, missing
from overlay.spread.messages import SpreadDone
from runtime.api import Notice

if TYPE_CHECKING:
    from overlay.spread.spread import Spread

Version: TypeAlias = tuple[int, ...]


class Own(enum.Enum):
    """How this node's own answer stands."""

    #: It only holds the root: its id is not in the arc.
    ABSENT = "absent"
    WORKING = "working"
    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ChildLost:
    """A child fell silent; others are being found for its part, and come as new children."""

    node: NodeRef


@dataclass(frozen=True, slots=True)
class ParentChanged:
    """The tree above was rebuilt. What was sent up before may be lost with the old parent, and all children
    are new: whoever streams partial results sends its own state again."""

    parent: NodeRef


@dataclass(frozen=True, slots=True)
class Ended:
    """The spread is over for this node: cancelled by the root, or everybody above is gone."""

    reason: str
    #: Whether the root ended it. Else it may go on elsewhere, and come here again.
    cancelled: bool = True


Event: TypeAlias = ChildLost | ParentChanged | Ended
#: Two replies, or partial results of them, into one.
Combine: TypeAlias = Callable[[bytes, bytes], bytes]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A node that somebody tried in vain, or that a router takes for silent."""

    node: NodeRef
    #: It had acknowledged the message.
    received: bool = False
    #: It is given up, not only silent.
    gone: bool = False
    #: How long nothing was heard of it although it was asked.
    silent_s: float = 0.0


@dataclass(slots=True, eq=False)
class Child:
    """An edge down. Its part is covered by whoever is below it until it says done."""

    node: NodeRef
    part: Arc
    version: Version
    #: Nodes of its part that were silent, by id.
    doubts: dict[bytes, Doubt]
    #: When anything last came from it, or when it was attached.
    heard_at: float
    received: bool = False
    #: It had acknowledged the message before, in an older tree.
    had: bool = False
    done: bool = False
    #: Somebody else is being looked for, in case it stays silent.
    doubted: bool = False
    #: It is given up; the search under way, or one begun then, finds who takes its place.
    lost: bool = False
    #: It is known not to have the message.
    lacking: bool = False

    @property
    def alone(self) -> bool:
        """Whether it is asked for nobody but itself."""
        return self.part.width() == 1


class Branch:
    """This node's part in a spread. The public half is for handlers, the underscored half for `Spread`."""

    __slots__ = (
        "_arc",
        "_below",
        "_children",
        "_finished",
        "_folded",
        "_on_done",
        "_outcome",
        "_own",
        "_own_reply",
        "_repairs",
        "_searching",
        "_service",
        "_touched_at",
        "_version",
        "began_at",
        "combine",
        "on_down",
        "on_event",
        "on_up",
        "parent",
        "payload",
        "root",
        "spread",
        "topic",
    )

    def __init__(
        self,
        service: Spread,
        spread: bytes,
        topic: str,
        payload: bytes,
        root: NodeRef,
        own: Own,
        now: float,
        age_s: float = 0.0,
    ) -> None:
        self.spread = spread
        self.topic = topic
        self.payload = payload
        self.root = root
        self.parent: NodeRef | None = None
        #: When the spread began at its root, by the clock here.
        self.began_at = now - age_s
        #: How replies are combined; without it only the account climbs.
        self.combine: Combine | None = None
        self.on_up: Callable[[NodeRef, bytes], None] | None = None
        self.on_down: Callable[[bytes], None] | None = None
        self.on_event: Callable[[Event], None] | None = None
        self._service = service
        self._own = own
        self._own_reply: bytes | None = None
        self._version: Version = (0,)
        self._children: dict[str, Child] = {}
        self._repairs = 0
        self._searching = 0
        self._below = NOBODY
        self._folded: bytes | None = None
        self._finished = False
        self._outcome: SpreadDone | None = None
        #: The node positions a root covers.
        self._arc: Arc | None = None
        #: When a parent last showed that it waits, or the part was finished.
        self._touched_at = now
        self._on_done: Callable[[bytes | None, Account], None] | None = None

    @property
    def children(self) -> list[NodeRef]:
        return [child.node for child in self._children.values()]

    @property
    def is_root(self) -> bool:
        return self.parent is None

    def reply(self, value: bytes | None = None) -> None:
        """This node's answer. The subtree's goes up when every child has given its own."""
        self._settle(Own.ANSWERED, value)

    def fail(self) -> None:
        """This node cannot answer; counted as failed, with its id."""
        self._settle(Own.FAILED, None)

    def send_up(self, body: bytes, notice: Notice | None = None) -> None:
        """To the parent's `on_up`; at the root to its own."""
        self._service.send_up(self, body, notice)

    def send_down(self, body: bytes) -> None:
        """To every child's `on_down`; not to children found later."""
        self._service.send_down(self, body)

    def conclude(self) -> None:
        """The root ends the spread everywhere with what it has: children that are not done have failed, and nobody can
        say what is behind them."""
        self._service.conclude(self)

    def cancel(self) -> None:
        """The root ends the spread everywhere, without an account."""
        self._service.cancel(self)

    # --- for the service ---------------------------------------------------------------------------------------

    def _settle(self, own: Own, value: bytes | None) -> None:
        if self._own is not Own.WORKING:
            return
        self._own, self._own_reply = own, value
        self._service.progress(self)

    def _tell(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)

    def _fold(self, reply: bytes | None) -> None:
        if reply is None or self.combine is None:
            return
        self._folded = reply if self._folded is None else self.combine(self._folded, reply)

    def _complete(self) -> bool:
        if self._own is Own.WORKING or self._searching:
            return False
        return all(child.done for child in self._children.values())

    def _result(self, me: bytes) -> tuple[bytes | None, Account]:
        """Own answer and children's together."""
        reply = self._folded
        if self.combine is not None and self._own_reply is not None:
            reply = self._own_reply if reply is None else self.combine(self._own_reply, reply)
        account = self._below
        if self._own is Own.ANSWERED:
            account = Account(received=1, answered=1).plus(account)
        elif self._own is Own.FAILED:
            account = missing(me, received=True).plus(account)
        return reply, account

    def _restart(self, version: Version, parent: NodeRef | None) -> None:
        """Into a newer tree: old edges count no more, the own answer stays."""
        self._version, self.parent = version, parent
        self._children.clear()
        self._searching = self._repairs = 0
        self._below, self._folded, self._finished = NOBODY, None, False
