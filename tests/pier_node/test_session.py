"""The client server and its sessions: requests reach the service, answers the client, whatever goes wrong."""

from __future__ import annotations

from typing import Any

import pytest

from pier_node.node_service import ComposedService, NoEngine
from pier_node.protocol import messages as m
from pier_node.protocol.client import BatchReceived
from pier_node.protocol.server import Gone, ServerLimits
from pier_node.server import ServerOptions
from pier_node.service import AnswerSink, Failure
from pier_node.session import SessionLimits
from tests.pier_node.worlds import BATCH, Door, FixedOverlay, ScriptedEngine, book


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def door(engine: ScriptedEngine) -> Door:
    return Door(ComposedService(FixedOverlay(), engine))


def test_questions_about_the_node_are_answered(door: Door) -> None:
    client = door.client()
    client.machine.call("status")
    client.machine.call("whole-ring")
    client.machine.call("tables")
    client.machine.call("queries")
    client.machine.call("cancel", "q1")
    client.machine.call("cancel", "q9")
    client.machine.explain("SELECT 1", "sql")
    client.run()
    assert client.told(m.StatusIs)[0].figures == {"a.b": 1}
    assert client.told(m.RingIs)[0].whole
    assert client.told(m.TablesAre)[0].tables[0].name == "fw"
    assert len(client.told(m.QueriesAre)[0].queries[0].text) <= 1_000
    assert len(client.told(m.Done)) == 1
    assert client.told(m.Failed)[0].message == "there is no query q9"
    assert client.told(m.Explained)[0].text == "plan of SELECT 1"


def test_objects_are_put_and_got(door: Door) -> None:
    client = door.client()
    client.machine.put_object("ns", "k", "s", b"value", 60.0)
    client.machine.get_objects("ns", "k")
    client.run()
    assert client.told(m.ObjectsAre)[0].objects == (("s", b"value"),)


def test_a_node_without_an_engine_says_so() -> None:
    client = Door(ComposedService(FixedOverlay(), NoEngine())).client()
    client.machine.ask("x", "ufl", 1_000)
    client.machine.publish("t", ["k"], None)
    client.machine.call("tables")
    client.machine.call("queries")
    client.machine.call("status")
    client.run()
    assert [f.message for f in client.told(m.Failed)] == ["this node has no query engine"] * 2
    assert client.told(m.TablesAre)[0].tables == ()
    assert client.told(m.QueriesAre)[0].queries == ()
    assert len(client.told(m.StatusIs)) == 1


def test_an_answer_streams_through(door: Door, engine: ScriptedEngine) -> None:
    client = door.client()
    request = client.machine.ask("q", "ufl", 1 << 20, m.Limits(rows=9), {"p": "v"})
    client.run()
    assert engine.asked[0].limits.rows == 9 and engine.asked[0].params == {"p": "v"}
    sink = engine.sinks[0]
    assert sink.ready() and sink.batch("t", BATCH)
    sink.progress(2, 1, 2, 0.1)
    client.machine.taps(request, True, ["op"])
    client.run()
    assert engine.told == [("taps", True, ("op",))]
    sink.tap("n1", "op", "hello")
    sink.finish(m.Account("q1", 2, 2))
    sink.finish(m.Account("q1", 2, 2))
    assert sink.batch("t", BATCH)
    client.run()
    assert client.told(m.Tapped)[0].text == "hello"
    assert len(client.told(BatchReceived)) == 1 and len(client.told(m.AccountIs)) == 1


def test_a_query_that_fails_before_it_returns(door: Door, engine: ScriptedEngine) -> None:
    position = m.Position(1, 7)
    engine.on_query = lambda sink: sink.fail(Failure("syntax", "no such table", position, "did you mean fw?"))
    client = door.client()
    client.machine.ask("q", "sql", 1_000)
    client.run()
    (failed,) = client.told(m.Failed)
    assert (failed.kind, failed.position, failed.hint) == ("syntax", position, "did you mean fw?")


def test_an_exception_of_the_engine_ends_one_request(door: Door, engine: ScriptedEngine) -> None:
    def explode(sink: AnswerSink) -> None:
        raise ZeroDivisionError("oops")

    engine.on_query = explode
    client = door.client()
    client.machine.ask("q", "sql", 1_000)
    client.machine.call("status")
    client.run()
    assert client.told(m.Failed)[0].kind == "internal"
    assert len(client.told(m.StatusIs)) == 1
    assert door.journal.lines[0][0] == "error"


def test_a_client_that_vanishes_takes_its_queries_with_it(door: Door, engine: ScriptedEngine) -> None:
    client = door.client()
    client.machine.ask("q", "ufl", 1_000)
    client.machine.publish("t", ["k"], 5.0)
    client.run()
    client.stream.handler.closed("reset by peer")
    assert ("cancel", "reset by peer") in engine.told
    assert ("feed cancelled", "reset by peer") in engine.told
    assert door.server.statistics().connections == 0
    assert engine.sinks[0].batch("t", BATCH)


def test_a_silent_client_is_pinged_and_then_given_up(door: Door, engine: ScriptedEngine) -> None:
    client = door.client()
    client.machine.ask("q", "ufl", 1_000)
    client.run()
    door.clock.advance(100.0)
    assert client.stream.over
    assert ("cancel", "no sign of life") in engine.told


def test_a_client_that_answers_pings_may_wait_for_ever(door: Door) -> None:
    client = door.client()
    for _ in range(20):
        door.clock.advance(10.0)
        client.run()
    assert not client.stream.over


def test_a_client_that_does_not_read_is_not_read_from(door: Door) -> None:
    client = door.client(high_water_bytes=2_000)
    for _ in range(60):
        client.machine.call("status")
    client.send()
    assert client.stream.paused
    client.run()
    assert not client.stream.paused
    assert len(client.told(m.StatusIs)) == 60


def test_a_full_stream_holds_answers_back_and_wakes_the_engine(door: Door, engine: ScriptedEngine) -> None:
    client = door.client(high_water_bytes=500)
    client.machine.ask("q", "ufl", 1 << 30)
    client.run()
    sink = engine.sinks[0]
    woken: list[int] = []
    sink.on_ready(lambda: woken.append(1))
    pushed = 0
    while sink.batch("t", BATCH):
        pushed += 1
    assert pushed < 20 and not sink.ready()
    client.run()
    assert woken == [1] and sink.ready()
    assert len(client.told(BatchReceived)) == pushed + 1


def test_an_engine_that_does_not_wait_is_stopped_at_the_backlog(engine: ScriptedEngine) -> None:
    limits = SessionLimits(machine=ServerLimits(backlog_bytes_max=10_000))
    door = Door(ComposedService(FixedOverlay(), engine), ServerOptions(session=limits))
    client = door.client()
    client.machine.ask("q", "ufl", 1)
    client.run()
    for _ in range(1_000):
        engine.sinks[0].batch("t", BATCH)
    assert engine.told and engine.told[0][0] == "cancel"
    client.machine.grant(1, 1 << 20)
    client.run()
    assert client.told(m.Failed)[0].kind == "limit"
    assert "client.backlog_bytes_max" in client.told(m.Failed)[0].hint


def test_a_reader_that_never_comes_is_given_up(door: Door, engine: ScriptedEngine) -> None:
    client = door.client()
    client.machine.ask("q", "ufl", 1)
    client.run()
    engine.sinks[0].batch("t", BATCH)
    engine.sinks[0].batch("t", BATCH)
    engine.sinks[0].finish(m.Account("q1"))
    for _ in range(100):
        door.clock.advance(10.0)
        client.run()
    # The account was behind the rows nobody took: it comes alone, and the request is free again.
    assert len(client.told(BatchReceived)) == 1
    assert len(client.told(m.AccountIs)) == 1
    assert client.told(Gone) == []


def test_publishing_goes_through_with_credit(door: Door, engine: ScriptedEngine) -> None:
    client = door.client()
    request = client.machine.publish("t", ["src"], 9.0)
    client.run()
    for _ in range(10):
        assert client.machine.is_ready(request)
        client.machine.rows(request, "t", BATCH)
        client.run()
    client.machine.publish_end(request)
    client.run()
    assert client.told(m.Published)[0].rows == 20
    assert engine.told[0][1].keys == ("src",)


def test_connections_are_bounded_and_the_refusal_says_by_what(engine: ScriptedEngine) -> None:
    door = Door(ComposedService(FixedOverlay(), engine), ServerOptions(connections_max=1))
    door.client()
    second = door.client()
    assert "client.connections_max" in second.told(Gone)[0].reason
    assert door.server.statistics().refused == 1


def test_a_token_is_wanted_where_one_is_set(engine: ScriptedEngine) -> None:
    door = Door(ComposedService(FixedOverlay(), engine), ServerOptions(tokens=book("secret")))
    assert door.client("secret").told(m.Welcome)
    assert door.client("wrong").told(Gone)[0].reason == "token not accepted"
    assert door.server.statistics().tokens_refused == 1


def test_closing_the_door_says_goodbye(door: Door, engine: ScriptedEngine) -> None:
    client = door.client()
    client.machine.ask("q", "ufl", 1_000)
    client.run()
    door.server.close("the node is stopping")
    events: list[Any] = client.machine.receive(bytes(client.stream.sent), 0.0)
    assert events == [Gone("the node is stopping")]
    assert ("cancel", "the node is stopping") in engine.told


def test_what_was_refused_and_dropped_is_counted(engine: ScriptedEngine) -> None:
    limits = SessionLimits(machine=ServerLimits(requests_max=1))
    door = Door(ComposedService(FixedOverlay(), engine), ServerOptions(session=limits))
    client = door.client(high_water_bytes=200)
    client.machine.ask("q", "ufl", 1 << 20)
    client.machine.call("status")
    client.run()
    while engine.sinks[0].batch("t", BATCH):
        pass
    engine.sinks[0].tap("n", "op", "lost")
    client.stream.handler.received(b"\xff" * 8)
    counted = door.server.statistics().sessions
    assert (counted.requests, counted.requests_refused, counted.taps_dropped) == (1, 1, 1)
    assert counted.protocol_errors == 1


def test_accounts_nobody_reads_do_not_pile_up(door: Door, engine: ScriptedEngine) -> None:
    client = door.client()
    client.machine.ask("q", "ufl", 1)
    client.run()
    engine.sinks[0].batch("t", BATCH)
    engine.sinks[0].batch("t", BATCH)
    for epoch in range(10_000):
        engine.sinks[0].epoch_account(m.Account("q1", epoch=epoch))
    assert engine.told[0][0] == "cancel"
    client.machine.grant(1, 1 << 20)
    client.run()
    assert client.told(m.Failed)[0].kind == "limit"
    assert len(client.told(m.AccountIs)) < 5_000


def test_an_engine_that_breaks_while_it_runs_is_cancelled(door: Door, engine: ScriptedEngine) -> None:
    def explode() -> None:
        raise ZeroDivisionError("oops")

    client = door.client()
    client.machine.ask("q", "ufl", 1)
    client.run()
    engine.sinks[0].on_ready(explode)
    assert not engine.sinks[0].batch("t", BATCH)
    client.machine.grant(1, 1 << 20)
    client.run()
    assert client.told(m.Failed)[0].kind == "internal"
    assert engine.told[0][0] == "cancel"
    assert door.server.statistics().sessions.service_errors == 1
