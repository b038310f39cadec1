"""Whatever the wire does, every message arrives at most once and its sender is told exactly once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.transport.config import DEFAULT
from runtime.rng import Rng
from tests.overlay.transport.fake_wire import RING, Endpoint, Wire, pair

SMALL = replace(
    DEFAULT,
    message_bytes_max=100_000,
    backlog_bytes_max=200_000,
    reassembly_bytes_max=200_000,
)


def check_account(sender: Endpoint, receiver: Endpoint, sent: dict[int, bytes]) -> None:
    """Told once each; delivered at most once each; delivered if told so."""
    counts = receiver.counts()
    assert set(sender.told) == set(sent)
    for token, payload in sent.items():
        assert len(sender.told[token]) == 1, "told exactly once"
        assert counts[payload] <= 1, "delivered at most once"
        if sender.told[token][0]:
            assert counts[payload] == 1, "acknowledged means delivered"
    assert sender.machine.statistics().backlog_bytes == 0


@pytest.mark.parametrize("ring", [True, False])
def test_messages_arrive_on_a_good_wire(ring: bool) -> None:
    wire, a, b = pair() if ring else pair(ring=None)
    sizes = [1, 2, 199, 200, 1_100, 1_149, 1_150, 1_151, 1_152, 1_200, 5_000, 70_000]
    sent = {n: bytes([n]) * size for n, size in enumerate(sizes)}
    for token, payload in sent.items():
        wire.send(a, b.address, payload, token)
    wire.run(5.0)
    check_account(a, b, sent)
    assert all(told == [True] for told in a.told.values())
    assert all(len(datagram) <= 1_200 for _, _, datagram in wire.log)


def test_the_largest_message_arrives() -> None:
    wire, a, b = pair(lambda *_: (0.0005,))
    payload = bytes(range(256)) * 65_536
    wire.send(a, b.address, payload, "large")
    wire.send(a, b.address, payload + b"x", "too large")
    wire.run(30.0)
    assert a.told == {"large": [True], "too large": [False]}
    assert b.received == [(a.address, payload)]
    assert a.machine.statistics().refused == {"message_too_large": 1}
    assert b.machine.statistics().reassembly_bytes == 0


def test_many_small_messages_share_datagrams_and_acknowledgements_ride_along() -> None:
    wire, a, b = pair(lambda *_: (0.001,))
    b.answer = lambda payload: payload
    wire.send(a, b.address, b"hello")
    wire.run(0.5)
    wire.log.clear()
    for _ in range(50):
        for n in range(64):
            wire.send(a, b.address, bytes(200), n)
        wire.run(0.005)
    assert len(b.received) == len(a.received) == 50 * 64 + 1
    assert len(wire.log) <= 0.35 * 2 * 50 * 64
    assert b.machine.statistics().acks_alone <= 1


fates = st.lists(
    st.one_of(
        st.just(()),
        st.tuples(st.floats(0.0, 0.4)),
        st.tuples(st.floats(0.0, 0.05), st.floats(0.0, 1.5)),
        st.tuples(st.just(0.01)),
        st.tuples(st.just(0.01)),
    ),
    max_size=150,
)
loads = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from([1, 20, 200, 1_149, 1_150, 3_000, 30_000]),
        st.floats(0.0, 0.3),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=150, deadline=None, report_multiple_bugs=False)
@given(fates=fates, load=loads, ring=st.booleans())
def test_any_loss_duplication_reordering_and_delay(
    fates: list[tuple[float, ...]], load: list[tuple[bool, int, float]], ring: bool
) -> None:
    script = iter(fates)
    wire, a, b = pair(lambda *_: next(script, (0.01,)), SMALL, RING if ring else None)
    sent: tuple[dict[int, bytes], dict[int, bytes]] = ({}, {})
    for n, (forth, size, pause_s) in enumerate(load):
        source, to = (a, b) if forth else (b, a)
        payload = n.to_bytes(4, "big") * (size // 4 + 1)
        sent[not forth][n] = payload
        wire.send(source, to.address, payload, n)
        wire.run(pause_s)
    wire.run(400.0)
    check_account(a, b, sent[0])
    check_account(b, a, sent[1])


@settings(max_examples=80, deadline=None, report_multiple_bugs=False)
@given(fates=fates, load=loads, restarts=st.sets(st.integers(0, 40), max_size=4))
def test_any_pattern_with_restarts_of_the_receiver(
    fates: list[tuple[float, ...]], load: list[tuple[bool, int, float]], restarts: set[int]
) -> None:
    """Each life of the receiver gets each message at most once; what is acknowledged, some life got."""
    script = iter(fates)
    wire, a, b = pair(lambda *_: next(script, (0.01,)), SMALL)
    lives = [b]
    sent = {}
    for n, (_, size, pause_s) in enumerate(load):
        if n in restarts:
            lives.append(wire.add(Endpoint(b.address, life=len(lives), config=SMALL)))
        sent[n] = n.to_bytes(4, "big") * (size // 4 + 1)
        wire.send(a, b.address, sent[n], n)
        wire.run(pause_s)
    wire.run(400.0)
    assert set(a.told) == set(sent)
    for n, payload in sent.items():
        counts = [life.counts()[payload] for life in lives]
        assert len(a.told[n]) == 1 and max(counts) <= 1
        assert sum(counts) >= 1 or a.told[n] == [False]


@settings(max_examples=25, deadline=None, report_multiple_bugs=False)
@given(seed=st.integers(0, 2**32), loss=st.sampled_from([0.05, 0.3, 0.5]))
def test_random_loss_below_the_retry_limit_delivers_everything(seed: int, loss: float) -> None:
    rng = Rng(seed)
    patient = replace(DEFAULT, timeouts_max=30, transmissions_max=60, reassembly_idle_s=600.0)
    wire, a, b = pair(lambda *_: () if rng.random() < loss else (rng.uniform(0.01, 0.06),), patient)
    sent = {n: n.to_bytes(2, "big") * (1 + 40 * (n % 50)) for n in range(120)}
    for token, payload in sent.items():
        wire.send(a, b.address, payload, token)
    wire.run(900.0)
    check_account(a, b, sent)
    assert all(told == [True] for told in a.told.values())


def test_a_dead_peer_is_reported_within_the_documented_time() -> None:
    wire, a, b = pair()
    wire.send(a, b.address, b"warm up")
    wire.run(1.0)
    timeout_s = a.machine.timeout_s(b.address)
    del wire.endpoints[b.address]
    for n in range(100):
        wire.send(a, b.address, bytes(500), n)
    wire.run(DEFAULT.dead_after_s(timeout_s) + 0.001)
    assert all(a.told[n] == [False] for n in range(100))
    assert a.machine.statistics().peers_dead == 1
    assert a.machine.statistics().peers == 0


def test_a_peer_that_never_was_is_reported_within_the_documented_time() -> None:
    wire = Wire()
    a = wire.add(Endpoint("127.0.0.1:1"))
    wire.send(a, "127.0.0.1:9", b"anybody?", 1)
    wire.run(DEFAULT.dead_after_s(DEFAULT.timeout_initial_s) - 0.01)
    assert a.told == {}
    wire.run(0.02)
    assert a.told == {1: [False]}


def test_a_restarted_peer_gets_what_was_under_way() -> None:
    wire, a, b = pair()
    wire.send(a, b.address, b"first", 0)
    wire.run(1.0)
    again = wire.add(Endpoint(b.address, life=1))
    wire.send(a, b.address, b"second", 1)
    wire.send(a, b.address, bytes(5_000), 2)
    wire.run(3.0)
    assert a.told == {0: [True], 1: [True], 2: [True]}
    assert again.counts() == {b"second": 1, bytes(5_000): 1}
    assert a.machine.statistics().peers_restarted == 1


def test_a_restarted_peer_that_speaks_first_is_believed() -> None:
    wire, a, b = pair()
    wire.send(a, b.address, b"first", 0)
    wire.run(1.0)
    again = wire.add(Endpoint(b.address, life=1))
    wire.send(again, a.address, b"I am back", 0)
    wire.run(1.0)
    wire.send(a, b.address, b"second", 1)
    wire.run(0.05)
    assert again.told == {0: [True]}
    assert again.counts() == {b"second": 1}
    assert a.machine.statistics().timeouts == 0


def test_a_peer_that_forgot_us_is_not_sent_twice_what_it_may_have_had() -> None:
    wire, a, b = pair()
    wire.send(a, b.address, b"one", 1)
    wire.run(1.0)
    wire.fate = lambda source, to, datagram: () if source == b.address else (0.01,)
    wire.send(a, b.address, b"two", 2)
    wire.run(0.04)
    assert b.counts()[b"two"] == 1
    b.machine.close()
    wire.fate = lambda *_: (0.01,)
    wire.run(5.0)
    assert b.counts()[b"two"] == 1
    assert a.told[2] == [False]
    wire.send(a, b.address, b"three", 3)
    wire.run(5.0)
    assert a.told[3] == [True] and b.counts()[b"three"] == 1


def test_both_greet_at_once() -> None:
    wire, a, b = pair()
    for n in range(20):
        wire.send(a, b.address, b"a" * (n + 1), n)
        wire.send(b, a.address, b"b" * (n + 1), n)
    wire.run(2.0)
    assert all(a.told[n] == [True] and b.told[n] == [True] for n in range(20))
    assert a.machine.statistics().timeouts + b.machine.statistics().timeouts == 0
