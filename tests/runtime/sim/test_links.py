"""Link models: how long a message takes, who gets which share, and that nothing vanishes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.sim import Fair, Fifo, Links, Unlimited
from runtime.sim.wheel import WORLD, Wheel

#: At this capacity a byte takes a millisecond.
SLOW_BPS = 8_000.0


class End:
    def __init__(self, index: int) -> None:
        self.index = index
        self.link: Any = None


class Rig:
    """Some hosts and the record of what arrived when."""

    def __init__(self, links: Links, hosts: int = 4, queue_s_max: float = 1e9) -> None:
        self.wheel = Wheel()
        self.links = links
        links.attach(self.wheel, queue_s_max)
        self.ends = [End(index) for index in range(hosts)]
        self.arrived: list[tuple[float, str]] = []
        self.dropped: list[str] = []

    def send(
        self, sender: int, receiver: int, size: int, name: str, at: float = 0.0, latency_s: float = 0.5
    ) -> None:
        def now(_: None) -> None:
            ends = self.ends
            self.links.carry(
                ends[sender], ends[receiver], size, latency_s, self._arrived, self.dropped.append, name
            )

        self.wheel.call_at(at, now, None, WORLD)

    def _arrived(self, name: str) -> None:
        self.arrived.append((round(self.wheel.now, 9), name))

    def run(self) -> list[tuple[float, str]]:
        self.wheel.run_until(1e6)
        return self.arrived


@pytest.mark.parametrize("links", [Fifo(SLOW_BPS, SLOW_BPS), Fair(SLOW_BPS, SLOW_BPS)])
def test_a_message_alone_takes_out_link_latency_and_in_link(links: Links) -> None:
    rig = Rig(links)
    rig.send(0, 1, 100, "a")
    assert rig.run() == [(0.7, "a")]


def test_without_a_model_only_latency_counts() -> None:
    rig = Rig(Unlimited())
    rig.send(0, 1, 1_000_000, "a")
    assert rig.run() == [(0.5, "a")]


def test_fifo_queues_at_the_sender_and_at_the_receiver() -> None:
    rig = Rig(Fifo(SLOW_BPS, SLOW_BPS))
    for name in ("a", "b"):
        rig.send(0, 1, 100, name)
    rig.send(2, 3, 100, "c")
    rig.send(1, 3, 100, "d")
    assert sorted(rig.run()) == [(0.7, "a"), (0.7, "c"), (0.8, "b"), (0.8, "d")]


def test_a_short_message_never_overtakes_a_long_one_of_the_same_sender() -> None:
    rig = Rig(Fifo(SLOW_BPS, SLOW_BPS))
    rig.send(2, 1, 300, "in the way")
    rig.send(0, 1, 200, "long")
    rig.send(0, 1, 10, "short")
    names = [name for _, name in rig.run()]
    assert names.index("long") < names.index("short")


def test_asymmetric_capacities() -> None:
    rig = Rig(Fifo(out_bps=SLOW_BPS, in_bps=SLOW_BPS / 2))
    rig.send(0, 1, 100, "a")
    assert rig.run() == [(0.8, "a")]


@pytest.mark.parametrize(
    "links", [Fifo(SLOW_BPS, 1e9), Fifo(1e9, SLOW_BPS), Fair(SLOW_BPS, 1e9), Fair(1e9, SLOW_BPS)]
)
def test_a_full_queue_drops(links: Links) -> None:
    rig = Rig(links, queue_s_max=1.0)
    for number in range(50):
        rig.send(0, 1, 100, str(number))
    rig.run()
    assert 10 <= len(rig.arrived) <= 13
    assert len(rig.arrived) + len(rig.dropped) == 50


def small_behind_a_flood(links: Links) -> float:
    rig = Rig(links)
    for number in range(50):
        rig.send(0, 3, 100, f"flood {number}")
    rig.send(1, 3, 100, "small", at=1.0)
    return next(at for at, name in rig.run() if name == "small")


def test_fair_queuing_serves_a_small_flow_past_a_flood_where_fifo_does_not() -> None:
    assert small_behind_a_flood(Fair(1e9, SLOW_BPS)) <= 1.0 + 0.5 + 0.2 + 1e-6
    assert small_behind_a_flood(Fifo(1e9, SLOW_BPS)) > 5.0


def test_fair_queuing_divides_bytes_not_messages() -> None:
    rig = Rig(Fair(1e9, SLOW_BPS))
    for number in range(40):
        rig.send(0, 2, 100, f"large {number}")
    for number in range(200):
        rig.send(1, 2, 20, f"small {number}")
    rig.run()
    half = [name for at, name in rig.arrived if at <= 4.5]
    large = 100 * sum(name.startswith("large") for name in half)
    small = 20 * sum(name.startswith("small") for name in half)
    assert large == pytest.approx(small, rel=0.1)


sends = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3_000), st.floats(0.0, 5.0)), max_size=60
)


@given(sends, st.sampled_from([Fifo, Fair]), st.sampled_from([0.1, 1.0, 1e9]))
def test_everything_sent_arrives_or_is_dropped_and_never_too_early(
    messages: list[tuple[int, int, int, float]], model: type[Fifo] | type[Fair], queue_s_max: float
) -> None:
    rig = Rig(model(SLOW_BPS, SLOW_BPS), queue_s_max=queue_s_max)
    for number, (sender, receiver, size, at) in enumerate(messages):
        rig.send(sender, receiver, size, str(number), at)
    rig.run()
    names = [name for _, name in rig.arrived] + rig.dropped
    assert sorted(names, key=int) == [str(number) for number in range(len(messages))]
    for at, name in rig.arrived:
        sender, receiver, size, sent_at = messages[int(name)]
        least_s = 0.5 if sender == receiver else 0.5 + 2 * size / 1_000
        assert at >= sent_at + least_s - 1e-6
