"""The query engine of one node: executor and proxy over an overlay node and the node's own tables."""

from __future__ import annotations

from typing import Any

import query.operators  # noqa: F401 - makes all operators known
from overlay.stack import OVERLAY_MESSAGES, OverlayNode
from query.aggregation.messages import AGGREGATION_MESSAGES
from query.aggregation.service import Aggregations
from query.dataflow.budget import Pools
from query.dataflow.context import Tables
from query.engine.absentees import Roll
from query.engine.catalog import Catalog
from query.engine.census import Census
from query.engine.describing import Describing, Holdings
from query.engine.executor import RUNS_MAX, Executor
from query.engine.kept import KeptService
from query.engine.messages import ENGINE_MESSAGES
from query.engine.peers import PeerChannels
from query.engine.proxy import Proxy
from query.engine.splits import Splits
from query.index.service import Indexes
from runtime.api import Runtime
from runtime.message import Message

#: Everything nodes say to each other, for the codec.
NODE_MESSAGES: tuple[type[Message], ...] = (*OVERLAY_MESSAGES, *ENGINE_MESSAGES, *AGGREGATION_MESSAGES)


class EngineNode:
    """What turns a member of the ring into one that answers queries."""

    def __init__(
        self,
        runtime: Runtime,
        overlay: OverlayNode,
        tables: Tables,
        services: dict[str, Any] | None = None,
        runs_max: int = RUNS_MAX,
        client_memory_bytes_max: int = 0,
    ) -> None:
        """`services` are further ones for operators, as files and databases, and the name of the `host`: without it a
        node is known by its address. `client_memory_bytes_max` is what all queries of one client may hold here
        together, zero for no limit."""
        self.overlay = overlay
        messenger = overlay.messenger
        self.aggregations = Aggregations(runtime, messenger, overlay.router, overlay.dht)
        self._splits = splits = Splits(overlay.spread)
        self._peers = PeerChannels(runtime)
        self._kept = KeptService(runtime, messenger, overlay.router.me.address)
        self.indexes = Indexes(runtime, overlay.dht, overlay.publisher, overlay.spread)
        provided = {
            "dht": overlay.dht,
            "node": overlay.router.me.id,
            "address": overlay.router.me.address,
            "host": overlay.router.me.address.rpartition(":")[0],
            "messenger": messenger,
            "peers": self._peers,
            "kept": self._kept,
            "aggregations": self.aggregations,
            "splits": splits,
            "indexes": self.indexes,
            "tables": tables,
            **(services or {}),
        }
        self.executor = Executor(
            runtime,
            messenger,
            overlay.router,
            overlay.spread,
            provided,
            lambda own: self.proxy.handed(own),
            lambda query_id: self.proxy.cancelled(query_id),
            runs_max,
            Pools(client_memory_bytes_max),
        )
        holdings = Holdings(overlay.dht, tables)
        self.catalog = Catalog(runtime, overlay.spread, overlay.dht, holdings, self.indexes.as_known)
        self.describing = Describing(runtime, overlay.publisher, holdings, overlay.router.me.id)
        self._census = Census(runtime, overlay.spread, self.executor.knows)
        self.proxy = Proxy(
            runtime,
            messenger,
            overlay.router,
            overlay.spread,
            self._census,
            splits,
            take_trees=self.executor.take_trees,
            roll=Roll(None if overlay.roster is None else overlay.roster.book),
        )

    def dropped(self) -> dict[str, int]:
        """What came to this node and went nowhere, by what it was: messages for queries that are not here or not any
        more, and such as cannot be read."""
        aggregations = self.aggregations.dropped()
        return {
            "results_of_no_query": self.proxy.strays,
            "batches_of_no_query": self._peers.dropped,
            "rows_nobody_asked_for": self._kept.strays,
            "rows_never_answered": self._kept.unanswered,
            "census_malformed": self._census.malformed,
            "splits_malformed": self._splits.malformed,
            **{f"states_{reason}": count for reason, count in aggregations.items()},
        }
