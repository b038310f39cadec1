"""A simulated ring that joins: the query of PIER 4.3 by any strategy, when its results came and what it cost.

R and S lie on the nodes, a hundred rows of each on every one: R of 1,024 bytes, S of 1,536, results of 2,048. Nine of
ten rows of R have two partners in S. Each row has numbers under a hundred that conditions compare with constants, so
the share of rows that a condition lets through is chosen with the query. Latencies are King's, links take 10 Mbps and
serve first come first served. Nodes get perfect routing tables and do no maintenance, so all traffic is the query's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa

from overlay.bamboo import BambooConfig, BambooRouter
from overlay.bamboo.static import fill
from overlay.dht.messages import Code
from overlay.dht.operations import PutObject
from overlay.objects.name import Name
from overlay.ring import BITS
from overlay.stack import OverlayConfig, OverlayNode
from query.batch import Batch
from query.dataflow.budget import Limits
from query.engine.account import Account
from query.engine.messages import Remark
from query.engine.node import NODE_MESSAGES, EngineNode
from query.engine.spec import GROUPS_MAX
from query.operators.put.placement import by_key
from query.plan import Opgraph, Plan
from query.wire import encode
from runtime.api import Address
from runtime.message import Codec
from runtime.sim import SimHost, World, king
from runtime.sim.links import Fifo
from ufl.sql import TableInfo, compile_sql

ROWS_A_NODE = 100
#: Pads that make rows of 1,024 and 1,536 bytes, and results of 2,048.
R_PAD_BYTES, S_PAD_BYTES, S_MORE_BYTES = 984, 984, 512
#: Of a hundred rows of R, those with partners.
MATCHING = 90
#: Nodes of a ring that has just begun look whether they lack anything; then it is at rest.
REST_S = 30.0
#: The result whose arrival is the latency (PIER 4.3.3).
NTH_RESULT = 100
LIFETIME_S = 3_600.0
#: What a node's link takes, each way.
LINK_BITS_PER_S = 10e6
#: Simulated seconds a query may take; one node's link is slow for the whole of a large ring's rows.
QUERY_S_MAX = 3_000.0

QUERY = """SELECT /*+ JOIN({strategy}) */ r.pkey AS rkey, s.pkey AS skey, r.pad AS rpad, s.pad AS spad
FROM r, s WHERE r.joinattr = s.joinattr AND r.num1 >= {r} AND s.num1 >= {s}
AND (r.num2 + s.num2) % 100 >= {both} AND (s.more IS NOT NULL OR r.num2 < 0)"""

_king = lru_cache(maxsize=4)(king)


@dataclass(frozen=True, slots=True)
class Asked:
    """One query: the strategy, and what share of rows each of its conditions lets through, in percent."""

    strategy: str
    r_percent: int = 50
    s_percent: int = 50
    both_percent: int = 50
    #: How rows find the owners of their keys: `group` by partition groups, `key` by a put for each key, as the
    #: thesis did, `known` with all owners known beforehand, as in a cluster.
    routing: str = "group"
    #: All keys in one group: the worst case of skew.
    one_bucket: bool = False


@dataclass(slots=True)
class Outcome:
    """What a query gave and cost."""

    rows: int = 0
    #: When the hundredth result came, or the last if there were fewer; and when the query was complete.
    nth_s: float = 0.0
    complete_s: float = 0.0
    total_bytes: int = 0
    messages: int = 0
    #: Bytes that the most loaded node received, and sent.
    in_bytes_max: int = 0
    out_bytes_max: int = 0
    ended: str = ""
    errors: tuple[str, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)


class _Table:
    """Rows in memory."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def schema(self) -> pa.Schema | None:
        return self.batch.schema

    def scan(self, keys: Batch | None) -> Iterator[Batch]:
        return iter((self.batch,))

    def follow(self, handler: Callable[[Batch], None]) -> Callable[[], None]:
        return lambda: None


class _Tables:
    def __init__(self, tables: dict[str, _Table]) -> None:
        self._tables = tables

    def open(self, table: str) -> _Table | None:
        return self._tables.get(table)

    def names(self) -> list[str]:
        return list(self._tables)


class _Sink:
    """A client that notes when rows come."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.began_s = now()
        self.outcome = Outcome()
        self.account: Account | None = None

    def rows(self, batch: Batch) -> bool:
        if self.outcome.rows < NTH_RESULT:
            self.outcome.nth_s = self._now() - self.began_s
        self.outcome.rows += batch.num_rows
        return True

    def progress(self, asked: int, answered: int) -> None: ...

    def remark(self, remark: Remark) -> None: ...

    def finish(self, account: Account) -> None:
        self.account = account
        self.outcome.complete_s = self._now() - self.began_s
        self.outcome.ended = account.ended
        self.outcome.errors, self.outcome.dropped = account.errors, account.dropped


class JoinRing:
    """Some nodes with rows of R and S."""

    def __init__(
        self,
        nodes: int,
        seed: int,
        rows_a_node: int = ROWS_A_NODE,
        link_bits_per_s: float = LINK_BITS_PER_S,
    ) -> None:
        topology, links = _king(seed), Fifo(link_bits_per_s, link_bits_per_s)
        self.world = World(seed=seed, topology=topology, codec=Codec(NODE_MESSAGES), links=links)
        self.hosts: list[SimHost] = []
        self.nodes: list[EngineNode] = []
        self._rows = rows_a_node
        self._published = False
        self._queries = 0
        self._r: list[pa.RecordBatch] = []
        self._s: list[pa.RecordBatch] = []
        ids = self.world.rng("ids")
        config = OverlayConfig(bamboo=BambooConfig(maintenance=False), in_trees=False)
        data = _Rows(nodes * rows_a_node, seed)
        for number in range(nodes):
            host = self.world.add_host()
            node_id = int.from_bytes(ids.randbytes(BITS // 8), "big")
            overlay = OverlayNode(host.runtime, host.messenger, node_id, config)
            first = number * rows_a_node
            r, s = data.r(first, rows_a_node), data.s(first, rows_a_node)
            self._r.append(r)
            self._s.append(s)
            tables = _Tables({"r": _Table(Batch("r", r)), "s": _Table(Batch("s", s))})
            self.hosts.append(host)
            self.nodes.append(EngineNode(host.runtime, overlay, tables))
        self._fill()

    def _fill(self) -> None:
        routers = [node.overlay.router for node in self.nodes]
        latency_s = self.world.topology.latency_s
        place = {host.address: host.index for host in self.hosts}
        fill(
            [router for router in routers if isinstance(router, BambooRouter)],
            self.world.rng("tables"),
            lambda a, b: 2.0 * latency_s(place[a.me.address], place[b.me.address]),
        )
        for node in self.nodes:
            node.overlay.start()
        self._by_start = {
            node.overlay.router.arc().start: node.overlay.router.me.address for node in self.nodes
        }
        self._starts = sorted(self._by_start)
        self.world.run_for(REST_S)

    def publish(self) -> None:
        """Puts S into the DHT under its join attribute, for Fetch Matches."""
        if self._published:
            return
        self._published = True
        codes: list[Code] = []
        for number, data in enumerate(self._s):
            batch = Batch("s", data)
            puts = [
                PutObject(Name("s", key, f"{number}"), encode(part, inline_schema=True), LIFETIME_S)
                for key, part in by_key(batch, [batch.column("joinattr")])
            ]
            self.nodes[number].overlay.dht.put_many(puts, codes.extend)
        while len(codes) < len(self._s) and self.world.now < QUERY_S_MAX:
            self.world.run_for(10.0)
        self.world.run_for(60.0)
        assert all(code is Code.OK for code in codes), "publishing failed"

    def run(self, asked: Asked) -> Outcome:
        """Asks the query and waits for its end."""
        if asked.strategy == "fetch":
            self.publish()
        self._queries += 1
        proxy = self.nodes[0].proxy
        proxy.groups_max = 1 if asked.one_bucket else GROUPS_MAX
        proxy.owner_of = self._owner if asked.routing == "known" else None
        plan = self._plan(asked)
        before = [(h.counters.bytes_in, h.counters.bytes_out, h.counters.messages_in) for h in self.hosts]
        sink = _Sink(lambda: self.world.now)
        limits = Limits(time_s=QUERY_S_MAX, memory_bytes=8 << 30)
        proxy.submit(plan, limits, sink)
        until_s = self.world.now + QUERY_S_MAX
        while sink.account is None and self.world.now < until_s:
            self.world.run_for(0.5)
        outcome = sink.outcome
        spent = [
            (h.counters.bytes_in - b[0], h.counters.bytes_out - b[1], h.counters.messages_in - b[2])
            for h, b in zip(self.hosts, before, strict=True)
        ]
        outcome.total_bytes = sum(each[0] for each in spent)
        outcome.messages = sum(each[2] for each in spent)
        outcome.in_bytes_max = max(each[0] for each in spent)
        outcome.out_bytes_max = max(each[1] for each in spent)
        self.world.run_for(30.0)
        return outcome

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """All rows of R and of S."""
        return pa.Table.from_batches(self._r), pa.Table.from_batches(self._s)

    def _plan(self, asked: Asked) -> Plan:
        places = ("published",) if asked.strategy == "fetch" else ("source",)
        tables = {
            "r": TableInfo(_columns(self._r[0].schema), ("source",)),
            "s": TableInfo(_columns(self._s[0].schema), places, ("joinattr",)),
        }
        compiled = compile_sql(text_of(asked), f"q{self._queries}", 0, tables)
        return _by_key(compiled.plan) if asked.routing == "key" else compiled.plan

    def _owner(self, key: int) -> Address:
        """The owner of a key, as somebody knows it who knows all nodes."""
        at = bisect_right(self._starts, key) - 1
        return self._by_start[self._starts[at]]


def text_of(asked: Asked) -> str:
    """The query in SQL."""
    return QUERY.format(
        strategy=asked.strategy,
        r=100 - asked.r_percent,
        s=100 - asked.s_percent,
        both=100 - asked.both_percent,
    )


class _Rows:
    """The rows of both tables, from a seed; pads do not compress."""

    def __init__(self, rows: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        keys = max(1, rows // 2)
        order = self._rng.permutation(rows)
        self._s_keys = (np.arange(rows) // 2 % keys)[order]
        matching = self._rng.random(rows) * 100 < MATCHING
        self._r_keys = np.where(matching, self._rng.integers(0, keys, rows), keys + np.arange(rows))

    def r(self, first: int, count: int) -> pa.RecordBatch:
        return pa.record_batch(self._columns(first, count, self._r_keys, R_PAD_BYTES))

    def s(self, first: int, count: int) -> pa.RecordBatch:
        columns = self._columns(first, count, self._s_keys, S_PAD_BYTES)
        return pa.record_batch({**columns, "more": self._pad(count, S_MORE_BYTES)})

    def _columns(self, first: int, count: int, keys: np.ndarray, pad_bytes: int) -> dict[str, pa.Array]:
        numbers = self._rng.integers(0, 100, (2, count))
        return {
            "pkey": pa.array(np.arange(first, first + count)),
            "joinattr": pa.array(keys[first : first + count].astype(np.int64)),
            "num1": pa.array(numbers[0]),
            "num2": pa.array(numbers[1]),
            "pad": self._pad(count, pad_bytes),
        }

    def _pad(self, count: int, size: int) -> pa.Array:
        raw = self._rng.bytes(count * size)
        return pa.array([raw[at * size : (at + 1) * size] for at in range(count)], pa.binary())


def _columns(schema: pa.Schema) -> dict[str, pa.DataType | None]:
    return {each.name: each.type for each in schema}


def _by_key(plan: Plan) -> Plan:
    """The same plan, with every rehash a put for each key."""
    graphs = []
    for graph in plan.opgraphs:
        operators = tuple(
            msgspec.structs.replace(operator, settings={**operator.settings, "placement": "key"})
            if (operator.type, operator.implementation) == ("put", "DHT")
            else operator
            for operator in graph.operators
        )
        graphs.append(Opgraph(graph.name, graph.settings, operators))
    return Plan(tuple(graphs))
