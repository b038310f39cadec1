"""Arcs in doubt, and whoever waits for them: pieces come, are vouched for, looked after, or lost."""

from __future__ import annotations

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from overlay.dht.arcs import common, difference, without
from overlay.dht.doubts import DOUBTS_MAX, Doubts
from overlay.dht.standing import Standing, Standings
from overlay.ring import SPACE, WHOLE, Arc
from overlay.router import Router
from tests.overlay.rings import Ring

points = st.integers(0, SPACE - 1)
all_arcs = st.builds(Arc, points, points)


@given(all_arcs, all_arcs, points)
def test_what_two_arcs_share_is_in_both(one: Arc, other: Arc, point: int) -> None:
    inside = any(piece.contains(point) for piece in common(one, other))
    assert inside == (one.contains(point) and other.contains(point))
    left = any(piece.contains(point) for piece in without([one], other))
    assert left == (one.contains(point) and not other.contains(point))
    assert common(one, other) or not any(map(one.contains, (other.start, (other.end - 1) % SPACE)))
    assert difference(one, one) == []


def test_a_doubt_ends_where_others_vouch_and_elsewhere_when_it_is_looked_after() -> None:
    doubts, ended = Doubts(), list[None]()
    doubts.ended.append(lambda: ended.append(None))
    doubts.add(Arc(100, 200))
    doubts.vouched([Arc(50, 150)])
    assert list(doubts.pieces().values()) == [Arc(150, 200)] and len(ended) == 1
    assert doubts.contain(150) and not doubts.contain(149) and doubts.touch(Arc(190, 300))
    asked = list(doubts.pieces())
    doubts.add(Arc(150, 160))
    doubts.cleared(asked)
    assert list(doubts.pieces().values()) == [Arc(150, 160)], "what came since is another doubt"
    doubts.keep_within(Arc(0, 100))
    assert not doubts and len(ended) == 3


def test_too_many_doubts_are_one_of_everything() -> None:
    doubts = Doubts()
    for number in range(DOUBTS_MAX + 1):
        doubts.add(Arc(10 * number, 10 * number + 5))
    assert list(doubts.pieces().values()) == [WHOLE]


def test_a_standing_waits_for_the_neighbours_and_for_what_is_on_its_way() -> None:
    ring = Ring(4)
    node = ring.nodes[1]
    doubts = Doubts()
    standings = Standings(node.runtime, cast(Router, node.router), doubts)
    arc = node.router.arc()
    taken: list[tuple[float, Standing]] = []

    def take(wait_s: float) -> None:
        standings.take(lambda standing: taken.append((ring.world.now, standing)), wait_s)

    take(3.0)
    ring.world.run_for(0.1)
    assert taken.pop() == (0.0, Standing(arc, True))
    doubts.add(arc)
    began_s = ring.world.now
    take(3.0)
    ring.world.call_at(began_s + 1.0, lambda _: doubts.cleared(list(doubts.pieces())), None)
    ring.world.run_for(5.0)
    assert taken.pop() == (began_s + 1.0, Standing(arc, True))
    doubts.add(arc)
    began_s = ring.world.now
    take(3.0)
    ring.world.run_for(5.0)
    assert taken.pop() == (began_s + 3.0, Standing(arc, False)), "it is told what there is to doubt"
    assert not standings.is_sure_of(arc.start)
    node.router.agreed = False
    take(3.0)
    ring.world.run_for(5.0)
    assert taken.pop()[1] == Standing(None, False)


def test_what_is_looked_after_is_unsettled_unless_nobody_makes_objects_from_others() -> None:
    doubts = Doubts()
    doubts.made = lambda: True
    doubts.add(Arc(100, 200))
    doubts.cleared(list(doubts.pieces()))
    assert not doubts and not doubts.is_settled(150)
    doubts.settled(list(doubts.unsettled()))
    doubts.add(Arc(100, 200))
    doubts.cleared(list(doubts.pieces()), nothing_made=True)
    assert not doubts and doubts.is_settled(150)
