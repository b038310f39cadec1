"""The client server and its sessions: requests reach the service, answers the client, whatever goes wrong."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pier_node.access.rates import Hold, RateLimits
from pier_node.node_service import ComposedService, NoEngine
from pier_node.protocol import messages as m
from pier_node.protocol.client import BatchReceived
from pier_node.protocol.errors import LocalProtocolError
from pier_node.protocol.frames import frame
from pier_node.protocol.server import Gone, ServerLimits
from pier_node.server import ServerOptions
from pier_node.service import AnswerSink, Failure
from pier_node.session_limits import SessionLimits
from tests.pier_node.worlds import BATCH, Caller, Door, FixedOverlay, ScriptedEngine, book


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


# -- one request's mistake


LONG = "n" * 5_000


def mistakes(client: Caller) -> list[int]:
    """Requests that no node can take, each for a reason of its own."""
    machine = client.machine
    return [
        machine.publish(LONG, ["k"], None),
        machine.publish("t", [LONG], None),
        machine.publish("t", [f"k{n}" for n in range(5_000)], None),
        machine.put_object("ns", LONG, "s", b"v", 60.0),
        machine.get_objects(LONG, "k"),
        machine.ask("SELECT 1", "sql", 1_000, params={LONG: 1}),
        machine.open_log(LONG, "SELECT 1", "sql", 60.0),
        machine.call("cancel", LONG),
    ]


def test_a_request_that_cannot_be_taken_ends_alone(door: Door, engine: ScriptedEngine) -> None:
    client = door.client()
    good = client.machine.ask("q", "ufl", 1 << 20)
    wrong = mistakes(client)
    client.run()
    failed = {each.request: each for each in client.told(m.Failed)}
    assert sorted(failed) == wrong and not client.told(Gone)
    assert all(each.kind == "refused" for each in failed.values())
    assert failed[wrong[0]].message.startswith("Publish.table: ") and "1024" in failed[wrong[0]].message
    engine.sinks[0].batch("t", BATCH)
    engine.sinks[0].finish(m.Account("q1"))
    client.run()
    assert [each.request for each in client.told(m.AccountIs)] == [good]
    assert door.server.statistics().sessions.unfit_messages == len(wrong)


def wide(columns: int) -> pa.RecordBatch:
    return pa.record_batch({f"column{n}": [n] for n in range(columns)})


def test_rows_that_cannot_be_taken_end_their_publication_alone(door: Door, engine: ScriptedEngine) -> None:
    client = door.client()
    feeds = [client.machine.publish(f"t{n}", ["k"], None) for n in range(4)]
    client.run()
    schema = BATCH.schema.serialize().to_pybytes()
    messages = (
        m.Schema(feeds[0], 0, "t0", wide(6_001).schema.serialize().to_pybytes()),
        m.Schema(feeds[1], 0, LONG, schema),
        m.Schema(feeds[2], 0, "t2", b"no schema"),
        m.Schema(feeds[3], 0, "t3", schema),
        m.Rows(feeds[3], 0, memoryview(b"no rows")),
        # What was on its way when the request had ended.
        m.Rows(feeds[3], 0, memoryview(b"no rows")),
    )
    for message in messages:
        client.stream.handler.received(frame(m.TO_NODE_CODEC.encode(message)))
    client.machine.call("status")
    client.run()
    assert [each.request for each in client.told(m.Failed)] == feeds
    assert len(client.told(m.StatusIs)) == 1 and not client.told(Gone)
    assert [told[0] for told in engine.told].count("feed cancelled") == 4


def test_a_client_does_not_send_what_no_node_takes(door: Door) -> None:
    client = door.client()
    request = client.machine.publish("t", ["k"], None)
    client.run()
    with pytest.raises(LocalProtocolError, match="6001 columns, the limit is 4096"):
        client.machine.rows(request, "t", wide(6_001))
    client.machine.call("status")
    client.run()
    assert client.told(m.StatusIs)


def test_an_answer_that_no_client_takes_ends_alone(door: Door, engine: ScriptedEngine) -> None:
    client = door.client()
    for table, batch in (("t", wide(6_001)), (LONG, BATCH)):
        client.machine.ask("q", "ufl", 1 << 20)
        client.run()
        assert engine.sinks[-1].batch(table, batch) is False
    client.machine.call("status")
    client.run()
    assert [each.kind for each in client.told(m.Failed)] == ["limit", "limit"]
    assert client.told(m.StatusIs) and not client.told(Gone)


def test_what_a_service_says_never_costs_a_client_its_connection(door: Door, engine: ScriptedEngine) -> None:
    """Counts that no message carries, names without end, tables with more columns than a message names."""
    columns = tuple(f"c{n}" for n in range(6_001))
    engine.tables = lambda done: done((m.TableEntry("fw", LONG, columns, columns),))  # type: ignore[method-assign]
    client = door.client()
    for ask in range(4):
        client.machine.ask("q", "ufl", 1 << 20)
        client.run()
        if ask == 0:
            engine.sinks[0].progress(-1, 1 << 64, 5, -0.5)
            engine.sinks[0].tap(LONG, LONG, "x")
            engine.sinks[0].finish(m.Account("q1", asked=1 << 70, failed=-3, dropped={LONG: 1 << 65}))
        elif ask == 1:
            engine.sinks[1].finish(m.Account("q1", elapsed_s=-1.0))
        elif ask == 2:
            engine.sinks[2].epoch_account(m.Account("q1", epoch=-1))
            engine.sinks[2].finish(m.Account(LONG, ended=LONG))
        else:
            engine.sinks[3].fail(Failure("syntax", "x" * 10_000_000, m.Position(0, 0)))
    client.machine.call("tables")
    client.machine.call("status")
    client.run()
    assert client.told(m.StatusIs) and not client.told(Gone)
    assert len(client.told(m.AccountIs)) + len(client.told(m.Failed)) >= 4
    assert client.told(m.AccountIs)[0].account.failed == 0
    assert door.server.statistics().sessions.unsaid > 0


# -- a request's time


def test_a_question_that_is_never_answered_ends_at_its_time(engine: ScriptedEngine) -> None:
    limits = SessionLimits(call_s_max=20.0, publish_s_max=30.0)
    door = Door(ComposedService(FixedOverlay(), engine), ServerOptions(session=limits))
    kept: list[Any] = []
    engine.tables = kept.append  # type: ignore[method-assign]
    engine.explain = lambda request, done: kept.append(done)  # type: ignore[method-assign]
    client = door.client()
    client.machine.call("tables")
    client.machine.explain("SELECT 1", "sql")
    feed = client.machine.publish("t", ["k"], None)
    client.run()
    engine.feeds_end = False
    client.machine.publish_end(feed)
    client.run()
    for _ in range(35):
        door.clock.advance(1.0)
        client.run()
    messages = [each.message for each in client.told(m.Failed)]
    assert messages == [
        "the node had no answer after 20 s (client.call_s_max)",
        "the node had no answer after 20 s (client.call_s_max)",
        "the node had no answer after 30 s (client.publish_s_max)",
    ]
    assert ("feed cancelled", messages[2]) in engine.told
    # What comes afterwards goes nowhere.
    kept[0](())
    kept[1]("late")
    client.run()
    assert len(client.told(m.Failed)) == 3 and not client.told(m.TablesAre)
    assert door.server.statistics().sessions.overdue == 3


# -- what one client holds


def holding(engine: ScriptedEngine, **most: int) -> Door:
    rates = RateLimits(holds_max={Hold[name.upper()]: limit for name, limit in most.items()})
    return Door(ComposedService(FixedOverlay(), engine), ServerOptions(rates=rates))


def test_connections_of_one_client_are_bounded_wherever_they_come_from(engine: ScriptedEngine) -> None:
    rates = RateLimits(holds_max={Hold.CONNECTIONS: 2})
    options = ServerOptions(tokens=book("w"), rates=rates)
    door = Door(ComposedService(FixedOverlay(), engine), options)
    first, second, third = (door.client("w") for _ in range(3))
    assert "client.connections_per_client_max = 2" in third.told(Gone)[0].reason
    first.stream.handler.closed("gone")
    assert door.client("w").told(m.Welcome) and second.told(m.Welcome)
    figures = door.server.statistics().client["someone"]
    assert (figures.held["connections"], figures.limited["connections"]) == (2, 1)


def test_publications_of_one_client_are_bounded(engine: ScriptedEngine) -> None:
    door = holding(engine, publications=2)
    clients = [door.client() for _ in range(3)]
    requests = [client.machine.publish("t", ["k"], None) for client in clients]
    for client in clients:
        client.run()
    assert "client.publications_max = 2" in clients[2].told(m.Failed)[0].message
    clients[0].machine.publish_end(requests[0])
    clients[0].run()
    clients[1].machine.cancel(requests[1])
    clients[1].run()
    assert door.server.statistics().client["127.0.0.1"].held["publications"] == 0


def test_answers_that_one_client_does_not_read_are_bounded_over_its_connections(
    engine: ScriptedEngine,
) -> None:
    door = holding(engine, backlog_bytes=20_000)
    clients = [door.client() for _ in range(4)]
    for client in clients:
        client.machine.ask("q", "ufl", 1)
        client.run()
    for _ in range(60):
        for sink in list(engine.sinks):
            sink.batch("t", BATCH)
    held = door.server.statistics().client["127.0.0.1"].held["backlog_bytes"]
    assert 0 < held <= 22_000
    for client in clients:
        client.machine.grant(1, 1 << 20)
        client.run()
    failed = [each for client in clients for each in client.told(m.Failed)]
    assert failed and all("client.backlog_bytes_per_client_max = 20000" in each.message for each in failed)
    for client in clients:
        client.stream.handler.closed("gone")
    assert door.server.statistics().client["127.0.0.1"].held["backlog_bytes"] == 0


def test_messages_that_never_come_whole_are_bounded_over_a_clients_connections(
    engine: ScriptedEngine,
) -> None:
    door = holding(engine, input_bytes=100_000)
    clients = [door.client() for _ in range(4)]
    for client in clients:
        client.stream.handler.received((1 << 20).to_bytes(4, "big") + b"x" * 40_000)
    assert [client.stream.over for client in clients] == [False, False, True, True]
    gone = clients[2].machine.receive(clients[2].stream.take(), 0.0)
    assert "client.input_bytes_per_client_max = 100000" in gone[0].reason
    assert door.server.statistics().client["127.0.0.1"].held["input_bytes"] == 2 * 40_004
