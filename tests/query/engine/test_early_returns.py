"""CentralGrouping and HashGrouping with early returns (CAN 4): answers that come before the end and converge to it."""

from __future__ import annotations

from collections import Counter

import pytest

import ufl
from query.batch import from_pydict
from query.dataflow.check import operator_problems
from query.plan import Plan
from tests.query.engine.cluster import Cluster, Collector

GROUPS = "keys[src] = $src aggregates[n] = count()"
CENTRAL = """
%opgraph(local) {{
    %operator(log) {{ type = scan implementation = Local table = fw }}
    %operator(new) {{ type = flowcontrol probe = stream duration = 1 sources[0] = log }}
    %operator(send) {{ type = put implementation = IP sources[0] = new channel = rows }}
}}
%opgraph(root) {{ at = asker
    %operator(came) {{ type = scan implementation = IP channel = rows }}
    %operator(group) {{ type = groupby implementation = DualFlow sources[0] = came {groups} {when}
        revision = revision }}
    %operator(ask) {{ type = flowcontrol probe = stream sources[0] = group }}
    %operator(answer) {{ type = result sources[0] = ask }}
}}
"""
HASH = """
%opgraph(local) {{
    %operator(log) {{ type = scan implementation = Local table = fw }}
    %operator(new) {{ type = flowcontrol probe = stream duration = 1 sources[0] = log }}
    %operator(send) {{ type = put implementation = DHT sources[0] = new ns = meet keys[0] = $src }}
}}
%opgraph(owners) {{
    %operator(came) {{ type = scan implementation = DHT ns = meet }}
    %operator(group) {{ type = groupby implementation = DualFlow sources[0] = came {groups} {when}
        revision = revision }}
    %operator(ask) {{ type = flowcontrol probe = stream sources[0] = group }}
    %operator(answer) {{ type = result sources[0] = ask }}
}}
"""


def plan(text: str, when: str) -> Plan:
    return ufl.expand(ufl.parse(text.format(groups=GROUPS, when=when)), query_id="q1", query_time_s=0)


STEPS, ROWS = 16, 40


def new_rows(cluster: Cluster, step: int) -> Counter[str]:
    """Some rows appear on every node."""
    counted: Counter[str] = Counter()
    for number, tables in enumerate(cluster.tables):
        names = [f"s{(number + step + n * n) % 11}" for n in range(ROWS)]
        for follower in list(tables.tables["fw"].followers.values()):
            follower(from_pydict("fw", {"src": names}))
        counted.update(names)
    return counted


@pytest.mark.parametrize("when", ["rows = 50", "period = 0.2"])
@pytest.mark.parametrize("text", [CENTRAL, HASH])
def test_answers_stream_and_converge(text: str, when: str) -> None:
    cluster = Cluster(5)
    cluster.load("fw", [])
    sink = Collector()
    cluster.ask(plan(text, when), sink=sink)
    cluster.world.run_for(0.1)
    expected: Counter[str] = Counter()
    seen: list[int] = []
    for step in range(STEPS):
        expected += new_rows(cluster, step)
        cluster.world.run_for(0.05)
        shown = newest(sink)
        assert all(shown[name] <= expected[name] for name in shown)
        seen.append(sum(shown.values()))
    assert sink.account is None
    assert seen == sorted(seen)
    # More was shown with every few steps, long before the end.
    assert len(set(seen)) >= 3
    assert 0 < seen[STEPS // 2] < sum(expected.values())
    cluster.world.run_for(5.0)
    assert newest(sink) == expected
    account = sink.account
    assert account is not None
    assert (account.asked, account.answered + account.empty, account.ended) == (5, 5, "complete")


def newest(sink: Collector) -> dict[str, int]:
    """What a client shows: of each group the row with the highest revision. Counts never fall."""
    found: dict[str, tuple[int, int]] = {}
    for batch in sink.batches:
        for row in batch.to_rows():
            revision, count = found.get(row["src"], (-1, 0))
            if row["revision"] > revision:
                assert row["n"] >= count
                found[row["src"]] = (row["revision"], row["n"])
    return {name: count for name, (_, count) in found.items()}


def test_a_revision_needs_a_name_of_its_own() -> None:
    spelled = CENTRAL.replace("revision = revision", "revision = n")
    problems = [problem.message for problem in operator_problems(plan(spelled, "rows = 5"))]
    assert any("a column of the result already" in message for message in problems)
