"""How much work one SQL text may make: steps, counted while it is planned.

A short text can mean much: a name of WITH is read again wherever it stands, an alias stands for its expression, a star
for thousands of columns. So work is counted where it is done (a name given, a part of an expression translated, a
relation lowered), and planning ends by itself when there is too much of it, on every machine at the same step.
"""

from __future__ import annotations

from ufl.sql.errors import Refused

#: Steps of the largest query that is planned at all: some seconds.
STEPS_MAX = 200_000


class TooManySteps(Refused):
    """The query takes more work to plan than it was given."""


class Steps:
    """What is left while one query is planned."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int = STEPS_MAX) -> None:
        self._most = self._left = most

    def spend(self, count: int = 1) -> None:
        self._left -= count
        if self._left < 0:
            raise TooManySteps(f"planning this query takes more than {self._most} steps (STEPS_MAX)")
