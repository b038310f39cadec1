"""The overlay half of a node's service: who I am, whom I know, who owns what, and the DHT's plain verbs.

The whole ring is found by walking it: the owner of the key just past my arc tells its own arc, whose end is
the next key, until the circle closes. Nobody keeps a list of members, so this is the one way to see them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got, PutObject
from overlay.dht.verbs import Dht
from overlay.objects.name import Name
from overlay.ring import Arc, NodeRef, from_wire, to_wire
from overlay.roster.roster import Roster
from overlay.router import Neighbour, Owner, Router
from overlay.spread.spread import Spread
from pier_node.doors import Doors
from pier_node.members import Members
from pier_node.protocol.messages import NodeEntry, Scalar
from pier_node.service import Failure, MembersView, NodeStatus, Reply, RingView
from runtime.api import Runtime

#: Nodes visited by one walk; larger rings are shown in part and say so.
WALK_NODES_MAX = 4_096
#: Levels of nested statistics that become dotted names.
_FIGURE_DEPTH_MAX = 4


class OverlayFacts:
    """Answers about one node and its ring."""

    def __init__(
        self,
        runtime: Runtime,
        router: Router,
        dht: Dht,
        describe: Callable[[NodeStatus], NodeStatus],
        statistics: Callable[[], dict[str, Any]],
        spread: Spread,
        roster: Roster,
    ) -> None:
        """`describe` adds what the process knows to a status; `statistics` gives snapshots by name."""
        self._runtime = runtime
        self._router = router
        self._dht = dht
        self._describe = describe
        self._statistics = statistics
        self._members = Members(runtime, router, roster)
        self._doors = Doors(spread, router, lambda: describe(self._bare_status()).client_address)

    def status(self, done: Reply[NodeStatus]) -> None:
        figures: dict[str, Scalar] = {}
        for name, snapshot in self._statistics().items():
            flatten(name, snapshot, figures)
        done(replace(self.brief(), figures=figures))

    def brief(self) -> NodeStatus:
        """A status without figures."""
        known = len(self._router.neighbours()) if self._router.joined else 0
        return self._describe(replace(self._bare_status(), neighbours=known))

    def ring(self, whole: bool, done: Reply[RingView]) -> None:
        if not self._router.joined:
            done(Failure("unavailable", "this node is not on the ring yet", hint="ask again in a moment"))
        elif whole:
            _Walk(self._router, done).step()
        else:
            others = sorted(self._router.neighbours(), key=_nearness)
            done(RingView((_entry(self._router.me, self._router.arc(), "me"), *map(_neighbour, others))))

    def doors(self, done: Reply[RingView]) -> None:
        self._doors.ask(done)

    def members(self, done: Reply[MembersView]) -> None:
        self._members.ask(done)

    def retire(self, who: str, done: Reply[None]) -> None:
        self._members.retire(who, done)

    def _bare_status(self) -> NodeStatus:
        me = self._router.me
        return NodeStatus(me.id.hex(), me.address, self._router.joined, 0, remarks=self._members.remarks())

    def put(
        self, namespace: str, key: str, suffix: str, value: bytes, lifetime_s: float, done: Reply[None]
    ) -> None:
        def ended(code: Code) -> None:
            done(None if code is Code.OK else _failure(code))

        self._dht.put(PutObject(Name(namespace, key, suffix), value, lifetime_s), ended)

    def get(self, namespace: str, key: str, done: Reply[list[tuple[str, bytes]]]) -> None:
        def ended(got: Got) -> None:
            if got.code is Code.OK:
                done([(found.name.suffix, found.value) for found in got.objects])
            else:
                done(_failure(got.code))

        self._dht.get(GetObject(namespace, key), ended)


class _Walk:
    """One way round the ring, an owner at a time."""

    def __init__(self, router: Router, done: Reply[RingView]) -> None:
        self._router = router
        self._done = done
        arc = router.arc()
        self._found: dict[bytes, NodeEntry] = {router.me.id: _entry(router.me, arc, "me")}
        self._next = arc.end
        self._start = arc.start
        self._closed = arc.start == arc.end

    def step(self) -> None:
        if self._closed or len(self._found) >= WALK_NODES_MAX:
            self._finish()
        else:
            self._router.lookup(self._next, self._owner)

    def _owner(self, owner: Owner | None) -> None:
        if owner is None or owner.node.id in self._found:
            # Silence, or back where we have been: closed only if that is where the walk began.
            self._closed = owner is not None and owner.node.id == self._router.me.id
            self._finish()
            return
        self._found[owner.node.id] = _entry(owner.node, owner.arc, "")
        self._next = owner.arc.end
        self._closed = owner.arc.end == self._start
        self.step()

    def _finish(self) -> None:
        in_order = sorted(self._found.values(), key=lambda entry: entry.id)
        self._done(RingView(tuple(in_order), self._closed))


def flatten(name: str, value: Any, into: dict[str, Scalar], depth: int = 0) -> None:
    """A snapshot's counters by dotted name."""
    if isinstance(value, bool | int | float | str) or value is None:
        into[name] = value
    elif depth < _FIGURE_DEPTH_MAX and isinstance(value, dict):
        for key, part in value.items():
            flatten(f"{name}.{key}", part, into, depth + 1)
    elif depth < _FIGURE_DEPTH_MAX and is_dataclass(value):
        for part in fields(value):
            flatten(f"{name}.{part.name}", getattr(value, part.name), into, depth + 1)


def _entry(node: NodeRef, arc: Arc, role: str) -> NodeEntry:
    return NodeEntry(
        node.id.hex(), node.address, role, arc_start=to_wire(arc.start).hex(), arc_end=to_wire(arc.end).hex()
    )


def _neighbour(neighbour: Neighbour) -> NodeEntry:
    return NodeEntry(neighbour.node.id.hex(), neighbour.node.address, neighbour.role, neighbour.rtt_s)


def _nearness(neighbour: Neighbour) -> tuple[str, int]:
    return neighbour.role, from_wire(neighbour.node.id)


_WORDS = {
    Code.FULL: "the node that owns this key has no room",
    Code.TOO_LARGE: "the value is larger than a node takes",
    Code.UNREACHED: "no owner of this key answered",
    Code.LIMIT: "too much is under way, or more than one answer can hold",
}


def _failure(code: Code) -> Failure:
    kind = "unavailable" if code in (Code.UNREACHED, Code.BUSY) else "limit"
    return Failure(kind, _WORDS.get(code, code.name.lower()))
