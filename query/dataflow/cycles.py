"""Cycles of an opgraph: recursive queries and their fixpoint (PIER 3.3.4).

An opgraph may feed an operator from above itself if a queue lies on the way, which lets the stack unwind. The
operators of a cycle cannot wait for each other's ends: the cycle is complete when everything that enters it
from outside has ended and nothing waits inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def components(sources: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The sets of names that can all reach each other through `sources`, each in the graph's order.

    An opgraph has at most a thousand operators, so following every path from every operator will do."""
    below = {name: _reached(name, sources) for name in sources}
    found: list[list[str]] = []
    placed: set[str] = set()
    for name in sources:
        if name not in placed and name in below[name]:
            members = [other for other in sources if other in below[name] and name in below[other]]
            placed.update(members)
            found.append(members)
    return found


def _reached(start: str, sources: Mapping[str, Sequence[str]]) -> set[str]:
    reached: set[str] = set()
    frontier = list(sources[start])
    while frontier:
        name = frontier.pop()
        if name not in reached:
            reached.add(name)
            frontier.extend(sources[name])
    return reached
