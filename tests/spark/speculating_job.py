"""A job for a real cluster: the first copy of one task waits until a second copy of it has started, so both run.

speculating_job.py NODES MARKER     writes 20,000 rows into the table `speculated`
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from pyspark_pier.session import pier_session

PATIENCE_S = 60.0


def main(nodes: str, marker: str) -> None:
    spark = pier_session("speculating")

    def wait_for_the_copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        second = context.attemptNumber() > 0
        yield from batches
        if context.partitionId() == 1:
            if second:
                Path(marker).touch()
            deadline_s = time.monotonic() + PATIENCE_S
            while not Path(marker).exists() and time.monotonic() < deadline_s:
                time.sleep(0.05)

    rows = spark.range(0, 20_000, 1, 2).selectExpr("concat('k', id % 97) AS k", "id")
    copied = rows.mapInArrow(wait_for_the_copy, rows.schema)
    copied.write.format("pier").options(nodes=nodes, table="speculated", key="k").mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3])
