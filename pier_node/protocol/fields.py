"""Types of the fields of client messages: each with its bounds, which the decoder checks."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

#: Query text, in characters: what a frame can carry. The languages allow less, and say so without hanging up.
TEXT_CHARS_MAX = 16_000_000
#: Parameters of one query, key columns of one publication, columns of one table.
NAMES_MAX = 4_096
#: Characters of one name, and bytes of an Arrow schema.
NAME_CHARS_MAX = 1_024
SCHEMA_BYTES_MAX = 1 << 20
#: Rows of one reply that lists things: neighbours, queries, tables.
LISTED_MAX = 65_536

#: More bytes than this nobody has sent; a larger number is told as this.
BYTES_MAX = (1 << 48) - 1

RequestId: TypeAlias = Annotated[int, Meta(ge=1, lt=1 << 32)]
Bytes: TypeAlias = Annotated[int, Meta(ge=0, le=BYTES_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Name: TypeAlias = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
Prose: TypeAlias = Annotated[str, Meta(max_length=1 << 20)]
QueryText: TypeAlias = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
Names: TypeAlias = Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]
Scalar: TypeAlias = bool | int | float | str | None
Figures: TypeAlias = Annotated[dict[Name, Scalar], Meta(max_length=NAMES_MAX)]
Counts: TypeAlias = Annotated[dict[Name, Count], Meta(max_length=NAMES_MAX)]

#: What kinds of failure there are; a client knows how to treat each (cli: exit code and wording).
FAILURE_KINDS = (
    *("syntax", "plan", "unknown_table", "limit", "refused", "forbidden", "unsupported", "unavailable"),
    "internal",
)
