"""Datagrams: lost, doubled, overtaken, queued, cut off; and the hook for a real transport."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runtime.api import Address, Notice
from runtime.message import Codec, Message
from runtime.sim import Fifo, SimHost, SimRuntime, World, star


class Note(Message, frozen=True, tag=1):
    text: str


CODEC = Codec([Note])


class Bare:
    """The least messenger there can be over datagrams: one message each, no retries."""

    def __init__(self, runtime: SimRuntime, codec: Codec) -> None:
        self._codec = codec
        self._handlers: dict[type, object] = {}
        self.datagrams = runtime.open_datagrams(self._received)
        self.seen: list[tuple[Address, bytes]] = []

    def send(self, to: Address, message: Message, notice: Notice | None = None) -> None:
        self.datagrams.send_many(to, [self._codec.encode(message)])

    def on(self, kind: object, handler: object) -> None:
        raise AssertionError

    def _received(self, datagrams: Sequence[tuple[Address, bytes]]) -> None:
        self.seen += datagrams


def make(**options: object) -> tuple[World, SimHost, SimHost]:
    world = World(seed=3, topology=star(0.05), codec=CODEC, messenger=Bare, **options)  # type: ignore[arg-type]
    return world, world.add_host(), world.add_host()


def sent(host: SimHost, to: SimHost, count: int, size: int = 100) -> list[bytes]:
    datagrams = [number.to_bytes(4, "big") + bytes(size - 4) for number in range(count)]
    host.messenger.datagrams.send_many(to.address, datagrams)  # type: ignore[attr-defined]
    return datagrams


def received(host: SimHost) -> list[bytes]:
    return [data for _, data in host.messenger.seen]  # type: ignore[attr-defined]


def test_datagrams_arrive_whole_with_their_sender_and_count_their_headers() -> None:
    world, a, b = make()
    datagrams = sent(a, b, 3)
    world.run_until(0.049)
    assert received(b) == []
    world.run_until(0.051)
    assert received(b) == datagrams
    assert b.messenger.seen[0][0] == a.address  # type: ignore[attr-defined]
    assert world.statistics(a).bytes_out == world.statistics(b).bytes_in == 3 * 128


def test_loss_duplication_and_reordering() -> None:
    world, a, b = make()
    world.faults.loss.set_rate(0.1)
    world.faults.duplication.set_rate(0.2)
    world.faults.reordering.set_rate(0.1)
    datagrams = sent(a, b, 2_000)
    world.run_until(10.0)
    got = received(b)
    distinct = set(got)
    assert distinct <= set(datagrams)
    assert 1_740 <= len(distinct) <= 1_860
    assert 290 <= len(got) - len(distinct) <= 430
    assert world.statistics(a).drops == {"lost": 2_000 - len(distinct)}
    assert got != sorted(got)


def test_fifo_links_pace_datagrams_and_drop_what_the_queue_does_not_hold() -> None:
    world, a, b = make(links=Fifo())
    sent(a, b, 200, size=1_472)
    world.run_until(0.05 + 0.008 * 11.5)
    assert len(received(b)) == 10, "1,500 bytes take 8 ms at 1.5 Mbps, out and then in"
    world.run_until(10.0)
    assert 40 <= len(received(b)) <= 50, "0.35 s of queue"
    assert world.statistics(a).drops == {"congested": 200 - len(received(b))}


def test_drops_are_counted_by_reason() -> None:
    world, a, b = make()
    a.messenger.datagrams.send_many("10.9.9.9:7000", [b"x"])  # type: ignore[attr-defined]
    a.messenger.datagrams.send_many(b.address, [bytes(65_508)])  # type: ignore[attr-defined]
    world.faults.partitions.cut([a.index], [b.index], one_way=True)
    sent(a, b, 1)
    world.faults.partitions.heal()
    sent(a, b, 1)
    b.messenger.datagrams.close()  # type: ignore[attr-defined]
    world.run_until(1.0)
    world.crash(b)
    sent(a, b, 1)
    world.run_until(2.0)
    assert world.statistics(a).drops == {
        "absent": 1,
        "dead": 1,
        "oversize": 1,
        "partitioned": 1,
        "unbound": 1,
    }


def test_what_is_under_way_reaches_the_next_incarnation_as_on_a_real_network() -> None:
    world, a, b = make()
    sent(a, b, 1)
    world.run_until(0.01)
    world.restart(b)
    world.run_until(1.0)
    assert len(received(b)) == 1


def test_a_node_has_one_socket() -> None:
    _, a, _ = make()
    with pytest.raises(OSError, match="in use"):
        a.runtime.open_datagrams(lambda _: None)
