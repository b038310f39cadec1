"""Congestion control and timeouts, number by number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.transport.config import DEFAULT
from overlay.transport.congestion import DECREASE, QUEUE_S_MAX, NewReno
from overlay.transport.machine import UdpCC
from overlay.transport.rtt import SHORTEST_PERIOD_S, RttEstimator
from tests.overlay.transport.fake_wire import Endpoint, Wire

DATAGRAM = DEFAULT.datagram_bytes_max


def test_slow_start_doubles_then_additive_increase_adds_one_datagram_a_round_trip() -> None:
    control = NewReno(DEFAULT)
    window = control.window_bytes
    control.acknowledged(window, 1.0, window)
    assert control.window_bytes == 2 * window
    control.lost(2.0, 1.5)
    window = control.window_bytes
    assert window == int(20 * DATAGRAM * DECREASE)
    for _ in range(window // DATAGRAM + 1):
        control.acknowledged(DATAGRAM, 3.0, window)
    assert control.window_bytes == window + DATAGRAM


def test_losses_of_one_round_trip_count_once_and_a_timeout_starts_over() -> None:
    control = NewReno(DEFAULT)
    control.lost(2.0, 1.0)
    window = control.window_bytes
    control.lost(2.1, 1.9)
    assert control.window_bytes == window, "sent before the decrease"
    control.lost(3.0, 2.5)
    assert control.window_bytes < window
    control.timed_out(4.0)
    assert control.window_bytes == DEFAULT.window_min_datagrams * DATAGRAM


def test_an_idle_sender_keeps_its_window_and_a_long_queue_shrinks_it() -> None:
    control = NewReno(DEFAULT)
    window = control.window_bytes
    control.acknowledged(DATAGRAM, 1.0, DATAGRAM)
    control.delayed(1.0, 0.9, QUEUE_S_MAX / 2)
    assert control.window_bytes == window
    control.delayed(2.0, 1.9, QUEUE_S_MAX * 1.1)
    assert control.window_bytes == int(window * DECREASE)


@given(st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=100))
def test_the_timeout_stays_within_its_clamps(samples: list[float]) -> None:
    rtt = RttEstimator(DEFAULT)
    assert rtt.timeout_s == DEFAULT.timeout_initial_s
    for number, sample in enumerate(samples):
        rtt.sample(float(number), sample)
        assert DEFAULT.timeout_min_s <= rtt.timeout_s <= DEFAULT.timeout_max_s
        assert rtt.backed_off_s(60) == DEFAULT.timeout_max_s
        assert min(samples) <= rtt.smoothed_s * (1 + 1e-9) and rtt.smoothed_s <= max(samples) * (1 + 1e-9)


def test_the_timeout_is_average_plus_four_deviations() -> None:
    rtt = RttEstimator(DEFAULT)
    for now in range(200):
        rtt.sample(float(now), 0.2)
    assert abs(rtt.timeout_s - (0.2 + DEFAULT.ack_delay_s)) < 1e-6
    rtt.sample(200.0, 0.28)
    assert abs(rtt.timeout_s - (0.21 + 4 * 0.02 + DEFAULT.ack_delay_s)) < 1e-6


def test_a_longer_path_is_believed_in_time() -> None:
    rtt = RttEstimator(DEFAULT)
    rtt.sample(0.0, 0.01)
    for now in range(1, int(2 * SHORTEST_PERIOD_S) + 2):
        rtt.sample(float(now), 0.5)
    assert rtt.queue_s < 0.01


def test_another_algorithm_may_be_plugged_in() -> None:
    class OneAtATime:
        window_bytes = DATAGRAM

        def acknowledged(self, size: int, sent_at: float, in_flight: int) -> None: ...
        def lost(self, now: float, sent_at: float) -> None: ...
        def delayed(self, now: float, sent_at: float, queue_s: float) -> None: ...
        def timed_out(self, now: float) -> None: ...

    wire = Wire()
    a, b = wire.add(Endpoint("127.0.0.1:1")), wire.add(Endpoint("127.0.0.1:2"))
    a.machine = UdpCC(node_id=b"1" * 20, epoch=b"e" * 8, make_control=lambda _: OneAtATime(), keyring=None)
    b.machine = UdpCC(node_id=b"2" * 20, epoch=b"f" * 8, keyring=None)
    for n in range(10):
        wire.send(a, b.address, bytes([n]) * 1_100, n)
    wire.run(0.031)
    assert len(b.received) == 1, "one round trip for the greeting, then one datagram"
    wire.run(1.0)
    assert len(b.received) == 10
