"""Limits: what is refused, counted, forgotten."""

from __future__ import annotations

from dataclasses import replace

from overlay.transport.config import DEFAULT, LOCAL, WAN
from tests.overlay.transport.fake_wire import Endpoint, Wire, pair

SMALL = replace(
    DEFAULT,
    message_bytes_max=50_000,
    backlog_bytes_max=100_000,
    backlog_total_bytes_max=150_000,
    reassembly_bytes_max=50_000,
    reassembly_total_bytes_max=80_000,
)


def test_a_message_beyond_the_backlog_fails_at_once_and_is_counted() -> None:
    wire = Wire()
    a = wire.add(Endpoint("127.0.0.1:1", config=SMALL))
    for n in range(30):
        wire.send(a, "127.0.0.1:8", bytes(5_000), ("8", n))
    for n in range(30):
        wire.send(a, "127.0.0.1:9", bytes(5_000), ("9", n))
    a.collect(wire.now)
    refused = a.machine.statistics().refused
    assert refused == {"backlog_full": 10, "backlog_total_full": 20}
    assert sum(told == [False] for told in a.told.values()) == 30
    assert a.machine.statistics().backlog_bytes == 150_000
    wire.run(60.0)
    assert all(told == [False] for told in a.told.values()) and len(a.told) == 60
    assert a.machine.statistics().backlog_bytes == 0


def test_the_peer_table_is_bounded_and_idle_peers_make_room() -> None:
    wire = Wire()
    a = wire.add(Endpoint("127.0.0.1:1", config=replace(DEFAULT, peers_max=3)))
    for port in range(2, 12):
        wire.add(Endpoint(f"127.0.0.1:{port}"))
        wire.send(a, f"127.0.0.1:{port}", b"hello", port)
        wire.run(6.0)
        assert a.machine.statistics().peers <= 3
    wire.run(20.0)
    assert all(a.told[port] == [True] for port in range(2, 12))
    for port in range(20, 25):
        wire.send(a, f"127.0.0.1:{port}", b"hello", port)
    a.collect(wire.now)
    assert a.machine.statistics().refused == {"peers_full": 2}


def test_an_idle_peer_is_forgotten_and_met_again() -> None:
    wire, a, b = pair(config=replace(DEFAULT, peer_idle_s=20.0))
    wire.send(a, b.address, b"one", 1)
    wire.run(30.0)
    assert a.machine.statistics().peers == b.machine.statistics().peers == 0
    assert a.machine.next_timer() is None and b.machine.next_timer() is None, "at rest"
    wire.send(a, b.address, b"two", 2)
    wire.run(1.0)
    assert a.told == {1: [True], 2: [True]}


def test_reassembly_is_bounded_and_a_refused_message_fails() -> None:
    wire = Wire()
    senders = [wire.add(Endpoint(f"127.0.0.1:{n}")) for n in (1, 2)]
    b = wire.add(Endpoint("127.0.0.1:3", config=SMALL))
    wire.send(senders[0], b.address, bytes(60_000), "too large for the receiver")
    wire.run(120.0)
    assert senders[0].told == {"too large for the receiver": [False]}
    assert b.machine.statistics().dropped["message_too_large"] > 0
    assert b.machine.statistics().reassembly_bytes == 0


def test_an_abandoned_message_is_dropped_and_never_half_acknowledged() -> None:
    wire, a, b = pair(config=replace(DEFAULT, reassembly_idle_s=5.0, timeouts_max=40))
    wire.send(a, b.address, b"hello")
    wire.run(1.0)
    wire.send(a, b.address, bytes(100_000), "cut")
    wire.run(0.031)
    assert b.machine.statistics().reassembly_bytes == 100_000
    fate, wire.fate = wire.fate, lambda *_: ()
    wire.run(10.0)
    assert b.machine.statistics().reassembly_bytes == 0
    assert b.machine.statistics().dropped["reassembly_idle"] == 1
    wire.fate = fate
    wire.run(600.0)
    assert a.told["cut"] == [False]
    assert bytes(100_000) not in b.counts()


def test_the_machine_rests_when_nothing_is_under_way() -> None:
    wire, a, b = pair()
    wire.send(a, b.address, b"one", 1)
    wire.run(2.0)
    sent = len(wire.log)
    wire.run(200.0)
    assert len(wire.log) == sent, "no keep-alive, no chatter"


def test_presets_keep_their_promises() -> None:
    assert LOCAL.dead_after_s(0.03) < 1.0
    assert DEFAULT.dead_after_s(DEFAULT.timeout_min_s) < 2.0
    assert DEFAULT.dead_after_s() == 15.0
    assert WAN.dead_after_s() == 30.0
