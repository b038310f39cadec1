"""Nodes of different versions: they work together where they can, and where they cannot both say so at once."""

from __future__ import annotations

import pytest

from overlay.transport.greeting import BODY_BYTES, Hello
from overlay.transport.versions import OTHERS_MAX, RELEASE_BYTES, Others, Versions, parse_versions
from overlay.transport.wire import HELLO
from tests.overlay.transport.fake_wire import Endpoint, Wire

A, B = "127.0.0.1:1", "127.0.0.1:2"


def joined(one: Versions, other: Versions) -> tuple[Wire, Endpoint, Endpoint]:
    wire = Wire()
    return wire, wire.add(Endpoint(A, versions=one)), wire.add(Endpoint(B, versions=other))


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ((1, 1), (1, 1), 1),
        ((1, 2), (2, 3), 2),
        ((1, 4), (2, 3), 3),
        ((1, 1), (2, 2), None),
        ((3, 9), (1, 2), None),
    ],
)
def test_the_newest_version_that_both_speak(
    one: tuple[int, int], other: tuple[int, int], common: int | None
) -> None:
    assert Versions(*one).common(Versions(*other)) == common
    assert Versions(*other).common(Versions(*one)) == common


def test_versions_that_overlap_work_together() -> None:
    wire, a, b = joined(Versions(1, 2, "1.4"), Versions(2, 3, "1.5"))
    wire.send(a, B, b"hello", "there")
    wire.send(b, A, b"hello yourself", "back")
    wire.run(2.0)
    assert (a.told, b.told) == ({"there": [True]}, {"back": [True]})
    assert a.machine.statistics().other_versions == b.machine.statistics().other_versions == {}


def test_versions_apart_are_told_at_once_and_at_both_ends() -> None:
    wire, a, b = joined(Versions(1, 1, "1.4"), Versions(2, 3, "2.0"))
    wire.send(a, B, b"hello", "there")
    wire.run(0.1)
    assert a.told == {"there": [False]}, "not after all the timeouts of a dead peer"
    assert b.received == []
    for endpoint, other, words in (
        (a, B, "versions 2 to 3 (release 2.0)"),
        (b, A, "versions 1 (release 1.4)"),
    ):
        statistics = endpoint.machine.statistics()
        assert statistics.dropped == {"other_version": 1}
        assert statistics.other_versions == {other: words}
        assert [address for address, _ in endpoint.machine.others.take_news()] == [other]
    wire.send(b, A, b"and you?", "back")
    wire.run(0.1)
    assert b.told == {"back": [False]}
    assert b.machine.others.take_news() == [], "said once"


def test_a_peer_that_was_upgraded_is_let_in() -> None:
    wire, a, _ = joined(Versions(2, 2, "2.0"), Versions(1, 1, "1.4"))
    wire.send(a, B, b"hello", 1)
    wire.run(0.1)
    upgraded = wire.add(Endpoint(B, life=1, versions=Versions(1, 2, "2.0")))
    wire.send(a, B, b"hello", 2)
    wire.run(1.0)
    assert a.told == {1: [False], 2: [True]}
    assert [payload for _, payload in upgraded.received] == [b"hello"]
    assert a.machine.statistics().other_versions == {}


def test_a_greeting_of_before_versions_were_told_is_no_session() -> None:
    wire, a, b = joined(Versions(), Versions())
    bare = Hello(0).to_bytes()[: BODY_BYTES - 188]
    b.machine.receive_datagrams(wire.now, [(A, a.machine._handshake._seal(HELLO, bare))])
    assert b.machine.datagrams_to_send(wire.now) == []
    assert b.machine.statistics().dropped == {"other_version": 1, "short_greeting": 1}
    assert b.machine.statistics().other_versions == {A: "versions 0 (release unknown)"}


def test_a_release_is_plain_text_whatever_a_peer_says() -> None:
    hostile = Versions(1, 1, "1\x1b[2J\n\u202e9" + "x" * 100)
    parsed = parse_versions(hostile.to_bytes(), 0)
    assert parsed.release.isprintable()
    assert len(parsed.release) <= RELEASE_BYTES


def test_others_are_bounded() -> None:
    others = Others()
    for number in range(3 * OTHERS_MAX):
        others.met(f"10.0.0.{number}:1", Versions(9, 9))
    assert len(others.by_address) == len(others.news) == OTHERS_MAX
