"""From `--source TABLE=KIND:PATH` to tables: opens what a node brings when it starts, closes it when it stops.

What cannot be read at all is a `SourceOpenError` and the node does not start; a followed log may come later.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from pier_node.config.sources import SourceSpec
from pier_node.engine.tables import NodeTables
from pier_node.logs import DIALECTS
from pier_node.logs.stamps import check_zone
from pier_node.readable.databases import Database, ReadableDatabases
from pier_node.readable.files import ReadableFiles
from pier_node.sources.csv import CsvReader
from pier_node.sources.firewall import FirewallLog
from pier_node.sources.log_scan import LogOptions
from pier_node.sources.ndjson import NdjsonReader
from pier_node.sources.parquet import ParquetReader
from pier_node.sources.positions import Positions
from pier_node.sources.reader import Reader, ReadError
from pier_node.sources.sql import sql_reader
from pier_node.sources.static import StaticTable
from pier_node.sources.unparsed import UnparsedLines
from query.dataflow.context import LocalTable
from runtime.api import Clock

_READERS: dict[str, Callable[[Path], Reader]] = {
    "csv": CsvReader,
    "ndjson": NdjsonReader,
    "parquet": ParquetReader,
}
_YES = {"yes": True, "no": False}


class SourceOpenError(Exception):
    """A source cannot be opened; the message names it."""


class Source(LocalTable, Protocol):
    """A table of this node that is opened and closed with it."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    def statistics(self) -> Any: ...


class NodeSources:
    """All sources of a node."""

    def __init__(self, specs: Sequence[SourceSpec], clock: Clock, folder: Path | None, host: str) -> None:
        """`folder` is where positions in logs are remembered; `host` names lines that do not name theirs."""
        self._sources: dict[str, Source] = {}
        positions = Positions(folder)
        for spec in specs:
            if spec.table in self._sources:
                raise SourceOpenError(f"{spec}: there is a source {spec.table!r} already")
            try:
                self._sources[spec.table] = _source(spec, clock, positions, host)
            except ReadError as error:
                raise SourceOpenError(f"{spec}: {error}") from None
        self._specs = tuple(specs)

    def start(self, tables: NodeTables) -> list[str]:
        """Opens everything; returns what its owner should know. Raises SourceOpenError."""
        warnings = []
        for spec in self._specs:
            source = self._sources[spec.table]
            try:
                source.start()
            except ReadError as error:
                raise SourceOpenError(f"{spec}: {error}") from None
            except OSError as error:
                raise SourceOpenError(f"{spec}: {error.strerror}") from None
            tables.register(spec.table, source)
            if isinstance(source, FirewallLog):
                unparsed = f"{spec.table}.unparsed"
                if unparsed not in self._sources:
                    tables.register(unparsed, UnparsedLines(unparsed, source))
                if not source.path.exists():
                    warnings.append(f"{spec}: there is no such file yet")
        return warnings

    @property
    def has_logs(self) -> bool:
        return any(isinstance(source, FirewallLog) for source in self._sources.values())

    def services(self, files: Path | None) -> dict[str, Any]:
        """What scans of files and databases may read: the folder `files`, and what the sources name."""
        paths = [Path(spec.path) for spec in self._specs if spec.kind in _READERS]
        databases = {
            spec.table: Database(spec.path, (spec.fragment,)) for spec in self._specs if spec.kind == "sql"
        }
        # Without a folder relative paths lead nowhere: there is nothing below the null device.
        readable = ReadableFiles(Path(os.devnull) if files is None else files, paths)
        return {"files": readable, "databases": ReadableDatabases(databases)}

    def close(self) -> None:
        for source in self._sources.values():
            source.close()

    def statistics(self) -> dict[str, Any]:
        return {table: source.statistics() for table, source in self._sources.items()}


def _source(spec: SourceSpec, clock: Clock, positions: Positions, host: str) -> Source:
    if spec.kind == "firewall":
        return FirewallLog(spec.table, Path(spec.path), clock, log_options(spec, host), positions)
    if spec.kind == "sql":
        return StaticTable(spec.table, sql_reader(spec.path, spec.fragment))
    return StaticTable(spec.table, _READERS[spec.kind](Path(spec.path)))


def log_options(spec: SourceSpec, host: str) -> LogOptions:
    """`#dialect=ufw&tz=Europe/Berlin&host=gw&history=yes`, each of them optional."""
    given = dict(part.partition("=")[::2] for part in spec.fragment.split("&") if part)
    unknown = sorted(given.keys() - {"dialect", "tz", "host", "history"})
    if unknown:
        raise SourceOpenError(
            f"{spec}: there is no option {unknown[0]!r}; there are dialect, tz, host, history"
        )
    dialect, tz, history = given.get("dialect"), given.get("tz", "UTC"), given.get("history", "no")
    if dialect is not None and dialect not in DIALECTS:
        raise SourceOpenError(f"{spec}: there is no dialect {dialect!r}; there are {', '.join(DIALECTS)}")
    if history not in _YES:
        raise SourceOpenError(f"{spec}: history is yes or no, not {history!r}")
    try:
        check_zone(tz)
    except ValueError as error:
        raise SourceOpenError(f"{spec}: {error}") from None
    return LogOptions(dialect, tz, given.get("host", host), _YES[history])
