"""Bytes of a log in, batches of firewall events out: the machine between a file or pipe and the table.

Sans-IO: it reads no file and no clock. Bytes come in pieces of any size; a partial line waits for its end.
Invariant: every line fed is counted once, as parsed, unparsed or skipped, and no bytes raise. Any way of
cutting the same bytes into pieces gives the same rows.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pier_node.logs.block import Block, Mask, block_of
from pier_node.logs.dialects import dialect_named
from pier_node.logs.engine import engine_named
from pier_node.logs.rows import Rows
from pier_node.logs.stamps import Context, check_zone

# Bytes scanned at once: intermediate arrays of a block this size stay in the processor's cache.
BLOCK_BYTES = 1 << 20
# A longer line is no firewall event (a Suricata alert with its whole packet has some 10 kB) and is not held.
LINE_BYTES_MAX = 256 << 10
# Unparsed lines kept to be asked for: the latest, each cut, so some 256 kB at most.
UNPARSED_KEPT_MAX = 256
UNPARSED_BYTES_MAX = 1024
# Distinct reasons counted; ASA has some two thousand message ids, the rest go under one name.
REASONS_MAX = 256
OTHER_REASONS = "other reasons"
DOES_NOT_PARSE = "does not parse"
TOO_LONG = "line too long"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Unparsed:
    """A line that gave no row: its number from 1, why, and its first bytes."""

    number: int
    reason: str
    text: bytes


@dataclass(frozen=True, slots=True)
class Statistics:
    """`lines` = `parsed` + `unparsed` + `skipped`; skipped are blank lines, comments, headers and messages of
    other kinds. `reasons` counts the unparsed by reason, most frequent first."""

    dialect: str
    engine: str
    lines: int
    parsed: int
    unparsed: int
    skipped: int
    unparsed_kept: int
    reasons: tuple[tuple[str, int], ...]


class Parser:
    def __init__(
        self,
        dialect: str,
        *,
        reference_us: int,
        host: str | None = None,
        tz: str = "UTC",
        engine: str = "auto",
    ) -> None:
        """`reference_us`: a time in microseconds since 1970 that no line is much later than, by which dates
        without a year are placed. `tz`: zone of times without one. `host`: for lines that name none."""
        check_zone(tz)
        self._dialect = dialect_named(dialect)
        self._engine = engine_named(engine)
        self._scanner = self._dialect.scanner(self._engine)
        self._context = Context(reference_us, tz, host)
        self._carry = bytearray()
        self._discarding = False
        self._begun = False
        self._lines = self._parsed = self._skipped = 0
        self._kept: deque[Unparsed] = deque(maxlen=UNPARSED_KEPT_MAX)
        self._reasons: dict[str, int] = {}

    def feed(self, data: bytes, *, reference_us: int | None = None) -> Any | None:
        """The events of all lines that `data` completes, or None. A log followed for months passes `now` as
        `reference_us` with each piece."""
        if reference_us is not None and reference_us != self._context.reference_us:
            self._context = replace(self._context, reference_us=reference_us)
        batches: list[Any] = []
        start = 0
        while start < len(data):
            cut = data.rfind(b"\n", start, start + BLOCK_BYTES) + 1
            if cut:
                batches += self._complete(data[start:cut])
                start = cut
            else:
                stop = min(start + BLOCK_BYTES, len(data))
                self._hold(data[start:stop])
                start = stop
        return _one_batch(batches)

    def finish(self) -> Any | None:
        """The log ended: its last line may lack a newline."""
        batches: list[Any] = []
        if self._carry or self._discarding:
            batches = self._complete(b"\n")
        return _one_batch(batches)

    def statistics(self) -> Statistics:
        reasons = sorted(self._reasons.items(), key=lambda item: (-item[1], item[0]))
        return Statistics(
            dialect=self._dialect.name,
            engine=self._engine.name,
            lines=self._lines,
            parsed=self._parsed,
            unparsed=self._lines - self._parsed - self._skipped,
            skipped=self._skipped,
            unparsed_kept=len(self._kept),
            reasons=tuple(reasons),
        )

    def unparsed(self) -> tuple[Unparsed, ...]:
        """The latest lines that gave no row and were not skipped, at most UNPARSED_KEPT_MAX."""
        return tuple(self._kept)

    def _hold(self, piece: bytes) -> None:
        """Keep the beginning of a line; what grows past the limit is only remembered to be too long."""
        if self._discarding:
            return
        self._carry += piece
        if len(self._carry) > LINE_BYTES_MAX:
            self._discarding = True
            del self._carry[UNPARSED_BYTES_MAX:]

    def _complete(self, lines: bytes) -> list[Any]:
        """`lines` ends with a newline and may end the line held so far."""
        if self._discarding:
            self._lines += 1
            self._count(TOO_LONG, 1)
            self._keep(self._lines, TOO_LONG, bytes(self._carry))
            self._carry.clear()
            self._discarding = False
            lines = lines[lines.index(b"\n") + 1 :]
        elif self._carry:
            lines = bytes(self._carry) + lines
            self._carry.clear()
        if not self._begun and lines:
            self._begun = True
            lines = lines.removeprefix(_BYTE_ORDER_MARK)
        return [self._scan(block_of(lines))] if lines else []

    def _scan(self, block: Block) -> Any:
        rows = self._scanner.scan(block, self._context)
        blank = block.ends <= block.starts
        long = block.ends - block.starts > LINE_BYTES_MAX
        good: Mask = rows.good & ~blank & ~long
        skipped: Mask = (rows.skipped | blank) & ~long
        self._account(block, rows, good, skipped, long)
        return rows.batch if good.all() else rows.batch.filter(pa.array(good))

    def _account(self, block: Block, rows: Rows, good: Mask, skipped: Mask, long: Mask) -> None:
        unparsed = np.flatnonzero(~good & ~skipped)
        if len(unparsed):
            reasons = np.full(len(unparsed), DOES_NOT_PARSE, dtype=object)
            if rows.reasons is not None:
                named = rows.reasons.take(pa.array(unparsed)).fill_null(DOES_NOT_PARSE)
                reasons = np.asarray(named.to_numpy(zero_copy_only=False))
            reasons = np.where(long[unparsed], TOO_LONG, reasons)
            for reason, count in sorted(Counter(reasons.tolist()).items()):
                self._count(reason, count)
            for line, reason in zip(unparsed[-UNPARSED_KEPT_MAX:], reasons[-UNPARSED_KEPT_MAX:], strict=True):
                self._keep(
                    self._lines + int(line) + 1, str(reason), block.text(int(line), UNPARSED_BYTES_MAX)
                )
        self._lines += len(block)
        self._parsed += int(np.count_nonzero(good))
        self._skipped += int(np.count_nonzero(skipped))

    def _count(self, reason: str, count: int) -> None:
        known = reason in self._reasons or len(self._reasons) < REASONS_MAX
        name = reason if known else OTHER_REASONS
        self._reasons[name] = self._reasons.get(name, 0) + count

    def _keep(self, number: int, reason: str, text: bytes) -> None:
        self._kept.append(Unparsed(number, reason, text[:UNPARSED_BYTES_MAX]))


def _one_batch(batches: list[Any]) -> Any | None:
    filled = [batch for batch in batches if len(batch)]
    if not filled:
        return None
    return filled[0] if len(filled) == 1 else pa.concat_batches(filled)
