"""Options of the data source, read once and checked: names follow Spark's own connectors.

They are plain values, so that they travel to tasks with the reader or writer that holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from pier_node.client import DEFAULT_PORT, Limits
from pier_node.config.addresses import AddressError, split_address
from pyspark_pier.errors import OptionError

#: Parts a read is divided into, at most, and nodes that each part has at least, unless `numPartitions` says otherwise:
#: a task takes rows in faster than a node reads them, and each costs some 20 ms before its first row.
PARTITIONS_DEFAULT = 16
NODES_PER_PART = 2
#: How long staged rows wait for the job to end, and results of a stream for their reader.
STAGING_LEASE_S = 3_600.0
LOG_LEASE_S = 600.0

KNOWN = frozenset(
    {
        "nodes", "token", "tokenfile", "tlsca", "tlsname", "query", "dbtable", "language", "numpartitions",
        "onincomplete", "timelimit", "rowlimit", "bytelimit", "memorylimit", "table", "key", "lifetime", "loadid",
        "copies", "lease", "maxrowspertrigger", "failondataloss", "path",
        # Spark's own, which it passes on.
        "checkpointlocation", "queryname", "outputmode",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the ring: nodes to begin with, and what it takes to get in."""

    nodes: tuple[tuple[str, int], ...]
    token: str = ""
    tls_ca: str = ""
    #: The name that nodes' certificates must be for; each one's host when empty.
    tls_name: str = ""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    access: Access
    text: str
    language: Literal["sql", "ufl"]
    limits: Limits
    #: None: as many as suit the ring.
    partitions: int | None
    #: Whether an answer that some node is missing from is an error.
    fail_incomplete: bool
    lease_s: float
    rows_per_trigger: int | None
    fail_on_loss: bool


@dataclass(frozen=True, slots=True)
class WriteOptions:
    access: Access
    table: str
    keys: tuple[str, ...]
    lifetime_s: float | None
    load: str
    copies: int
    lease_s: float


def access_of(options: Mapping[str, str]) -> Access:
    unknown = sorted(name for name in options if name.lower() not in KNOWN)
    if unknown:
        raise OptionError(f"unknown option {unknown[0]!r}; docs/spark.md lists them")
    nodes = []
    for text in options.get("nodes", f"127.0.0.1:{DEFAULT_PORT}").split(","):
        try:
            nodes.append(split_address(text.strip(), DEFAULT_PORT))
        except AddressError as error:
            raise OptionError(f"option nodes: {error}") from None
    token = options.get("token", "")
    if "tokenfile" in options:
        try:
            token = Path(options["tokenfile"]).read_text().strip()
        except OSError as error:
            raise OptionError(f"option tokenFile: {options['tokenfile']}: {error.strerror}") from None
    return Access(tuple(nodes), token, options.get("tlsca", ""), options.get("tlsname", ""))


def read_options(options: Mapping[str, str]) -> ReadOptions:
    access = access_of(options)
    table = options.get("dbtable") or options.get("path")
    if ("query" in options) == bool(table):
        raise OptionError("say what to read: option query or option dbtable, one of them")
    language = options.get("language", "sql").lower()
    if language not in ("sql", "ufl") or (table and language != "sql"):
        raise OptionError("option language is sql or ufl; dbtable goes with sql")
    incomplete = options.get("onincomplete", "fail").lower()
    if incomplete not in ("fail", "accept"):
        raise OptionError("option onIncomplete is fail or accept")
    return ReadOptions(
        access,
        options["query"].strip().rstrip(";") if "query" in options else f"SELECT * FROM {table}",
        cast(Literal["sql", "ufl"], language),
        Limits(
            time_s=_seconds(options, "timeLimit"),
            rows=_count(options, "rowLimit"),
            bytes=_count(options, "byteLimit"),
            memory_bytes=_count(options, "memoryLimit"),
        ),
        _count(options, "numPartitions"),
        incomplete == "fail",
        _seconds(options, "lease") or LOG_LEASE_S,
        _count(options, "maxRowsPerTrigger"),
        options.get("failondataloss", "true").lower() != "false",
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    access = access_of(options)
    table = options.get("table") or options.get("dbtable") or options.get("path")
    if not table:
        raise OptionError("say where the rows go: option table")
    keys = tuple(name.strip() for name in options.get("key", "").split(",") if name.strip())
    if not keys:
        raise OptionError("say which columns place a row: option key, as in key=src or key=src,dst")
    return WriteOptions(
        access,
        table,
        keys,
        _seconds(options, "lifetime"),
        options.get("loadid", ""),
        _count(options, "copies", least=0) or 0,
        _seconds(options, "lease") or STAGING_LEASE_S,
    )


def _count(options: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise OptionError(f"option {name} is a whole number from {least} up, not {text!r}")
    return value


def _seconds(options: Mapping[str, str], name: str) -> float | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1e9:
        raise OptionError(f"option {name} is a number of seconds, not {text!r}")
    return value
