"""Whom an eddy gives its next rows: a lottery in which an operator holds the more tickets the more rows it removes.

Avnur and Hellerstein, *Eddies: Continuously Adaptive Query Processing* (SIGMOD 2000), section 4: an operator gets a
ticket for each row it takes and gives one up for each it returns. Old tickets fade, so that the eddy notices when
the data changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.rng import Rng


class Tickets:
    """The tickets of an eddy's operators."""

    def __init__(self, operators: int, window_rows: int, rng: Rng) -> None:
        self.held = [0.0] * operators
        self._rng = rng
        self._window_rows = window_rows
        self._rows = 0

    def took(self, operator: int, rows: int) -> None:
        self.held[operator] += rows
        self._rows += rows
        if self._rows >= self._window_rows:
            self._rows = 0
            self.held = [tickets / 2 for tickets in self.held]

    def returned(self, operator: int, rows: int) -> None:
        self.held[operator] = max(0.0, self.held[operator] - rows)

    def draw(self, operators: Sequence[int]) -> int:
        """One of the operators; those without tickets get a chance, too, or they could never win any."""
        if len(operators) == 1:
            return operators[0]
        most = max(self.held[operator] for operator in operators)
        weights = [self.held[operator] + 1.0 + most / 50 for operator in operators]
        point = self._rng.random() * sum(weights)
        for operator, weight in zip(operators, weights, strict=True):
            point -= weight
            if point < 0:
                return operator
        return operators[-1]
