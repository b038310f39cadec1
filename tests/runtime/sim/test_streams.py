"""TCP streams: in order, whole, with back-pressure, and an end that both sides learn of."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.api import Stream
from runtime.message import Codec, Message
from runtime.sim import Fifo, SimHost, World, star
from runtime.sim.stream import HIGH_WATER_BYTES


class Nothing(Message, frozen=True, tag=1):
    pass


class Log:
    """Records everything it is told."""

    def __init__(self) -> None:
        self.data = b""
        self.calls: list[str] = []

    def received(self, data: bytes) -> None:
        self.data += data

    def drained(self) -> None:
        self.calls.append("drained")

    def closed(self, reason: str) -> None:
        self.calls.append(f"closed {reason}".strip())


class Pair:
    """A client and a server, connected."""

    def __init__(self, **options: object) -> None:
        self.world = World(seed=3, topology=star(0.05), codec=Codec([Nothing]), **options)  # type: ignore[arg-type]
        self.client, self.server = self.world.add_host(), self.world.add_host()
        self.near, self.far = Log(), Log()
        self.accepted: list[Stream] = []
        self.at = self.server.runtime.listen("0.0.0.0:0", self._accept)
        opened: list[Stream | str] = []
        self.client.runtime.connect(self.at, opened.append)
        self.world.run_until(1.0)
        assert not isinstance(opened[0], str)
        self.stream = opened[0]
        self.stream.handle(self.near)

    def _accept(self, stream: Stream) -> None:
        self.accepted.append(stream)
        stream.handle(self.far)


def test_bytes_flow_both_ways_in_order_and_the_end_is_orderly() -> None:
    pair = Pair()
    pair.stream.write(b"one ")
    pair.stream.write(b"two")
    pair.accepted[0].write(b"back")
    pair.stream.close()
    assert pair.stream.write(b"too late") is False
    pair.world.run_until(5.0)
    assert pair.far.data == b"one two"
    assert pair.near.calls == pair.far.calls == ["closed"]
    assert pair.accepted[0].peer.startswith("10.0.0.0:")
    assert pair.client.runtime.streams == pair.server.runtime.streams == {}


@given(st.lists(st.binary(min_size=1, max_size=5_000), max_size=40), st.floats(0.0, 0.3))
@settings(max_examples=30)
def test_any_writes_arrive_whole_in_order_under_loss(writes: list[bytes], loss: float) -> None:
    pair = Pair(links=Fifo())
    pair.world.faults.loss.set_rate(loss)
    for data in writes:
        pair.stream.write(data)
    pair.stream.close()
    pair.world.run_until(60.0)
    assert b"".join(writes).startswith(pair.far.data)
    if pair.far.calls == ["closed"]:
        assert pair.far.data == b"".join(writes)
    assert len(pair.near.calls) == len(pair.far.calls) == 1


def test_a_paused_reader_holds_the_writer_and_resuming_drains_it() -> None:
    pair = Pair()
    pair.accepted[0].pause_reading()
    written = 0
    while pair.stream.write(bytes(10_000)):
        written += 10_000
    assert written <= HIGH_WATER_BYTES
    pair.world.run_until(10.0)
    assert (pair.far.data, pair.near.calls) == (b"", [])
    pair.accepted[0].resume_reading()
    pair.world.run_until(20.0)
    assert len(pair.far.data) == written + 10_000
    assert pair.near.calls == ["drained"]


def test_capacity_limits_a_stream() -> None:
    pair = Pair(links=Fifo())
    started_at = pair.world.now
    for _ in range(10):
        pair.stream.write(bytes(18_750))
    pair.world.run_until(started_at + 0.9)
    assert len(pair.far.data) < 187_500
    pair.world.run_until(started_at + 1.4)
    assert len(pair.far.data) == 187_500, "a second at 1.5 Mbps"


@pytest.mark.parametrize("crashed", ["client", "server"])
def test_the_survivor_of_a_crash_is_told_within_the_give_up_time(crashed: str) -> None:
    pair = Pair()
    host: SimHost = getattr(pair, crashed)
    survivor, victim = (pair.far, pair.near) if crashed == "client" else (pair.near, pair.far)
    pair.world.crash(host)
    pair.world.run_until(6.1)
    assert survivor.calls == ["closed peer lost"]
    assert victim.calls == []


def test_a_partition_times_a_stream_out() -> None:
    pair = Pair()
    pair.world.faults.partitions.cut([0], [1])
    pair.stream.write(b"lost")
    pair.world.run_until(10.0)
    assert pair.near.calls == ["closed connection timed out"]


def test_connections_that_cannot_be_say_why() -> None:
    pair = Pair()
    told: list[tuple[float, object]] = []

    def note(result: Stream | str) -> None:
        told.append((round(pair.world.now, 6), result))

    runtime = pair.client.runtime
    runtime.connect("10.0.0.1:9", note)
    runtime.connect("10.9.9.9:80", note)
    runtime.connect("nonsense", note)
    pair.world.run_until(10.0)
    pair.world.crash(pair.server)
    runtime.connect(pair.at, note)
    pair.world.run_until(20.0)
    assert told == [
        (1.1, "connection refused"),
        (6.0, "connection timed out"),
        (6.0, "connection timed out"),
        (15.0, "connection timed out"),
    ]
    with pytest.raises(OSError, match="in use"):
        pair.client.runtime.listen("10.0.0.0:80", note)
        pair.client.runtime.listen("10.0.0.0:80", note)


def test_what_came_before_the_handler_waits_for_it() -> None:
    world = World(seed=1, topology=star(0.05), codec=Codec([Nothing]))
    client, server = world.add_host(), world.add_host()
    accepted: list[Stream] = []
    at = server.runtime.listen("10.0.0.1:80", accepted.append)

    def write(stream: Stream | str) -> None:
        assert not isinstance(stream, str)
        stream.write(b"early")
        stream.close()

    client.runtime.connect(at, write)
    world.run_until(5.0)
    late = Log()
    accepted[0].handle(late)
    world.run_until(6.0)
    assert (late.data, late.calls) == (b"early", ["closed"])


def test_closed_is_the_last_call_and_comes_once_also_to_a_late_handler() -> None:
    pair = Pair()
    pair.accepted[0].pause_reading()
    pair.stream.write(b"unread")
    pair.world.run_until(2.0)
    pair.world.crash(pair.client)
    pair.world.run_until(10.0)
    pair.accepted[0].resume_reading()
    pair.world.run_until(11.0)
    assert (pair.far.data, pair.far.calls) == (b"", ["closed peer lost"])
    late = Log()
    pair.accepted[0].handle(late)
    pair.world.run_until(12.0)
    assert late.calls == [], "closed is said once"


def test_a_writer_that_ignores_the_mark_is_cut_off() -> None:
    pair = Pair()
    pair.accepted[0].pause_reading()
    for _ in range(70):
        pair.stream.write(bytes(1 << 20))
    pair.world.run_until(2.0)
    assert pair.near.calls == ["closed write buffer over BUFFER_BYTES_MAX = 67108864"]
    assert pair.far.calls == ["closed connection reset"]
