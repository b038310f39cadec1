"""Places in a tree of bounded in-degree, and who is waited for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from query.aggregation.children import Places, Waited


def test_height_and_room_follow_the_children() -> None:
    places = Places(4)
    assert (places.height, places.free) == (0, 4)
    places.take("a", 0, 0, 4)
    places.take("b", 0, 2, 9)
    assert (places.height, places.free) == (3, 2 + 4 + 9)


def test_a_new_child_goes_to_the_lowest_with_most_room() -> None:
    places = Places(3)
    for child, height, free in (("high", 2, 100), ("low", 0, 4), ("roomy", 0, 5)):
        assert places.take(child, 0, height, free) is None
    assert places.take("new", 0, 0, 4) == "roomy"
    # Its room is counted down at once: the next goes to one of the two with four left, in turn.
    assert {places.take(f"new{n}", 0, 0, 4) for n in range(2)} == {"roomy", "low"}
    assert places.take("low", 1, 1, 3) is None


def test_a_silent_child_loses_its_place() -> None:
    places = Places(1)
    places.take("a", 0, 0, 4)
    assert places.take("b", 1, 0, 4) == "a"
    places.forget_silent(1)
    assert places.take("b", 2, 0, 4) is None
    assert len(places) == 1


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(0, 3)), max_size=60),
)
def test_there_are_never_more_children_than_places(most: int, reports: list[tuple[int, int, int]]) -> None:
    places = Places(most)
    for epoch, (child, height, free) in enumerate(reports):
        elsewhere = places.take(f"c{child}", epoch, height, free)
        assert len(places) <= most
        assert elsewhere != f"c{child}"
        assert places.free >= 0


def test_who_is_silent_is_known() -> None:
    waited = Waited()
    waited.heard("a", 0)
    waited.heard("b", 0)
    waited.heard("a", 2)
    waited.heard("a", 1)
    assert waited.silent(2) == ["b"]
    waited.forget("b")
    assert list(waited.known()) == ["a"]
