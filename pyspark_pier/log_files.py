"""Raw firewall logs as rows of the one firewall table, by the parsers that nodes use.

Any path that Spark reads (files, folders, patterns, any file system, .gz) becomes lines; lines become blocks of bytes,
and a block becomes an Arrow batch without a Python loop over its lines. Files whose first line names the columns are
read whole, others are divided among tasks wherever Spark divides them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyspark_pier.errors import PierSparkError
from pyspark_pier.spark_types import arrow_schema, fitted, spark_schema

#: Lines looked at to find out whether files must be read whole.
SAMPLE_LINES = 200
#: Dialects whose files say their columns in a line at the beginning.
HEADED = ("windows", "zeek", "vpcflow")


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Lines by what became of them; a task that was tried twice counts twice."""

    parsed: Accumulator[int]
    unparsed: Accumulator[int]
    skipped: Accumulator[int]

    def figures(self) -> dict[str, int]:
        return {"parsed": self.parsed.value, "unparsed": self.unparsed.value, "skipped": self.skipped.value}


def check_reading(dialect: str | None, tz: str) -> None:
    """Refuses a dialect or a time zone that there is not."""
    from pier_node.logs import DIALECTS
    from pier_node.logs.stamps import check_zone

    if dialect is not None and dialect not in DIALECTS:
        raise PierSparkError(f"there is no dialect {dialect!r}; there is {', '.join(DIALECTS)}")
    try:
        check_zone(tz)
    except ValueError as error:
        raise PierSparkError(str(error)) from None


def read_logs(
    spark: SparkSession,
    paths: Sequence[str],
    dialect: str | None = None,
    tz: str = "UTC",
    host: str | None = None,
) -> tuple[DataFrame, LineCounts]:
    """The events of some logs; without a dialect each file's own is detected."""
    from pier_node.logs import FIREWALL_SCHEMA, detect

    check_reading(dialect, tz)
    first = spark.read.text(list(paths)).limit(SAMPLE_LINES).collect()
    found = dialect or detect("\n".join(row.value for row in first).encode()).dialect
    if found is None and first:
        raise PierSparkError(f"{paths[0]}: no known firewall dialect in its first lines; name one")
    counts = LineCounts(*(spark.sparkContext.accumulator(0) for _ in range(3)))
    schema = spark_schema(FIREWALL_SCHEMA)
    lines = spark.read.text(list(paths), wholetext=found in HEADED).select(
        "value",
        F.col("_metadata.file_path").alias("file"),
        F.unix_micros(F.col("_metadata.file_modification_time")).alias("changed_us"),
    )
    return lines.mapInArrow(_parsing(dialect, tz, host, counts), schema), counts


def _parsing(
    dialect: str | None, tz: str, host: str | None, counts: LineCounts
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pier_node.logs import FIREWALL_SCHEMA

        wanted = arrow_schema(spark_schema(FIREWALL_SCHEMA))
        parsers: dict[str, Any] = {}
        for batch in batches:
            for file, changed_us, data in _blocks(batch):
                parser = parsers.get(file)
                if parser is None:
                    for other in parsers.values():
                        _count(counts, other)
                    parsers = {file: _parser(file, data, changed_us, dialect, tz, host)}
                    parser = parsers[file]
                events = parser.feed(data)
                if events is not None:
                    yield fitted(events, wanted)
        for parser in parsers.values():
            _count(counts, parser)

    return parse


def _blocks(batch: pa.RecordBatch) -> Iterator[tuple[str, int, bytes]]:
    """The lines of each file in a batch, as they stood in it."""
    files = batch.column(1).dictionary_encode()
    for number, file in enumerate(files.dictionary.to_pylist()):
        part = batch if len(files.dictionary) == 1 else batch.filter(pc.equal(files.indices, number))
        lines = part.column(0)
        together = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
        yield file, part.column(2)[0].as_py(), together[0].as_buffer().to_pybytes() + b"\n"


def _parser(
    file: str, first_bytes: bytes, changed_us: int, dialect: str | None, tz: str, host: str | None
) -> Any:
    from pier_node.logs import Parser, detect

    found = dialect or detect(first_bytes).dialect
    if found is None:
        raise PierSparkError(f"{file}: no known firewall dialect; name one")
    try:
        return Parser(found, reference_us=changed_us, host=host, tz=tz)
    except ValueError as error:
        raise PierSparkError(str(error)) from None


def _count(counts: LineCounts, parser: Any) -> None:
    seen = parser.statistics()
    counts.parsed.add(seen.parsed)
    counts.unparsed.add(seen.unparsed)
    counts.skipped.add(seen.skipped)
