"""sqllogictest files: tables, statements and queries with their expected answers, run on a cluster.

Understood are the records of the format's common part:

    statement ok | statement error [text]     one statement; CREATE TABLE and INSERT load the cluster
    query <types> [nosort|rowsort|valuesort]  a query, `----`, and the values expected, a row a line, tab-separated
    # comment, halt

An error expected of a query is a `statement error` with a text its message must hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.sql.harness import Sql
from ufl import UflError

_LOADING = ("create", "insert", "update", "delete", "drop")


@dataclass
class Record:
    """One record of a file."""

    path: Path
    line: int
    head: list[str]
    sql: str
    expected: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line}: {self.sql}"


def records(path: Path) -> Iterator[Record]:
    """The records of a file, until `halt`."""
    lines = path.read_text().splitlines()
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        if not line or line.startswith("#"):
            at += 1
            continue
        if line == "halt":
            return
        record = Record(path, at + 1, line.split(), "")
        assert record.head[0] in ("statement", "query"), f"{path.name}:{at + 1}: {line}"
        at += 1
        sql: list[str] = []
        while at < len(lines) and lines[at].strip() and lines[at] != "----":
            sql.append(lines[at])
            at += 1
        record.sql = "\n".join(sql)
        if at < len(lines) and lines[at] == "----":
            at += 1
            while at < len(lines) and lines[at] != "":
                record.expected.append(lines[at])
                at += 1
        yield record


class Runner:
    """Runs the records of one file on a cluster of its own."""

    def __init__(self, nodes: int = 4, seed: int = 1) -> None:
        self.sql = Sql(nodes, seed)
        self._loaded = True
        self.queries = 0

    def run(self, record: Record) -> None:
        if record.head[0] == "query":
            self._query(record)
        elif record.head[1] == "ok" and record.sql.split()[0].lower() in _LOADING:
            self.sql.duck.execute(record.sql)
            self._loaded = False
        else:
            self._statement(record)

    def _load(self) -> None:
        """DuckDB only holds the rows that statements make; the cluster gets them before the next query."""
        if self._loaded:
            return
        self._loaded = True
        names = self.sql.duck.execute("SELECT table_name FROM information_schema.tables").fetchall()
        for (name,) in names:
            self.sql.load(name, self.sql.duck.sql(f'SELECT * FROM "{name}"').to_arrow_table())

    def _statement(self, record: Record) -> None:
        self._load()
        self.queries += 1
        if record.head[1] == "ok":
            self.sql.rows(record.sql)
            return
        wanted = " ".join(record.head[2:]) or "\n".join(record.expected)
        try:
            answer = self.sql.answer(record.sql)
        except UflError as error:
            assert wanted in str(error), f"{record}\n{error}"
            return
        told = [*answer.account.errors, *answer.account.dropped]
        assert told, f"{record}\nwas answered: {answer.rows[:5]}"
        assert any(wanted in each for each in told), f"{record}\n{told}"

    def _query(self, record: Record) -> None:
        self._load()
        self.queries += 1
        types = record.head[1]
        sort = record.head[2] if len(record.head) > 2 else "nosort"
        rows = self.sql.rows(record.sql)
        for row in rows:
            assert len(row) == len(types), f"{record}\n{len(row)} columns, not {len(types)}"
        ours = [[shown(value, kind) for value, kind in zip(row, types, strict=True)] for row in rows]
        theirs = [line.split("\t") for line in record.expected]
        if sort == "rowsort":
            ours, theirs = sorted(ours), sorted(theirs)
        elif sort == "valuesort":
            ours = [[value] for value in sorted(value for row in ours for value in row)]
            theirs = [[value] for value in sorted(value for row in theirs for value in row)]
        assert ours == theirs, f"{record}\nours     {ours}\nexpected {theirs}"


def shown(value: Any, kind: str) -> str:
    """A value as the files write it: I integer, R real, T text."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value == "":
        return "(empty)"
    if kind == "R":
        return f"{float(value):.3f}"
    return str(value)
