"""How values look in each format."""

from __future__ import annotations

import datetime
import decimal
import io
import json

import pyarrow as pa
import pyarrow.csv as csv
from hypothesis import given
from hypothesis import strategies as st

from cli.output import CELL_CHARS_MAX, TABLE_ROWS_BLOCK, JsonWriter, TableWriter, cell, print_rows, writer
from cli.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_values_json_does_not_know() -> None:
    out = io.StringIO()
    batch = pa.record_batch(
        {
            "t": pa.array([datetime.datetime(2024, 1, 2, 3, 4, 5)]),
            "b": pa.array([b"\x00\xff"]),
            "d": pa.array([decimal.Decimal("1.50")]),
            "l": pa.array([[1, 2]]),
            "u": pa.array(["grüß"]),
        }
    )
    JsonWriter(out).write(batch)
    assert json.loads(out.getvalue()) == {
        "t": "2024-01-02T03:04:05",
        "b": "AP8=",
        "d": "1.50",
        "l": [1, 2],
        "u": "grüß",
    }


def test_a_long_table_is_printed_in_blocks_under_one_header() -> None:
    out = io.StringIO()
    table = TableWriter(out)
    for _ in range(3):
        table.write(pa.record_batch({"n": list(range(TABLE_ROWS_BLOCK))}))
    table.flush()
    lines = out.getvalue().splitlines()
    assert len(lines) == 3 * TABLE_ROWS_BLOCK + 2
    assert lines[0].strip() == "n"


def test_other_columns_get_another_header() -> None:
    out = io.StringIO()
    table = TableWriter(out)
    table.write(pa.record_batch({"a": [1]}))
    table.write(pa.record_batch({"b": [2]}))
    table.flush()
    assert out.getvalue() == "a\n-\n1\nb\n-\n2\n"


@given(st.text(max_size=300))
def test_a_cell_is_one_short_printable_line(text: str) -> None:
    shown = cell(text)
    assert len(shown) <= CELL_CHARS_MAX and shown.isprintable()


def test_nothing_to_list_prints_nothing() -> None:
    out = io.StringIO()
    print_rows([], "table", ("a",), out)
    assert out.getvalue() == ""


def test_csv_of_nested_columns_is_readable() -> None:
    raw = io.BytesIO()
    target = writer("csv", raw)  # type: ignore[arg-type]
    target.write(pa.record_batch({"a": [1], "l": [[1, 2]], "b": [b"x"]}))
    target.flush()
    assert csv.read_csv(io.BytesIO(raw.getvalue())).to_pylist() == [{"a": 1, "l": "[1, 2]", "b": '"eA=="'}]


def test_progress_is_for_terminals_only() -> None:
    plain = io.StringIO()
    ProgressLine(plain).update(1, 2, 3, 4.0)
    assert plain.getvalue() == ""
    terminal = Terminal()
    line = ProgressLine(terminal)
    line.update(7, 8, 1234, 2.34)
    line.update(8, 8, 1235, 2.35)
    line.clear()
    line.clear()
    assert terminal.getvalue() == "\r\x1b[K7 of 8 nodes answered · 1,234 rows · 2.3 s\r\x1b[K"
