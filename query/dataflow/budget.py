"""What one query may use on one node: time, memory, rows and bytes.

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


class ClientBudgetExceeded(LimitReached):
    """The queries of one client together went over what one client may hold on this node."""

    def __init__(self, allowed: int, operator: str) -> None:
        super().__init__(
            f"limit client.memory_bytes_max = {allowed} reached at operator {operator!r}: the queries of this client "
            "hold so much on this node together; ask fewer at a time"
        )


@dataclass(slots=True)
class Pool:
    """What all queries of one client hold on this node together."""

    memory_bytes_max: int
    memory_bytes: int = 0
    queries: int = 0


class Pools:
    """Pools by client, for as long as a client has queries here."""

    def __init__(self, memory_bytes_max: int = 0) -> None:
        """Zero: no limit."""
        self._most = memory_bytes_max
        self._pools: dict[str, Pool] = {}

    def join(self, client: str) -> Pool | None:
        """The pool of a client that has one more query here; None for those that have none."""
        if not self._most or not client:
            return None
        pool = self._pools.setdefault(client, Pool(self._most))
        pool.queries += 1
        return pool

    def leave(self, client: str) -> None:
        """One query of the client is over."""
        pool = self._pools.get(client)
        if pool is not None:
            pool.queries -= 1
            if pool.queries == 0:
                del self._pools[client]

    def __len__(self) -> int:
        return len(self._pools)


@dataclass(slots=True)
class Budget:
    """What a query has used so far on this node."""

    limits: Limits
    #: Shared with the other queries of its client.
    pool: Pool | None = None
    memory_bytes: int = 0
    rows: int = 0
    bytes: int = 0
    steps: int = 0

    def hold(self, bytes_: int, operator: str) -> None:
        """Charges memory; negative gives it back."""
        self.memory_bytes += bytes_
        pool = self.pool
        if pool is not None:
            pool.memory_bytes += bytes_
        if bytes_ > 0 and self.memory_bytes > self.limits.memory_bytes:
            raise BudgetExceeded("memory_bytes", self.limits.memory_bytes, operator)
        if bytes_ > 0 and pool is not None and pool.memory_bytes > pool.memory_bytes_max:
            raise ClientBudgetExceeded(pool.memory_bytes_max, operator)

    def release(self) -> None:
        """The query is over here: what it still holds is no longer its client's."""
        if self.pool is not None:
            self.pool.memory_bytes -= self.memory_bytes
            self.pool = None

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
