"""One epoch at one node: what has come, what of it has been passed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from query.aggregation.messages import COUNT_MAX
from query.aggregation.share import STEPS_MAX
from query.causes import WireCauses, added
from runtime.api import Address, Timer

#: Two states into one; associative and commutative. Nothing is neutral: a state combined with none is checked and
#: returned. Raises BadState for a second one that is none or does not go with the first.
Combine: TypeAlias = Callable[[bytes, bytes], bytes]


class BadState(ValueError):
    """A peer's bytes are no state of this aggregation."""


class Epoch:
    """States of one epoch, combined as they come. What was passed on is kept only at the root."""

    __slots__ = (
        "began",
        "born_s",
        "causes",
        "kept",
        "missing",
        "nodes",
        "number",
        "passed_on",
        "revision",
        "state",
        "steps",
        "taken",
        "timer",
        "unsent_nodes",
        "unsent_state",
        "unsent_steps",
    )

    def __init__(self, number: int, now_s: float, missing: dict[Address, None]) -> None:
        self.number = number
        #: Who is waited for and has not sent.
        self.missing = missing
        #: Senders and their numbers for what is in it; made when the first comes, as most nodes get nothing.
        self.taken: set[tuple[Address, int]] | None = None
        #: Whether this node's own state is in.
        self.began = False
        #: When the oldest data in it was read, as far as its age says.
        self.born_s = now_s
        self.nodes = self.unsent_nodes = 0
        #: What it lacks: at the root all of it, elsewhere what has not been passed on.
        self.causes: WireCauses = {}
        self.state = self.unsent_state = b""
        #: What of the ring the nodes in it answered for (`share`).
        self.steps = self.unsent_steps = 0
        #: Whether this node is the root and keeps the whole.
        self.kept = False
        #: Whether a state has gone up, or at the root a result out.
        self.passed_on = False
        self.revision = 0
        self.timer: Timer | None = None

    def is_new(self, sender: Address, sequence: int) -> bool:
        """Whether this has not come before; remembers it."""
        if self.taken is None:
            self.taken = set()
        before = len(self.taken)
        self.taken.add((sender, sequence))
        return len(self.taken) > before

    def note(self, causes: WireCauses) -> None:
        """Something takes data from it."""
        if causes:
            self.causes = added(self.causes, causes)

    def add(
        self, state: bytes, nodes: int, born_s: float, combine: Combine, keep: bool, steps: int = 0
    ) -> None:
        """Takes a state in; `keep` at the root, which gives the whole again when more comes late. Raises BadState
        and is as it was before."""
        if keep:
            self.keep()
        if state:
            unsent = combine(self.unsent_state, state)
            if keep:
                self.state = unsent if self.state == self.unsent_state else combine(self.state, state)
            self.unsent_state = unsent
        self.born_s = min(self.born_s, born_s)
        self.unsent_nodes = min(COUNT_MAX, self.unsent_nodes + nodes)
        self.nodes = min(COUNT_MAX, self.nodes + (nodes if keep else 0))
        self.unsent_steps = min(STEPS_MAX, self.unsent_steps + steps)
        self.steps = min(STEPS_MAX, self.steps + (steps if keep else 0))

    def keep(self) -> None:
        """From now on this node is the root: what has not been passed on is the beginning of the whole."""
        if not self.kept:
            self.state, self.nodes, self.kept = self.unsent_state, self.unsent_nodes, True
            self.steps = self.unsent_steps

    def take_unsent(self) -> tuple[bytes, int, int, WireCauses]:
        taken = (self.unsent_state, self.unsent_nodes, self.unsent_steps, self.causes)
        self.unsent_state, self.unsent_nodes, self.unsent_steps = b"", 0, 0
        self.causes = self.causes if self.kept else {}
        self.passed_on = True
        return taken

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
