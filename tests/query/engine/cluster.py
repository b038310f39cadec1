"""A simulated cluster of whole nodes: overlay and query engine, with tables in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from overlay.ring import from_wire
from overlay.stack import OverlayConfig, OverlayNode
from query.batch import Batch
from query.dataflow.budget import Limits
from query.engine.account import Account
from query.engine.messages import Remark
from query.engine.node import NODE_MESSAGES, EngineNode
from query.engine.proxy import ProxyQuery
from query.plan import Plan
from runtime.message import Codec
from runtime.sim import MessengerFactory, SimHost, World, star

JOIN_S = 30.0


class MemoryTable:
    """Batches given beforehand, and whatever is appended later."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches
        self.followers: dict[int, Callable[[Batch], None]] = {}

    def schema(self) -> pa.Schema | None:
        return self.batches[0].schema if self.batches else None

    def size(self) -> tuple[int, int]:
        return sum(batch.num_rows for batch in self.batches), sum(batch.nbytes for batch in self.batches)

    def scan(self, keys: Batch | None) -> Iterator[Batch]:
        return iter(list(self.batches))

    def follow(self, handler: Callable[[Batch], None]) -> Callable[[], None]:
        number = len(self.followers)
        self.followers[number] = handler
        return lambda: self.followers.pop(number, None) and None


class MemoryTables:
    def __init__(self) -> None:
        self.tables: dict[str, MemoryTable] = {}

    def open(self, table: str) -> MemoryTable | None:
        return self.tables.get(table)

    def names(self) -> list[str]:
        return sorted(self.tables)


class Collector:
    """A client that reads everything, unless told not to."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.remarks: list[Remark] = []
        self.account: Account | None = None
        self.reading = True
        self.steps: list[tuple[int, int]] = []

    def rows(self, batch: Batch) -> bool:
        self.batches.append(batch)
        return self.reading

    def progress(self, asked: int, answered: int) -> None:
        self.steps.append((asked, answered))

    def remark(self, remark: Remark) -> None:
        self.remarks.append(remark)

    def finish(self, account: Account) -> None:
        assert self.account is None, "finished twice"
        self.account = account

    def tuples(self) -> list[tuple[Any, ...]]:
        return sorted((tuple(row.values()) for batch in self.batches for row in batch.to_rows()), key=repr)


class Cluster:
    """Some simulated nodes that have formed a ring."""

    def __init__(
        self,
        count: int,
        seed: int = 1,
        latency_s: float = 0.01,
        messenger: MessengerFactory | None = None,
        config: OverlayConfig | None = None,
        *,
        serialise: bool = False,
    ) -> None:
        """`messenger` makes it a simulation of packets. With `serialise` messages travel as bytes: one that
        its receiver cannot read raises."""
        self.config = config
        codec = Codec(NODE_MESSAGES)
        self.world = World(
            seed=seed, topology=star(latency_s), codec=codec, messenger=messenger, serialise=serialise
        )
        self.seed = seed
        self.hosts: list[SimHost] = []
        self.nodes: list[EngineNode] = []
        self.tables: list[MemoryTables] = []
        for number in range(count):
            self.grow(0.1 * number)
        self.world.run_for(0.1 * count + JOIN_S)

    def grow(self, after_s: float = 0.0) -> None:
        """Adds a node, without rows of its own, that joins the ring after a while."""
        number = len(self.nodes)
        self.hosts.append(self.world.add_host())
        self.tables.append(MemoryTables())
        self.nodes.append(self._node(number))
        overlay = self.nodes[number].overlay
        if number == 0:
            overlay.start()
        else:
            at_s = self.world.now + after_s
            self.world.call_at(at_s, lambda each: each.join([self.hosts[0].address]), overlay)

    def wipe(self, number: int) -> None:
        """A node dies and comes back at once, with its id and nothing else."""
        self.hosts[number] = self.world.restart(self.hosts[number])
        self.tables[number] = MemoryTables()
        self.nodes[number] = self._node(number)
        self.nodes[number].overlay.join([self.hosts[0 if number else 1].address])

    def _node(self, number: int) -> EngineNode:
        runtime, messenger = self.hosts[number].runtime, self.hosts[number].messenger
        node_id = from_wire(hashlib.sha1(f"{self.seed}/{number}".encode()).digest())
        return EngineNode(runtime, OverlayNode(runtime, messenger, node_id, self.config), self.tables[number])

    def load(self, table: str, batches: list[Batch]) -> None:
        """Spreads batches over the nodes, round robin."""
        for tables in self.tables:
            tables.tables[table] = MemoryTable([])
        for number, batch in enumerate(batches):
            self.tables[number % len(self.tables)].tables[table].batches.append(batch)

    def ask(
        self, plan: Plan, limits: Limits | None = None, at: int = 0, sink: Collector | None = None
    ) -> ProxyQuery:
        return self.nodes[at].proxy.submit(plan, limits or Limits(), sink or Collector())

    def answer(self, plan: Plan, limits: Limits | None = None, at: int = 0, for_s: float = 60.0) -> Collector:
        """Asks and runs until the answer is complete."""
        sink = Collector()
        self.ask(plan, limits, at, sink)
        until_s = self.world.now + for_s
        while sink.account is None and self.world.now < until_s:
            self.world.run_for(0.05)
        assert sink.account is not None, "the query did not end"
        return sink

    def leftovers(self) -> list[str]:
        """What queries left behind; empty when all is well."""
        runs = [f"run {run}" for node in self.nodes for run in node.executor.runs]
        spreads = [
            f"{count} open spreads" for node in self.nodes if (count := node.overlay.spread.statistics().open)
        ]
        return runs + spreads
