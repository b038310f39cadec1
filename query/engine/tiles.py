"""Which parts of published tables an answer was made of: the arcs that nodes answered for, as tiles of the circle.

Every node that reads a published table shows the objects of one arc, its standing when the query came (`overlay.dht`),
and reports that arc. On the way to the asker arcs that meet become one, so a healthy ring sends one everywhere. The
asker calls an answer complete only if they lie side by side and cover all that was asked for: where two overlap, rows
may be in the answer twice; where none is, rows are missing. That holds whatever the ring did meanwhile.

A tile is a stretch of the circle by the upper bits of its ends, none over the top: two where an arc goes over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec

from overlay.ring import BITS, Arc
from query.causes import Cause, WireCauses

#: The circle in tiles; an end fits a signed word. Nobody owns an arc that is empty by this measure.
TILE_BITS = 62
CIRCLE = 1 << TILE_BITS
_SHIFT = BITS - TILE_BITS
#: Tiles in one report. Beyond that some are left out, and with them what they cover: the answer is partial then.
TILES_MAX = 256
#: A share of the ring that is told as a number.
TOLD_LEAST = 0.0005

_End: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=CIRCLE)]
#: Beginning and end of each, in order of the circle.
Tiles: TypeAlias = Annotated[tuple[_End, ...], msgspec.Meta(max_length=2 * TILES_MAX)]


def tiles_of(arc: Arc) -> Tiles:
    if arc.start == arc.end:
        return (0, CIRCLE)
    start, end = arc.start >> _SHIFT, arc.end >> _SHIFT
    if start == end:
        return ()
    if start < end:
        return (start, end)
    return (0, end, start, CIRCLE) if end else (start, CIRCLE)


def joined(one: Tiles, other: Tiles) -> tuple[Tiles, int]:
    """Two reports' tiles as one, and how many of them overlap."""
    if not one or not other:
        return one or other, 0
    pairs = sorted([*_pairs(one), *_pairs(other)])
    merged: list[int] = []
    overlaps = 0
    for start, end in pairs:
        if merged and start <= merged[-1]:
            overlaps += start < merged[-1]
            merged[-1] = max(merged[-1], end)
        elif len(merged) < 2 * TILES_MAX:
            merged += (start, end)
    return tuple(merged), overlaps


def removed(tiles: Tiles, taken: Tiles) -> Tiles:
    """What is left when one report's tiles are taken out of a sum."""
    left = _pairs(tiles)
    for start, end in _pairs(taken):
        cut = [pair for first, last in left for pair in ((first, min(last, start)), (max(first, end), last))]
        left = [(first, last) for first, last in cut if first < last]
    return tuple([each for pair in left[:TILES_MAX] for each in pair])


def lacking(tiles: Tiles, wanted: Sequence[Arc]) -> float:
    """Which share of the ring was asked for and is in no tile; a point in none counts as little, not as nothing."""
    pairs = _pairs(tiles)
    missing = 0
    for start, end in (pair for arc in wanted for pair in _pairs(_wide(arc))):
        covered = sum(max(0, min(end, last) - max(start, first)) for first, last in pairs)
        missing += max(0, end - start - covered)
    return missing / CIRCLE


def judged(tiles: Tiles, wanted: Sequence[Arc], causes: WireCauses) -> list[tuple[Cause, int, str]]:
    """What is to be said at the end: whether nodes answered for all that was asked for, each for its own."""
    notes = []
    share = lacking(tiles, wanted)
    if share:
        part = f"{share:.1%} of the ring" if share >= TOLD_LEAST else "a part of the ring"
        text = f"nobody answered for {part}: rows of published tables may be missing; ask again"
        notes.append((Cause.UNOWNED, 1, text))
    if causes.get(Cause.DOUBLED.number):
        text = "two nodes answered for one part of the published tables: rows may be doubled; ask again"
        notes.append((Cause.DOUBLED, 0, text))
    return notes


def _wide(arc: Arc) -> Tiles:
    """A point has a tile of its own to be covered."""
    start = arc.start >> _SHIFT
    return tiles_of(arc) or (start, start + 1)


def _pairs(tiles: Tiles) -> list[tuple[int, int]]:
    """What a peer sent is no more than this: ends that are none are left out."""
    return [(start, end) for start, end in zip(tiles[::2], tiles[1::2], strict=False) if start < end]
