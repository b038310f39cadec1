"""Scan, JDBC: the rows of a table of an SQL database (PIER Table 3.3).

PIER's name stays; what is behind it is SQLite, or any database with an ADBC driver. A query names a connection that
the node's owner registered, a table and columns, never SQL text or an address. The keys of a set-predicate probe are
looked up by the database where it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from query.batch import Batch
from query.dataflow.context import Databases
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.operators.scan.origin import ORIGIN
from query.operators.scan.reading import MISSING, TABLE, ReadingScan


@register
class ScanJdbc(ReadingScan):
    """Rows of a database table."""

    TYPE = "scan"
    IMPLEMENTATION = "JDBC"
    OPTIONS: ClassVar[Sequence[Option]] = (
        Option("connection", "text", "the name the node's owner gave the database", required=True),
        Option("from", "text", "the table or view in it", required=True),
        Option("columns", "texts", "the columns to read; all when absent", ()),
        Option("table", "text", TABLE + "that of the database when absent"),
        MISSING,
        ORIGIN,
    )

    def begin(self, keys: Batch | None) -> Iterator[Batch]:
        databases: Databases = self.service("databases")
        options = self.options
        columns = tuple(options["columns"])
        table = options["table"]
        rows = databases.open_table(options["connection"], options["from"], columns, keys, self.drop)
        for batch in rows:
            yield batch.with_table(table) if table else batch
