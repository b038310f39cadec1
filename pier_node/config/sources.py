"""Source specifications: `TABLE=KIND:PATH`, what data a node brings and under which table name.

Parsed and checked here, opened by the readers of each kind when the node starts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: What a node can read, with what its path means.
SOURCE_KINDS = {
    "firewall": "a log file of any firewall dialect, followed as it grows; options as PATH#dialect=ufw&history=yes",
    "csv": "a CSV file with a header line",
    "ndjson": "a file with one JSON object a line",
    "parquet": "a Parquet file or a directory of them",
    "sql": "a database table, as URL#TABLE",
}
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}")


class SourceError(ValueError):
    """Not a source specification; the message shows what one looks like."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One source of rows. `path` is as written; for `sql` it is the URL and `fragment` the table in it, for
    `firewall` the fragment holds its options, `name=value` joined by `&`."""

    table: str
    kind: str
    path: str
    fragment: str = ""

    def __str__(self) -> str:
        return f"{self.table}={self.kind}:{self.path}" + (f"#{self.fragment}" if self.fragment else "")


def parse_source(text: str) -> SourceSpec:
    table, equals, rest = text.partition("=")
    kind, colon, path = rest.partition(":")
    if not equals or not colon or not path:
        raise SourceError(f"{text!r} is not TABLE=KIND:PATH, as in fw=firewall:/var/log/ufw.log")
    if not _TABLE.fullmatch(table):
        raise SourceError(f"{text!r}: {table!r} is not a table name (letters, digits, _ and .)")
    if kind not in SOURCE_KINDS:
        raise SourceError(f"{text!r}: there is no kind {kind!r}; the kinds are {', '.join(SOURCE_KINDS)}")
    if kind == "firewall":
        before, hash_, options = path.rpartition("#")
        return (
            SourceSpec(table, kind, before, options)
            if hash_ and "=" in options
            else SourceSpec(table, kind, path)
        )
    if kind != "sql":
        return SourceSpec(table, kind, path)
    url, hash_, fragment = path.partition("#")
    if not hash_ or not fragment or ("://" not in url and not url.startswith("sqlite:")):
        raise SourceError(
            f"{text!r}: a database source is URL#TABLE, as in r=sql:sqlite:///data/r.db#readings"
        )
    return SourceSpec(table, kind, url, fragment)
