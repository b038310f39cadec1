"""Golden query files: tables, one query, its answer; the same everywhere it is asked.

    # what it shows
    == table fw                      rows of the nodes' own sources, spread over the nodes
    src,dpt
    10.0.0.1,22
    == published rep key src         rows in the DHT, by their key
    …
    == query                         UFL
    == rows                          the answer in any order; `== rows in order` means it
    src,n
    10.0.0.1,1

An empty cell is NULL. Types are those that a CSV file's values have. Table names are unique over all files, so that
one cluster of processes can hold them all.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from query.batch import Batch, from_arrow

FOLDER = Path(__file__).parent
SIGNIFICANT_DIGITS = 9


@dataclass(frozen=True)
class Published:
    name: str
    keys: tuple[str, ...]
    text: str


@dataclass
class Golden:
    name: str
    tables: dict[str, str] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)
    query: str = ""
    rows: str = ""
    in_order: bool = False

    def expected(self) -> tuple[list[str], list[tuple[str, ...]]]:
        header, *rows = csv.reader(io.StringIO(self.rows))
        cells = [tuple(row) for row in rows]
        return header, cells if self.in_order else sorted(cells)


def read(path: Path) -> Golden:
    golden = Golden(path.stem)
    for block in path.read_text().split("\n== ")[1:]:
        head, _, body = block.partition("\n")
        kind, *words = head.split()
        if kind == "table":
            golden.tables[words[0]] = body.strip() + "\n"
        elif kind == "published":
            golden.published.append(Published(words[0], tuple(words[2:]), body.strip() + "\n"))
        elif kind == "query":
            golden.query = body
        else:
            assert kind == "rows", f"{path}: {head}"
            golden.rows = body.strip() + "\n"
            golden.in_order = words == ["in", "order"]
    assert golden.query and golden.rows, path
    return golden


def all_golden() -> list[Golden]:
    found = [read(path) for path in sorted(FOLDER.glob("*.golden"))]
    names = [name for each in found for name in (*each.tables, *(p.name for p in each.published))]
    assert len(names) == len(set(names)), f"table names are used twice: {sorted(names)}"
    return found


def batch_of(table: str, text: str) -> Batch:
    nulls = pa.csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
    whole = pa.csv.read_csv(io.BytesIO(text.encode()), convert_options=nulls).combine_chunks()
    (batch,) = whole.to_batches() or [pa.RecordBatch.from_pylist([], whole.schema)]
    return from_arrow(table, batch)


def parts(text: str, count: int) -> list[str]:
    """A table's rows dealt out, each part with the header."""
    header, *rows = text.splitlines()
    return ["\n".join([header, *rows[number::count]]) + "\n" for number in range(count)]


def answer(batches: list[Any], in_order: bool) -> tuple[list[str], list[tuple[str, ...]]]:
    """What came, as it is written in the file."""
    headers = {tuple(batch.schema.names) for batch in batches}
    assert len(headers) <= 1, f"batches of different columns: {headers}"
    rows = [tuple(map(cell, row.values())) for batch in batches for row in batch.to_pylist()]
    return list(headers.pop()) if headers else [], rows if in_order else sorted(rows)


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.{SIGNIFICANT_DIGITS}g}"
    return str(value)
