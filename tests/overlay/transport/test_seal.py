"""Seals: no nonce twice, nothing forged, nothing replayed, keys that rotate live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

import overlay.transport.seal as seal
from overlay.transport.config import DEFAULT
from overlay.transport.keyring import Keyring, new, retire, rotate
from overlay.transport.seal import Keys, Opener, Sealer
from overlay.transport.seal_replay import WINDOW_BITS, ReplayWindow
from overlay.transport.wire import DATA, HELLO, OPEN
from runtime.rng import Rng
from tests.overlay.transport.fake_wire import RING, Endpoint, Wire, pair

OTHER_RING = new(b"o" * 32, 1)


class NonceLog:
    """Sees every (key, nonce) pair that any node ever seals with."""

    def __init__(self) -> None:
        self.used: set[tuple[bytes, bytes]] = set()

    def watch(self, keys: Keys) -> Keys:
        log = self

        class Watched:
            def __init__(self, secret: bytes) -> None:
                self._secret = secret
                self._cipher = AESGCM(secret)
                self.decrypt = self._cipher.decrypt

            def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes:
                assert (self._secret, nonce) not in log.used, "a nonce was used twice"
                log.used.add((self._secret, nonce))
                return self._cipher.encrypt(nonce, data, associated_data)

        def make(secret: bytes, node_id: bytes, epoch: bytes, generation: int) -> Watched:
            return Watched(seal.derive_secret(secret, b"datagram", node_id, epoch, generation))

        keys._make = make
        return keys


@contextmanager
def watched_nonces() -> Iterator[NonceLog]:
    log = NonceLog()
    made = seal.Keys.__init__

    def init(self: Keys, ring: Keyring | None) -> None:
        made(self, ring)
        log.watch(self)

    seal.Keys.__init__ = init  # type: ignore[method-assign, assignment]
    try:
        yield log
    finally:
        seal.Keys.__init__ = made  # type: ignore[method-assign]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("restart"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("rotate"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("pass"), st.integers(0, 3), st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(script=steps, seed=st.integers(0, 2**32))
def test_no_key_and_nonce_pair_is_ever_used_twice(script: list[tuple[str, int, int]], seed: int) -> None:
    """Over many peers, over restarts with epochs drawn anew, over key rotation: the log asserts."""
    rng = Rng(seed)
    with watched_nonces() as log:
        wire = Wire(lambda *_: () if rng.random() < 0.1 else (0.01,))
        rings = [RING] * 4

        def start(index: int) -> None:
            life = rng.getrandbits(48)
            wire.add(Endpoint(f"127.0.0.1:{index + 1}", life, ring=rings[index]))

        for index in range(4):
            start(index)
        for action, who, whom in script:
            node = wire.endpoints[f"127.0.0.1:{who + 1}"]
            if action == "send" and who != whom:
                wire.send(node, f"127.0.0.1:{whom + 1}", bytes(3_000))
            elif action == "restart":
                start(who)
            elif action == "rotate":
                rings[who] = rotate(rings[who], rng.randbytes(32), len(rings[who].keys) + 10)
                node.machine.use_keyring(rings[who])
            else:
                wire.run(0.1)
        for index in range(4):
            wire.send(wire.endpoints[f"127.0.0.1:{index + 1}"], f"127.0.0.1:{(index + 1) % 4 + 1}", b"last")
        wire.run(1.0)
        assert len(log.used) >= 4


def test_the_epoch_of_a_life_is_drawn_anew() -> None:
    epochs = {Rng(seed).randbytes(8) for seed in range(10_000)}
    assert len(epochs) == 10_000


def test_a_sealer_moves_on_to_the_next_generation_and_openers_follow() -> None:
    keys = Keys(RING)
    sealer = Sealer(keys, bytes(20), bytes(8))
    sealer.counter = (1 << seal.GENERATION_BITS) - 2
    opener = Opener.of(keys, keys.sealing_id, bytes(20), bytes(8), 1)
    assert opener is not None
    sealed = [sealer.seal(b"12345", b"body", b"to") for _ in range(4)]
    for datagram in (sealed[0], sealed[3], sealed[1], sealed[2]):
        number = datagram[5:13]
        counter = int.from_bytes(number, "big")
        assert opener.open(number, counter, datagram[13:], datagram[:13] + b"to") == b"body"
        assert opener.open(number, counter, datagram[13:], datagram[:13] + b"ot") is None
    assert len({datagram[13:] for datagram in sealed}) == 4


@given(st.lists(st.integers(1, 3 * WINDOW_BITS), max_size=200), st.integers(0, 100))
def test_the_replay_window_admits_nothing_twice(numbers: list[int], floor: int) -> None:
    window = ReplayWindow(floor)
    seen: set[int] = set()
    highest = floor
    for number in numbers:
        admissible = window.admissible(number)
        if number in seen or number <= floor or number <= highest - WINDOW_BITS:
            assert not admissible
        else:
            assert admissible
            window.admit(number)
            seen.add(number)
            highest = max(highest, number)


def kinds(wire: Wire, kind: int) -> list[tuple[str, str, bytes]]:
    return [entry for entry in wire.log if entry[2][0] == kind]


def test_replayed_datagrams_are_dropped_and_counted() -> None:
    wire, a, b = pair()
    for n in range(5):
        wire.send(a, b.address, bytes([n]) * 100, n)
        wire.run(0.2)
    before = b.counts()
    captured = [datagram for source, _, datagram in wire.log if source == a.address]
    for datagram in captured:
        b.machine.receive_datagrams(wire.now, [(a.address, datagram)])
    wire.run(2.0)
    assert b.counts() == before
    dropped = b.machine.statistics().dropped
    assert dropped["replay"] >= 5


def test_replays_are_refused_from_other_addresses_by_other_lives_and_after_forgetting() -> None:
    wire, a, b = pair(config=replace(DEFAULT, peer_idle_s=16.0))
    wire.send(a, b.address, b"once", 1)
    wire.run(1.0)
    captured = [datagram for source, _, datagram in wire.log if source == a.address]
    b.machine.receive_datagrams(wire.now, [("127.0.0.1:77", datagram) for datagram in captured])
    assert b.machine.statistics().peers == 1, "another address"
    wire.run(20.0)
    assert b.machine.statistics().peers == 0
    b.machine.receive_datagrams(wire.now, [(a.address, datagram) for datagram in captured])
    wire.run(1.0)
    assert b.counts() == {b"once": 1}, "after the peer was forgotten"
    again = wire.add(Endpoint(b.address, life=1))
    again.machine.receive_datagrams(wire.now, [(a.address, datagram) for datagram in captured])
    again.machine.receive_datagrams(wire.now, [(a.address, datagram) for datagram in captured])
    wire.run(1.0)
    assert again.received == [], "another life"
    assert again.machine.statistics().peers == 0


@pytest.mark.parametrize("kind", [HELLO, OPEN, DATA])
@pytest.mark.parametrize("harm", ["flip", "cut", "extend", "other key"])
def test_damaged_and_foreign_datagrams_are_dropped_and_counted(kind: int, harm: str) -> None:
    if harm == "other key":
        wire = Wire()
        a = wire.add(Endpoint("127.0.0.1:1", ring=OTHER_RING))
        b = wire.add(Endpoint("127.0.0.1:2"))
        wire.send(a, b.address, b"let me in", 1)
        wire.run(20.0)
        assert a.told == {1: [False]}
        assert b.machine.statistics().dropped == {"wrong_key": DEFAULT.timeouts_max}
        assert b.machine.statistics().datagrams_sent == 0
        return
    wire, a, b = pair(lambda *_: (0.01,))
    wire.send(a, b.address, b"sound", 1)
    wire.run(1.0)
    datagram = next(data for source, _, data in kinds(wire, kind) if source == a.address)
    damaged = {
        "flip": [
            datagram[:at] + bytes([datagram[at] ^ 1]) + datagram[at + 1 :] for at in range(1, len(datagram))
        ],
        "cut": [datagram[:at] for at in range(len(datagram))],
        "extend": [datagram + b"x"],
    }[harm]
    before, received = b.machine.statistics(), b.counts()
    b.machine.receive_datagrams(wire.now, [(a.address, data) for data in damaged])
    after = b.machine.statistics()
    assert sum(after.dropped.values()) - sum(before.dropped.values()) == len(damaged)
    wire.run(1.0)
    assert b.counts() == received


def test_keys_rotate_while_messages_flow() -> None:
    wire, a, b = pair()
    sent = 0

    def exchange() -> None:
        nonlocal sent
        for _ in range(5):
            wire.send(a, b.address, sent.to_bytes(4, "big"), sent)
            wire.send(b, a.address, sent.to_bytes(4, "big"), sent)
            sent += 1
            wire.run(0.05)

    staged = rotate(RING, b"s" * 32, 2)
    promoted = rotate(staged, b"unused" * 6, 3)
    retired = retire(promoted)
    assert promoted.first.secret == b"s" * 32 and len(retired.keys) == 1
    for ring in (staged, promoted, retired):
        for endpoint in (a, b):
            exchange()
            endpoint.machine.use_keyring(ring)
    exchange()
    wire.run(1.0)
    assert all(a.told[n] == [True] and b.told[n] == [True] for n in range(sent))
    assert a.machine.statistics().timeouts == 0
    for endpoint in (a, b):
        assert set(endpoint.machine.statistics().dropped) <= {"repeated_open", "crossed_open"}


def test_plain_and_sealed_nodes_do_not_understand_each_other() -> None:
    wire = Wire()
    a = wire.add(Endpoint("127.0.0.1:1", ring=None))
    b = wire.add(Endpoint("127.0.0.1:2"))
    wire.send(a, b.address, b"?", 1)
    wire.send(b, a.address, b"?", 1)
    wire.run(30.0)
    assert a.told == b.told == {1: [False]}
