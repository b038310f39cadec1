"""Scan, CSV: the rows of a CSV file (PIER Table 3.3).

The file is read through the service "files", a piece in each turn, and may be of any size. Only files that the
node's owner made readable can be named; a relative path starts in the node's data directory. Types not given are
guessed from the beginning of the file; a row that does not have them is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from query import plan
from query.batch import Batch, parse_type
from query.dataflow.context import CsvForm, Files
from query.dataflow.registry import register
from query.dataflow.settings import Option, SettingError
from query.operators.scan.origin import ORIGIN, check_origin
from query.operators.scan.reading import MISSING, TABLE, ReadingScan
from query.plan_hints import quoted


@register
class ScanCsv(ReadingScan):
    """Rows of a CSV file."""

    TYPE = "scan"
    IMPLEMENTATION = "CSV"
    OPTIONS: ClassVar[Sequence[Option]] = (
        Option("path", "text", "the file", required=True),
        Option("delimiter", "text", "the character between values", ","),
        Option("quote", "text", "the character around values that contain it", '"'),
        Option("header", "flag", "whether the first line names the columns", True),
        Option("columns", "texts", "the names of the columns; of the first line when absent", ()),
        Option("types", "text table", "types of columns: types[dpt] = long; guessed when absent", {}),
        Option("nulls", "texts", "texts that stand for NULL", ("",)),
        Option("table", "text", TABLE + "that of the file when absent"),
        MISSING,
        ORIGIN,
    )

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        check_origin(options)
        for name in ("delimiter", "quote"):
            if len(options[name]) != 1 or ord(options[name]) > 127:
                raise SettingError(name, "is one plain character")
        if not options["header"] and not options["columns"]:
            raise SettingError("columns", "is needed when there is no header")
        for column, kind in options["types"].items():
            if parse_type(kind) is None:
                raise SettingError("types", f"column {quoted(column)}: there is no type {quoted(kind)}")

    def begin(self, keys: Batch | None) -> Iterator[Batch]:
        files: Files = self.service("files")
        options = self.options
        form = CsvForm(
            delimiter=options["delimiter"],
            quote=options["quote"],
            header=options["header"],
            columns=tuple(options["columns"]),
            types=tuple(options["types"].items()),
            nulls=tuple(options["nulls"]),
        )
        table = options["table"]
        for batch in files.open_csv(options["path"], form, self.drop):
            yield batch.with_table(table) if table else batch
