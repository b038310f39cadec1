"""Arrow's CSV reader as this project opens it, for sources, for scans and for `pier publish`: an empty field is NULL, a
quoted empty one is an empty text, types that are not given are guessed from the first block. Streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import csv


def open_stream(
    file: Any,
    block_bytes: int,
    *,
    delimiter: str = ",",
    quote: str = '"',
    nulls: Sequence[str] = ("",),
    types: Mapping[str, pa.DataType] | None = None,
    columns: Sequence[str] = (),
    header: bool = True,
    invalid: Callable[[csv.InvalidRow], str] | None = None,
) -> csv.CSVStreamingReader:
    """A path or a binary file, `block_bytes` at a time; a line must fit a block. `columns` stand for the first line, or
    in place of it; `invalid` decides about lines with too many or too few values. Raises ArrowInvalid."""
    return csv.open_csv(
        file,
        read_options=csv.ReadOptions(
            use_threads=False,
            block_size=block_bytes,
            column_names=list(columns) or None,
            skip_rows=1 if header and columns else 0,
        ),
        parse_options=csv.ParseOptions(delimiter=delimiter, quote_char=quote, invalid_row_handler=invalid),
        convert_options=csv.ConvertOptions(
            column_types=dict(types or {}),
            null_values=list(nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
