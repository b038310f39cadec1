"""Measurements of a run, in bounded memory."""

from __future__ import annotations

from array import array

from runtime.rng import Rng

#: Values kept; beyond that a uniform sample of all (reservoir sampling).
VALUES_MAX = 100_000


class Sample:
    """Quantiles of any number of values."""

    __slots__ = ("_rng", "_values", "count", "maximum", "total")

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._values = array("d")
        self.count = 0
        self.total = 0.0
        self.maximum = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.maximum = max(self.maximum, value)
        if len(self._values) < VALUES_MAX:
            self._values.append(value)
        else:
            place = self._rng.randrange(self.count)
            if place < VALUES_MAX:
                self._values[place] = value

    def figures(self) -> dict[str, float]:
        """Rounded to microseconds (or millionths): below that, figures only look exact."""
        if not self.count:
            return {"count": 0}
        ordered = sorted(self._values)
        quantiles = {
            f"p{percent}": ordered[(len(ordered) - 1) * percent // 100] for percent in (5, 50, 95, 99)
        }
        figures = {"mean": self.total / self.count, **quantiles, "max": self.maximum}
        return {"count": self.count, **{name: round(value, 6) for name, value in figures.items()}}
