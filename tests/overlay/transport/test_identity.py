"""A node id must be the sender's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.transport.identity import (
    Authority,
    Identity,
    node_id_of,
    public_of,
    verify_certificate,
    verify_proof,
)
from tests.overlay.transport.fake_wire import Endpoint, Wire

AUTHORITY = Authority(b"a" * 32)
ALICE = Identity.issue(b"1" * 32, AUTHORITY)
BOB = Identity.issue(b"2" * 32, AUTHORITY)


def test_a_certificate_grants_the_hash_of_the_key_it_certifies() -> None:
    assert (
        verify_certificate(ALICE.certificate, AUTHORITY.public)
        == ALICE.node_id
        == node_id_of(public_of(b"1" * 32))
    )
    assert verify_certificate(ALICE.certificate, Authority(b"b" * 32).public) is None
    assert len(ALICE.node_id) == 20


@given(st.binary(max_size=200))
def test_garbage_is_no_certificate_and_no_proof(garbage: bytes) -> None:
    assert verify_certificate(garbage, AUTHORITY.public) is None
    assert verify_proof(garbage, b"", AUTHORITY.public) is None


def test_a_proof_holds_for_its_session_only() -> None:
    proof = ALICE.prove(b"this session")
    assert verify_proof(proof, b"this session", AUTHORITY.public) == ALICE.node_id
    assert verify_proof(proof, b"another", AUTHORITY.public) is None
    stolen = ALICE.certificate + BOB.prove(b"this session")[len(BOB.certificate) :]
    assert verify_proof(stolen, b"this session", AUTHORITY.public) is None


def test_nodes_with_identities_talk_and_know_each_other() -> None:
    wire = Wire()
    a = wire.add(Endpoint("127.0.0.1:1", identity=ALICE))
    b = wire.add(Endpoint("127.0.0.1:2", identity=BOB))
    wire.send(a, b.address, b"hello", 1)
    wire.run(1.0)
    assert a.told == {1: [True]}
    assert a.machine.peer_id(b.address) == BOB.node_id
    assert b.machine.peer_id(a.address) == ALICE.node_id


def test_a_forged_node_id_is_dropped_and_counted_whoever_greets_first() -> None:
    """The forger has the ring's key and a certificate of its own, but wants another place on the ring."""
    forger = Identity.issue(b"3" * 32, AUTHORITY)
    for forger_first in (True, False):
        wire = Wire()
        honest = wire.add(Endpoint("127.0.0.1:1", identity=ALICE))
        liar = wire.add(Endpoint("127.0.0.1:2", identity=forger))
        liar.machine._sealer.node_id = bytes(20)
        liar.machine._sealer.use(liar.machine._keys)
        source, to = (liar, honest) if forger_first else (honest, liar)
        wire.send(source, to.address, b"?", 1)
        wire.run(30.0)
        assert source.told == {1: [False]}
        assert honest.received == []
        assert honest.machine.statistics().dropped["forged_id"] >= 1
        assert honest.machine.peer_id(liar.address) is None


def test_a_node_without_a_proof_is_not_let_in() -> None:
    wire = Wire()
    honest = wire.add(Endpoint("127.0.0.1:1", identity=ALICE))
    stranger = wire.add(Endpoint("127.0.0.1:2"))
    wire.send(stranger, honest.address, b"?", 1)
    wire.run(30.0)
    assert stranger.told == {1: [False]}
    assert honest.machine.statistics().dropped["forged_id"] >= 1


def test_a_revoked_node_is_shut_out_in_the_middle_of_a_session() -> None:
    wire = Wire()
    a = wire.add(Endpoint("127.0.0.1:1", identity=ALICE))
    b = wire.add(Endpoint("127.0.0.1:2", identity=BOB))
    wire.send(b, a.address, b"before", 1)
    wire.run(1.0)
    a.machine.revoke(frozenset({BOB.node_id}))
    assert a.machine.peer_id(b.address) is None
    wire.send(b, a.address, b"after", 2)
    wire.send(a, b.address, b"to the outcast", 3)
    wire.run(60.0)
    assert b.told == {1: [True], 2: [False]} and a.told == {3: [False]}
    assert [payload for _, payload in a.received] == [b"before"]
    assert a.machine.statistics().dropped["revoked_id"] >= 1
    a.machine.revoke(frozenset())
    wire.send(b, a.address, b"pardoned", 4)
    wire.run(60.0)
    assert b.told[4] == [True]
