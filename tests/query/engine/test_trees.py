"""Partial states combined up the tree: every node's exactly once, whatever dies; what outgrows the tree is rehashed."""

from __future__ import annotations

from collections import Counter

import pytest

import ufl
from overlay.spread.messages import SpreadDone
from query.batch import from_pydict
from query.engine.spec import Report, decode_report, encode
from query.engine.stages import shared, stages, without_rows
from query.engine.trees import CHANNEL_BYTES_MAX, EMPTY, Trees, pack, unpack
from query.plan import Plan
from tests.query.engine.cluster import Cluster, Collector

COUNT = """
%opgraph(local) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(part) { type = groupby sources[0] = log aggregates[n] = count() aggregates[top] = max($dpt, "2"::long)
        mode = partial }
    %operator(climb) { type = put implementation = Tree sources[0] = part channel = root
        aggregates[n] = count() aggregates[top] = max($dpt, "2"::long) }
}
%opgraph(root) { at = asker
    %operator(arrived) { type = scan implementation = Tree channel = root }
    %operator(whole) { type = groupby sources[0] = arrived mode = final
        aggregates[n] = count() aggregates[top] = max($dpt, "2"::long) }
    %operator(answer) { type = result sources[0] = whole }
}
"""

GROUPS = """
%opgraph(local) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(part) { type = groupby sources[0] = log keys[src] = $src aggregates[n] = count() mode = partial }
    %operator(climb) { type = put implementation = Tree sources[0] = part channel = c
        keys[src] = $src aggregates[n] = count() }
}
%opgraph(root) { at = asker
    %operator(arrived) { type = scan implementation = Tree channel = c }
    %operator(whole) { type = groupby sources[0] = arrived keys[src] = $src aggregates[n] = count() mode = final }
    %operator(answer) { type = result sources[0] = whole }
}
%opgraph(spill) {
    %operator(own) { type = scan implementation = Overflow channel = c }
    %operator(send) { type = put implementation = DHT sources[0] = own ns = "meet.\\\\qi" keys[0] = $src }
}
%opgraph(owners) {
    %operator(met) { type = scan implementation = DHT ns = "meet.\\\\qi" }
    %operator(each) { type = groupby sources[0] = met keys[src] = $src aggregates[n] = count() mode = final }
    %operator(out) { type = result sources[0] = each }
}
"""


def plan(text: str) -> Plan:
    return ufl.expand(ufl.parse(text), query_id="q1", query_time_s=0)


def load(cluster: Cluster, rows: int, sources: int) -> Counter[str]:
    names = [f"10.{n % sources // 250}.0.{n % sources % 250}" for n in range(rows)]
    step = max(1, rows // len(cluster.nodes) // 2)
    cluster.load(
        "fw",
        [
            from_pydict("fw", {"src": names[at : at + step], "dpt": list(range(at, min(at + step, rows)))})
            for at in range(0, rows, step)
        ],
    )
    return Counter(names)


@pytest.mark.parametrize("count", [1, 2, 12])
def test_states_climb_and_are_counted_once(count: int) -> None:
    cluster = Cluster(count)
    load(cluster, 600, 5)
    answer = cluster.answer(plan(COUNT))
    assert answer.tuples() == [(600, [599, 598])]
    account = answer.account
    assert account is not None
    assert (account.asked, account.answered, account.ended) == (count, count, "complete")
    assert not account.errors
    cluster.world.run_for(1.0)
    assert cluster.leftovers() == []


def test_the_last_stage_is_the_askers_alone() -> None:
    cluster = Cluster(10)
    load(cluster, 100, 5)
    replies: list[SpreadDone] = []
    for node in cluster.nodes:
        spread = node.overlay.spread
        original = spread._done

        def seen(sender: str, message: SpreadDone, original: object = original) -> None:
            replies.append(message)
            original(sender, message)  # type: ignore[operator]

        spread._messenger.on(SpreadDone, seen)
    cluster.answer(plan(COUNT))
    # One reply from every node but the root, each with one combined state: that is all that climbs.
    assert len(replies) == 9
    for message in replies:
        assert message.reply is not None
        assert len(message.reply) < 300
        states = unpack(decode_report(message.reply).trees["root"])
        assert states.num_rows == 1


def test_few_groups_come_by_the_tree_and_nothing_stays_behind() -> None:
    cluster = Cluster(6)
    expected = load(cluster, 600, 40)
    answer = cluster.answer(plan(GROUPS))
    assert dict(answer.tuples()) == expected
    account = answer.account
    assert account is not None
    assert (account.asked, account.answered + account.empty, account.ended) == (6, 6, "complete")
    cluster.world.run_for(5.0)
    assert cluster.leftovers() == []


def test_groups_that_outgrow_the_tree_are_rehashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query.engine.trees.CHANNEL_BYTES_MAX", 2_000)
    cluster = Cluster(6)
    expected = load(cluster, 3_000, 900)
    answer = cluster.answer(plan(GROUPS))
    assert dict(answer.tuples()) == expected
    assert len(answer.tuples()) == 900
    account = answer.account
    assert account is not None
    assert account.ended == "complete"
    cluster.world.run_for(5.0)
    assert cluster.leftovers() == []


def test_states_that_have_nowhere_to_go_are_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query.engine.trees.CHANNEL_BYTES_MAX", 10)
    cluster = Cluster(3)
    load(cluster, 30, 5)
    account = cluster.answer(plan(COUNT)).account
    assert account is not None
    assert account.ended == "limit"
    assert "no scan Overflow" in account.errors[0]


@pytest.mark.parametrize("after_s", [0.0, 0.025, 0.045])
@pytest.mark.parametrize("victim", [3, 7])
def test_a_node_that_dies_costs_its_own_rows_and_the_account_says_so(victim: int, after_s: float) -> None:
    cluster = Cluster(12)
    load(cluster, 1_200, 5)
    rows = [sum(batch.num_rows for batch in tables.tables["fw"].batches) for tables in cluster.tables]
    sink = Collector()
    cluster.ask(plan(COUNT), sink=sink)
    cluster.world.run_for(after_s)
    cluster.world.crash(cluster.hosts[victim])
    cluster.world.run_for(40.0)
    account = sink.account
    assert account is not None
    assert account.asked == 12 == account.answered + account.empty + account.failed + account.unreachable
    counted = sink.tuples()[0][0]
    if account.failed + account.unreachable:
        assert (account.failed + account.unreachable, account.ended) == (1, "partial")
        assert counted == 1_200 - rows[victim]
    else:
        # Its states had left before it died.
        assert counted == 1_200


def test_stages_that_only_serve_an_overflow_are_left_out_without_one() -> None:
    found = plan(GROUPS)
    assert shared(found, stages(found)) == 3
    idle = without_rows(found, ())
    assert list(idle) == ["spill", "owners"]
    assert shared(found, stages(found), idle) == 1
    assert not without_rows(found, ("c",))


def test_states_that_cannot_be_read_cost_the_nodes_they_came_from() -> None:
    trees = Trees(plan(COUNT))
    grouping = trees.shapes()["root"].grouping()
    good = encode(Report(answered=2, trees={"root": pack(grouping)}))
    for payload in (b"garbage", b"\x11" + bytes(40)):
        combined = decode_report(
            trees.combine(good, encode(Report(answered=3, empty=1, trees={"root": payload})))
        )
        assert (combined.answered, combined.empty, combined.failed) == (2, 0, 4)
        assert "cannot be combined" in combined.errors[0]
        assert unpack(combined.trees["root"]).num_rows == 1


def test_too_large_is_contagious() -> None:
    trees = Trees(plan(COUNT))
    good = encode(Report(trees={"root": pack(trees.shapes()["root"].grouping())}))
    large = encode(Report(trees={"root": EMPTY}))
    for pair in ((good, large), (large, good)):
        assert decode_report(trees.combine(*pair)).trees == {"root": EMPTY}
    assert CHANNEL_BYTES_MAX < 4 << 20
