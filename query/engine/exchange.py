"""Where the opgraphs of one query meet on one node: what is complete, what came and went, states that wait."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import pyarrow as pa

from query.engine.paths import Paths


@dataclass(slots=True)
class Taking:
    """What one scan of a namespace has taken."""

    batches: int = 0
    #: Whether it has read to the end; one whose consumers had enough before has not.
    ended: bool = False


class Exchange:
    """Which namespaces of a query are complete; scans of one end when they hear it. Counts for waves."""

    def __init__(self, internal: Collection[str], read: Collection[str]) -> None:
        """`internal` are the namespaces that the query itself puts into; `read` those that it scans."""
        self._internal = internal
        self._read = read
        self._complete: set[str] = set()
        self._handlers: dict[str, list[Callable[[], None]]] = {}
        #: Batches that this node put for opgraphs of the query, less those that it heard did not arrive.
        self.sent = 0
        self._takings: dict[str, list[Taking]] = {}
        #: By channel of put Tree: this node's states, and the same as they travel.
        self.states: dict[str, pa.Table] = {}
        self.given: dict[str, bytes] = {}
        #: At the asker: the combined states of all nodes.
        self.taken: dict[str, bytes] = {}
        self.overflowed: set[str] = set()
        #: Ways by which objects came here, for hierarchical joins.
        self.paths = Paths()

    def count_sent(self, namespace: str, batches: int) -> None:
        """Batches that were put, or below 0 did not arrive; what the query does not scan itself nobody will take."""
        if namespace in self._read:
            self.sent += batches

    @property
    def received(self) -> int:
        """Batches that were put here and that every scan of their namespace has taken."""
        return sum(min(taking.batches for taking in scans) for scans in self._takings.values())

    @property
    def has_read_all(self) -> bool:
        """Whether nothing can be left that a scan here has not seen."""
        return all(taking.ended for scans in self._takings.values() for taking in scans)

    def taking(self, namespace: str) -> Taking:
        """For a scan that reads all of a namespace of the query."""
        taking = Taking()
        self._takings.setdefault(namespace, []).append(taking)
        return taking

    def is_internal(self, namespace: str) -> bool:
        return namespace in self._internal

    def give(self, channel: str, states: pa.Table, payload: bytes) -> None:
        """Leaves this node's states for the report."""
        self.states[channel] = states
        self.given[channel] = payload

    def when_complete(self, namespace: str, handler: Callable[[], None]) -> None:
        if namespace in self._complete:
            handler()
        else:
            self._handlers.setdefault(namespace, []).append(handler)

    def complete(self, namespace: str) -> None:
        if namespace not in self._complete:
            self._complete.add(namespace)
            for handler in self._handlers.pop(namespace, []):
                handler()
