"""Query results as partitions of a DataFrame.

The driver asks a node what rows the query gives and whether it can be divided; if so, every task asks its own part of
the ring, piece by piece, each piece at a node in it. Parts and pieces are cut at node ids, so each node belongs to
exactly one of them whatever joins or leaves meanwhile. Other queries are one partition. Record batches go through as
they come; at most one window of them waits in a task for each piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from pier_node.client import Account, PierError, sync
from pier_node.protocol.messages import Language, NodeEntry, Slice
from pyspark_pier import reach
from pyspark_pier.conditions import condition_of
from pyspark_pier.errors import PierSparkError
from pyspark_pier.options import NODES_PER_PART, PARTITIONS_DEFAULT, ReadOptions
from pyspark_pier.spark_types import arrow_schema, fitted
from pyspark_pier.worker_memory import keep_lasting

#: Stretches of its part that one task asks at once. Each is a connection and a window of rows that wait; a part of
#: fewer nodes has one for each node, which then sends its own rows and no others.
PIECES_MAX = 8


@dataclass(frozen=True, slots=True)
class Described:
    """A query as a node understands it; columns are None when they are not known before it runs."""

    columns: pa.Schema | None
    divisible: bool


def describe(options: ReadOptions) -> Described:
    with reach.reach(options.access) as conn:
        return describe_at(conn, options.text, options.language)


def describe_at(conn: sync.Connection, text: str, language: Language) -> Described:
    try:
        return Described(*conn.describe(text, language))
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


class Piece(NamedTuple):
    """A stretch of the ring from one node id to another, and the nodes in it; without bounds the whole ring."""

    nodes: tuple[str, ...] = ()
    start: str = ""
    end: str = ""

    @property
    def part(self) -> Slice | None:
        return Slice(self.start, self.end) if self.start != self.end else None


class RingPart(InputPartition):
    """What one task asks, piece by piece."""

    def __init__(self, text: str, pieces: tuple[Piece, ...] = (Piece(),)) -> None:
        self.text = text
        self.pieces = pieces


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
        with reach.reach(self._options.access) as conn:
            # A condition on the key may have made the query one that asks the key's owner alone.
            if not describe_at(conn, self.text, self._options.language).divisible:
                return [RingPart(self.text)]
            nodes = reach.doors_at(conn)
        return [*ring_parts(self.text, nodes, self._options.partitions or suitable_parts(len(nodes)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """All pieces are asked at once and read one after the other, so that nodes work while others are read."""
        assert isinstance(partition, RingPart)
        keep_lasting()
        schema = arrow_schema(self._schema)
        with ExitStack() as opened:
            try:
                answers = [self._ask(partition.text, piece, opened) for piece in partition.pieces]
                for answer in answers:
                    for batch in answer:
                        yield fitted(batch, schema)
                    assert answer.account is not None
                    check_complete(answer.account, self._options.fail_incomplete)
            except PierError as error:
                raise PierSparkError(f"the query failed: {error}") from None

    def _ask(self, text: str, piece: Piece, opened: ExitStack) -> sync.Answer:
        conn = opened.enter_context(reach.reach(self._options.access, piece.nodes))
        # What is missing is told in the job's own words, below.
        return conn.query(
            text, self._options.language, limits=self._options.limits, part=piece.part, allow_partial=True
        )


def check_complete(account: Account, strict: bool) -> None:
    """An answer that nodes are missing from is no answer, unless the job accepts that."""
    missing = account.failed + account.unreachable
    if strict and (missing or account.ended != "complete"):
        notes = "; ".join(account.notes[:3])
        raise PierSparkError(
            f"the answer is not whole: {missing} of {account.asked} nodes failed or could not be reached, "
            f"ended: {account.ended}{'; ' + notes if notes else ''} (option onIncomplete=accept takes it anyway)"
        )


def suitable_parts(nodes: int) -> int:
    return min(PARTITIONS_DEFAULT, -(-nodes // NODES_PER_PART))


def ring_parts(text: str, nodes: tuple[NodeEntry, ...], count: int) -> Iterator[RingPart]:
    """The ring in up to `count` parts of whole nodes, in order."""
    for first, last in _cuts(0, len(nodes), count):
        yield RingPart(text, tuple(_pieces(nodes, first, last)))


def _pieces(nodes: tuple[NodeEntry, ...], first: int, last: int) -> Iterator[Piece]:
    for start, end in _cuts(first, last, PIECES_MAX):
        inside = tuple(entry.client for entry in nodes[start:end])
        yield Piece(inside, nodes[start].id, nodes[end % len(nodes)].id)


def _cuts(first: int, last: int, count: int) -> Iterator[tuple[int, int]]:
    """A range in up to `count` ranges of nearly the same length."""
    count = min(count, last - first)
    bounds = [first + number * (last - first) // count for number in range(count + 1)]
    return pairwise(bounds)
