"""How much one query text may ask of the parser: bounds and what is left of them.

A text is read once, from left to right; what it may build on the way is spent here, so that memory is
bounded by these figures and not by the author's inventiveness. Bounds on the plan itself are the plan's
(query.plan, query.plan_settings); those that text can exceed long before the plan exists are spent here.
"""

from __future__ import annotations

from query.plan_settings import EXPANSIONS_MAX, HOLES_MAX, NODES_MAX
from ufl.errors import Source

#: A query text, in UTF-8; parsing takes some seconds for the largest.
TEXT_BYTES_MAX = 10_000_000
#: Length of what may stand in for an expansion: ids and times are shorter.
EXPANSION_CHARS_MAX = 64


class Budget:
    """What is left of the bounds while one text is parsed."""

    __slots__ = ("_expansions", "_holes", "_nodes", "_source")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._nodes = NODES_MAX
        self._holes = HOLES_MAX
        self._expansions = EXPANSIONS_MAX

    def spend_node(self, offset: int) -> None:
        self._nodes -= 1
        if self._nodes < 0:
            message = f"the query holds more than {NODES_MAX} values and objects (NODES_MAX)"
            raise self._source.error(message, offset)

    def spend_holes(self, count: int, offset: int) -> None:
        self._holes -= count
        if self._holes < 0:
            message = f"arrays leave out more than {HOLES_MAX} positions (HOLES_MAX)"
            raise self._source.error(
                message, offset, hint='use a hash table for sparse numbers: key[*] = "" first'
            )

    def spend_expansion(self, offset: int) -> None:
        self._expansions -= 1
        if self._expansions < 0:
            message = f"more than {EXPANSIONS_MAX} query expansions (EXPANSIONS_MAX)"
            raise self._source.error(message, offset)
