"""A live endpoint under a million bad datagrams: no exception, no growth, and it still works."""

from __future__ import annotations

import random
import resource
from dataclasses import replace

import pytest

from overlay.transport.config import DEFAULT
from overlay.transport.keyring import Keyring
from overlay.transport.wire import DATA, PACKET
from tests.overlay.transport.fake_wire import RING, Endpoint, Wire

MILLION = 1_000_000
BATCH = 500
#: Resident memory that may come and go with the allocator.
GROWTH_KB_MAX = 8 * 1024


def corpus(ring: Keyring | None) -> tuple[Wire, Endpoint, Endpoint, list[bytes], list[bytes]]:
    """Two endpoints in the midst of things, one's DATA datagrams, and its greetings."""
    wire = Wire()
    small = replace(DEFAULT, peers_max=64)
    a = wire.add(Endpoint("127.0.0.1:1", ring=ring))
    b = wire.add(Endpoint("127.0.0.1:2", ring=ring, config=small))
    for n in range(20):
        wire.send(a, b.address, bytes([n]) * (1 + 300 * (n % 10)), n)
        wire.send(b, a.address, b"back", n)
        wire.run(0.1)
    sent = [datagram for source, _, datagram in wire.log if source == a.address]
    data = [datagram for datagram in sent if datagram[0] == DATA]
    return wire, a, b, data, [datagram for datagram in sent if datagram[0] != DATA]


def mutated(draw: random.Random, datagram: bytes) -> bytes:
    kind = draw.randrange(8)
    if kind == 0:
        return datagram[: draw.randrange(len(datagram))]
    if kind == 1:
        return datagram + draw.randbytes(draw.randrange(1, 20))
    if kind == 2:
        return draw.randbytes(draw.randrange(60))
    if kind == 3:
        return datagram[:13] + draw.randbytes(draw.randrange(80))
    if kind == 4:
        return datagram[:5] + draw.randbytes(8) + datagram[13:]
    at = draw.randrange(len(datagram))
    return datagram[:at] + bytes([draw.randrange(256)]) + datagram[at + 1 :]


def resident_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def still_works(wire: Wire, a: Endpoint, b: Endpoint) -> None:
    wire.send(a, b.address, b"still there?", "last")
    wire.run(30.0)
    assert a.told["last"] == [True]
    assert b.counts()[b"still there?"] == 1


def bombard(ring: Keyring | None, count: int) -> None:
    wire, a, b, data, greetings = corpus(ring)
    draw = random.Random(1)
    senders = [a.address] * 3 + [f"10.0.0.{n}:5" for n in range(200)]
    received = len(b.received)
    start_kb = 0
    for number in range(count // BATCH):
        batch = []
        for _ in range(BATCH):
            source = data if draw.random() < 0.95 else greetings
            batch.append((draw.choice(senders), mutated(draw, draw.choice(source))))
        b.machine.receive_datagrams(wire.now, batch)
        b.machine.datagrams_to_send(wire.now)
        b.collect(wire.now)
        if number == 20:
            start_kb = resident_kb()
    assert resident_kb() - start_kb <= GROWTH_KB_MAX
    statistics = b.machine.statistics()
    assert statistics.peers <= 64
    assert len(statistics.dropped) <= 20, "reasons are a fixed set"
    assert sum(statistics.dropped.values()) >= 0.9 * count
    assert len(b.received) == received, "nothing altered was taken for a message"
    still_works(wire, a, b)


def test_twenty_thousand_mutated_datagrams() -> None:
    bombard(RING, 20_000)


def test_mutated_datagrams_without_keys() -> None:
    bombard(None, 20_000)


@pytest.mark.slow
def test_a_million_mutated_datagrams() -> None:
    bombard(RING, MILLION)


def test_packets_sealed_by_a_member_that_make_no_sense() -> None:
    """Whoever has the key may still send nonsense: every field at its extremes and at random."""
    wire, a, b, _, _ = corpus(RING)
    draw = random.Random(2)
    sealer = a.machine._sealer
    session = a.machine._peers.by_address[b.address].session
    assert session is not None
    start_kb = 0
    for number in range(200):
        batch = []
        for _ in range(200):
            fields = [
                draw.choice((0, 1, 2**bits - 1, draw.getrandbits(bits))) for bits in (32, 16) * 3 + (16, 8)
            ]
            pn, pn_span, sn, sn_span, ack, delay, run, ranges = fields
            header = PACKET.pack(draw.randrange(256), pn, pn_span, sn, sn_span, ack, delay, run, ranges)
            body = header[: draw.choice((22, 22, 22, 5))] + draw.randbytes(
                draw.choice((0, 1, 12, 13, 40, 400))
            )
            batch.append((a.address, sealer.seal(session.prefix, body, session.remote_epoch)))
        b.machine.receive_datagrams(wire.now, batch)
        b.machine.handle_timer(wire.now)
        b.machine.datagrams_to_send(wire.now)
        b.collect(wire.now)
        b.received.clear()
        wire.now += 0.5
        if number == 20:
            start_kb = resident_kb()
    assert resident_kb() - start_kb <= GROWTH_KB_MAX + DEFAULT.reassembly_bytes_max // 1024
    assert b.machine.statistics().reassembly_bytes <= DEFAULT.reassembly_bytes_max
    assert b.machine.statistics().dropped["malformed"] > 1_000
