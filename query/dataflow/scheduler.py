"""Fair turns for all queries of a node (PIER 3.3.4: queues yield so that no query starves another).

Operators that have more to do than fits into one callback (queues, scans) submit a task. Each round gives
every query that has tasks one turn, then lets the network and timers have theirs. A turn is one call of one
task; a task does a bounded piece of work (about a batch) and says whether it wants another turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from runtime.api import Clock

#: Does a piece of work; True: more is waiting.
Task: TypeAlias = Callable[[], bool]


class Scheduler:
    """Round robin over queries, and within a query over its tasks."""

    __slots__ = ("_armed", "_clock", "_queries", "rounds")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queries: dict[str, deque[Task]] = {}
        self._armed = False
        self.rounds = 0

    def submit(self, query_id: str, task: Task) -> None:
        """Adds a task. A task is submitted once and stays until it returns False."""
        self._queries.setdefault(query_id, deque()).append(task)
        self._arm()

    def remove(self, query_id: str) -> None:
        """Forgets all tasks of a query that ended."""
        self._queries.pop(query_id, None)

    def waiting(self, query_id: str) -> int:
        return len(self._queries.get(query_id, ()))

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            self._clock.call_later(0.0, self._round, None)

    def _round(self, _: None) -> None:
        self._armed = False
        self.rounds += 1
        for query_id in list(self._queries):
            tasks = self._queries.get(query_id)
            if not tasks:
                self._queries.pop(query_id, None)
                continue
            task = tasks.popleft()
            # The task may end its own query, which removes the deque: then it is not put back.
            if task() and self._queries.get(query_id) is tasks:
                tasks.append(task)
            if not tasks and self._queries.get(query_id) is tasks:
                del self._queries[query_id]
        if self._queries:
            self._arm()
