"""A member that says extreme numbers to an asker: every message of the engine, one number at a time. The query ends in
its time with an account that adds up, and does not call itself complete unless it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import ufl
from overlay.spread.messages import SpreadDone
from pier_node.engine.asking import wire_account
from pier_node.protocol import messages as m
from query.aggregation.messages import AGGREGATION_MESSAGES
from query.batch import from_pydict
from query.causes import Cause, added
from query.counts import COUNT_MAX
from query.dataflow.budget import Limits
from query.engine.account import Account
from query.engine.facts import TableFacts, by_name, merge, read, write
from query.engine.messages import ENGINE_MESSAGES
from query.engine.proxy import CONCLUDE_S, GRACE_S
from query.engine.spec import Report, combine, decode_report, encode
from runtime.message import CodecError, Message
from runtime.sim.messages import MessageNetwork
from tests.query.engine.cluster import Cluster, Collector

EXTREMES = (2**64 - 1, 2**63 - 1, 2**53, 2**53 - 1, 2**40, -1, -(2**63))
NODES = 4
HOSTILE = 2
TIME_S = 12.0
KINDS = (*ENGINE_MESSAGES, *AGGREGATION_MESSAGES, SpreadDone)

REHASH = """
%opgraph(local) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(send) { type = put implementation = DHT sources[0] = log ns = "meet.\\qi" keys[0] = $src }
}
%opgraph(owners) {
    %operator(arrived) { type = scan implementation = DHT ns = "meet.\\qi" }
    %operator(whole) { type = groupby sources[0] = arrived keys[src] = $src aggregates[n] = count() }
    %operator(answer) { type = result sources[0] = whole }
}
"""
TREE = """
%opgraph(local) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(part) { type = groupby sources[0] = log keys[src] = $src aggregates[n] = count() mode = partial }
    %operator(up) { type = put implementation = Tree sources[0] = part channel = c
        keys[src] = $src aggregates[n] = count() }
}
%opgraph(root) { at = asker
    %operator(down) { type = scan implementation = Tree channel = c }
    %operator(whole) { type = groupby sources[0] = down keys[src] = $src aggregates[n] = count() mode = final }
    %operator(answer) { type = result sources[0] = whole }
}
"""
CENTRAL = """
%opgraph(each) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(send) { type = put implementation = IP sources[0] = log channel = rows }
}
%opgraph(one) { at = asker
    %operator(arrived) { type = scan implementation = IP channel = rows }
    %operator(whole) { type = groupby sources[0] = arrived keys[src] = $src aggregates[n] = count() }
    %operator(answer) { type = result sources[0] = whole }
}
"""
PLAIN = """
%opgraph(all) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(part) { type = groupby sources[0] = log keys[src] = $src aggregates[n] = count() }
    %operator(answer) { type = result sources[0] = part }
}
"""
RECURSION = """
%opgraph(base) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(send) { type = put implementation = DHT sources[0] = log ns = "loop.\\qi" keys[0] = $src }
}
%opgraph(step) {
    %operator(arrived) { type = scan implementation = DHT ns = "loop.\\qi" }
    %operator(new) { type = dupelim sources[0] = arrived }
    %operator(both) { type = tee sources[0] = new }
    %operator(none) { type = selection sources[0] = both
        %predicate(p) { type = atomic leftexpression = $n op = "<" rightexpression = "0"::long } }
    %operator(again) { type = put implementation = DHT sources[0] = none ns = "loop.\\qi" keys[0] = $src }
    %operator(answer) { type = result sources[0] = both }
}
"""
EPOCHS = """
%opgraph(each) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(part) { type = groupby sources[0] = log keys[src] = $src aggregates[n] = count() mode = partial }
    %operator(up) { type = put implementation = Epochs sources[0] = part channel = c every = 1 count = 3
        keys[src] = $src aggregates[n] = count() }
}
%opgraph(root) { at = asker
    %operator(down) { type = scan implementation = Epochs channel = c keys[src] = $src aggregates[n] = count() }
    %operator(answer) { type = result sources[0] = down }
}
"""
PLANS = {
    "plain": PLAIN,
    "rehash": REHASH,
    "tree": TREE,
    "central": CENTRAL,
    "recursion": RECURSION,
    "epochs": EPOCHS,
}
#: Those whose rows are known; an epoch's are those of the nodes that are in it.
EXACT = ("plain", "rehash", "tree", "central", "recursion")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a decoded message has numbers; as bytes inside it, too."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield path
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from places(each, (*path, at))
    elif isinstance(value, bytes) and (inner := inside(value)) is not None:
        for each in places(inner):
            yield (*path, *each)


def inside(data: bytes) -> Any:
    try:
        found = msgspec.msgpack.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        return None
    return found if isinstance(found, list | dict) else None


def changed(value: Any, path: tuple[Any, ...], number: int) -> Any:
    if not path:
        return number
    if isinstance(value, bytes):
        return msgspec.msgpack.encode(changed(inside(value), path, number))
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(copy[path[0]], path[1:], number)
    return copy


class Mutations:
    """Changes numbers in what one host sends, of one kind of message."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int, every: bool = False) -> None:
        self.rng = random.Random(seed)
        self.on = False
        self.changed = 0
        self.kind: type[Message] | None = None
        self.host = -1
        self._every = every
        plain = MessageNetwork.send

        def send(network: MessageNetwork, sender: Any, to: str, message: Message, notice: Any) -> None:
            if self.on and sender.index == self.host and isinstance(message, self.kind or KINDS):
                altered = self.altered(network, message)
                if altered is None:
                    # Its transport has said that it came; nobody can read it.
                    if notice is not None:
                        network._tell(sender, notice, True, network._wheel.now + 0.02)
                    return
                message = altered
            plain(network, sender, to, message, notice)

        monkeypatch.setattr(MessageNetwork, "send", send)

    def altered(self, network: MessageNetwork, message: Message) -> Message | None:
        value = msgspec.msgpack.decode(network._codec.encode(message))
        # The first number of a message is its tag.
        numbers = [path for path in places(value) if path != (0,)]
        if not numbers or (not self._every and self.rng.random() < 0.5):
            return message
        self.changed += 1
        path = self.rng.choice(numbers)
        try:
            return network._codec.decode(
                msgspec.msgpack.encode(changed(value, path, self.rng.choice(EXTREMES)))
            )
        except CodecError:
            return None


def truth(cluster: Cluster) -> list[tuple[Any, ...]]:
    return sorted((f"s{n}", 1) for n in range(40))


def check(account: Account | None, elapsed_s: float) -> Account:
    assert account is not None, "the query did not end"
    assert elapsed_s <= TIME_S + GRACE_S + CONCLUDE_S + 1.0
    assert account.asked == account.answered + account.empty + account.failed + account.unreachable
    assert min(account.asked, account.answered, account.empty, account.failed, account.unreachable) >= 0
    wire = msgspec.msgpack.encode(wire_account(account))
    assert msgspec.msgpack.decode(wire, type=m.Account).ended == account.ended
    if account.ended == "partial":
        lossy = any(cause.loses_rows for cause in account.causes)
        assert lossy or account.failed or account.unreachable, account
        assert account.errors, account
    return account


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("seed", range(12))
def test_a_member_with_extreme_numbers_neither_hangs_an_asker_nor_fools_it(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutations = Mutations(monkeypatch, seed)
    cluster = Cluster(NODES, seed=seed % 3 + 1)
    cluster.load("fw", [from_pydict("fw", {"src": [f"s{n}"], "n": [n]}) for n in range(40)])
    mutations.host = cluster.hosts[HOSTILE].runtime.index
    mutations.kind = None if seed % 3 else SpreadDone
    mutations.on = True
    sink = Collector()
    began_s = cluster.world.now
    plan = ufl.expand(ufl.parse(PLANS[name]), query_id=f"q{seed}", query_time_s=0)
    cluster.ask(plan, Limits(time_s=TIME_S), sink=sink)
    while sink.account is None and cluster.world.now < began_s + 60.0:
        cluster.world.run_for(0.1)
    account = check(sink.account, cluster.world.now - began_s)
    rows = [(row[0], 1) for row in sink.tuples()]
    if account.ended == "complete" and name in EXACT:
        assert sorted(set(rows)) == truth(cluster), account
    mutations.on = False
    # The asker is as good as new.
    after = cluster.answer(ufl.expand(ufl.parse(PLAIN), query_id="after", query_time_s=0))
    assert after.account is not None
    assert (after.account.ended, after.account.asked) == ("complete", NODES)


@pytest.mark.parametrize("number", EXTREMES)
@pytest.mark.parametrize("field", Report.__struct_fields__)
def test_a_report_with_a_number_that_is_none_is_a_failure(field: str, number: int) -> None:
    """One report at a time, beside a good one."""
    good = encode(Report(answered=1, rows=3))
    value = getattr(Report(), field)
    bad: Any
    if isinstance(value, int):
        bad = number
    elif field in ("dropped", "missing"):
        bad = {"x": number if field == "dropped" else (number, "")}
    elif field == "causes":
        bad = {Cause.UNFIT.number: number}
    else:
        pytest.skip("holds no numbers")
    raw = msgspec.msgpack.decode(encode(Report()))
    raw[Report.__struct_fields__.index(field)] = bad
    summed = decode_report(combine(good, msgspec.msgpack.encode(raw)))
    if 0 <= number <= COUNT_MAX:
        assert summed.failed == (number if field == "failed" else 0)
    else:
        assert (summed.answered, summed.failed) == (1, 1)
        assert summed.causes == {Cause.UNREADABLE.number: 1}


def test_many_large_numbers_add_up_to_one_that_travels() -> None:
    large = Report(rows=COUNT_MAX, dropped={"x": COUNT_MAX}, causes={Cause.NOT_STORED.number: COUNT_MAX})
    whole = encode(large)
    for _ in range(5):
        whole = combine(whole, encode(large))
    summed = decode_report(whole)
    assert (summed.rows, summed.dropped, summed.failed) == (COUNT_MAX, {"x": COUNT_MAX}, 0)
    assert added(large.causes, large.causes) == large.causes


def test_large_tables_of_many_nodes_are_still_known() -> None:
    facts = write([TableFacts("t", "source", rows=COUNT_MAX, bytes=COUNT_MAX, nodes=COUNT_MAX, sized=1)])
    for _ in range(3):
        facts = merge(facts, facts)
    assert [(each.name, each.rows) for each in read(facts)] == [("t", COUNT_MAX)]
    assert by_name(read(facts))


def test_whatever_is_raised_at_the_asker_ends_the_query_with_its_account() -> None:
    """A sink that raises stands for every mistake inside."""
    cluster = Cluster(NODES)
    cluster.load("fw", [from_pydict("fw", {"src": [f"s{n}"], "n": [n]}) for n in range(40)])

    class Broken(Collector):
        def rows(self, batch: Any) -> bool:
            raise RuntimeError("boom")

    sink: Collector = Broken()
    cluster.ask(ufl.expand(ufl.parse(PLAIN), query_id="q", query_time_s=0), Limits(time_s=TIME_S), sink=sink)
    cluster.world.run_for(5.0)
    assert sink.account is not None
    assert sink.account.ended == "failed"
    assert sink.account.causes[Cause.ERROR] == 1
    assert any("boom" in text for text in sink.account.errors)
    cluster.world.run_for(5.0)
    assert cluster.leftovers() == []


@pytest.mark.parametrize("step", ["_advance", "_waved", "_read", "_take_trees"])
def test_a_step_of_the_asker_that_raises_ends_the_query(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from query.engine.proxy import ProxyQuery

    def broken(*args: Any) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(ProxyQuery, step, broken)
    cluster = Cluster(NODES)
    cluster.load("fw", [from_pydict("fw", {"src": [f"s{n}"], "n": [n]}) for n in range(40)])
    text = {"_waved": RECURSION, "_take_trees": TREE}.get(step, REHASH)
    sink = Collector()
    cluster.ask(ufl.expand(ufl.parse(text), query_id="q", query_time_s=0), Limits(time_s=TIME_S), sink=sink)
    cluster.world.run_for(5.0)
    assert sink.account is not None
    assert sink.account.ended == "failed"
    assert any("too large" in text for text in sink.account.errors)
