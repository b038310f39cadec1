"""The overlay half of a node's service: walking the ring, and what is said when it cannot be walked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from overlay.ring import SPACE, Arc, NodeRef, to_wire
from overlay.router import Neighbour, Owner
from pier_node.overlay_service import OverlayFacts, flatten
from pier_node.service import Failure, NodeStatus, RingView


class Circle:
    """A router on a ring of evenly spaced nodes, of which some may not answer."""

    def __init__(self, count: int, silent: int | None = None, joined: bool = True) -> None:
        self.count, self.silent, self.joined = count, silent, joined
        self.me = self.ref(0)
        #: It stands for the roster as well, which knows of no other life.
        self.namesakes = SimpleNamespace(seen={})

    def ref(self, number: int) -> NodeRef:
        return NodeRef(to_wire(number * SPACE // self.count), f"127.0.0.1:{number + 1}")

    def arc_of(self, number: int) -> Arc:
        return Arc(number * SPACE // self.count, (number + 1) % self.count * SPACE // self.count)

    def arc(self) -> Arc:
        return self.arc_of(0)

    def lookup(self, key: int, done: Callable[[Owner | None], None]) -> None:
        number = key * self.count // SPACE
        done(None if number == self.silent else Owner(self.ref(number), self.arc_of(number)))

    def on_arrival(self, topic: str, handler: Callable[[Any], None]) -> None:
        """The circle stands for the spread, too; nobody asks for doors here."""

    def wall(self) -> float:
        return 0.0

    def neighbours(self) -> list[Neighbour]:
        return [
            Neighbour(self.ref(number), "leaf", 0.001 * number) for number in range(1, min(4, self.count))
        ]


def facts(router: Circle) -> OverlayFacts:
    anything: Any = router
    return OverlayFacts(
        anything, anything, anything, lambda status: status, lambda: {"a": {"b": 1}}, anything, anything
    )


def ring(router: Circle, whole: bool) -> Any:
    got: list[Any] = []
    facts(router).ring(whole, got.append)
    (view,) = got
    return view


def test_a_walk_finds_everybody_and_knows_it() -> None:
    for count in (1, 2, 64):
        view = ring(Circle(count), True)
        assert isinstance(view, RingView) and view.whole and len(view.nodes) == count
        assert [entry.id for entry in view.nodes] == sorted(entry.id for entry in view.nodes)


def test_a_walk_that_meets_silence_says_it_is_not_whole() -> None:
    view = ring(Circle(8, silent=5), True)
    assert not view.whole and len(view.nodes) == 5


def test_neighbours_come_with_role_and_round_trip() -> None:
    view = ring(Circle(8), False)
    assert [entry.role for entry in view.nodes] == ["me", "leaf", "leaf", "leaf"]
    assert view.nodes[1].rtt_s == 0.001


def test_a_node_outside_the_ring_says_so() -> None:
    assert isinstance(ring(Circle(2, joined=False), True), Failure)
    got: list[Any] = []
    facts(Circle(2, joined=False)).status(got.append)
    assert isinstance(got[0], NodeStatus) and not got[0].joined and got[0].figures == {"a.b": 1}


def test_statistics_become_dotted_names() -> None:
    @dataclass
    class Inner:
        sent: int

    figures: dict[str, Any] = {}
    flatten("x", {"y": Inner(3), "z": {"drops": {"late": 2}}}, figures)
    assert figures == {"x.y.sent": 3, "x.z.drops.late": 2}
