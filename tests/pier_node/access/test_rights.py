"""Who may do what, through the door: roles, namespaces, rates and revocation as a client meets them."""

from __future__ import annotations

from typing import Any

import pytest

from pier_node.access.clients import Client
from pier_node.access.rates import Hold, RateLimits
from pier_node.access.rights import may_run
from pier_node.access.tokens import Token, TokenBook, digest
from pier_node.engine.compilers import Job, Question, Text, planned
from pier_node.node_service import ComposedService
from pier_node.protocol import messages as m
from pier_node.protocol.server import Gone
from pier_node.server import ServerOptions
from pier_node.service import Failure
from query.dataflow.registry import all_operators
from query.engine.stages import stages
from query.plan import Plan
from tests.pier_node.worlds import BATCH, Caller, Door, FixedOverlay, ScriptedEngine

BOOK = TokenBook(
    tokens=(
        Token("reader", ("ask",), (digest("r"),), 0),
        Token("feeder", ("publish",), (digest("f"),), 0, namespaces=("fw",)),
        Token("root", ("administer",), (digest("a"),), 0),
    )
)


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


def opened(engine: ScriptedEngine, **options: Any) -> Door:
    return Door(ComposedService(FixedOverlay(), engine), ServerOptions(tokens=BOOK, **options))


def attempts(client: Caller) -> list[str]:
    """Everything there is to ask for; what was refused for want of a right."""
    client.machine.ask("q", "ufl", 1_000)
    client.machine.publish("fw", ["src"], None)
    client.machine.publish("other", ["src"], None)
    client.machine.put_object("fw", "k", "s", b"v", 60.0)
    client.machine.put_object("pier.tables", "k", "s", b"v", 60.0)
    client.machine.get_objects("fw", "k")
    client.machine.explain("SELECT 1", "sql")
    for what in ("tables", "queries", "status", "ring"):
        client.machine.call(what)
    client.run()
    return [failed.message for failed in client.told(m.Failed) if failed.kind == "forbidden"]


def test_each_role_has_its_rights(engine: ScriptedEngine) -> None:
    door = opened(engine)
    assert attempts(door.client("a")) == []
    refused = attempts(door.client("r"))
    assert len(refused) == 4 and all("'reader' does not allow to publish into" in text for text in refused)
    refused = attempts(door.client("f"))
    assert sum("does not allow to ask" in text for text in refused) == 5
    assert sum("publish into 'other'" in text or "'pier.tables'" in text for text in refused) == 2
    counted = door.server.statistics()
    assert counted.client["reader"].rights_refused == 4
    assert counted.totals.rights_refused == 4 + counted.client["feeder"].rights_refused


def test_a_query_is_its_askers_and_the_administrators(engine: ScriptedEngine) -> None:
    door = opened(engine)
    engine.queries = lambda done: done(  # type: ignore[method-assign]
        (
            m.QueryEntry("q1", "x", client="reader@h:1", owner="reader"),
            m.QueryEntry("q2", "y", client="root@h:2", owner="root"),
            # Of a token that is called `reader@x`.
            m.QueryEntry("q3", "z", client="reader@x@h:3", owner="reader@x"),
            m.QueryEntry("q4", "asked elsewhere"),
        )
    )
    reader, root = door.client("r"), door.client("a")
    for client in (reader, root):
        client.machine.call("queries")
        for query in ("q2", "q1", "q3", "q4"):
            client.machine.call("cancel", query)
        client.run()
    assert [entry.id for entry in reader.told(m.QueriesAre)[0].queries] == ["q1"]
    assert [entry.id for entry in root.told(m.QueriesAre)[0].queries] == ["q1", "q2", "q3", "q4"]
    assert "of yours" in reader.told(m.Failed)[0].message and len(reader.told(m.Done)) == 1
    assert door.server.statistics().client["reader"].rights_refused == 3


def test_a_revoked_token_ends_its_sessions_and_only_those(engine: ScriptedEngine) -> None:
    door = opened(engine)
    reader, root = door.client("r"), door.client("a")
    reader.machine.ask("q", "ufl", 1_000)
    reader.run()
    door.server.use_tokens(TokenBook(tokens=BOOK.tokens[1:]))
    events = reader.machine.receive(bytes(reader.stream.sent), 0.0)
    assert isinstance(events[-1], Gone) and "revoked" in events[-1].reason
    assert [each[0] for each in engine.told] == ["allow", "cancel"] and not root.stream.over
    assert engine.told[0] == ("allow", False), "what the token had published is not to stay"
    assert door.client("r").told(Gone)[0].reason == "token not accepted"
    counted = door.server.statistics()
    assert (counted.tokens_revoked, counted.tokens_refused, counted.connections) == (1, 1, 1)


def test_rates_refuse_by_name_and_are_counted(engine: ScriptedEngine) -> None:
    door = opened(engine, rates=RateLimits(requests_per_s=1.0, request_burst=3))
    client = door.client("r")
    for _ in range(5):
        client.machine.call("status")
    client.run()
    assert len(client.told(m.StatusIs)) == 3
    assert all("client.requests_per_s" in failed.message for failed in client.told(m.Failed))
    # Another connection of the same client has no budget of its own; another client has.
    again, other = door.client("r"), door.client("a")
    for each in (again, other):
        each.machine.call("status")
        each.run()
    assert again.told(m.Failed) and other.told(m.StatusIs)
    assert door.server.statistics().client["reader"].rate_limited == 3


def test_queries_at_once_are_counted_over_connections(engine: ScriptedEngine) -> None:
    door = opened(engine, rates=RateLimits(holds_max={Hold.QUERIES: 2}))
    clients = [door.client("r") for _ in range(3)]
    for client in clients:
        client.machine.ask("q", "ufl", 1_000)
        client.run()
    assert "client.queries_max" in clients[2].told(m.Failed)[0].message
    clients[0].stream.handler.closed("gone")
    engine.sinks[1].finish(m.Account("q"))
    clients[1].run()
    assert door.server.statistics().client["reader"].held["queries"] == 0
    clients[2].machine.ask("q", "ufl", 1_000)
    clients[2].run()
    assert len(clients[2].told(m.Failed)) == 1 and len(engine.sinks) == 3


def test_a_fast_publisher_gets_its_credit_later(engine: ScriptedEngine) -> None:
    door = opened(engine, rates=RateLimits(publish_bytes_per_s=100.0))
    client = door.client("f")
    request = client.machine.publish("fw", ["src"], None)
    client.run()
    sent = 0
    while client.machine.is_ready(request) and sent < 100_000:
        client.machine.rows(request, "fw", BATCH)
        client.run()
        sent += 1
    before = door.server.statistics().client["feeder"]
    assert before.publish_delays > 0 and not client.machine.is_ready(request)
    door.clock.advance(100_000.0)
    client.run()
    assert client.stream.over or client.machine.is_ready(request)


def test_connections_from_one_address(engine: ScriptedEngine) -> None:
    door = opened(engine, connections_per_address_max=2)
    clients = [door.client("r") for _ in range(3)]
    assert "client.connections_per_address_max" in clients[2].told(Gone)[0].reason
    clients[0].stream.handler.closed("gone")
    assert door.client("r").told(m.Welcome)
    assert door.server.statistics().refused_by_address == 1


def plan(text: str) -> Plan:
    """As a node makes it of what a client sends."""
    made = planned(Job("ufl", Text(f"%opgraph(g) {{ {text} }}", "ab12", 0)))
    assert isinstance(made, Question), made
    return made.plan


SOURCE = "%operator(s) { type = scan implementation = Local table = fw }"
#: Everything that an author may write for a put into `stolen`, or for dropping an index of it.
PUTS = [
    "type = put implementation = DHT {ns} = stolen keys[0] = $src",
    "type = put implementation = dht {ns} = stolen keys[0] = $src",
    "type = put {ns} = stolen keys[0] = $src",
    "type = put implementation = DHTMessage {ns} = stolen keys[0] = $src",
    "type = put implementation = Index {ns} = stolen index = by_src",
    "type = put implementation = iNDEX {ns} = stolen index = by_src column = src",
    'type = put implementation = DHT {ns} = "stolen"::string keys[0] = $src',
    'type = put implementation = DHT {ns} = "pier.tables" keys[0] = $src',
    # It carries the query's id and nobody of the query reads it: it would stay.
    'type = put implementation = DHT {ns} = "stolen.ab12" keys[0] = $src',
]


@pytest.mark.parametrize("name", ["ns", "NS", "Ns"])
@pytest.mark.parametrize("put", PUTS)
def test_a_query_puts_only_where_its_asker_may(put: str, name: str) -> None:
    answer = "%operator(r) { type = result sources[0] = p }" if "index" in put else ""
    written = plan(f"{SOURCE} %operator(p) {{ {put.replace('{ns}', name)} sources[0] = s }} {answer}")
    reader = Client("reader", frozenset({"ask"}))
    feeder = Client("feeder", frozenset({"ask", "publish"}), ("stolen*",))
    refused = may_run(reader, written, "ab12")
    assert refused is not None and refused.kind == "forbidden"
    assert (may_run(feeder, written, "ab12") is None) is ("pier." not in put)


def test_whoever_may_publish_into_a_table_of_other_capitals_does_not_drop_its_indexes() -> None:
    answer = "%operator(r) { type = result sources[0] = p }"
    drop = "%operator(p) { type = put implementation = Index ns = STOLEN index = by_src sources[0] = s }"
    feeder = Client("feeder", frozenset({"ask", "publish"}), ("STOLEN",))
    refused = may_run(feeder, plan(f"{SOURCE} {drop} {answer}"), "ab12")
    assert refused is not None and "'stolen'" in refused.message


def test_a_query_may_always_put_into_what_is_its_own() -> None:
    meets = """%operator(p) { type = put implementation = DHT NS = "own.\\qi" sources[0] = s keys[0] = $src } }
        %opgraph(h) { %operator(t) { type = scan ns = "own.\\qi" } %operator(r) { type = result sources[0] = t }"""
    assert may_run(Client("reader", frozenset({"ask"})), plan(SOURCE + meets), "ab12") is None


def test_the_stages_of_a_query_follow_what_its_operators_will_read() -> None:
    meets = """%operator(p) { type = put NS = "own.\\qi" sources[0] = s keys[0] = $src } }
        %opgraph(h) { AT = Asker %operator(t) { type = scan Ns = "own.\\qi"::string }
        %operator(r) { type = result sources[0] = t }"""
    made = plan(SOURCE + meets)
    assert [stage.namespaces for stage in stages(made)] == [("own.ab12",), ()]
    assert made.opgraphs[1].settings == {"at": "asker"}


def test_a_setting_is_given_once_in_whatever_case() -> None:
    text = f"%opgraph(g) {{ {SOURCE} %operator(p) {{ type = put ns = own NS = stolen sources[0] = s }} }}"
    refused = planned(Job("ufl", Text(text, "ab12", 0)))
    assert isinstance(refused, Failure) and "given twice" in refused.message


def test_every_operator_that_takes_a_namespace_says_what_it_does_there() -> None:
    for kind in all_operators():
        options = {option.name: option.default for option in kind.OPTIONS}
        if "ns" in options:
            options["ns"] = "x"
            assert (kind.writes if kind.TYPE == "put" else kind.reads)(options) == ("x",), kind


def test_only_an_administrator_retires_members(engine: ScriptedEngine) -> None:
    overlay = FixedOverlay()
    door = Door(ComposedService(overlay, engine), ServerOptions(tokens=BOOK))
    for token in "rfa":
        client = door.client(token)
        client.machine.call("members")
        client.machine.call("retire", "web2")
        client.run()
        assert [entry.state for entry in client.told(m.MembersAre)[0].members] == ["here", "absent"]
        refused = [failed.message for failed in client.told(m.Failed)]
        assert (len(refused), len(client.told(m.Done))) == ((0, 1) if token == "a" else (1, 0))
        assert all("does not allow to retire members" in text for text in refused)
    assert overlay.retired == ["web2"]
