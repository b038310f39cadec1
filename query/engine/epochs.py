"""What put Epochs and scan Epochs agree on: one aggregation a channel, states as they travel, when it is over.

The states of an epoch are those of put Tree (`query.engine.trees`); how they come together is `query.aggregation`.
States that outgrow a tree are marked as such on the way, so that the asker hears of it and divides the aggregation
(`query.engine.splits`) instead of getting less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from query.aggregation.epoch import BadState, Combine
from query.aggregation.strategy import DEFAULT_CONTINUOUS, parse
from query.dataflow.settings import Option
from query.engine.trees import OPTIONS as TREE_OPTIONS
from query.engine.trees import Shape, pack, unpack
from query.expr.errors import EvalError, ExprError
from query.plan import Function
from query.wire import WireError

#: Stands for states that are too large; no batch is that short.
TOO_LARGE = b"\x00"
#: An epoch is as short as a round through a large ring, and as long as a day.
EVERY_LEAST_S, EVERY_MOST_S = 0.1, 86_400.0
EPOCHS_MAX = 1 << 31
#: How the parts of an aggregation that was divided come together: each at the owner of its root id (HashGrouping).
HASHED = parse("DHT-Hi-Learned")
#: How long a query of one epoch may take to come together.
ONE_SHOT_S = 30.0

OPTIONS = (
    *TREE_OPTIONS,
    Option(
        "every",
        "number",
        "seconds between epochs; with count = 1 how long the answer may take, 30 when absent",
        least=EVERY_LEAST_S,
        most=EVERY_MOST_S,
    ),
    Option(
        "count",
        "integer",
        "epochs in all; until the query is cancelled when absent",
        least=1,
        most=EPOCHS_MAX,
    ),
    Option("strategy", "text", "the algorithm, as DHT-Hi-Learned", DEFAULT_CONTINUOUS.name),
    Option(
        "timeout",
        "number",
        "for Timeout: seconds a node waits after something came",
        5.0,
        least=0.01,
        most=1e6,
    ),
    Option(
        "cleanup",
        "number",
        "for Learned and Topology: seconds a silent child is waited for; `every` when absent",
        least=0.01,
        most=1e6,
    ),
    Option("degree", "integer", "for Tree: children that a node takes", 64, least=1, most=65_536),
    Option("nodes", "integer", "for Optimal with 1L or ML: the number of nodes", 0, least=0),
)

#: What put EpochRows counts, and the bytes in front of its rows that say their epoch.
COUNTED: Mapping[str, Any] = {"keys": {}, "aggregates": {"rows": Function("count", ())}}
EPOCH_BYTES = 8


def session_id(query_id: str, channel: str) -> str:
    """Short, since it travels with every state."""
    return f"{query_id}.{channel}"[:48]


def combiner(options: Mapping[str, Any]) -> Combine:
    """Two states of a channel into one."""
    shape = Shape(options)

    def combine(left: bytes, right: bytes) -> bytes:
        if TOO_LARGE in (left, right):
            return TOO_LARGE
        grouping = shape.grouping()
        try:
            for state in (left, right):
                if state:
                    shape.add(grouping, unpack(state))
            return pack(grouping) or TOO_LARGE
        except (WireError, ExprError, EvalError, pa.ArrowException) as error:
            raise BadState(str(error)) from None

    return combine
