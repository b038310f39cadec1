"""Partition groups: every node of a small ring has some, and nobody has more than an even share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from overlay.ring import SPACE, Arc, NodeRef, owned_arc, to_wire
from overlay.router import Neighbour, Owner, Router
from query.engine.groups import GroupOwners, shared_out


@given(st.lists(st.integers(0, 6), min_size=7, max_size=300))
def test_groups_are_shared_out_evenly_and_stay_where_they_fit(owner_of: list[int]) -> None:
    given_to = shared_out(owner_of, 7)
    share = -(-len(owner_of) // 7)
    counts = Counter(given_to)
    assert max(counts.values()) <= share
    before = Counter(owner_of)
    kept = Counter(a for a, b in zip(owner_of, given_to, strict=True) if a == b)
    assert all(kept[owner] >= min(before[owner], share) for owner in range(7))


def ring(ids: list[int]) -> Router:
    """A router that knows everything; the first node asks."""
    refs = [NodeRef(to_wire(each), f"10.0.0.{at}:1") for at, each in enumerate(ids)]
    ordered = sorted(range(len(ids)), key=lambda at: ids[at])
    arcs: dict[int, Arc] = {}
    for place, at in enumerate(ordered):
        before, after = ids[ordered[place - 1]], ids[ordered[(place + 1) % len(ids)]]
        arcs[at] = owned_arc(before, ids[at], after)

    def lookup(key: int, done: Callable[[Owner | None], None]) -> None:
        at = next(at for at, arc in arcs.items() if arc.contains(key))
        done(Owner(refs[at], arcs[at]))

    fake: Any = SimpleNamespace(
        me=refs[0],
        arc=lambda: arcs[0],
        owns=lambda key: arcs[0].contains(key),
        lookup=lookup,
        neighbours=lambda: [Neighbour(ref, "leaf", 0.001) for ref in refs[1:]],
    )
    return cast(Router, fake)


def test_a_node_of_a_small_ring_takes_part_however_short_its_arc_is() -> None:
    told: list[tuple[tuple[str, ...], tuple[int, ...]]] = []
    ids = [0, 1, SPACE // 3, SPACE // 3 + 1, SPACE // 2]
    GroupOwners(ring(ids), "q", 64, lambda *given: told.append(given), lambda: None).start()
    owners, group_owner = told[0]
    assert sorted(owners) == [f"10.0.0.{at}:1" for at in range(5)]
    assert set(Counter(group_owner).values()) == {13, 12}
