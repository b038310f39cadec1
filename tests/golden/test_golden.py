"""The golden queries on one simulated node, on eight, on 64 with message delay, on eight real processes, and while a
fifth of the nodes dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
import trio

import ufl
from pier_node.client import sync
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir
from pier_node.config.addresses import split_address
from pier_node.engine.publication import Publishing
from pier_node.engine.published import PublishedLoads
from pier_node.service import Failure, Publication, PublicationResult
from query.dataflow.check import operator_problems
from query.plan import Plan
from tests.golden.form import Golden, all_golden, answer, batch_of, parts
from tests.query.engine.cluster import Cluster, Collector, MemoryTable

GOLDEN = all_golden()
#: Nodes and the delay of a message between two of them.
SIZES = {"one": (1, 0.001), "eight": (8, 0.01), "64-delayed": (64, 0.05)}
PROCESSES = 8


class Control:
    """Whoever publishes."""

    def __init__(self) -> None:
        self.result: PublicationResult | Failure | None = None

    def consumed(self, size_bytes: int) -> None:
        """Nothing waits for room."""

    def progress(self, objects: int, confirmed: int, rows_confirmed: int, elapsed_s: float) -> None: ...

    def finish(self, result: PublicationResult) -> None:
        self.result = result

    def fail(self, failure: Failure) -> None:
        self.result = failure


def load(cluster: Cluster, golden: Golden) -> None:
    """Every node reads its own part: a column without values there has no type, as in a file of its own."""
    for name, text in golden.tables.items():
        for tables, part in zip(cluster.tables, parts(text, len(cluster.nodes)), strict=True):
            batch = batch_of(name, part)
            tables.tables[name] = MemoryTable([batch] if batch.num_rows else [])
    for table in golden.published:
        control = Control()
        batch = batch_of(table.name, table.text)
        publication = Publication(table.name, table.keys, 3_600.0, "test")
        runtime, overlay = cluster.hosts[0].runtime, cluster.nodes[0].overlay
        loads = PublishedLoads(runtime, overlay.publisher, overlay.loads, None)
        feed = Publishing(runtime, publication, control, loads)
        feed.batch(batch.data, batch.nbytes)
        feed.end()
        cluster.world.run_for(10.0)
        assert isinstance(control.result, PublicationResult) and control.result.refused == 0


def plan_of(golden: Golden) -> Plan:
    plan = ufl.parse(golden.query)
    assert list(operator_problems(plan)) == []
    return ufl.expand(plan, f"golden-{golden.name}", 0)


@lru_cache
def simulated(size: str) -> Cluster:
    count, latency_s = SIZES[size]
    cluster = Cluster(count, latency_s=latency_s)
    for golden in GOLDEN:
        load(cluster, golden)
    return cluster


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_the_answer_is_the_same_in_simulation(golden: Golden, size: str) -> None:
    cluster = simulated(size)
    # Asked at another node each time.
    found = cluster.answer(plan_of(golden), at=len(golden.name) % SIZES[size][0])
    account = found.account
    assert account is not None
    assert (account.ended, account.errors, account.dropped) == ("complete", (), {})
    assert account.asked == account.answered + account.empty == SIZES[size][0]
    assert answer([batch.data for batch in found.batches], golden.in_order) == golden.expected()
    cluster.world.run_for(1.0)
    assert cluster.leftovers() == []


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterDir]:
    """Eight processes, each with its part of every table."""
    folder: Path = tmp_path_factory.mktemp("golden")
    sources = []
    for golden in GOLDEN:
        for name, text in golden.tables.items():
            for number, part in enumerate(parts(text, PROCESSES), start=1):
                (folder / f"{name}-n{number:02}.csv").write_text(part)
            sources.append(f"{name}=csv:{folder}/{name}-{{name}}.csv")
    directory = ClusterDir(folder / "cluster")
    started = []

    async def start() -> None:
        nodes = processes.prepare(directory, PROCESSES, sources)
        started.extend(processes.start_missing(nodes))
        await processes.wait_formed(directory, nodes, started)

    try:
        trio.run(start)
        with sync.connect(*split_address(directory.running()[0].client_address)) as conn:
            for golden in GOLDEN:
                for table in golden.published:
                    conn.publish(table.name, [batch_of(table.name, table.text).data], table.keys, 3_600.0)
        yield directory
    finally:
        trio.run(processes.stop, directory)
        for process in started:
            process.wait()


@pytest.mark.processes
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_the_answer_is_the_same_on_real_processes(golden: Golden, eight: ClusterDir) -> None:
    state = eight.running()[len(golden.name) % PROCESSES]
    with sync.connect(*split_address(state.client_address)) as conn:
        asked = conn.query(golden.query, "ufl")
        found = answer(list(asked), golden.in_order)
    account = asked.account
    assert account is not None
    assert (account.ended, account.notes, account.dropped) == ("complete", (), {})
    assert account.asked == account.answered + account.empty == PROCESSES
    assert found == golden.expected()


#: Queries whose rows do not depend on rows of other nodes: whoever dies, what comes is part of the truth. An aggregate
#: or a missing partner would change rows instead.
FAITHFUL = (
    "selection",
    "projection",
    "dupelim",
    "join_rehash",
    "join_index",
    "published",
    "put_key",
    "recursion_nodes",
    "tee_union",
)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", FAITHFUL)
def test_while_a_fifth_of_the_nodes_dies_rows_are_true_and_the_missing_are_counted(
    name: str, seed: int
) -> None:
    golden = next(each for each in GOLDEN if each.name == name)
    count, victims = 20, 4
    cluster = Cluster(count, seed=seed)
    load(cluster, golden)
    sink = Collector()
    cluster.ask(plan_of(golden), sink=sink)
    rng = cluster.world.rng("victims")
    dead = sorted(rng.sample(range(1, count), victims))
    for number, each in enumerate(dead):
        cluster.world.call_at(
            cluster.world.now + 0.01 * (number + 1), cluster.world.crash, cluster.hosts[each]
        )
    cluster.world.run_for(90.0)
    account = sink.account
    assert account is not None, "the query did not end"
    missing = account.failed + account.unreachable
    assert account.asked == account.answered + account.empty + missing
    assert missing <= victims
    assert account.asked - missing >= count - victims, "a node that lives is missing"
    assert account.ended == ("partial" if missing else "complete")
    _, rows = answer([batch.data for batch in sink.batches], False)
    _, truth = golden.expected()
    assert Counter(rows) <= Counter(truth)
    if not missing and account.asked == count:
        assert rows == truth
