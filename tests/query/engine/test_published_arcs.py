"""Published tables while nodes stand still, die, come back and are cut off: what calls itself complete has every row of
whoever publishes, once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from overlay.dht.messages import Code
from overlay.dht.operations import GotObject, PutObject
from overlay.objects.name import Name, Prefix
from overlay.stack import OverlayNode
from query.batch import Batch
from query.dataflow.budget import Limits
from query.engine.account import Account
from query.engine.node import EngineNode
from query.wire import encode
from runtime.sim import pause
from tests.query.engine.cluster import Cluster, Collector
from ufl import parse

ROWS = 200
LIFETIME_S = 900.0
TABLE = "kept"
ALL = parse(
    "%opgraph(q) { %operator(s) { type = scan implementation = DHT ns = kept } "
    "%operator(r) { type = result sources[0] = s } }"
)
ONE = parse(
    '%opgraph(q) { ns = kept rid = "k7" %operator(s) { type = scan implementation = DHT ns = kept } '
    "%operator(r) { type = result sources[0] = s } }"
)


def published(cluster: Cluster, at: int = 0) -> None:
    puts = [
        PutObject(
            Name(TABLE, f"k{n}", "0"),
            encode(Batch(TABLE, pa.record_batch({"n": pa.array([n], pa.int64())})), inline_schema=True),
            LIFETIME_S,
        )
        for n in range(ROWS)
    ]
    codes: list[Code] = []
    cluster.nodes[at].overlay.publisher.publish(puts, codes.extend)
    cluster.world.run_for(5.0)
    assert codes == [Code.OK] * ROWS


def ring(count: int = 8) -> Cluster:
    cluster = Cluster(count)
    published(cluster)
    return cluster


def judged(sink: Collector) -> Account:
    """The account of an answer that is true to it."""
    assert sink.account is not None
    rows = [row for (row,) in sink.tuples()]
    if sink.account.ended == "complete":
        assert len(rows) == len(set(rows)) == ROWS, (len(rows), len(set(rows)), sink.account)
    return sink.account


def ask_for(cluster: Cluster, for_s: float, askers: list[int], every_s: float = 0.25) -> list[Account]:
    """Asks all the time, and waits for all answers."""
    sinks: list[Collector] = []
    until_s = cluster.world.now + for_s
    while cluster.world.now < until_s:
        for at in askers:
            sinks.append(Collector())
            cluster.ask(ALL, Limits(time_s=20.0), at, sinks[-1])
        cluster.world.run_for(every_s)
    cluster.world.run_for(30.0)
    return [judged(sink) for sink in sinks]


def holding(cluster: Cluster) -> list[int]:
    """How many rows each node shows as its own."""
    shown = []
    for node in cluster.nodes:
        seen: list[GotObject] = []
        node.overlay.dht.local_scan(Prefix(TABLE), seen.extend, _nothing, node.overlay.router.place().arc)
        cluster.world.run_for(0.1)
        shown.append(len(seen))
    return shown


def _nothing() -> None:
    """The scan is over."""


@pytest.mark.parametrize("pause_s", [2.0, 5.0, 7.0, 12.0])
def test_a_node_that_stood_still_is_in_no_answer_twice(pause_s: float) -> None:
    cluster = ring()
    pause(cluster.hosts[5], pause_s)
    accounts = ask_for(cluster, pause_s + 12.0, [0, 3])
    ended = [account.ended for account in accounts]
    assert set(ended) <= {"complete", "partial"}
    assert all(how == "complete" for how in ended[-8:]), "all is well again"
    if pause_s <= 5.0:
        assert ended.count("partial") <= len(ended) // 10, "it is waited for: nobody has given it up"


def test_several_stand_still_one_after_the_other() -> None:
    cluster = ring()
    for number, at in enumerate((2, 5, 6, 7)):
        cluster.world.call_at(
            cluster.world.now + 3.0 * number, lambda host: pause(host, 8.0), cluster.hosts[at]
        )
    ended = [account.ended for account in ask_for(cluster, 30.0, [0, 1])]
    assert ended.count("partial") > 0 and all(how == "complete" for how in ended[-8:])


def test_rows_of_a_dead_node_are_missing_with_a_word_and_soon_back() -> None:
    """Long before their renewal, which is minutes away."""
    cluster = ring()
    victim = max(range(1, 8), key=lambda at: holding(cluster)[at])
    assert holding(cluster)[victim] > 0
    cluster.world.crash(cluster.hosts[victim])
    ended = [account.ended for account in ask_for(cluster, 20.0, [at for at in (0, 1, 2) if at != victim])]
    assert ended[0] == "partial" and all(how == "complete" for how in ended[-8:])


def test_a_node_that_starts_again_at_once_has_lost_its_rows_and_says_so() -> None:
    """Its neighbours never missed it: only what they say of its arc tells that it had something."""
    cluster = ring()
    host, number = cluster.hosts[5], 5
    lost = holding(cluster)[number]
    assert lost > 0
    cluster.world.restart(host)
    node_id = int.from_bytes(cluster.nodes[number].overlay.router.me.id, "big")
    overlay = OverlayNode(host.runtime, host.messenger, node_id)
    cluster.nodes[number] = EngineNode(host.runtime, overlay, cluster.tables[number])
    overlay.join([cluster.hosts[0].address])
    ended = [account.ended for account in ask_for(cluster, 20.0, [0, 3])]
    assert all(how == "complete" for how in ended[-8:])


def test_the_minority_of_a_cut_says_that_parts_of_the_table_are_gone() -> None:
    cluster = ring()
    cluster.world.faults.partitions.cut([5, 6, 7], [0, 1, 2, 3, 4])
    sinks = []
    for _ in range(12):
        sinks.append(Collector())
        cluster.ask(ALL, Limits(time_s=20.0), 6, sinks[-1])
        cluster.world.run_for(0.5)
    cluster.world.run_for(30.0)
    for sink in sinks:
        assert sink.account is not None and sink.account.ended == "partial", sink.account


def test_a_key_is_answered_for_by_who_is_sure_of_it() -> None:
    cluster = Cluster(8)
    published(cluster, at=1)
    owner = next(at for at in range(8) if cluster.nodes[at].overlay.dht.peek(Name(TABLE, "k7", "0")))
    assert owner != 1, "whoever publishes goes on"
    asker = (owner + 3) % 8
    sink = cluster.answer(ONE, at=asker)
    assert (7,) in sink.tuples() and sink.account is not None and sink.account.ended == "complete"
    pause(cluster.hosts[owner], 10.0)
    for _ in range(60):
        sink = cluster.answer(ONE, Limits(time_s=20.0), asker)
        assert sink.account is not None
        if sink.account.ended == "complete":
            assert sink.tuples().count((7,)) == 1, sink.account
        cluster.world.run_for(0.3)
    assert sink.account is not None and sink.account.ended == "complete"
