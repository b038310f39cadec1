"""What can be reached over a random graph of 20,000 edges that lie on eight nodes."""

from __future__ import annotations

import random
from collections import deque

import pyarrow as pa

from tests.sql.harness import Sql

VERTICES, EDGES = 16_000, 20_000
STARTS = (1, 2, 3)

QUERY = """WITH RECURSIVE reach(start, v) AS (
    SELECT src, dst FROM link WHERE src IN (1, 2, 3)
    UNION
    SELECT reach.start, link.dst FROM reach JOIN link ON link.src = reach.v
) SELECT start, v FROM reach"""


def reached(edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same by breadth-first search."""
    following: dict[int, list[int]] = {}
    for src, dst in edges:
        following.setdefault(src, []).append(dst)
    found = []
    for start in STARTS:
        seen: set[int] = set()
        frontier = deque(following.get(start, ()))
        while frontier:
            vertex = frontier.popleft()
            if vertex not in seen:
                seen.add(vertex)
                frontier.extend(following.get(vertex, ()))
        found += [(start, vertex) for vertex in seen]
    return sorted(found)


def test_reachability_over_twenty_thousand_edges() -> None:
    rng = random.Random(2)
    # The starts have many links, so that the answer is never empty.
    edges = [(rng.randrange(VERTICES), rng.randrange(VERTICES)) for _ in range(EDGES - 30)]
    edges += [(start, rng.randrange(VERTICES)) for start in STARTS for _ in range(10)]
    sql = Sql(8, seed=8)
    sql.load("link", pa.table({"src": [src for src, _ in edges], "dst": [dst for _, dst in edges]}))
    expected = reached(edges)
    assert len(expected) > 10_000
    assert sorted(sql.rows(QUERY)) == expected
