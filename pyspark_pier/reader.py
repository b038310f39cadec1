"""Query results as partitions of a DataFrame.

The driver asks a node what rows the query gives and whether it can be divided; if so, every task asks its own part of
the ring, at a node of that part. The parts are cut at node ids, so each node belongs to exactly one of them whatever
joins or leaves meanwhile. Other queries are one partition. Record batches go through as they come; at most one window
of them waits in a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from pier_node.client import Account, PierError, sync
from pier_node.protocol.messages import NodeEntry, Slice
from pyspark_pier import reach
from pyspark_pier.conditions import condition_of
from pyspark_pier.errors import PierSparkError
from pyspark_pier.options import ReadOptions
from pyspark_pier.spark_types import arrow_schema, fitted


@dataclass(frozen=True, slots=True)
class Described:
    """A query as a node understands it; columns are None when they are not known before it runs."""

    columns: pa.Schema | None
    divisible: bool


def describe(options: ReadOptions) -> Described:
    with reach.reach(options.access) as conn:
        try:
            return Described(*conn.describe(options.text, options.language))
        except PierError as error:
            raise PierSparkError(f"the query is refused: {error}") from None


def sampled_columns(options: ReadOptions) -> pa.Schema:
    """The columns of the first rows that come, for queries that cannot say beforehand."""
    with reach.reach(options.access) as conn:
        answer = conn.query(options.text, options.language, limits=options.limits)
        try:
            for batch in answer:
                answer.cancel()
                return batch.schema
        except PierError as error:
            raise PierSparkError(f"the query failed: {error}") from None
    raise PierSparkError("the query gives no rows to learn columns from: say .schema(…)")


class RingPart(InputPartition):
    """What one task asks; without bounds the whole ring."""

    def __init__(self, text: str, nodes: tuple[str, ...] = (), start: str = "", end: str = "") -> None:
        self.text = text
        self.nodes = nodes
        self.start = start
        self.end = end

    @property
    def part(self) -> Slice | None:
        return Slice(self.start, self.end) if self.start != self.end else None


class PierReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._conditions: list[str] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        columns = describe(self._options).columns if self._options.language == "sql" else None
        for offered in filters:
            condition = None if columns is None else condition_of(offered, self._schema, columns)
            if condition is None:
                yield offered
            else:
                self._conditions.append(condition)

    @property
    def text(self) -> str:
        """The query with the conditions that nodes test."""
        if not self._conditions:
            return self._options.text
        where = " AND ".join(f"({condition})" for condition in self._conditions)
        return f"SELECT * FROM ({self._options.text}) AS pushed WHERE {where}"

    def partitions(self) -> list[InputPartition]:
        options = self._options
        # A condition on the key may have made the query one that asks the key's owner alone.
        if options.partitions == 1 or not describe(replace(options, text=self.text)).divisible:
            return [RingPart(self.text)]
        return [*ring_parts(self.text, reach.doors(options.access), options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RingPart)
        schema = arrow_schema(self._schema)
        with reach.reach(self._options.access, partition.nodes) as conn:
            yield from rows_of(conn, partition, self._options, schema)


def rows_of(
    conn: sync.Connection, partition: RingPart, options: ReadOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    try:
        answer = conn.query(partition.text, options.language, limits=options.limits, part=partition.part)
        for batch in answer:
            yield fitted(batch, schema)
    except PierError as error:
        raise PierSparkError(f"the query failed: {error}") from None
    assert answer.account is not None
    check_complete(answer.account, options.fail_incomplete)


def check_complete(account: Account, strict: bool) -> None:
    """An answer that nodes are missing from is no answer, unless the job accepts that."""
    missing = account.failed + account.unreachable
    if strict and (missing or account.ended != "complete"):
        notes = "; ".join(account.notes[:3])
        raise PierSparkError(
            f"the answer is not whole: {missing} of {account.asked} nodes failed or could not be reached, "
            f"ended: {account.ended}{'; ' + notes if notes else ''} (option onIncomplete=accept takes it anyway)"
        )


def ring_parts(text: str, nodes: tuple[NodeEntry, ...], count: int) -> Iterator[RingPart]:
    """The ring in up to `count` parts of whole nodes, in order."""
    count = min(count, len(nodes))
    if count == 1:
        yield RingPart(text)
        return
    bounds = [number * len(nodes) // count for number in range(count)]
    for number, first in enumerate(bounds):
        last = bounds[number + 1] if number + 1 < count else len(nodes)
        inside = tuple(entry.client for entry in nodes[first:last])
        yield RingPart(text, inside, nodes[first].id, nodes[last % len(nodes)].id)
