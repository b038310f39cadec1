"""A continuous query as a stream: its rows are kept by a node, numbered, until Spark has stored them safely.

A position is the node, the log at that node, and the number of the next row. Spark writes positions into its
checkpoint; a restarted stream finds the log by them and reads on, the batch that was under way included. The node
keeps a log as long as somebody asks for it within the lease; one that is gone is data lost, which ends the stream
unless `failOnDataLoss` is false. Then a new log begins, and the gap is the time in between.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pier_node.client import Piece, PierError
from pier_node.protocol.messages import LogIs
from pyspark_pier import reach
from pyspark_pier.errors import PierSparkError
from pyspark_pier.options import ReadOptions
from pyspark_pier.spark_types import arrow_schema, fitted

#: A query that ended for a reason that is not its own duration has failed.
ENDED_WELL = ("complete", "duration")


class LogRange(InputPartition):
    """Rows of a log for one task."""

    def __init__(self, node: str, log: str, start: int, end: int) -> None:
        self.node = node
        self.log = log
        self.start = start
        self.end = end


class PierStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        #: With Trigger.AvailableNow: the row at which this run ends, by log.
        self._until: dict[str, int] | None = None

    # -- positions

    def initialOffset(self) -> dict[str, Any]:
        """Starts the query; what it gives from now on is the stream."""
        return self._opened(secrets.token_hex(12))

    def _opened(self, log: str) -> dict[str, Any]:
        options = self._options
        with reach.reach(options.access) as conn:
            try:
                state = conn.open_log(
                    log, options.text, options.language, lease_s=options.lease_s, limits=options.limits
                )
            except PierError as error:
                raise PierSparkError(f"the query cannot be followed: {error}") from None
            self._check(state)
            return {"node": conn.peer, "log": log, "row": state.first}

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options.rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        state = self._look(start)
        if state is None:
            return self._opened(secrets.token_hex(12))
        end = state.next
        if self._until is not None:
            end = min(end, self._until.setdefault(start["log"], state.next))
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["row"] + limit.max_rows)
        if end <= start["row"]:
            self._check(state)
            return start
        return {**start, "row": end}

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = {}

    def _look(self, at: dict[str, Any]) -> LogIs | None:
        """How the log stands; None when it is gone and that is accepted."""
        try:
            with reach.only(self._options.access, at["node"]) as conn:
                state = conn.log(at["log"])
        except PierError as error:
            if self._options.fail_on_loss:
                raise PierSparkError(
                    f"rows of this stream are lost: {error}. It can begin anew with failOnDataLoss=false"
                ) from None
            print(f"pier: rows of this stream are lost, it begins anew: {error}", file=sys.stderr)
            return None
        if state.first > at["row"] and self._options.fail_on_loss:
            raise PierSparkError(f"rows {at['row']} up to {state.first} of this stream were released already")
        return state

    @staticmethod
    def _check(state: LogIs) -> None:
        if state.ended and state.ended not in ENDED_WELL:
            raise PierSparkError(f"the continuous query ended: {state.ended}")

    # -- rows

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start["log"] != end["log"]:
            # The old log is gone; the new one begins where `end` says.
            start = {**end, "row": 0}
        if start["row"] >= end["row"]:
            return []
        return [LogRange(end["node"], end["log"], start["row"], end["row"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogRange)
        schema = arrow_schema(self._schema)
        try:
            with reach.only(self._options.access, partition.node) as conn:
                for event in conn.read_log(partition.log, partition.start, partition.end).events():
                    if isinstance(event, Piece):
                        yield fitted(event.batch, schema, event.epoch)
        except PierError as error:
            raise PierSparkError(
                f"rows {partition.start} up to {partition.end} cannot be read: {error}"
            ) from None

    def commit(self, end: dict[str, Any]) -> None:
        """Rows before `end` are stored safely on Spark's side."""
        try:
            with reach.only(self._options.access, end["node"]) as conn:
                conn.log(end["log"], "release", end["row"])
        except PierError as error:
            # The next look at the log decides what this means.
            print(f"pier: rows could not be released: {error}", file=sys.stderr)

    def stop(self) -> None:
        """The log stays until its lease ends: the stream may be started again from its checkpoint."""
