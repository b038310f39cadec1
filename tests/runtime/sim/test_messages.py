"""The message-level network: what arrives, when, and what the sender is told."""

from __future__ import annotations

import pytest

from runtime.message import Codec, Message
from runtime.sim import SimHost, World, star


class Note(Message, frozen=True, tag=1):
    text: str


CODEC = Codec([Note])


def make(count: int = 2, **options: object) -> tuple[World, list[SimHost], list[tuple[float, str, str]]]:
    world = World(seed=1, topology=star(0.05), codec=CODEC, **options)  # type: ignore[arg-type]
    hosts = [world.add_host() for _ in range(count)]
    seen: list[tuple[float, str, str]] = []
    for host in hosts:
        host.messenger.on(Note, lambda sender, note: seen.append((world.now, sender, note.text)))
    return world, hosts, seen


def test_a_message_arrives_after_the_latency_and_the_notice_after_the_round_trip() -> None:
    world, (a, b), seen = make()
    told: list[tuple[float, bool]] = []
    a.messenger.send(b.address, Note("hello"), lambda ok: told.append((world.now, ok)))
    world.run_until(1.0)
    assert seen == [(0.05, a.address, "hello")]
    assert told == [(0.1, True)]


def test_a_dead_or_absent_peer_is_reported_after_the_give_up_time() -> None:
    world, (a, b), seen = make()
    told: list[tuple[float, bool]] = []
    world.crash(b)
    a.messenger.send(b.address, Note("dead"), lambda ok: told.append((world.now, ok)))
    a.messenger.send("10.9.9.9:7000", Note("absent"), lambda ok: told.append((world.now, ok)))
    world.run_until(10.0)
    assert seen == []
    assert told == [(5.0, False), (5.0, False)]
    statistics = world.statistics(a)
    assert statistics.failed == 2
    assert statistics.drops == {"absent": 1, "dead": 1}


def test_a_crash_ends_timers_and_messages_under_way_also_after_a_restart() -> None:
    world, (a, b), seen = make()
    told: list[bool] = []
    fired: list[str] = []
    b.runtime.call_later(1.0, fired.append, "old timer")
    a.messenger.send(b.address, Note("to the old one"), told.append)
    world.run_until(0.01)
    world.crash(b)
    world.restart(b)
    b.messenger.on(Note, lambda sender, note: seen.append((world.now, sender, note.text)))
    world.run_until(10.0)
    assert (seen, fired, told) == ([], [], [False])
    a.messenger.send(b.address, Note("to the new one"), told.append)
    world.run_until(20.0)
    assert [text for _, _, text in seen] == ["to the new one"]
    assert told == [False, True]


@pytest.mark.parametrize("serialise", [False, True])
def test_bytes_are_counted_at_both_ends_and_every_message_ends_in_a_count(serialise: bool) -> None:
    world, (a, b), _ = make(serialise=serialise)
    for length in (1, 1_000, 5_000):
        a.messenger.send(b.address, Note("x" * length))
    world.run_until(1.0)
    out, into = world.statistics(a), world.statistics(b)
    assert (out.messages_out, into.messages_in) == (3, 3)
    assert (
        out.bytes_out
        == into.bytes_in
        == sum(len(CODEC.encode(Note("x" * n))) for n in (1, 1_000, 5_000)) + 60 * 7
    )
