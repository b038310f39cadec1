"""What a dialect is: a name, a scanner that reads it, a printer that writes it, and signs to know it by.

The registry in `dialects/__init__` lists them all; detection, the parser machine, the generator and the tests
go through this record and know no dialect by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pier_node.logs.block import Block
from pier_node.logs.decode import Addresses
from pier_node.logs.engine import Engine
from pier_node.logs.rows import RowBuilder, Rows
from pier_node.logs.stamps import Context


class Scanner(Protocol):
    """Reads blocks of one log in order; may remember header lines between them."""

    def scan(self, block: Block, context: Context) -> Rows: ...


@dataclass(frozen=True, slots=True)
class Carries:
    """Which part of an event the dialect can say. Columns besides ts and raw_format; the finest time it
    writes; its verdicts, first the one that stands in for what it has no word for; its directions."""

    columns: frozenset[str]
    ts_unit_us: int
    actions: tuple[str, ...]
    directions: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """`sign` is an RE2 pattern that only this dialect's event lines match; `weight` breaks ties between
    dialects whose signs match the same line (a more special sign weighs more). `adapt` makes conforming
    events consistent (a rule name that must speak the verdict); `head` is printed before the first line."""

    name: str
    title: str
    sign: str
    weight: float
    carries: Carries
    scanner: Callable[[Engine], Scanner]
    printer: Callable[[Any], Any]
    adapt: Callable[[dict[str, Any]], dict[str, Any]] = field(default=lambda columns: columns)
    head: bytes = b""


class LineScanner:
    """A scanner without memory between blocks, around a function that fills a builder."""

    def __init__(self, engine: Engine, fill: Callable[[RowBuilder], Rows]) -> None:
        self._engine = engine
        self._fill = fill
        self._addresses = Addresses()

    def scan(self, block: Block, context: Context) -> Rows:
        return self._fill(RowBuilder(self._engine, self._addresses, block, context))
