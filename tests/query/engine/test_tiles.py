"""Tiles: arcs of nodes, joined in any order, say exactly what was shown once, twice and not at all."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.ring import SPACE, WHOLE, Arc
from query.causes import Cause
from query.engine.spec import Report, decode_report, encode
from query.engine.tiles import CIRCLE, TILES_MAX, joined, judged, lacking, removed, tiles_of

borders = st.lists(st.integers(0, SPACE - 1), min_size=2, max_size=40, unique_by=lambda each: each >> 98)


def arcs(points: list[int]) -> list[Arc]:
    """The circle cut at some points."""
    ordered = sorted(points)
    return [Arc(start, end) for start, end in zip(ordered, [*ordered[1:], ordered[0]], strict=True)]


def added(reports: list[Report]) -> Report:
    total = Report()
    for report in reports:
        total = total.plus(report)
    return total


@given(borders, st.randoms())
def test_nodes_that_share_the_circle_cover_it_once(points: list[int], rng: object) -> None:
    parts = arcs(points)
    rng.shuffle(parts)  # type: ignore[attr-defined]
    total = added([Report(tiles=tiles_of(arc)) for arc in parts])
    assert total.tiles == (0, CIRCLE) and not total.causes
    assert lacking(total.tiles, [WHOLE]) == 0 and judged(total.tiles, [WHOLE], total.causes) == []
    assert decode_report(encode(total)) == total


@given(borders, st.data())
def test_one_that_is_missing_or_there_twice_is_found_out(points: list[int], data: st.DataObject) -> None:
    parts = arcs(points)
    one = data.draw(st.sampled_from(parts))
    without = added([Report(tiles=tiles_of(arc)) for arc in parts if arc != one])
    share = lacking(without.tiles, [WHOLE])
    assert share == pytest.approx(one.width() / SPACE, abs=1e-9) and share > 0
    assert [cause for cause, _, _ in judged(without.tiles, [WHOLE], {})] == [Cause.UNOWNED]
    twice = added([Report(tiles=tiles_of(arc)) for arc in [*parts, one]])
    assert twice.causes[Cause.DOUBLED.number] > 0
    assert [cause for cause, _, _ in judged(twice.tiles, [WHOLE], twice.causes)] == [Cause.DOUBLED]


@given(borders, st.data())
def test_a_report_is_taken_out_of_a_sum_again(points: list[int], data: st.DataObject) -> None:
    """The asker reports again when others are done: its tiles are not there twice then."""
    parts = arcs(points)
    own = Report(tiles=tiles_of(data.draw(st.sampled_from(parts))))
    total = added([Report(tiles=tiles_of(arc)) for arc in parts])
    again = total.less(own).plus(own)
    assert again.tiles == total.tiles and not again.causes
    assert removed(total.tiles, total.tiles) == ()


def test_a_point_is_covered_by_the_arc_around_it_alone() -> None:
    tiles = tiles_of(Arc(SPACE - 1_000, SPACE // 4))
    assert lacking(tiles, [Arc(5, 6)]) == 0
    assert lacking(tiles, [Arc(5, 6), Arc(SPACE // 2, SPACE // 2 + 1)]) > 0
    assert lacking((), []) == 0
    ((_, _, text),) = judged(tiles, [Arc(SPACE // 2, SPACE // 2 + 1)], {})
    assert "a part of the ring" in text


def test_more_pieces_than_a_report_carries_leave_the_answer_partial() -> None:
    width = SPACE // (4 * TILES_MAX)
    parts = [Arc(2 * n * width, (2 * n + 1) * width) for n in range(2 * TILES_MAX)]
    total = added([Report(tiles=tiles_of(arc)) for arc in parts])
    assert len(total.tiles) == 2 * TILES_MAX
    rest = added(
        [
            total,
            *(
                Report(tiles=tiles_of(Arc(a.end, b.start)))
                for a, b in zip(parts, [*parts[1:], parts[0]], strict=True)
            ),
        ]
    )
    assert lacking(rest.tiles, [WHOLE]) > 0


@pytest.mark.parametrize("tiles", [[CIRCLE + 1], [-1, 5], list(range(2 * TILES_MAX + 2))])
def test_what_are_no_tiles_is_the_senders_failure(tiles: list[int]) -> None:
    fields = [*msgspec.to_builtins(Report())[:-1], tiles]
    assert decode_report(msgspec.msgpack.encode(fields)).failed == 1


def test_ends_in_the_wrong_order_cover_nothing() -> None:
    assert lacking((7, 5, 9), [WHOLE]) == 1.0
    assert joined((7, 5), (0, CIRCLE)) == ((0, CIRCLE), 0)
