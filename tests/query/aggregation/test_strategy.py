"""Names of algorithms: all of the appendices are there, and what makes no sense is refused with the reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query.aggregation.strategy import (
    CONTINUOUS,
    DEFAULT_CONTINUOUS,
    DEFAULT_ONE_SHOT,
    ONE_SHOT,
    UnknownStrategy,
    parse,
)

APPENDIX_B = {
    "IP-1L-Optimal", "IP-1L-Timeout", "DHT-1L-Optimal", "DHT-1L-Timeout",
    "DHT-ML-Optimal", "DHT-ML-Timeout", "DHT-Hi-Optimal", "DHT-Hi-Timeout",
}  # fmt: skip
APPENDIX_C = APPENDIX_B | {
    "IP-1L-Learned", "DHT-1L-Learned", "DHT-ML-Learned", "DHT-Hi-Learned",
    "DHT-ML-S-Optimal", "DHT-ML-S-Timeout", "DHT-ML-S-Learned",
    "Tree-ML-Optimal", "Tree-ML-Timeout", "Tree-ML-Learned",
    "Tree-ML-S-Optimal", "Tree-ML-S-Timeout", "Tree-ML-S-Learned",
    "DHT-Hi-S-Timeout", "DHT-Hi-S-Learned",
    "Tree-Hi-Timeout", "Tree-Hi-Learned", "Tree-Hi-Topology",
    "Tree-Hi-S-Timeout", "Tree-Hi-S-Learned", "Tree-Hi-S-Topology",
}  # fmt: skip


def test_every_algorithm_of_the_thesis_has_its_name() -> None:
    assert {strategy.name for strategy in ONE_SHOT} == APPENDIX_B
    assert {strategy.name for strategy in CONTINUOUS} >= APPENDIX_C
    assert DEFAULT_ONE_SHOT.name == "DHT-Hi-Optimal"
    assert DEFAULT_CONTINUOUS.name == "Tree-Hi-S-Topology"


@given(st.sampled_from(CONTINUOUS), st.booleans())
def test_names_are_read_back(strategy: object, small: bool) -> None:
    name = strategy.name  # type: ignore[attr-defined]
    assert parse(name.lower() if small else name) == strategy


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("IP-Hi-Optimal", "one level"),
        ("Tree-1L-Timeout", "several levels"),
        ("DHT-1L-S-Learned", "no next hop"),
        ("DHT-Hi-Topology", "only Tree-Hi"),
        ("Tree-ML-Topology", "only Tree-Hi"),
        ("Tree-Hi-Optimal", "cannot know"),
        ("nonsense", "is no algorithm"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(UnknownStrategy, match=reason):
        parse(name)
