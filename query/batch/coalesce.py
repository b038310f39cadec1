"""Small batches in, large ones out: stands once in front of a chain of operators (docs/decisions/0009).

A kernel call costs 3-75 us whatever the batch, so batches of one row run at 7 thousand rows a second and
batches of 64 k at millions. Batches of one table and schema are held until they reach a number of rows
or bytes, or until the first of them has waited long enough. Invariant: rows of one (table, schema) leave
in the order they came, none is lost, none twice. A machine: `now` comes in, batches and the next deadline
go out; the host sets a timer for `deadline()` and calls `expire`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from query.batch.batch import Batch, concat
from query.batch.schemas import SchemaId

#: Up to here the bytes of the buffers a batch refers to (0.3 us) stand for the bytes of its rows (13 us);
#: above it the difference matters, as for a few rows sliced from a large batch.
EXACT_SIZE_ABOVE_BYTES = 16_384
#: Rows of slices of one large batch whose bytes are taken from one measured slice among them.
MEASURE_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class CoalesceLimits:
    """When held rows move on. Larger is faster per row and slower to the first answer."""

    #: Kernels stop gaining beyond this (measured: 64 k rows within 10 % of the best at any size).
    rows: int = 65_536
    #: Keeps a batch of wide rows within a few transport windows and far below Arrow's 2 GB offsets.
    bytes: int = 8 << 20
    #: A person watching an answer does not see this delay; a sensor's row a second is not held longer.
    age_s: float = 0.05
    #: Distinct (table, schema) pairs held at once; beyond it the oldest leaves early.
    groups: int = 256
    #: All held rows together; beyond it the oldest group leaves early.
    bytes_held: int = 64 << 20


@dataclass(slots=True)
class _Group:
    since_s: float
    batches: list[Batch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    #: The buffers that the last measured slice refers to, its bytes a row, and rows since then.
    buffer_bytes: int = 0
    row_bytes: float = 0.0
    estimated_rows: int = 0

    def size(self, batch: Batch, rows: int) -> int:
        """About the bytes that the rows occupy. Slices of the same buffers are measured now and then."""
        buffer_bytes: int = batch.data.get_total_buffer_size()
        if buffer_bytes <= EXACT_SIZE_ABOVE_BYTES:
            return buffer_bytes
        self.estimated_rows += rows
        if buffer_bytes != self.buffer_bytes or self.estimated_rows > MEASURE_ROWS:
            self.buffer_bytes, self.row_bytes, self.estimated_rows = buffer_bytes, batch.nbytes / rows, 0
        return int(self.row_bytes * rows)


class Coalescer:
    """Merges small batches per (table, schema)."""

    __slots__ = ("_bytes", "_groups", "limits")

    def __init__(self, limits: CoalesceLimits | None = None) -> None:
        self.limits = limits or CoalesceLimits()
        #: Ordered by the arrival of each group's first batch, so the first is the next to expire.
        self._groups: OrderedDict[tuple[str, SchemaId], _Group] = OrderedDict()
        self._bytes = 0

    @property
    def rows_held(self) -> int:
        return sum(group.rows for group in self._groups.values())

    @property
    def bytes_held(self) -> int:
        return self._bytes

    def push(self, batch: Batch, now_s: float) -> list[Batch]:
        """Takes a batch; returns the batches that are ready because of it."""
        rows = batch.num_rows
        if rows == 0:
            return []
        limits = self.limits
        key = (batch.table, batch.schema_id)
        group = self._groups.get(key)
        if group is None:
            group = _Group(now_s)
            size = group.size(batch, rows)
            if rows >= limits.rows or size >= limits.bytes:
                return [batch]
            self._groups[key] = group
        else:
            size = group.size(batch, rows)
        group.batches.append(batch)
        group.rows += rows
        group.bytes += size
        self._bytes += size
        ready = []
        if group.rows >= limits.rows or group.bytes >= limits.bytes:
            ready.append(self._release(key))
        while self._bytes > limits.bytes_held or len(self._groups) > limits.groups:
            ready.append(self._release(next(iter(self._groups))))
        return ready

    def deadline(self) -> float | None:
        """When `expire` has something to return; None while nothing is held."""
        for group in self._groups.values():
            return group.since_s + self.limits.age_s
        return None

    def expire(self, now_s: float) -> list[Batch]:
        """The groups whose first batch has waited long enough."""
        ready = []
        while (due := self.deadline()) is not None and due <= now_s:
            ready.append(self._release(next(iter(self._groups))))
        return ready

    def flush(self) -> list[Batch]:
        """Everything held, oldest group first: the end of an epoch, a probe or a query."""
        return [self._release(key) for key in list(self._groups)]

    def _release(self, key: tuple[str, SchemaId]) -> Batch:
        group = self._groups.pop(key)
        self._bytes -= group.bytes
        return concat(group.batches)
