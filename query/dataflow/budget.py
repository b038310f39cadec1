"""What one query may use on one node: time, memory, rows and bytes (DESIGN section 1; rows U5, Q7).

Operators charge as they go; whoever goes over gets a `BudgetExceeded` that names the limit, which ends the
query on this node and is told to its author. Never a silent truncation.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


class Limits(msgspec.Struct, frozen=True, array_like=True):
    """Limits of one query on each node; they travel with the query. Zero or less is refused at the proxy."""

    #: A query nobody cancels ends by itself.
    time_s: float = 300.0
    #: State held by operators: hash tables, caches, queues.
    memory_bytes: int = 256 << 20
    #: Rows sent to the proxy by one node.
    rows: int = 10_000_000
    #: Bytes sent to other nodes and to the proxy by one node.
    bytes: int = 4 << 30
    #: Batches that an operator may be handed in all: what stops a cyclic graph that never settles.
    steps: int = 50_000_000


class LimitReached(Exception):
    """Something ends at a named limit: the text names it."""


class BudgetExceeded(LimitReached):
    """A query went over one of its limits on this node."""

    def __init__(self, limit: str, allowed: float, operator: str) -> None:
        self.limit = limit
        self.allowed = allowed
        self.operator = operator
        super().__init__(
            f"limit {limit} = {allowed:g} reached at operator {operator!r}; raise it with --limit {limit}=…"
        )


@dataclass(slots=True)
class Budget:
    """What a query has used so far on this node."""

    limits: Limits
    memory_bytes: int = 0
    rows: int = 0
    bytes: int = 0
    steps: int = 0

    def hold(self, bytes_: int, operator: str) -> None:
        """Charges memory; negative gives it back."""
        self.memory_bytes += bytes_
        if bytes_ > 0 and self.memory_bytes > self.limits.memory_bytes:
            raise BudgetExceeded("memory_bytes", self.limits.memory_bytes, operator)

    def send(self, rows: int, bytes_: int, operator: str) -> None:
        """Charges rows that leave as results and bytes that leave the node."""
        self.rows += rows
        self.bytes += bytes_
        if self.rows > self.limits.rows:
            raise BudgetExceeded("rows", self.limits.rows, operator)
        if self.bytes > self.limits.bytes:
            raise BudgetExceeded("bytes", self.limits.bytes, operator)

    def step(self, operator: str) -> None:
        self.steps += 1
        if self.steps > self.limits.steps:
            raise BudgetExceeded("steps", self.limits.steps, operator)
