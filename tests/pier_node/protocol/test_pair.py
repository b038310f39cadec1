"""Client and node machines as a pair over a fake wire."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pier_node.protocol import messages as m
from pier_node.protocol.client import BatchReceived
from pier_node.protocol.errors import LocalProtocolError
from pier_node.protocol.flow import BacklogFull
from pier_node.protocol.frames import frame
from pier_node.protocol.server import BatchArrived, BecameReady, Gone, ServerLimits, State
from tests.pier_node.protocol.wire import Wire

BATCH = pa.record_batch({"src": ["10.0.0.1", "10.0.0.2", None], "n": [1, 2, 3]})


def test_hello_is_answered_with_what_the_client_must_know() -> None:
    wire = Wire().run()
    assert wire.client.state is wire.node.state is State.OPEN
    assert wire.client.welcome is not None
    assert wire.client.welcome.requests_max == ServerLimits().requests_max
    assert wire.client.welcome.node == "ab" * 20


def test_wrong_token_is_told_why() -> None:
    wire = Wire(token="guess", wanted="secret").run()
    assert wire.node.state is wire.client.state is State.CLOSED
    assert [e.reason for e in wire.told(Gone)] == ["token not accepted"] * 2


@given(cut=st.integers(1, 64))
def test_an_answer_arrives_whole_however_the_stream_is_cut(cut: int) -> None:
    wire = Wire(cut=cut).run()
    request = wire.client.ask("SELECT 1", "sql", 1 << 20, m.Limits(rows=5), {"p": 1})
    wire.run()
    (asked,) = wire.told(m.Ask)
    assert (asked.text, asked.language, asked.limits.rows, asked.params) == ("SELECT 1", "sql", 5, {"p": 1})
    assert wire.node.rows(request, "t", BATCH, epoch=3)
    wire.node.say(m.Progress(request, 8, 4, 3, 0.5))
    assert wire.node.rows(request, "u", BATCH.select(["n"]))
    wire.node.finish(m.AccountIs(request, m.Account("q1", asked=8, answered=8, rows=6)))
    wire.run()
    first, second = wire.told(BatchReceived)
    assert (first.table, first.epoch) == ("t", 3) and first.batch.equals(BATCH)
    assert second.table == "u" and second.batch.equals(BATCH.select(["n"]))
    assert wire.told(m.Progress)[0].answered == 4
    assert wire.told(m.AccountIs)[0].account.answered == 8
    assert wire.node.requests == []


def test_a_reader_without_credit_holds_only_its_own_answer() -> None:
    wire = Wire().run()
    slow, fast = wire.client.ask("a", "ufl", 1), wire.client.ask("b", "ufl", 1 << 20)
    wire.run()
    assert not wire.node.rows(slow, "t", BATCH)
    wire.node.rows(slow, "t", BATCH)
    wire.node.finish(m.AccountIs(slow, m.Account("s")))
    wire.node.rows(fast, "t", BATCH)
    wire.node.finish(m.AccountIs(fast, m.Account("f")))
    wire.run()
    # The first slow batch overdrew the credit; the rest waits, the account behind it.
    assert [e.request for e in wire.told(BatchReceived)] == [slow, fast]
    assert [e.account.query for e in wire.told(m.AccountIs)] == ["f"]
    wire.client.grant(slow, 1 << 20)
    wire.run()
    assert [e.request for e in wire.told(BatchReceived)] == [slow, fast, slow]
    assert [e.account.query for e in wire.told(m.AccountIs)] == ["f", "s"]


def test_the_node_is_told_when_there_is_credit_again() -> None:
    wire = Wire().run()
    request = wire.client.ask("a", "ufl", 1)
    wire.run()
    assert not wire.node.rows(request, "t", BATCH)
    assert not wire.node.is_ready(request)
    wire.client.grant(request, 1 << 20)
    wire.run()
    assert wire.told(BecameReady) == [BecameReady(request)]
    assert wire.node.is_ready(request)


def test_a_producer_that_does_not_wait_is_stopped() -> None:
    wire = Wire(limits=ServerLimits(backlog_bytes_max=1_000)).run()
    request = wire.client.ask("a", "ufl", 1)
    wire.run()
    with pytest.raises(BacklogFull):
        for _ in range(100):
            wire.node.rows(request, "t", BATCH)
    wire.node.finish(m.Failed(request, "limit", "too slow"))
    wire.client.cancel(request)
    wire.run()
    assert [e.kind for e in wire.told(m.Failed)] == ["limit"]


def test_cancel_reaches_the_node_and_drops_what_waits() -> None:
    wire = Wire().run()
    request = wire.client.ask("a", "ufl", 1)
    wire.run()
    wire.node.rows(request, "t", BATCH)
    wire.node.rows(request, "t", BATCH)
    wire.client.cancel(request)
    wire.run()
    assert len(wire.told(m.Cancel)) == 1
    wire.node.finish(m.AccountIs(request, m.Account("q", ended="cancelled")))
    wire.run()
    assert wire.told(m.AccountIs)[0].account.ended == "cancelled"
    assert len(wire.told(BatchReceived)) == 1


def test_a_publication_is_paid_for_with_credit() -> None:
    wire = Wire(limits=ServerLimits(feed_credit_bytes=10)).run()
    request = wire.client.publish("fw", ["src"], 60.0)
    assert not wire.client.is_ready(request)
    wire.run()
    assert wire.client.is_ready(request)
    wire.client.rows(request, "fw", BATCH)
    assert not wire.client.is_ready(request)
    wire.run()
    (arrived,) = wire.told(BatchArrived)
    assert arrived.batch.equals(BATCH)
    wire.node.grant(request, arrived.size_bytes)
    wire.run()
    assert wire.client.is_ready(request)
    wire.client.publish_end(request)
    wire.run()
    assert len(wire.told(m.PublishEnd)) == 1
    wire.node.finish(m.Published(request, 3, 2))
    assert wire.run().told(m.Published)[0].objects == 2


def test_batches_beyond_the_credit_end_the_connection() -> None:
    wire = Wire(limits=ServerLimits(feed_credit_bytes=10)).run()
    request = wire.client.publish("fw", ["src"], None)
    wire.run()
    wire.client.rows(request, "fw", BATCH)
    greedy = wire.client._requests[request].out
    assert greedy is not None
    greedy.credit_bytes = 1 << 20
    wire.client.rows(request, "fw", BATCH)
    wire.run()
    assert wire.node.state is State.CLOSED
    assert "credit" in wire.told(Gone)[0].reason


def test_a_large_batch_travels_in_pieces() -> None:
    wire = Wire().run()
    request = wire.client.ask("a", "ufl", 1 << 30)
    wire.run()
    big = pa.record_batch({"v": ["x" * 1000] * 5_000})
    wire.node.rows(request, "t", big)
    wire.run()
    got = [e.batch for e in wire.told(BatchReceived)]
    assert len(got) > 1
    assert pa.Table.from_batches(got).equals(pa.Table.from_batches([big]))


def test_one_row_larger_than_a_frame_is_refused_here_not_at_the_peer() -> None:
    wire = Wire().run()
    request = wire.client.ask("a", "ufl", 1 << 30)
    wire.run()
    with pytest.raises(LocalProtocolError):
        wire.node.rows(request, "t", pa.record_batch({"v": ["x" * (17 << 20)]}))


def test_too_many_requests_are_refused_one_by_one() -> None:
    wire = Wire(limits=ServerLimits(requests_max=2)).run()
    for _ in range(3):
        wire.client.call("status")
    wire.run()
    (failed,) = wire.told(m.Failed)
    assert failed.request == 3 and "client.requests_max" in failed.message
    assert wire.node.refused_requests == 1
    wire.node.finish(m.Done(1))
    wire.run()
    wire.client.call("status")
    wire.run()
    assert len(wire.told(m.Call)) == 3


def test_messages_that_cross_the_end_of_a_request_are_counted_not_punished() -> None:
    wire = Wire().run()
    request = wire.client.ask("a", "ufl", 1 << 20)
    wire.run()
    wire.node.finish(m.AccountIs(request, m.Account("q")))
    wire.client.cancel(request)
    wire.run()
    assert wire.node.stale_messages == 1
    assert wire.node.state is State.OPEN


def test_silence_is_asked_about_and_then_ends() -> None:
    wire = Wire().run()
    wire.now = 16.0
    assert wire.node.check(wire.now) == []
    wire.run()  # ping and pong
    wire.now = 32.0
    assert wire.node.check(wire.now) == []
    wire.node.take_output()  # the ping is lost: the client is gone
    wire.now = 80.0
    assert wire.node.check(wire.now) == [Gone("no sign of life")]


def test_a_hello_must_come_in_time_even_if_bytes_trickle() -> None:
    wire = Wire()
    hello = b"".join(wire.client.take_output())
    for second in range(10):
        assert wire.node.receive(hello[second : second + 1], float(second)) == []
    assert wire.node.check(10.0) == [Gone("no hello in time")]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xff\xff\xff", "frame of 4294967295 bytes"),
        (frame(b"\x93\x15\x01"), "protocol error"),
        (frame(b"\xc1"), "protocol error"),
        (frame(b"\x91" * 5_000), "protocol error"),
        (frame(m.TO_NODE_CODEC.encode(m.Call(1, "status"))), "must be a hello"),
        (frame(m.TO_NODE_CODEC.encode(m.Hello(1, token="x" * 1025))), "protocol error"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "frame of"),
    ],
)
def test_garbage_gets_a_goodbye_with_the_reason(data: bytes, reason: str) -> None:
    wire = Wire()
    (gone,) = wire.node.receive(data, 0.0)
    assert isinstance(gone, Gone) and reason in gone.reason
    assert wire.node.receive(b"more", 0.0) == []


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_raise_out_of_either_machine(data: bytes, framed: bool) -> None:
    wire = Wire().run()
    wire.client.ask("a", "ufl", 1 << 20)
    wire.client.publish("t", ["k"], None)
    wire.run()
    noise = frame(data) if framed else data
    wire.node.receive(noise, 0.0)
    wire.client.receive(noise, 0.0)


@given(st.integers(0, 10_000), st.integers(0, 255), st.integers(0, 100))
def test_mutated_batches_never_raise(at: int, value: int, keep: int) -> None:
    wire = Wire().run()
    request = wire.client.publish("t", ["src"], None)
    wire.run()
    wire.client.rows(request, "t", BATCH)
    data = bytearray(b"".join(wire.client.take_output()))
    data[at % len(data)] = value
    wire.node.receive(bytes(data[: len(data) - keep % 3]), 0.0)
