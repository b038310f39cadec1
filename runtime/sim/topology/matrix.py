"""A matrix of latencies between sites, measured or generated; hosts are placed on the sites.

With more hosts than sites several hosts share a site and are a LAN apart.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterable, Sequence
from statistics import median

from runtime.rng import Rng

#: One-way seconds between two hosts of one site.
LAN_S = 0.0005
#: No measurement is believed below this one-way latency: zeros off the diagonal are gaps in the data.
FLOOR_S = 0.0001
#: The largest matrix accepted: 256 MB of rows.
SITES_MAX = 8_192


class MatrixError(ValueError):
    """The text is not a latency matrix; says where."""


class Matrix:
    """`rows` are one-way seconds, square. Sites are dealt out in an order drawn from the seed."""

    __slots__ = ("_place", "_rows", "_sites")

    def __init__(self, rows: Sequence[array[float]], seed: int) -> None:
        self._rows = rows
        self._sites = len(rows)
        self._place = list(range(self._sites))
        Rng.from_label(seed, "matrix places").shuffle(self._place)

    def latency_s(self, sender: int, receiver: int) -> float:
        if sender == receiver:
            return 0.0
        here = self._place[sender % self._sites]
        there = self._place[receiver % self._sites]
        return self._rows[here][there] if here != there else LAN_S

    def median_rtt_s(self) -> float:
        """Over all pairs of sites."""
        pairs = (self._rows[a][b] + self._rows[b][a] for a in range(self._sites) for b in range(a))
        return median(pairs) if self._sites > 1 else 2 * LAN_S


def parse_matrix(lines: Iterable[str], seed: int) -> Matrix:
    """Round-trip milliseconds: a bare whitespace-separated square, or CSV with a header row and column.

    A missing value is the median of the known ones. The round trip is halved."""
    table = _read(lines)
    known = [value for row in table for value in row if value is not None and value > 0.0]
    if not known:
        raise MatrixError("no latencies in the file")
    fallback = median(known)
    rows: list[array[float]] = []
    for number, row in enumerate(table):
        if len(row) != len(table):
            raise MatrixError(f"row {number + 1} has {len(row)} values where the file has {len(table)} rows")
        values = (fallback if value is None or value <= 0.0 else value for value in row)
        rows.append(array("f", (max(value / 2_000.0, FLOOR_S) for value in values)))
    return Matrix(rows, seed)


def _read(lines: Iterable[str]) -> list[list[float | None]]:
    table: list[list[float | None]] = []
    columns: int | None = None
    for number, line in enumerate(lines):
        text = line.strip("\r\n")
        if not text.strip():
            continue
        if "," not in text:
            table.append([_value(cell, number) for cell in text.split()])
        elif columns is None:
            # The header's names may be followed by empty cells; only named columns are sites.
            columns = sum(1 for name in next(csv.reader([text]))[1:] if name)
        else:
            table.append([_value(cell, number) for cell in next(csv.reader([text]))[1 : columns + 1]])
        if len(table) > SITES_MAX:
            raise MatrixError(f"more than SITES_MAX = {SITES_MAX} rows")
    return table


def _value(cell: str, line: int) -> float | None:
    cell = cell.strip()
    if not cell or cell.lower() in ("nan", "na", "-"):
        return None
    try:
        value = float(cell)
    except ValueError:
        raise MatrixError(f"line {line + 1}: {cell[:40]!r} is not a number of milliseconds") from None
    return value if 0.0 <= value < 1e6 else None
