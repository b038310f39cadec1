"""A recorded greeting, sent from elsewhere, draws no more bytes than it has: a node is no use as a mirror."""

from __future__ import annotations

import pytest

from overlay.transport.greeting import NO_EPOCH, Hello
from overlay.transport.identity import Authority, Identity
from overlay.transport.keyring import Keyring
from overlay.transport.wire import DATA, HELLO, OPEN
from tests.overlay.transport.fake_wire import RING, Endpoint, Wire

VICTIM = "203.0.113.9:53"


def endpoints(identified: bool, ring: Keyring | None) -> tuple[Wire, Endpoint, Endpoint]:
    wire = Wire()
    authority = Authority(bytes(32))
    made = []
    for number in (1, 2):
        identity = Identity.issue(bytes([number]) * 32, authority) if identified else None
        made.append(wire.add(Endpoint(f"127.0.0.1:{number}", ring=ring, identity=identity)))
    return wire, made[0], made[1]


def answers_to(endpoint: Endpoint, now: float, datagram: bytes) -> list[bytes]:
    endpoint.machine.receive_datagrams(now, [(VICTIM, datagram)])
    sent = endpoint.machine.datagrams_to_send(now)
    assert {to for to, _ in sent} <= {VICTIM}
    return [each for _, datagrams in sent for each in datagrams]


@pytest.mark.parametrize("identified", [True, False], ids=["certified", "plain ids"])
@pytest.mark.parametrize("ring", [RING, None], ids=["keys", "no keys"])
@pytest.mark.parametrize("forgotten", [False, True])
def test_no_answer_to_a_stranger_is_longer_than_the_question(
    identified: bool, ring: Keyring | None, forgotten: bool
) -> None:
    wire, a, b = endpoints(identified, ring)
    for number in range(3):
        wire.send(a, b.address, b"x" * 400, number)
        wire.send(b, a.address, b"y", number)
        wire.run(1.0)
    if forgotten:
        b.machine.close()
    recorded = [datagram for _, to, datagram in wire.log if to == b.address]
    assert {datagram[0] for datagram in recorded} == {HELLO, OPEN, DATA}
    answered = 0
    for datagram in recorded:
        for _ in range(3):
            answers = answers_to(b, wire.now, datagram)
            assert sum(map(len, answers)) <= len(datagram), (len(datagram), [len(each) for each in answers])
            answered += len(answers)
    assert answered > 0, "greetings are answered: a peer may have moved"


def test_a_member_that_greets_in_few_bytes_gets_no_answer() -> None:
    wire, a, b = endpoints(True, RING)
    handshake = a.machine._handshake
    for length in (33, 60, 193, 220):
        datagram = handshake._seal(HELLO, Hello(0, 0, NO_EPOCH).to_bytes()[:length])
        assert answers_to(b, wire.now, datagram) == []
    dropped = b.machine.statistics().dropped
    assert dropped["short_greeting"] == 2
    assert dropped["malformed"] == 2
