"""The estimate of session times follows what is seen."""

from __future__ import annotations

from overlay.bamboo.churn import Churn
from overlay.bamboo.config import BambooConfig
from overlay.bamboo.peer import Distance


def test_the_estimate_follows_deaths_and_bounds_the_periods() -> None:
    config = BambooConfig()
    churn = Churn(config, 0.0)
    assert churn.session_s == config.session_initial_s
    now = 0.0
    for _ in range(200):
        now += 2.0
        churn.watch(30, now)
        churn.died()
    assert 50.0 < churn.session_s < 75.0
    assert churn.neighbour_period_s() < 1.6
    assert churn.ping_period_s() < 16.0
    churn.watch(30, now + 100_000.0)
    assert churn.session_s == config.session_ceiling_s
    assert churn.ping_period_s() == config.ping_period_ceiling_s


def test_a_newcomer_takes_its_neighbours_word() -> None:
    churn = Churn(BambooConfig(), 0.0)
    churn.hear(60.0)
    assert churn.session_s == 60.0
    churn.hear(1e9)
    assert churn.session_s == BambooConfig().session_ceiling_s


def test_distance_is_smoothed() -> None:
    distance = Distance()
    distance.sample(0.1, 0.25)
    assert (distance.rtt_s, distance.deviation_s) == (0.1, 0.025)
    for _ in range(50):
        distance.sample(0.2)
    assert 0.19 < distance.rtt_s < 0.2
    assert distance.deviation_s < 0.01
