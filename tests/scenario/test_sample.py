"""Quantiles in bounded memory."""

from __future__ import annotations

import pytest

from pier_node.scenario import sample
from pier_node.scenario.sample import Sample
from runtime.rng import Rng


def test_quantiles_of_few_values_are_exact_and_of_many_a_fair_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "VALUES_MAX", 1_000)
    few, many = Sample(Rng(1)), Sample(Rng(1))
    for value in range(101):
        few.add(value)
    for value in range(50_000):
        many.add(value)
    assert few.figures() == {"count": 101, "mean": 50.0, "p5": 5, "p50": 50, "p95": 95, "p99": 99, "max": 100}
    assert many.figures()["p50"] == pytest.approx(25_000, rel=0.1)
    assert (many.figures()["count"], many.figures()["max"]) == (50_000, 49_999)
    assert Sample(Rng(1)).figures() == {"count": 0}
