"""Which next hop a state takes: the overlay's, the kept one, another when that is gone; each state once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from overlay.ring import NodeRef
from query.aggregation.messages import Psr
from query.aggregation.session import SessionCounts, SessionSpec
from query.aggregation.strategy import parse
from query.aggregation.transit import HOPS_TRIED_MAX, Transit
from query.causes import Cause
from runtime.api import Address
from runtime.message import Message

PSR = Psr("s", 0, "me:1", 1, b"")


class Overlay:
    """A router that names one neighbour after the other, and a messenger that notes what it is to send."""

    def __init__(self, *hops: Address) -> None:
        self.me = NodeRef(bytes(20), "me:1")
        self.hops = list(hops)
        self.sent: list[tuple[Address, Callable[[bool], None]]] = []
        self.last: Message | None = None

    def next_hop(self, key: int, avoid: Sequence[Address] = ()) -> NodeRef | None:
        return next((NodeRef(bytes(20), hop) for hop in self.hops if hop not in avoid), None)

    def send(self, to: Address, message: Message, notice: Callable[[bool], None]) -> None:
        self.sent.append((to, notice))
        self.last = message

    def tell(self, arrived: bool) -> Address:
        """Ends the last message and returns where it went."""
        to, notice = self.sent[-1]
        notice(arrived)
        return to


def transit(name: str, overlay: Any) -> Transit:
    return Transit(SessionSpec("s", parse(name), "asker:1"), overlay, overlay, overlay, SessionCounts())


def test_a_stable_next_hop_is_kept_when_the_overlay_changes_its_mind() -> None:
    for name, second in (("DHT-Hi-Learned", "b:1"), ("DHT-Hi-S-Learned", "a:1")):
        overlay = Overlay("a:1")
        way = transit(name, overlay)
        way.send(PSR)
        assert overlay.tell(True) == "a:1"
        overlay.hops = ["b:1", "a:1"]
        way.send(PSR)
        assert overlay.tell(True) == second, name


def test_a_next_hop_that_is_gone_is_replaced_at_once_and_for_good() -> None:
    overlay = Overlay("a:1", "b:1")
    way = transit("DHT-Hi-S-Learned", overlay)
    way.send(PSR)
    overlay.tell(True)
    way.send(PSR)
    assert overlay.tell(False) == "a:1"
    assert overlay.tell(False) == "a:1", "once more, with the same number"
    assert overlay.tell(True) == "b:1"
    assert (way.parent, way.counts.rerouted, way.pending) == ("b:1", 1, 0)


def test_a_state_that_takes_another_way_says_that_it_may_be_counted_twice() -> None:
    """Who did not acknowledge it may have taken it: then all nodes seem to be in the epoch, and one is in it twice."""
    for name in ("DHT-Hi-Learned", "DHT-Hi-Optimal"):
        overlay = Overlay("a:1", "b:1")
        way = transit(name, overlay)
        way.send(PSR) if name == "DHT-Hi-Learned" else way.send_to("parent:1", PSR)
        overlay.tell(False)
        assert overlay.last == PSR, "once more to the same, who knows it by its number"
        overlay.tell(False)
        assert isinstance(overlay.last, Psr)
        assert overlay.last.causes == {Cause.DOUBLED.number: 1}


def test_a_redirect_holds_for_trees_only_until_the_new_parent_is_gone() -> None:
    overlay = Overlay("a:1")
    way = transit("Tree-Hi-Topology", overlay)
    way.redirected_to("c:1")
    way.send(PSR)
    assert overlay.tell(False) == overlay.tell(False) == "c:1"
    assert overlay.tell(True) == "a:1"
    assert way.parent is None
    plain = transit("DHT-Hi-Learned", overlay)
    plain.redirected_to("c:1")
    assert plain.parent is None


def test_a_state_that_nobody_takes_is_given_up_and_counted() -> None:
    overlay = Overlay(*(f"h{n}:1" for n in range(9)))
    way = transit("DHT-ML-Learned", overlay)
    settled: list[bool] = []
    way.on_settled = lambda: settled.append(True)
    way.send(PSR)
    tried = [overlay.tell(False) for _ in range(2 * HOPS_TRIED_MAX)]
    assert tried[::2] == tried[1::2] == ["h0:1", "h1:1", "h2:1", "h3:1"]
    assert (way.counts.lost, way.pending, settled) == (1, 0, [True])
