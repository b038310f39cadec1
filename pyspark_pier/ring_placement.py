"""Which node owns a row, in Spark: rows go to tasks, and from tasks to nodes, by their place on the ring.

A row lies where SHA-1 of "table.key" says. With few nodes a task splits its rows among all of them. With many, that
would be a connection of every task to every node: then rows are brought first to the task that covers their part of the
ring (`placed`), and a task talks to the nodes of its own part only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pier_node.protocol.messages import NodeEntry
from query.batch.key_text import KEY_SEPARATOR, key_column

#: Nodes that one task talks to when its rows may go anywhere; with more nodes, neighbours share a connection.
CONNECTIONS_MAX = 32
#: Rings up to this size are fed without bringing rows together first: measured faster with 8 nodes, slower with 256.
SPLIT_NODES_MAX = 16


@dataclass(frozen=True, slots=True)
class Targets:
    """Where rows go: addresses by the beginning of the arc they take in, as the top 64 bits of the id."""

    starts: tuple[int, ...]
    clients: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.clients)


def targets_of(nodes: Sequence[NodeEntry]) -> Targets:
    """The nodes by their arcs; neighbours are taken together where there are many."""
    arcs = sorted((int(entry.arc_start[:16] or "0", 16), entry.client) for entry in nodes)
    step = -(-len(arcs) // CONNECTIONS_MAX)
    kept = arcs[::step]
    return Targets(tuple(start for start, _ in kept), tuple(client for _, client in kept))


def by_target(
    rows: pa.RecordBatch, table: str, keys: Sequence[str], targets: Targets
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows for each target."""
    if len(targets) == 1:
        yield 0, rows
        return
    encoded = key_column([rows.column(name) for name in keys]).dictionary_encode()
    names = encoded.dictionary.to_pylist()
    places = np.fromiter((_place(table, name) for name in names), np.uint64, len(names))
    starts = np.array(targets.starts, np.uint64)
    # Before the first arc begins the last one goes on: index -1.
    owners = (np.searchsorted(starts, places, side="right") - 1) % len(targets)
    numbers = owners[np.asarray(encoded.indices)].astype(np.int32)
    order = np.argsort(numbers, kind="stable")
    ordered = rows.take(pa.array(order))
    present, begins = np.unique(numbers[order], return_index=True)
    ends = [*begins[1:].tolist(), len(order)]
    for number, begin, end in zip(present.tolist(), begins.tolist(), ends, strict=True):
        yield number, ordered.slice(begin, end - begin)


def _place(table: str, key: str) -> int:
    return int.from_bytes(hashlib.sha1(f"{table}.{key}".encode(), usedforsecurity=False).digest()[:8], "big")


def placed(rows: DataFrame, table: str, keys: Sequence[str], parts: int) -> DataFrame:
    """The rows in `parts` partitions, each a contiguous part of the ring; equal keys are in the same."""
    texts = [F.coalesce(F.col(f"`{name}`").cast("string"), F.lit("")) for name in keys]
    text = texts[0] if len(texts) == 1 else F.concat_ws(KEY_SEPARATOR, *texts)
    digest = F.sha1(F.concat(F.lit(f"{table}."), text).cast("binary"))
    part = F.shiftright(F.conv(F.substring(digest, 1, 8), 16, 10).cast("bigint") * parts, 32)
    return rows.repartitionById(parts, part.cast("int"))
